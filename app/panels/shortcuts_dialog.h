// All actions and their keys: search, set, reset; a conflict is named before anything is taken from another action.
#pragma once

#include <QDialog>

class QKeySequenceEdit;
class QLabel;
class QLineEdit;
class QPushButton;
class QTableWidget;

namespace linnet::app {

class ShortcutMap;

class ShortcutsDialog : public QDialog {
    Q_OBJECT
public:
    explicit ShortcutsDialog(ShortcutMap* shortcuts, QWidget* parent = nullptr);

private:
    void fill();
    void filter(const QString& word);
    void showCurrent();
    void showConflict();
    QString current() const; // name
    ShortcutMap* m_shortcuts;
    QLineEdit* m_search;
    QTableWidget* m_table;
    QKeySequenceEdit* m_keys;
    QLabel* m_conflict;
    QPushButton *m_set, *m_reset, *m_resetAll;
};

} // namespace linnet::app
