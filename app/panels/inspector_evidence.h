#pragma once

#include "app/panels/inspector_section.h"

namespace linnet::app {

// Places in the recipe's data: where the head looks furthest, and where its student errs most.
class InspectorEvidence : public InspectorSection {
    Q_OBJECT
public:
    explicit InspectorEvidence(Session* session);
    int parts() const override;

protected:
    void fill(HeadId head) override;

private:
    QLabel *m_state, *m_jumps, *m_errors;
};

} // namespace linnet::app
