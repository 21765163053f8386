#pragma once

#include "app/panels/inspector_section.h"

#include <vector>

class QTableWidget;

namespace linnet::core {
struct ErrorBucket;
}

namespace linnet::app {

// How well the student can follow the teacher's head: by position in the text, by class of token, and over the alignment of its layer.
class InspectorErrors : public InspectorSection {
    Q_OBJECT
public:
    explicit InspectorErrors(Session* session);
    int parts() const override;

protected:
    void fill(HeadId head) override;

private:
    void fillTable(QTableWidget* table, const std::vector<core::ErrorBucket>& buckets, const QStringList& names);
    QLabel *m_state, *m_all, *m_training;
    QTableWidget *m_positions, *m_classes;
};

} // namespace linnet::app
