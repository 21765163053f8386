#include "app/panels/wrong_field.h"

#include "widgets/theme.h"

#include <QApplication>
#include <QLabel>

namespace linnet::app {

void showWrong(QWidget* field, QLabel* below, const QString& why) {
    QPalette own; // what it does not set follows the theme
    if (!why.isEmpty())
        for (const auto role : {QPalette::Text, QPalette::WindowText})
            own.setColor(role, widgets::stateColors(QApplication::palette()).bad);
    field->setPalette(own);
    below->setPalette(own);
    below->setText(why);
}

} // namespace linnet::app
