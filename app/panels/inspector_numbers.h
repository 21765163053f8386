#pragma once

#include "app/panels/inspector_section.h"

namespace linnet::app {

// What the profile says of the head: each number with its spread, its sample, and its rank in the layer and in the model.
class InspectorNumbers : public InspectorSection {
    Q_OBJECT
public:
    explicit InspectorNumbers(Session* session);

protected:
    void fill(HeadId head) override;

private:
    QLabel *m_numbers, *m_sample;
};

} // namespace linnet::app
