#include "app/models/generate_model.h"

#include "app/models/settings.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

namespace linnet::app {
namespace {

constexpr qsizetype kMaxHistory = 30;
const QString kHistoryKey = QStringLiteral("generate/history");

bool speaking(SideState state) {
    return state == SideState::Waiting || state == SideState::Speaking;
}

} // namespace

QString Side::text() const {
    QString text;
    for (const auto& token : tokens)
        text += token.text;
    return text;
}

GenerateModel::GenerateModel(Submit submit, QObject* parent) : QObject(parent), m_submit(std::move(submit)) {
    m_history = historyFromJson(Settings().value(kHistoryKey).toByteArray());
}

bool GenerateModel::scored() const {
    for (const auto& side : m_sides)
        for (const auto& token : side.tokens)
            if (!token.score)
                return false;
    return !m_sides[kTeacher].tokens.empty();
}

bool GenerateModel::canScore() const {
    return !m_running && hasStudent() && !m_sides[kTeacher].tokens.empty() && !m_sides[kStudent].tokens.empty() && !scored();
}

std::optional<int> GenerateModel::parting() const {
    const auto &a = m_sides[kTeacher].tokens, &b = m_sides[kStudent].tokens;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        if (a[i].id != b[i].id)
            return static_cast<int>(i);
    return std::nullopt;
}

bool GenerateModel::start(const GenerateSettings& settings) {
    if (m_running || settings.prompt.isEmpty())
        return false;
    Job job;
    job.kind = JobKind::Generate;
    job.generating.prompt = settings.prompt.toStdString();
    job.generating.chat = settings.chat && m_chatTemplate;
    job.generating.options = settings.options;
    job.generating.student = settings.student.toStdString();
    if (!m_submit(std::move(job), tr("Generating")))
        return false;
    m_settings = settings;
    m_settings.chat = settings.chat && m_chatTemplate;
    m_sides = {};
    m_sides[kTeacher].state = SideState::Waiting;
    m_sides[kStudent].state = hasStudent() ? SideState::Waiting : SideState::Empty;
    m_running = true;
    remember(m_settings);
    Q_EMIT begun();
    Q_EMIT stateChanged();
    return true;
}

bool GenerateModel::score() {
    if (!canScore())
        return false;
    Job job;
    job.kind = JobKind::Generate;
    job.generating.prompt = m_settings.prompt.toStdString();
    job.generating.chat = m_settings.chat;
    job.generating.student = m_settings.student.toStdString();
    job.generating.scoreOnly = true;
    for (const std::size_t side : {kTeacher, kStudent})
        for (const auto& token : m_sides[side].tokens)
            job.generating.given[side].push_back(token.id);
    if (!m_submit(std::move(job), tr("Comparing token by token")))
        return false;
    m_running = true;
    Q_EMIT stateChanged();
    return true;
}

void GenerateModel::take(const std::vector<core::SpokenToken>& spoken) {
    std::array<bool, 2> added{};
    for (const auto& token : spoken) {
        auto& side = m_sides[token.speaker];
        side.tokens.push_back({token.id, QString::fromStdString(token.text), token.endOfText, token.probability, std::nullopt});
        side.prefillSeconds = token.prefillSeconds;
        side.tokensPerSecond = token.tokensPerSecond;
        const bool full = std::ssize(side.tokens) >= m_settings.options.tokens;
        side.state = token.endOfText ? SideState::Ended : full ? SideState::Full : SideState::Speaking;
        added[token.speaker] = true;
    }
    for (const std::size_t side : {kTeacher, kStudent})
        if (added[side])
            Q_EMIT spoke(static_cast<int>(side));
    if (!spoken.empty())
        Q_EMIT stateChanged();
}

void GenerateModel::judge(std::size_t side, const std::vector<core::TokenScore>& scores) {
    auto& tokens = m_sides[side].tokens;
    for (std::size_t i = 0; i < std::min(tokens.size(), scores.size()); ++i)
        tokens[i].score = scores[i];
}

void GenerateModel::finish(const JobResult& result) {
    m_running = false;
    const bool cancelled = result.error && result.error->code == core::ErrorCode::Cancelled;
    for (auto& side : m_sides)
        if (speaking(side.state))
            side.state = cancelled ? SideState::Stopped : SideState::Failed;
    if (result.generated) {
        for (const std::size_t side : {kTeacher, kStudent})
            judge(side, result.generated->scores[side]);
        Q_EMIT judged();
    }
    Q_EMIT stateChanged();
}

void GenerateModel::setTeacher(bool opened, bool chatTemplate) {
    m_chatTemplate = opened && chatTemplate;
    m_settings.student.clear();
    m_sides = {};
    Q_EMIT begun();
    Q_EMIT teacherChanged();
    Q_EMIT stateChanged();
}

void GenerateModel::remember(const GenerateSettings& settings) {
    m_history.removeIf([&](const GenerateSettings& old) { return old.prompt == settings.prompt; });
    m_history.prepend(settings);
    m_history.resize(std::min(m_history.size(), kMaxHistory));
    Settings().setValue(kHistoryKey, historyToJson(m_history));
    Q_EMIT historyChanged();
}

void GenerateModel::clearHistory() {
    m_history.clear();
    Settings().remove(kHistoryKey);
    Q_EMIT historyChanged();
}

QByteArray historyToJson(const QList<GenerateSettings>& history) {
    QJsonArray rows;
    for (const auto& entry : history) {
        const auto& o = entry.options;
        rows.append(QJsonObject{{"prompt", entry.prompt}, {"chat", entry.chat}, {"tokens", static_cast<qint64>(o.tokens)}, {"greedy", o.greedy}, {"temperature", o.temperature},
                                {"top_p", o.topP}, {"top_k", static_cast<qint64>(o.topK)}, {"seed", QString::number(o.seed)}}); // a seed may not fit a double
    }
    return QJsonDocument(rows).toJson(QJsonDocument::Compact);
}

QList<GenerateSettings> historyFromJson(const QByteArray& json) {
    QList<GenerateSettings> history;
    const auto rows = QJsonDocument::fromJson(json).array();
    for (const auto& value : rows) {
        const auto row = value.toObject();
        GenerateSettings entry;
        entry.prompt = row["prompt"].toString();
        entry.chat = row["chat"].toBool();
        auto& o = entry.options;
        o.tokens = row["tokens"].toInteger(o.tokens);
        o.greedy = row["greedy"].toBool(true);
        o.temperature = row["temperature"].toDouble(o.temperature);
        o.topP = row["top_p"].toDouble(o.topP);
        o.topK = row["top_k"].toInteger(o.topK);
        o.seed = row["seed"].toString().toULongLong();
        if (!entry.prompt.isEmpty())
            history.append(entry);
    }
    return history;
}

} // namespace linnet::app
