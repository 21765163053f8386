#include "widgets/wheel_guard.h"

#include <QAbstractSpinBox>
#include <QApplication>
#include <QComboBox>
#include <QEvent>
#include <QSlider>

namespace linnet::widgets {
namespace {

QWidget* field(QObject* watched) {
    const bool is = qobject_cast<QAbstractSpinBox*>(watched) || qobject_cast<QComboBox*>(watched) || qobject_cast<QSlider*>(watched);
    return is ? static_cast<QWidget*>(watched) : nullptr;
}

} // namespace

WheelGuard::WheelGuard(QObject* parent) : QObject(parent) {
    qApp->installEventFilter(this);
}

bool WheelGuard::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::Polish) {
        if (auto* widget = field(watched); widget && widget->focusPolicy() == Qt::WheelFocus)
            widget->setFocusPolicy(Qt::StrongFocus);
    } else if (event->type() == QEvent::Wheel) {
        if (const auto* widget = field(watched); widget && !widget->hasFocus()) {
            event->ignore(); // on to what it lies in
            return true;
        }
    }
    return false;
}

} // namespace linnet::widgets
