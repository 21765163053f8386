#include "app/models/probe_model.h"

#include "widgets/pattern_image.h"

#include <cmath>

namespace linnet::app {

QString targetTitle(TargetField field) {
    switch (field) {
    case TargetField::HalfLife: return ProbeModel::tr("half-life");
    case TargetField::Beta: return ProbeModel::tr("beta");
    case TargetField::ValueScale: return ProbeModel::tr("value scale");
    case TargetField::OutputGate: break;
    }
    return ProbeModel::tr("output gate");
}

ProbeModel::ProbeModel(RecipeModel* recipe, HeadViewModel* views, QObject* parent) : QObject(parent), m_recipe(recipe), m_views(views) {
    connect(recipe, &RecipeModel::targetsChanged, this, &ProbeModel::refresh);
    connect(views, &HeadViewModel::changed, this, &ProbeModel::refresh);
    connect(&m_thread, &PatternThread::done, this, &ProbeModel::takePatterns);
    refresh();
}

void ProbeModel::refresh() {
    if (m_views->view() != m_view) {
        const bool sameHead = m_view && m_views->view() && m_view->layer == m_views->view()->layer && m_view->head == m_views->view()->head &&
                              m_view->tokens == m_views->view()->tokens;
        m_view = m_views->view();
        m_viewTarget = m_recipe->target(head());
        m_teacher = m_view ? PatternValues(m_view, &m_view->teacher) : nullptr; // shares the view
        m_rangesStale = true;
        if (!sameHead) { // else the old picture stays until the new one is there
            m_dragged.reset();
            m_patterns = {};
        }
        m_first = 0;
    }
    if (m_dragged && locked(m_dragged->field))
        m_dragged.reset();
    compute(); // a target that changed elsewhere moves the student at once
    Q_EMIT changed();
}

double ProbeModel::standing(TargetField field) const {
    if (!m_view)
        return std::nan("");
    switch (field) {
    case TargetField::HalfLife: return m_view->halfLife;
    case TargetField::Beta: return m_view->betaMean;
    case TargetField::ValueScale: return m_view->valueScale;
    case TargetField::OutputGate: break;
    }
    return m_view->outputGate;
}

double ProbeModel::value(TargetField field) const {
    if (m_dragged && m_dragged->field == field)
        return m_dragged->value;
    const auto now = targetValue(m_recipe->target(head()), field);
    return now && now != targetValue(m_viewTarget, field) ? *now : standing(field); // edited since the view was made
}

bool ProbeModel::locked(TargetField field) const {
    return m_recipe->target(head()).locked.contains(targetKey(field));
}

bool ProbeModel::effective(TargetField field) const {
    return m_view && (field == TargetField::HalfLife ? m_view->decays : field == TargetField::Beta ? m_view->writes : true);
}

void ProbeModel::drag(TargetField field, double value) {
    if (!canDrag(field) || std::isnan(value))
        return;
    m_dragged = Dragged{field, value};
    compute();
    Q_EMIT changed();
}

void ProbeModel::release() {
    if (!m_dragged)
        return;
    const auto [field, value] = *m_dragged;
    m_dragged.reset();
    const auto text = std::isinf(value) ? tr("none") : QString::number(value, 'g', 3);
    if (value != this->value(field))
        m_recipe->editTargets({{head(), field, value}}, tr("Set %1 of layer %2, head %3 to %4").arg(targetTitle(field)).arg(head().layer).arg(head().head).arg(text));
    compute();
    Q_EMIT changed();
}

void ProbeModel::giveUp() {
    if (!std::exchange(m_dragged, std::nullopt))
        return;
    compute();
    Q_EMIT changed();
}

void ProbeModel::makeAutomatic(TargetField field) {
    giveUp();
    if (!locked(field) && isSet(field))
        m_recipe->editTargets({{head(), field, std::nullopt}}, tr("Automatic %1 of layer %2, head %3").arg(targetTitle(field)).arg(head().layer).arg(head().head));
}

core::HeadSliders ProbeModel::sliders() const {
    const auto moved = [this](TargetField field) -> std::optional<double> {
        const double now = value(field);
        return now == standing(field) ? std::nullopt : std::optional(now);
    };
    return {moved(TargetField::HalfLife), moved(TargetField::Beta), moved(TargetField::ValueScale), moved(TargetField::OutputGate)};
}

void ProbeModel::compute() {
    if (!m_view)
        return;
    const auto number = m_thread.request(m_view, sliders());
    if (m_first == 0)
        m_first = number;
}

void ProbeModel::takePatterns(const PatternResult& result) {
    if (!m_view || !result.student || result.number < m_first)
        return;
    m_patterns = result;
    if (m_rangesStale && !m_dragged)
        measureRanges();
    Q_EMIT patternsChanged();
}

void ProbeModel::setHiddenColumns(int columns) {
    if (std::exchange(m_hidden, columns) == columns)
        return;
    measureRanges();
    Q_EMIT patternsChanged();
}

void ProbeModel::measureRanges() {
    const PatternValues values[] = {m_teacher, m_patterns.student, m_patterns.difference};
    for (std::size_t i = 0; i < 3 && m_view; ++i) {
        const double found = values[i] ? widgets::patternRange(*values[i], static_cast<int>(m_view->length), m_hidden) : 0;
        m_ranges[i] = found > 0 ? found : 1;
    }
    m_rangesStale = !m_patterns.student;
}

} // namespace linnet::app
