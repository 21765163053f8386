#include "app/panels/run_panel.h"

#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/panels/command_menu.h"
#include "app/panels/export_wizard.h"
#include "app/panels/method_section.h"
#include "app/panels/stop_or_discard.h"
#include "app/panels/text_field.h"
#include "app/panels/wrong_field.h"
#include "widgets/collapsible.h"
#include "widgets/elided_label.h"
#include "widgets/wrapped_label.h"

#include <QComboBox>
#include <QDesktopServices>
#include <QEvent>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QToolButton>
#include <QUrl>
#include <QVBoxLayout>

namespace linnet::app {
namespace {

constexpr int kHintLines = 3;

QLabel* problemLabel(const QString& name) { // under the field that it is about
    auto* label = new widgets::WrappedLabel;
    label->setObjectName(name);
    label->setTextFormat(Qt::PlainText);
    return label;
}

} // namespace

RunPanel::RunPanel(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    setObjectName(QStringLiteral("runPanel"));
    const auto button = [this](const QString& text, const QString& name, auto&& slot) {
        auto* made = new QPushButton(text);
        made->setObjectName(name);
        connect(made, &QPushButton::clicked, this, slot);
        return made;
    };
    m_run = button(tr("Run"), QStringLiteral("runButton"), [this] { m_session->startRun(); });
    m_pause = button(tr("Pause"), QStringLiteral("pauseButton"), [this] { m_session->pauseOrResume(); });
    m_stop = button(tr("Stop"), QStringLiteral("stopButton"), [this] { stopOrDiscard(m_session, this); });
    m_resume = button(tr("Resume"), QStringLiteral("resumeButton"), [this] { m_session->resumeRun(selectedRun()); });
    m_open = button(tr("Folder"), QStringLiteral("folderButton"), [this] { QDesktopServices::openUrl(QUrl::fromLocalFile(selectedRun())); });
    m_export = button(tr("Export..."), QStringLiteral("exportButton"), [this] {
        auto* dialog = new ExportWizard(m_session, selectedRun(), window());
        dialog->setAttribute(Qt::WA_DeleteOnClose);
        dialog->open();
    });
    const auto row = [](std::initializer_list<QWidget*> widgets) {
        auto* layout = new QHBoxLayout;
        for (auto* widget : widgets)
            layout->addWidget(widget, 1);
        return layout;
    };
    CommandMenu::attach(m_run, session, [session] { return Commands::convert(*session); });
    CommandMenu::attach(m_resume, session, [this] { return Commands::resume(selectedRun()); });
    CommandMenu::attach(m_export, session, [this] { return Commands::exporting(selectedRun(), selectedRun() + QStringLiteral("-hf"), {}); });
    m_problem = new QLabel;
    m_problem->setWordWrap(true);
    m_problem->hide();
    m_runs = new QListWidget;
    m_runs->setObjectName(QStringLiteral("runList"));
    m_runs->setAccessibleName(tr("Runs"));
    m_runs->setMinimumHeight(70);
    m_runs->setWordWrap(true); // the panel is narrow
    m_runs->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);

    makeForm();
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(6, 6, 6, 6);
    layout->addLayout(row({m_run, m_pause, m_stop}));
    layout->addWidget(m_form);
    layout->addWidget(m_section);
    layout->addWidget(m_problem);
    layout->addLayout(makePlace());
    layout->addWidget(m_runs, 1);
    layout->addLayout(row({m_resume, m_open, m_export}));

    connect(session->recipe(), &RecipeModel::changed, this, &RunPanel::showRecipe);
    connect(session, &Session::jobChanged, this, &RunPanel::showJob);
    connect(session, &Session::teacherChanged, this, &RunPanel::showJob);
    connect(session, &Session::runProblemChanged, this, &RunPanel::showJob);
    connect(session, &Session::runsChanged, this, &RunPanel::showRuns);
    connect(m_runs, &QListWidget::currentRowChanged, this, [this] {
        const auto run = m_session->library()->find(selectedRun());
        if (run && run->hasBegun())
            m_session->library()->choose(run->folder); // the list, the page, Curves and Evaluation are about one run
        showJob();
    });
    showRecipe();
    showRuns();
    showJob();
}

