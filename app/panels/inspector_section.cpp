#include "app/panels/inspector_section.h"

#include "app/models/session.h"

#include <QLabel>
#include <cmath>

namespace linnet::app {

InspectorSection::InspectorSection(Session* session, const QString& key, const QString& title, bool openAtFirst)
    : m_session(session), m_key(key), m_title(title), m_openAtFirst(openAtFirst) {
    setObjectName(key + QStringLiteral("Section"));
    follow(session->selection(), &SelectionModel::changed);
    follow(session, &Session::teacherChanged);
    follow(session, &Session::profileChanged);
}

void InspectorSection::setActive(bool active) {
    m_active = active;
    if (active && m_dirty)
        invalidate();
}

void InspectorSection::invalidate() {
    const auto head = m_session->selection()->primary();
    const auto& teacher = m_session->teacher();
    m_dirty = !m_active || !teacher || !head.valid() || head.layer >= teacher->config.layers || head.head >= teacher->config.heads;
    if (!m_dirty)
        fill(head);
}

QLabel* sectionLabel(const QString& name) {
    auto* label = new QLabel;
    label->setObjectName(name);
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    return label;
}

QString sectionNumber(double value) {
    return std::isfinite(value) ? QString::number(value, 'g', 4) : QStringLiteral("–");
}

} // namespace linnet::app
