// English plurals of tr() texts that count, without a translation file: tr("%n head(s) set", nullptr, n) reads "1 head set", "2 heads set".
// In such a text "(s)" falls away for one, and "(is|are)" reads "is" for one, "are" otherwise. Whoever writes one includes this
// header: that alone sets it up when the application begins, also in tests.
#pragma once

#include <QString>

namespace linnet::widgets {

QString englishPlural(const QString& text, int count);

bool speakPlurals(); // once in a program
inline const bool kPluralsSpoken = speakPlurals();

} // namespace linnet::widgets
