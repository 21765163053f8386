#include "app/panels/project_panel.h"

#include "app/models/layer_choice.h"
#include "app/models/run_results.h"
#include "app/models/session.h"
#include "app/models/settings.h"
#include "widgets/collapsible.h"
#include "widgets/elided_label.h"
#include "widgets/empty_state.h"
#include "widgets/plurals.h"
#include "widgets/step_rail.h"
#include "widgets/theme.h"

#include <QEvent>
#include <QFileInfo>
#include <QFrame>
#include <QLabel>
#include <QLocale>
#include <QProgressBar>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

namespace linnet::app {
namespace {

using widgets::StepState;

QString whole(std::int64_t value) {
    return QLocale(QLocale::English).toString(static_cast<qlonglong>(value)); // 1,000: the C locale has no groups
}

QString bytes(std::uint64_t count) {
    return bytesText(static_cast<double>(count));
}

QString counted(std::int64_t count) { // "134.5 M"
    const auto value = static_cast<double>(count);
    return value >= 1e9 ? ProjectPanel::tr("%1 B").arg(value / 1e9, 0, 'f', 1) : value >= 1e6 ? ProjectPanel::tr("%1 M").arg(value / 1e6, 0, 'f', 1) : whole(count);
}

QString factsTable(const QList<std::pair<QString, QString>>& facts) {
    QString rows;
    for (const auto& [name, value] : facts)
        rows += QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td>%2</td></tr>").arg(name, value.toHtmlEscaped());
    return QStringLiteral("<table cellspacing=1>") + rows + QStringLiteral("</table>");
}

QString traits(const core::ModelConfig& c) {
    QStringList list;
    if (c.tiedEmbeddings)
        list << ProjectPanel::tr("tied embeddings");
    if (c.qkNorm)
        list << ProjectPanel::tr("QK norm");
    if (c.qkvBias)
        list << ProjectPanel::tr("q, k, v bias");
    if (c.outputBias)
        list << ProjectPanel::tr("o bias");
    if (c.mlpBias)
        list << ProjectPanel::tr("MLP bias");
    return list.isEmpty() ? ProjectPanel::tr("untied, no biases, no QK norm") : list.join(QStringLiteral(", "));
}

// Folded at first, so that all steps are seen in a small window; how a person leaves it is remembered.
QWidget* folded(const QString& title, QWidget* content, const QString& name) {
    auto* part = new widgets::Collapsible(title, content);
    part->header()->setObjectName(name);
    const auto key = QStringLiteral("project/") + name;
    part->setExpanded(Settings().value(key, false).toBool());
    QObject::connect(part, &widgets::Collapsible::toggled, part, [key](bool open) { Settings().setValue(key, open); });
    return part;
}

QLabel* facts(const QString& name) {
    auto* label = new QLabel;
    label->setObjectName(name);
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    return label;
}

} // namespace

ProjectPanel::ProjectPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("projectPanel"));
    m_empty = new widgets::EmptyState(QStringLiteral("⬇"), tr("Drop a model here"), QString());
    m_empty->setObjectName(QStringLiteral("emptyProject"));
    const bool installed = core::guarded([] { return core::defaultTeacher(); }).has_value();
    if (installed)
        m_empty->setContent(QStringLiteral("⬇"), tr("Drop a model here"), tr("A Hugging Face folder or a GGUF file, or a run; or press Open. The default model is a small one to try things with."), tr("Open default"));
    else
        m_empty->setContent(QStringLiteral("⬇"), tr("Drop a model here"), tr("A Hugging Face folder (config.json with safetensors) or a GGUF file, or a run. The default model isn't on this machine."), tr("Open..."));
    connect(m_empty, &widgets::EmptyState::actionRequested, this, [this, session, installed] {
        if (installed)
            session->openTeacher(QStringLiteral("default"));
        else
            Q_EMIT stepRequested(QStringLiteral("open"));
    });
    m_loading = new QWidget;
    m_loadingText = new QLabel;
    m_loadingText->setWordWrap(true);
    m_loadingBar = new QProgressBar;
    auto* loading = new QVBoxLayout(m_loading);
    loading->addWidget(m_loadingText);
    loading->addWidget(m_loadingBar);
    m_teacher = makeTeacher();
    m_data = makeData();
    m_rail = new widgets::StepRail;
    m_rail->setObjectName(QStringLiteral("stepRail"));
    m_rail->setSteps({{QStringLiteral("open"), tr("Open"), StepState::Todo, {}}, {QStringLiteral("profile"), tr("Profile"), StepState::Todo, {}},
                      {QStringLiteral("layers"), tr("Layers"), StepState::Todo, {}}, {QStringLiteral("targets"), tr("Targets"), StepState::Todo, {}},
                      {QStringLiteral("run"), tr("Run"), StepState::Todo, {}}, {QStringLiteral("evaluate"), tr("Evaluate"), StepState::Todo, {}},
                      {QStringLiteral("export"), tr("Export"), StepState::Todo, {}}});
    connect(m_rail, &widgets::StepRail::stepClicked, this, &ProjectPanel::stepRequested);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(6, 6, 6, 6);
    for (auto* each : {static_cast<QWidget*>(m_empty), m_loading, m_teacher, static_cast<QWidget*>(m_rail), m_data})
        layout->addWidget(each);
    layout->addStretch(1);

    connect(session, &Session::teacherChanged, this, [this] {
        m_exported = false;
        m_runHash.clear();
        m_runFolder.clear();
        showTeacher();
    });
    connect(session, &Session::jobChanged, this, [this] {
        if (!m_session->teacher())
            showTeacher();
        showSteps();
    });
    connect(session->recipe(), &RecipeModel::changed, this, [this] {
        showData();
        showSteps();
    });
    connect(session, &Session::exported, this, [this] {
        m_exported = true;
        showSteps();
    });
    for (const auto signal : {&Session::profileChanged, &Session::runsChanged, &Session::evaluationChanged, &Session::rankingChanged})
        connect(session, signal, this, &ProjectPanel::showSteps);
    showTeacher();
    showData();
}

