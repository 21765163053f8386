#pragma once

#include "app/panels/inspector_section.h"

namespace linnet::app {

// Which head this is, who shares its keys and values, and what becomes of its layer.
class InspectorIdentity : public InspectorSection {
    Q_OBJECT
public:
    explicit InspectorIdentity(Session* session);

protected:
    void fill(HeadId head) override;

private:
    QLabel *m_identity, *m_group, *m_mates;
};

} // namespace linnet::app
