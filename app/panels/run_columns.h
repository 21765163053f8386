// Which columns the table of runs shows: the first few always fit beside the docks of a small window, further ones come as there is room,
// until a person chooses; the choice is remembered (Settings "runs/columns").
#pragma once

#include <QObject>

class QMenu;
class QTableView;

namespace linnet::app {

class RunColumns : public QObject {
    Q_OBJECT
public:
    explicit RunColumns(QTableView* table); // its model is a RunTableModel
    QMenu* menu() { return m_menu; }        // also on the header, by a right click

protected:
    bool eventFilter(QObject* watched, QEvent* event) override; // the table's size

private:
    void fit();
    void choose(int column, bool shown);
    void fill();
    QTableView* m_table;
    QMenu* m_menu;
};

} // namespace linnet::app