QWidget* ProjectPanel::makeTeacher() {
    auto* card = new QFrame;
    card->setObjectName(QStringLiteral("teacherCard"));
    m_name = new widgets::ElidedLabel;
    m_name->setObjectName(QStringLiteral("teacherName"));
    QFont bold = font();
    bold.setBold(true);
    m_name->setFont(bold);
    m_path = new widgets::ElidedLabel;
    m_path->setForegroundRole(QPalette::PlaceholderText);
    m_facts = facts(QStringLiteral("teacherFacts"));
    m_warnings = facts(QStringLiteral("teacherWarnings"));
    m_summary = facts(QStringLiteral("teacherSummary"));
    auto* details = new QWidget;
    auto* inside = new QVBoxLayout(details);
    inside->setContentsMargins(0, 0, 0, 0);
    inside->setSpacing(3);
    inside->addWidget(m_path);
    inside->addWidget(m_facts);
    auto* layout = new QVBoxLayout(card);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(3);
    for (auto* each : {static_cast<QWidget*>(m_name), static_cast<QWidget*>(m_summary), static_cast<QWidget*>(m_warnings), folded(tr("Details"), details, QStringLiteral("teacherDetails"))})
        layout->addWidget(each);
    return card;
}

QWidget* ProjectPanel::makeData() {
    auto* card = new QFrame;
    card->setObjectName(QStringLiteral("dataCard"));
    m_dataFacts = facts(QStringLiteral("dataFacts"));
    auto* layout = new QVBoxLayout(card);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(3);
    layout->addWidget(folded(tr("Data"), m_dataFacts, QStringLiteral("dataDetails")));
    return card;
}

