#pragma once

#include "app/models/run_entry.h"

#include <QWidget>

class QLabel;
class QTabWidget;
class QTableWidget;

namespace linnet::app {

// Two runs: the recipe keys in which they differ, and their results with difference and noise.
class RunComparison : public QWidget {
    Q_OBJECT
public:
    explicit RunComparison(QWidget* parent = nullptr);
    void compare(const RunEntryPtr& left, const RunEntryPtr& right); // nullptr: says how two are chosen

private:
    QLabel *m_title, *m_note;
    QTabWidget* m_tabs;
    QTableWidget *m_keys, *m_results;
};

} // namespace linnet::app
