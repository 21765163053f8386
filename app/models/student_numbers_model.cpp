#include "app/models/student_numbers_model.h"

#include <QDateTime>
#include <QFileInfo>

namespace linnet::app {
namespace {

constexpr int kPatienceMs = 700; // seconds of work on a CPU: not for a run that is passed by

} // namespace

StudentNumbersModel::StudentNumbersModel(WorkerRequest::Submit submit, QObject* parent)
    : QObject(parent), m_request(
                           std::move(submit),
                           [this] {
                               Job job;
                               job.kind = JobKind::StudentNumbers;
                               job.path = m_run.toStdString();
                               return job;
                           },
                           kPatienceMs) {
    connect(&m_request, &WorkerRequest::put, this, [this](bool taken) { set(taken ? State::Measuring : State::Waiting); });
}

void StudentNumbersModel::want(QObject* who, bool wants) {
    if (m_wanting.contains(who) == wants)
        return;
    if (!wants) {
        m_wanting.remove(who);
        disconnect(who, &QObject::destroyed, this, nullptr);
        return;
    }
    m_wanting.insert(who);
    connect(who, &QObject::destroyed, this, [this, who] { m_wanting.remove(who); });
    update();
}

void StudentNumbersModel::show(const QString& run, const QString& teacher) {
    const QFileInfo file(run + QStringLiteral("/checkpoints/student.safetensors"));
    auto key = run.isEmpty() || teacher.isEmpty() || !file.exists() ? QString() : run + QLatin1Char('\n') + teacher + QLatin1Char('\n') + file.lastModified().toString(Qt::ISODateWithMs);
    if (key == m_key)
        return;
    m_run = run;
    m_key = std::move(key);
    m_numbers.reset();
    m_request.drop();
    m_state = State::None;
    update();
    Q_EMIT changed();
}

void StudentNumbersModel::update() {
    if (m_key.isEmpty() || m_wanting.isEmpty() || m_state != State::None)
        return;
    m_request.later();
    set(State::Measuring);
}

const core::StudentHeadNumbers* StudentNumbersModel::head(int layer, int head) const {
    if (!m_numbers)
        return nullptr;
    const auto found = m_numbers->layers.find(layer);
    return found != m_numbers->layers.end() && head >= 0 && head < static_cast<int>(found->second.size()) ? &found->second[static_cast<std::size_t>(head)] : nullptr;
}

void StudentNumbersModel::take(const JobResult& result) {
    if (!m_request.answeredBy(result))
        return; // of another run
    m_request.close();
    if (result.studentNumbers) {
        m_numbers = result.studentNumbers;
        set(State::Known);
    } else if (result.error && result.error->code != core::ErrorCode::Cancelled) {
        m_error = QString::fromStdString(result.error->message);
        set(State::Failed);
    } else { // another job took the worker: retry() comes when it ends
        set(State::Waiting);
    }
}

void StudentNumbersModel::adopt(const core::StudentNumbers& numbers) {
    m_request.drop();
    m_numbers = std::make_shared<const core::StudentNumbers>(numbers);
    set(State::Known);
}

void StudentNumbersModel::retry() {
    if (!m_wanting.isEmpty() && (m_state == State::Waiting || m_state == State::Measuring))
        m_request.retry();
}

QString StudentNumbersModel::stateText() const {
    switch (m_state) {
    case State::Waiting: return tr("Not measured yet: another job has the device.");
    case State::Measuring: return tr("The heads of the run's student are being measured...");
    case State::Failed: return tr("Not measured: %1").arg(m_error);
    default: return {};
    }
}

void StudentNumbersModel::set(State state) {
    m_state = state;
    Q_EMIT changed();
}

} // namespace linnet::app
