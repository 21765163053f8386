#pragma once

#include "app/panels/inspector_section.h"

namespace linnet::widgets {
class DistanceHistogram;
}

namespace linnet::app {

// How far the head looks, and what a decay of its target half-life would spread instead.
class InspectorDistance : public InspectorSection {
    Q_OBJECT
public:
    explicit InspectorDistance(Session* session);

protected:
    void fill(HeadId head) override;

private:
    QLabel* m_decay;
    widgets::DistanceHistogram* m_histogram;
};

} // namespace linnet::app