void ProjectPanel::showTeacher() {
    const auto& teacher = m_session->teacher();
    const bool loading = !teacher && m_session->jobState() != JobState::Idle;
    m_empty->setVisible(!teacher && !loading);
    m_loading->setVisible(loading);
    m_teacher->setVisible(teacher.has_value());
    m_data->setVisible(teacher.has_value());
    if (loading) {
        m_loadingText->setText(m_session->jobTitle());
        m_loadingBar->setRange(0, m_session->jobFraction() < 0 ? 0 : 1000);
        m_loadingBar->setValue(qRound(m_session->jobFraction() * 1000));
    }
    if (teacher) {
        const auto& c = teacher->config;
        const QFileInfo file(QString::fromStdString(teacher->path.string()));
        m_name->setText(file.fileName().isEmpty() ? file.filePath() : file.fileName());
        m_path->setText(file.path());
        m_summary->setText(tr("%1, %2 layers, %3 parameters").arg(QString::fromStdString(c.modelType), whole(c.layers), counted(teacher->parameters)));
        m_facts->setText(factsTable({{tr("architecture"), QString::fromStdString(c.modelType)},
                                     {tr("layers"), whole(c.layers)},
                                     {tr("heads / kv heads"), tr("%1 / %2 of %3").arg(c.heads).arg(c.kvHeads).arg(c.headDim)},
                                     {tr("vocabulary"), whole(c.vocabSize)},
                                     {tr("parameters"), whole(teacher->parameters)},
                                     {tr("stored as"), QString::fromStdString(c.storedDType)},
                                     {tr("runs in"), QString::fromStdString(teacher->dtype.empty() ? std::string("–") : teacher->dtype + " on " + teacher->device)},
                                     {tr("has"), traits(c)},
                                     {tr("memory"), tr("%1 weights, %2 cache a token").arg(bytes(teacher->weightBytes), bytes(teacher->cacheBytesPerToken)) + (teacher->stateBytes > 0 ? tr(", %1 states").arg(bytes(teacher->stateBytes)) : QString())}}));
        QString warnings;
        for (const auto& warning : teacher->warnings)
            warnings += QStringLiteral("<div style='color:%1'>⚠ %2</div>").arg(widgets::stateColors(palette()).warning.name(), QString::fromStdString(warning).toHtmlEscaped());
        m_warnings->setText(warnings);
        m_warnings->setVisible(!warnings.isEmpty());
    }
    showSteps();
}

void ProjectPanel::showData() {
    const auto& recipe = m_session->recipe()->recipe();
    QStringList text;
    for (const auto& each : recipe.dataText)
        text << (each == "default" || each.rfind("self:", 0) == 0 ? QString::fromStdString(each) : QFileInfo(QString::fromStdString(each)).fileName());
    m_dataFacts->setText(factsTable({{tr("text"), text.join(QStringLiteral(", "))},
                                     {tr("window"), tr("%1 tokens").arg(whole(recipe.seqLen))},
                                     {tr("calibration"), tr("%1 tokens").arg(whole(recipe.calibrationTokens))},
                                     {tr("selection"), tr("%1 tokens").arg(whole(recipe.selectionTokens))},
                                     {tr("evaluation"), tr("%1 tokens").arg(whole(recipe.evaluationTokens))}}));
}

