#pragma once

#include "app/panels/inspector_section.h"

class QPushButton;
class QTableWidget;

namespace linnet::app {

// The heads that attend most alike: to look at, or to copy targets from.
class InspectorNeighbours : public InspectorSection {
    Q_OBJECT
public:
    explicit InspectorNeighbours(Session* session);

protected:
    void fill(HeadId head) override;

private:
    HeadId current() const; // of the table
    void updateButtons();
    void copyTargets();
    QLabel* m_hint;
    QTableWidget* m_table;
    QPushButton *m_show, *m_copy;
    QList<HeadId> m_heads; // by row
};

} // namespace linnet::app
