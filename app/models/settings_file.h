// The settings file as found at start: one that can't be read is put aside, so that it neither stops the window nor gets lost.
#pragma once

#include <QString>

namespace linnet::app {

// Call before anything reads Settings. Returns what to tell the person, empty where all is well.
QString mendSettings();
void resetSettings(); // everything but the lists of recent files and where runs lie

} // namespace linnet::app