QHBoxLayout* RunPanel::makePlace() { // where runs go
    m_place = new widgets::ElidedLabel;
    m_place->setObjectName(QStringLiteral("runsPlace"));
    m_place->setElideMode(Qt::ElideMiddle);
    auto* change = new QToolButton;
    change->setObjectName(QStringLiteral("runsPlaceButton"));
    change->setText(tr("Change..."));
    change->setAutoRaise(true);
    change->setToolTip(tr("Choose the folder that new runs are made in; runs that are there already stay where they are"));
    connect(change, &QToolButton::clicked, this, [this] {
        const auto folder = QFileDialog::getExistingDirectory(this, tr("Where runs go"), m_session->runsFolder());
        if (folder.isEmpty())
            return;
        m_session->library()->setRunsFolder(folder);
        showPlace();
    });
    auto* row = new QHBoxLayout;
    row->addWidget(m_place, 1);
    row->addWidget(change);
    showPlace();
    return row;
}

void RunPanel::showPlace() {
    m_place->setText(tr("Runs, in %1").arg(m_session->runsFolder()));
    m_place->setToolTip(m_session->runsFolder());
}

void RunPanel::makeForm() {
    m_keep = new QLineEdit;
    m_keep->setObjectName(QStringLiteral("keepEdit"));
    m_keep->setToolTip(tr("Layers that stay softmax. A ranking and how many stay: <b>bypass:22</b> (ranked by leaving one out at a time), <b>kl:15</b> (by converting one at a time), greedy:15; "
                          "or a budget: greedy:ppl=1.05, bypass:cache=64MiB@32768; or without a measurement: uniform:15, first:4, last:4, layers:0,4-9,15"));
    m_preset = new QComboBox;
    m_preset->setObjectName(QStringLiteral("presetCombo"));
    for (const auto& name : core::presetNames()) {
        m_preset->addItem(QString::fromStdString(name));
        m_preset->setItemData(m_preset->count() - 1, presetHint(name), Qt::ToolTipRole);
    }
    m_presetHint = new QLabel;
    m_presetHint->setObjectName(QStringLiteral("presetHint"));
    m_presetHint->setWordWrap(true);
    m_presetHint->setForegroundRole(QPalette::PlaceholderText);
    m_presetHint->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    m_presetHint->setMinimumHeight(kHintLines * fontMetrics().lineSpacing()); // one height for all presets, also where the panel is full
    m_form = new RecipeForm(m_session);
    auto* text = new TextField(m_session);
    m_form->row(tr("text"), text);
    m_form->row({}, text->below());
    m_form->row(tr("keep"), m_keep);
    m_form->row({}, m_keepProblem = problemLabel(QStringLiteral("keepProblem")));
    m_form->row(tr("start"), m_preset);
    m_form->row({}, m_presetHint);
    using R = core::Recipe;
    m_form->whole(tr("steps"), QStringLiteral("stepsSpin"), 0, 1'000'000, [](R& r) -> std::int64_t& { return r.align.steps; }, tr("of alignment, for each layer"));
    m_form->whole(tr("batch"), QStringLiteral("batchSpin"), 1, 4096, [](R& r) -> std::int64_t& { return r.align.batch; }, tr("sequences a step"));
    m_form->whole(tr("seq_len"), QStringLiteral("seqLenSpin"), 2, 1 << 20, [](R& r) -> std::int64_t& { return r.seqLen; }, tr("tokens of a window"));
    const auto tokens = [&](const QString& label, const QString& name, int low, RecipeForm::Field<std::int64_t> field) {
        m_form->whole(label, name, low, 2'000'000'000, std::move(field))->setSuffix(tr(" tokens"));
    };
    tokens(tr("calibration"), QStringLiteral("calibrationSpin"), 1, [](R& r) -> std::int64_t& { return r.calibrationTokens; });
    tokens(tr("selection"), QStringLiteral("selectionSpin"), 0, [](R& r) -> std::int64_t& { return r.selectionTokens; });
    tokens(tr("evaluation"), QStringLiteral("evaluationSpin"), 1, [](R& r) -> std::int64_t& { return r.evaluationTokens; });
    m_method = new MethodSection(m_session);
    m_section = new widgets::Collapsible(tr("Method"), m_method);
    m_section->header()->setObjectName(QStringLiteral("methodHeader"));
    m_section->header()->setToolTip(tr("Treatments, alignment, distillation, memory"));
    m_section->setExpanded(Settings().value(QStringLiteral("run/method"), false).toBool());
    connect(m_section, &widgets::Collapsible::toggled, this, [](bool expanded) { Settings().setValue(QStringLiteral("run/method"), expanded); });
    connect(m_keep, &QLineEdit::editingFinished, this, [this] { m_session->recipe()->setKeepText(m_keep->text()); });
    connect(m_preset, &QComboBox::textActivated, this, &RunPanel::startFrom);
}

void RunPanel::startFrom(const QString& preset) {
    m_form->edit(tr("Start from %1").arg(preset), [&](core::Recipe& r) {
        // each preset brings the alignment it was published or measured with; what a person set besides stays
        const auto before = core::defaultRecipe("cpu", r.preset), after = core::defaultRecipe("cpu", preset.toStdString());
        const auto steps = r.align.steps, batch = r.align.batch;
        r.preset = preset.toStdString();
        r.align = after.align;
        if (r.align.steps > 0 && steps > 0)
            r.align.steps = steps;
        r.align.batch = batch;
        const auto follow = [&](auto field) {
            if (r.*field == before.*field)
                r.*field = after.*field;
        };
        follow(&core::Recipe::ropeTreatment);
        follow(&core::Recipe::biasTreatment);
        follow(&core::Recipe::qkNormTreatment);
    });
}

void RunPanel::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) // the colours only: what is being typed stays
        showWrong(m_keep, m_keepProblem, m_keepProblem->text());
}