void ProjectPanel::showSteps() {
    const auto& teacher = m_session->teacher();
    const bool busy = m_session->jobState() != JobState::Idle;
    const auto id = [](const char* name) { return QString::fromLatin1(name); };
    showOpenStep(busy);
    if (!teacher) {
        for (const char* step : {"profile", "layers", "targets", "run", "evaluate", "export"})
            m_rail->setStep(id(step), StepState::Todo, tr("open a model first")); // Blocked is for what is wrong
        return;
    }
    const auto* profile = m_session->profile();
    const bool profiling = busy && m_session->jobTitle().startsWith(QLatin1String("profil"), Qt::CaseInsensitive);
    m_rail->setStep(id("profile"), profiling ? StepState::Running : profile ? StepState::Done : StepState::Todo,
                    profiling ? m_session->jobTitle() : profile ? tr("%1 tokens").arg(whole(profile->tokens)) : tr("not measured"));
    const auto& recipe = m_session->recipe()->recipe();
    const auto total = teacher->config.layers, before = convertedBefore(*m_session);
    const bool untouched = recipe.keep == m_session->startingRule() && recipe.never.empty() && recipe.always.empty();
    const auto chosen = untouched ? StepState::Todo : StepState::Done;
    const auto say = [&](const QString& text) { return untouched ? tr("default: %1").arg(text) : text; };
    if (const auto layers = convertedLayers(*m_session))
        m_rail->setStep(id("layers"), std::ssize(*layers) == before ? StepState::Todo : chosen,
                        std::ssize(*layers) == before ? tr("no layer is converted") : say(tr("%1 of %2 will be converted").arg(std::ssize(*layers) - before).arg(total - before)));
    else if (const auto kept = keptCount(*m_session))
        m_rail->setStep(id("layers"), chosen, say(tr("%1 of %2, measured in the run").arg(total - before - *kept).arg(total - before)));
    else if (recipe.keep.budget == core::KeepRule::Budget::Perplexity)
        m_rail->setStep(id("layers"), StepState::Done, tr("up to %1 times the perplexity, measured in the run").arg(recipe.keep.limit));
    else
        m_rail->setStep(id("layers"), StepState::Blocked, tr("the choice does not fit"));
    std::size_t byHand = 0;
    for (const auto& [layer, heads] : recipe.targets)
        byHand += heads.size();
    m_rail->setStep(id("targets"), byHand == 0 ? StepState::Todo : StepState::Done, byHand == 0 ? tr("automatic") : tr("%n head(s) set by hand", nullptr, static_cast<int>(byHand)));
    showRunSteps();
}

void ProjectPanel::showOpenStep(bool busy) {
    const auto& teacher = m_session->teacher();
    m_rail->setStep(QStringLiteral("open"), teacher ? StepState::Done : busy ? StepState::Running : StepState::Todo,
                    teacher ? QFileInfo(QString::fromStdString(teacher->path.string())).fileName() : busy ? m_session->jobTitle() : tr("drop a model or open one"));
}

void ProjectPanel::showRunSteps() {
    auto run = m_session->currentRun();
    if (run && !isRunOf(*run, *m_session->teacher())) // a model was opened since: it has no run yet
        run = nullptr;
    const auto problems = m_session->recipe()->problems();
    const auto& state = run ? run->state : QString();
    const bool running = state == QLatin1String("running") || state == QLatin1String("paused"), done = state == QLatin1String("done");
    const auto hash = core::recipeHash(m_session->recipe()->recipe());
    if (running && run->folder != m_runFolder) {
        m_runFolder = run->folder;
        m_runHash = hash;
        m_exported = false;
    }
    // Of a run that was seen to start, the recipe as it was then; else the one in its folder.
    const auto ran = !run ? std::string() : run->folder == m_runFolder ? m_runHash : run->recipe ? core::recipeHash(*run->recipe) : std::string();
    const bool stale = !running && !ran.empty() && hash != ran;
    if (!run && !problems.empty())
        m_rail->setStep(QStringLiteral("run"), StepState::Blocked, QString::fromStdString(problems.front().message));
    else if (running)
        m_rail->setStep(QStringLiteral("run"), StepState::Running, state == QLatin1String("paused") ? tr("paused") : m_session->jobTitle());
    else if (stale)
        m_rail->setStep(QStringLiteral("run"), StepState::Stale, tr("the recipe has changed"));
    else
        m_rail->setStep(QStringLiteral("run"), done ? StepState::Done : StepState::Todo,
                        done ? run->name : state == QLatin1String("failed") ? tr("failed: see the log") : state == QLatin1String("stopped") ? tr("stopped: Resume continues it") : tr("ready"));
    const auto student = run ? run->evaluation.find("student") : std::map<std::string, core::Evaluation>::iterator();
    const bool measured = run && student != run->evaluation.end();
    m_rail->setStep(QStringLiteral("evaluate"), measured ? stale ? StepState::Stale : StepState::Done : StepState::Todo,
                    measured ? tr("perplexity %1").arg(student->second.perplexity, 0, 'f', 2) : tr("part of the run"));
    m_rail->setStep(QStringLiteral("export"), done && m_exported ? StepState::Done : StepState::Todo,
                    !done ? tr("after a finished run") : m_exported ? tr("written") : tr("ready"));
}

void ProjectPanel::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        showTeacher();
}

} // namespace linnet::app
