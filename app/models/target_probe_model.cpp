#include "app/models/target_probe_model.h"

#include <cmath>

namespace linnet::app {
namespace {

bool setByHand(const core::HeadTarget& target) {
    return target.halfLife || target.beta;
}

QString number(double value) {
    return std::isinf(value) ? QStringLiteral("none") : QString::number(value, 'g', 3);
}

} // namespace

TargetProbeModel::TargetProbeModel(RecipeModel* recipe, SelectionModel* selection, Submit submit, QObject* parent)
    : QObject(parent), m_recipe(recipe), m_selection(selection), m_request(std::move(submit), [this] { return job(); }) {
    connect(recipe, &RecipeModel::changed, this, &TargetProbeModel::refresh);
    connect(selection, &SelectionModel::changed, this, &TargetProbeModel::refresh);
    connect(&m_request, &WorkerRequest::put, this, [this](bool taken) {
        if (std::exchange(m_waits, !taken) != !taken)
            Q_EMIT changed();
    });
}

void TargetProbeModel::refresh() {
    HeadId head;
    const auto consider = [&](HeadId id) {
        if (!head.valid() && id.valid() && setByHand(m_recipe->target(id)))
            head = id;
    };
    consider(m_selection->primary());
    for (const auto& id : m_selection->sorted())
        consider(id);
    const bool sensible = m_recipe->layers() > 0 && head.layer < m_recipe->layers() && head.head < m_recipe->heads() && m_recipe->recipe().preset != "sliding-window";
    std::string key;
    if (head.valid() && sensible) {
        core::Recipe recipe = m_recipe->recipe(); // less what a head's start does not depend on
        recipe.align = {};
        recipe.distill = {};
        recipe.keep = {};
        recipe.never.clear();
        recipe.always.clear();
        recipe.targets = {{head.layer, {{head.head, m_recipe->target(head)}}}};
        key = std::to_string(head.layer) + ' ' + std::to_string(head.head) + core::recipeToText(recipe);
    } else {
        head = {};
    }
    if (key == m_key)
        return;
    m_key = std::move(key);
    m_head = head;
    if (head.valid())
        m_request.later();
    else
        m_request.drop();
    set(head.valid() ? State::Measuring : State::None);
}

Job TargetProbeModel::job() const {
    Job job;
    job.kind = JobKind::Probe;
    job.recipe = m_recipe->recipe();
    job.layer = m_head.layer;
    job.head = m_head.head;
    return job;
}

void TargetProbeModel::retry() {
    if (m_state == State::Measuring)
        m_request.retry();
}

void TargetProbeModel::take(const JobResult& result) {
    if (!m_request.answeredBy(result))
        return; // of an earlier value or head
    m_request.close();
    if (result.probed) {
        m_result = *result.probed;
        set(State::Known);
    } else if (result.error && result.error->code != core::ErrorCode::Cancelled) {
        m_error = QString::fromStdString(result.error->message);
        set(State::Failed);
    } else { // another job took the worker, retry() comes when it ends
        m_waits = true;
        Q_EMIT changed();
    }
}

void TargetProbeModel::adopt(HeadId head, const core::ProbedHead& result) {
    m_request.drop();
    m_head = head;
    m_result = result;
    set(State::Known);
}

bool TargetProbeModel::costly() const {
    return m_state == State::Known && m_result.chosen.residual > kCostly * m_result.automatic.residual;
}

QString TargetProbeModel::text() const {
    switch (m_state) {
    case State::None: return {};
    case State::Measuring: return m_waits ? tr("the residual is measured when the running job is done") : tr("measuring the residual...");
    case State::Failed: return tr("residual not measured: %1").arg(m_error);
    case State::Known: break;
    }
    return tr("residual %1, automatic %2 (half-life %3, beta %4)")
        .arg(m_result.chosen.residual, 0, 'f', 3).arg(m_result.automatic.residual, 0, 'f', 3).arg(number(m_result.automatic.halfLife), number(m_result.automatic.beta));
}

void TargetProbeModel::set(State state) {
    m_state = state;
    Q_EMIT changed();
}

} // namespace linnet::app