void RunPanel::showRecipe() {
    const auto& recipe = m_session->recipe()->recipe();
    const auto* model = m_session->recipe();
    m_keep->setText(m_session->teacher() ? model->keepText() : QString()); // of no model it would be a number of nothing
    if (!m_keep->hasFocus())
        m_keep->setCursorPosition(0); // a long list: its beginning says what it is
    showWrong(m_keep, m_keepProblem, model->keepProblem() ? QString::fromStdString(model->keepProblem()->message) : QString());
    m_form->setRowShown(m_keepProblem, model->keepProblem().has_value());
    m_preset->setCurrentText(QString::fromStdString(recipe.preset));
    m_presetHint->setText(presetHint(recipe.preset));
    const auto problems = m_session->teacher() ? m_session->recipe()->problems() : std::vector<core::Error>{};
    m_problem->setVisible(!problems.empty() && !model->keepProblem()); // said beside its field
    if (!problems.empty())
        m_problem->setText(QString::fromStdString(problems.front().message));
    showJob();
}

void RunPanel::showJob() {
    const auto state = m_session->jobState();
    const bool idle = state == JobState::Idle;
    const auto& problem = m_session->runProblem();
    m_run->setEnabled(idle && m_session->teacher() && !problem);
    m_run->setToolTip(problem ? QString::fromStdString(problem->message) : QString());
    for (auto* part : {static_cast<QWidget*>(m_form), static_cast<QWidget*>(m_method)}) // the recipe belongs to a teacher
        part->setEnabled(m_session->teacher().has_value());
    m_pause->setEnabled(state == JobState::Running || state == JobState::Paused);
    m_pause->setText(state == JobState::Paused ? tr("Continue") : tr("Pause"));
    const bool discards = stopMeansDiscard(*m_session);
    m_stop->setEnabled(state == JobState::Running || state == JobState::Paused || discards);
    m_stop->setText(discards ? tr("Discard...") : state == JobState::Stopping ? tr("Stopping...") : tr("Stop"));
    const auto run = m_session->library()->find(selectedRun());
    m_resume->setEnabled(idle && run && run->canResume());
    m_export->setEnabled(idle && run && run->state == QLatin1String("done"));
    m_open->setEnabled(run != nullptr);
}

QString RunPanel::selectedRun() const {
    const auto* item = m_runs->currentItem();
    return item ? item->data(Qt::UserRole).toString() : QString();
}

void RunPanel::showRuns() {
    const auto selected = selectedRun();
    const auto current = m_session->currentRun(), before = m_session->library()->find(selected);
    const bool waiting = before && !before->hasBegun(); // one of the queue is looked at
    const QSignalBlocker quiet(m_runs);
    m_runs->clear();
    for (const auto& run : m_session->runs()) {
        QString line = run->name + QStringLiteral("  ") + RunText::state(*run, m_session->library()->place(*run));
        if (const auto found = run->evaluation.find("student"); found != run->evaluation.end())
            line += tr(", perplexity %1").arg(found->second.perplexity, 0, 'f', 2);
        auto* item = new QListWidgetItem(line, m_runs);
        item->setData(Qt::UserRole, run->folder);
        item->setToolTip(run->folder);
        if (waiting ? run->folder == selected : run == current)
            m_runs->setCurrentItem(item);
    }
    showJob();
}

} // namespace linnet::app
