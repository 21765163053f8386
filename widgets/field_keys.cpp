#include "widgets/field_keys.h"

#include <QAbstractSpinBox>
#include <QApplication>
#include <QComboBox>
#include <QKeyEvent>
#include <QLineEdit>

namespace linnet::widgets {
namespace {

const QLineEdit* lineOf(QObject* watched) {
    if (const auto* combo = qobject_cast<QComboBox*>(watched))
        return combo->lineEdit();
    if (const auto* spin = qobject_cast<QAbstractSpinBox*>(watched))
        return spin->findChild<QLineEdit*>(QString(), Qt::FindDirectChildrenOnly);
    return qobject_cast<QLineEdit*>(watched);
}

} // namespace

FieldKeys::FieldKeys(QObject* parent) : QObject(parent) {
    qApp->installEventFilter(this);
}

bool FieldKeys::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() != QEvent::ShortcutOverride)
        return false;
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Escape && QApplication::activePopupWidget()) {
        event->accept();
        return true;
    }
    if (!key->matches(QKeySequence::Undo) && !key->matches(QKeySequence::Redo))
        return false;
    const auto* line = lineOf(watched);
    if (!line || line->isModified())
        return false;
    event->ignore(); // a shortcut of the window
    return true;
}

} // namespace linnet::widgets
