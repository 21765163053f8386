// A field whose value can't be used: it and the reason below it are red, in the theme's red. Call it again when the palette changes.
#pragma once

class QLabel;
class QString;
class QWidget;

namespace linnet::app {

void showWrong(QWidget* field, QLabel* below, const QString& why); // "": all is well

} // namespace linnet::app
