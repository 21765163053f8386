#include "app/models/head_view_model.h"

#include <QDateTime>
#include <QFileInfo>
#include <tuple>

namespace linnet::app {
namespace {

constexpr std::size_t kRemembered = 12; // about 2 MB each at 512 tokens

} // namespace

HeadViewModel::HeadViewModel(RecipeModel* recipe, SelectionModel* selection, Submit submit, QObject* parent)
    : QObject(parent), m_recipe(recipe), m_selection(selection), m_request(std::move(submit), [this] { return job(); }) {
    connect(&m_request, &WorkerRequest::put, this, [this](bool taken) { set(taken ? State::Measuring : State::Waiting); });
    connect(recipe, &RecipeModel::changed, this, &HeadViewModel::refresh);
    connect(selection, &SelectionModel::changed, this, &HeadViewModel::refresh);
}

void HeadViewModel::want(QObject* who, int parts) {
    if (m_wanted.value(who) == parts)
        return;
    if (!m_wanted.contains(who))
        connect(who, &QObject::destroyed, this, [this, who] { m_wanted.remove(who); });
    m_wanted[who] = parts;
    refresh();
}

int HeadViewModel::wanted() const {
    int parts = 0;
    for (const int each : m_wanted)
        parts |= each;
    return parts;
}

void HeadViewModel::setText(const QString& text) {
    m_text = text;
    refresh();
}

void HeadViewModel::setRun(const QString& folder) {
    m_run = folder;
    refresh();
}

void HeadViewModel::setProfile(std::shared_ptr<const core::Profile> profile) {
    m_profile = std::move(profile);
    m_known.clear();
    m_key.clear();
    refresh();
}

std::string HeadViewModel::place() const {
    return std::to_string(m_head.layer) + ' ' + std::to_string(m_head.head) + ' ' + m_run.toStdString() + '\n' + m_text.toStdString();
}

std::string HeadViewModel::keyOf() const {
    core::Recipe recipe = m_recipe->recipe(); // less what a head's start does not depend on
    recipe.align = {};
    recipe.distill = {};
    recipe.keep = {};
    recipe.never.clear();
    recipe.always.clear();
    recipe.targets.clear();
    if (const auto target = m_recipe->target(m_head); m_run.isEmpty() && !target.empty())
        recipe.targets = {{m_head.layer, {{m_head.head, target}}}};
    std::string key = m_place + '\n' + core::recipeToText(recipe);
    for (const char* name : {"aligned", "student"})
        if (!m_run.isEmpty())
            key += '\n' + QFileInfo(m_run + QStringLiteral("/checkpoints/%1.safetensors").arg(QLatin1String(name))).lastModified().toString(Qt::ISODateWithMs).toStdString();
    return key;
}

void HeadViewModel::refresh() {
    const auto before = std::tuple(m_head, m_state, m_view, m_evidence);
    update();
    if (before != std::tuple(m_head, m_state, m_view, m_evidence))
        Q_EMIT changed();
}

void HeadViewModel::update() {
    const int parts = wanted();
    m_head = m_selection->primary();
    if (parts == 0 || !m_head.valid() || m_head.layer >= m_recipe->layers() || m_head.head >= m_recipe->heads()) {
        m_request.drop();
        m_key.clear(), m_place.clear();
        m_view.reset(), m_evidence.reset();
        m_state = State::None;
        return;
    }
    auto where = place();
    if (std::exchange(m_place, where) != where)
        m_view.reset(), m_evidence.reset();
    auto key = keyOf();
    const bool fresh = std::exchange(m_key, key) != key;
    if (fresh) {
        m_request.close();
        m_state = State::Measuring;
        if (const auto known = std::find_if(m_known.begin(), m_known.end(), [&](const Known& each) { return each.key == key; }); known != m_known.end())
            m_view = known->view, m_evidence = known->evidence, m_state = State::Known;
    }
    const bool complete = m_state == State::Known && (!(parts & Evidence) || m_evidence);
    const bool asked = m_request.isOpen() && (!(parts & Evidence) || m_askedEvidence);
    if (complete)
        m_request.drop();
    else if (fresh || (!asked && (m_state == State::Known || m_state == State::Measuring))) { // what failed is asked again when something changes
        m_state = State::Measuring;
        m_request.later();
    }
}

Job HeadViewModel::job() {
    Job job;
    job.kind = JobKind::HeadView;
    job.recipe = m_recipe->recipe();
    job.inspecting = {m_head.layer, m_head.head, m_text.toStdString(), m_run.toStdString(), m_profile};
    job.evidence = m_askedEvidence = (wanted() & Evidence) != 0;
    return job;
}

void HeadViewModel::retry() {
    if (m_state == State::Waiting || m_state == State::Measuring)
        m_request.retry();
}

void HeadViewModel::take(const JobResult& result) {
    if (!m_request.answeredBy(result))
        return; // of an earlier head, text or value
    if (result.headView)
        m_view = result.headView;
    if (result.headEvidence)
        m_evidence = result.headEvidence;
    if (result.error && result.error->code == core::ErrorCode::Cancelled) { // another job took the worker: retry() comes when it ends
        m_request.close();
        set(State::Waiting);
    } else if (result.error) {
        m_request.close();
        m_error = QString::fromStdString(result.error->message);
        set(State::Failed);
    } else if (result.partial) {
        Q_EMIT changed();
    } else {
        m_request.close();
        remember();
        set(State::Known);
    }
}

void HeadViewModel::remember() {
    std::erase_if(m_known, [this](const Known& each) { return each.key == m_key; });
    m_known.push_front({m_key, m_view, m_evidence});
    if (m_known.size() > kRemembered)
        m_known.pop_back();
}

void HeadViewModel::adopt(HeadId head, ViewPtr view, EvidencePtr evidence) {
    m_request.drop();
    m_head = head;
    m_place = place();
    m_key = keyOf();
    m_view = std::move(view), m_evidence = std::move(evidence);
    remember();
    set(State::Known);
}

QString HeadViewModel::stateText() const {
    switch (m_state) {
    case State::Waiting: return tr("not measured: another job has the device");
    case State::Measuring: return tr("measuring...");
    case State::Failed: return tr("not measured: %1").arg(m_error);
    default: return {};
    }
}

void HeadViewModel::set(State state) {
    m_state = state;
    Q_EMIT changed();
}

} // namespace linnet::app
