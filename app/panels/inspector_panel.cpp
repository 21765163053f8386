#include "app/panels/inspector_panel.h"

#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/panels/closed_form_view.h"
#include "app/panels/inspector_distance.h"
#include "app/panels/inspector_errors.h"
#include "app/panels/inspector_evidence.h"
#include "app/panels/inspector_identity.h"
#include "app/panels/inspector_neighbours.h"
#include "app/panels/inspector_numbers.h"
#include "app/panels/inspector_pattern.h"
#include "widgets/collapsible.h"
#include "widgets/empty_state.h"

#include <QLabel>
#include <QToolButton>
#include <QVBoxLayout>

namespace linnet::app {
namespace {

QString settingOf(const QString& key) {
    return QStringLiteral("inspector/") + key;
}

} // namespace

InspectorPanel::InspectorPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("inspectorPanel"));
    m_pattern = new InspectorPattern(session);
    connect(m_pattern, &InspectorPattern::probeRequested, this, &InspectorPanel::probeRequested);
    auto* content = new QWidget;
    auto* layout = new QVBoxLayout(content);
    layout->setContentsMargins(6, 6, 6, 6);
    layout->setSpacing(4);
    auto* identity = new InspectorIdentity(session); // always open: it says what the rest is about
    m_sections << identity;
    identity->setActive(true);
    layout->addWidget(identity);
    auto* numbers = new InspectorNumbers(session);
    connect(numbers, &InspectorNumbers::partsChanged, this, &InspectorPanel::tellWants);
    for (auto* each : {static_cast<InspectorSection*>(numbers), static_cast<InspectorSection*>(new InspectorDistance(session)),
                       static_cast<InspectorSection*>(m_pattern), static_cast<InspectorSection*>(new InspectorErrors(session)),
                       static_cast<InspectorSection*>(new InspectorNeighbours(session)), static_cast<InspectorSection*>(new InspectorEvidence(session))})
        addSection(layout, each);
    addFold(layout, QStringLiteral("closedForm"), tr("Closed form of the run"), new ClosedFormView(session), false);
    auto* caution = sectionLabel(QStringLiteral("headCaution"));
    caution->setText(tr("Attention weights describe where a head looks; they do not explain what the model does."));
    caution->setForegroundRole(QPalette::PlaceholderText);
    layout->addWidget(caution);
    layout->addStretch();
    m_content = content;
    m_empty = new widgets::EmptyState(QStringLiteral("◉"), tr("No head selected"), tr("Click a cell of a heat map to look at one head."));
    m_empty->setObjectName(QStringLiteral("inspectorEmpty"));
    auto* either = new QVBoxLayout(this); // no stack: that is as high as its highest page, and would show the middle of nothing
    either->setContentsMargins(0, 0, 0, 0);
    either->addWidget(m_empty);
    either->addWidget(m_content);
    connect(session->selection(), &SelectionModel::changed, this, &InspectorPanel::refresh);
    connect(session, &Session::teacherChanged, this, &InspectorPanel::refresh);
    refresh();
}

InspectorPanel::~InspectorPanel() = default;

widgets::Collapsible* InspectorPanel::addFold(QVBoxLayout* layout, const QString& key, const QString& title, QWidget* content, bool openAtFirst) {
    auto* fold = new widgets::Collapsible(title, content);
    fold->setObjectName(key + QStringLiteral("Fold"));
    layout->addWidget(fold);
    fold->setExpanded(Settings().value(settingOf(key), openAtFirst).toBool());
    connect(fold, &widgets::Collapsible::toggled, this, [key](bool expanded) { Settings().setValue(settingOf(key), expanded); });
    return fold;
}

void InspectorPanel::addSection(QVBoxLayout* layout, InspectorSection* section) {
    m_sections << section;
    auto* fold = addFold(layout, section->key(), section->title(), section, section->openAtFirst());
    section->setActive(fold->isExpanded());
    connect(fold, &widgets::Collapsible::toggled, this, [this, section](bool expanded) {
        section->setActive(expanded);
        tellWants();
    });
}

widgets::Collapsible* InspectorPanel::section(const QString& key) const {
    return findChild<widgets::Collapsible*>(key + QStringLiteral("Fold"));
}

void InspectorPanel::offerProbe(bool offer) {
    m_pattern->offerProbe(offer);
}

void InspectorPanel::refresh() {
    const bool any = m_session->selection()->primary().valid() && m_session->teacher();
    m_empty->setVisible(!any);
    m_content->setVisible(any);
}

void InspectorPanel::tellWants() {
    int parts = 0;
    for (const auto* section : std::as_const(m_sections))
        parts |= section->isActive() ? section->parts() : 0;
    m_session->headViews()->want(this, isVisible() ? parts : 0);
}

void InspectorPanel::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    tellWants();
}

void InspectorPanel::changeEvent(QEvent* event) {
    if (event->type() == QEvent::PaletteChange)
        for (auto* label : findChildren<QLabel*>()) // rich text keeps the colour that its links had when it was set
            if (const auto text = label->text(); text.contains(QLatin1String("<a href"))) {
                label->clear();
                label->setText(text);
            }
    QWidget::changeEvent(event);
}

void InspectorPanel::hideEvent(QHideEvent* event) {
    QWidget::hideEvent(event);
    tellWants();
}

} // namespace linnet::app
