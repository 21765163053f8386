#pragma once

#include "app/panels/inspector_section.h"

namespace linnet::app {

// What the profile says of the head: each number with its spread, its sample, and its rank in the layer and in the model.
class InspectorNumbers : public InspectorSection {
    Q_OBJECT
public:
    explicit InspectorNumbers(Session* session);
    int parts() const override; // the largest sources, once asked for: they take a pass of the teacher up to the layer

Q_SIGNALS:
    void partsChanged();

protected:
    void fill(HeadId head) override;

private:
    void fillTop();
    QLabel *m_numbers, *m_sample, *m_top;
    bool m_wantsTop = false;
};

} // namespace linnet::app
