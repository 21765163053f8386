// Whose a key is before it is a shortcut of the window. Ctrl+Z in a line of text belongs to the line only while something typed in it has yet to
// be taken; Esc belongs to the popup that is open (a combo box's list, a menu). One for the application.
#pragma once

#include <QObject>

namespace linnet::widgets {

class FieldKeys : public QObject {
    Q_OBJECT
public:
    explicit FieldKeys(QObject* parent);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
};

} // namespace linnet::widgets
