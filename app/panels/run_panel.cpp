#include "app/panels/run_panel.h"

#include "app/models/session.h"
#include "app/panels/export_dialog.h"

#include <QComboBox>
#include <QDesktopServices>
#include <QDoubleValidator>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QUrl>
#include <QVBoxLayout>

namespace linnet::app {

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
    m_stop = button(tr("Stop"), QStringLiteral("stopButton"), [this] { m_session->stop(); });
    m_resume = button(tr("Resume"), QStringLiteral("resumeButton"), [this] { m_session->resumeRun(selectedRun()); });
    m_open = button(tr("Folder"), QStringLiteral("folderButton"), [this] { QDesktopServices::openUrl(QUrl::fromLocalFile(selectedRun())); });
    m_export = button(tr("Export..."), QStringLiteral("exportButton"), [this] {
        auto* dialog = new ExportDialog(m_session, selectedRun(), window());
        dialog->setAttribute(Qt::WA_DeleteOnClose);
        dialog->open();
    });
    const auto row = [](std::initializer_list<QWidget*> widgets) {
        auto* layout = new QHBoxLayout;
        for (auto* widget : widgets)
            layout->addWidget(widget, 1);
        return layout;
    };
    m_keep = new QLineEdit;
    m_keep->setObjectName(QStringLiteral("keepEdit"));
    m_keep->setToolTip(tr("Layers that stay softmax: bypass:22, uniform:15, first:4, last:4 or layers:0,7,15"));
    m_preset = new QComboBox;
    m_preset->setObjectName(QStringLiteral("presetCombo"));
    for (const auto& name : core::presetNames())
        m_preset->addItem(QString::fromStdString(name));
    m_problem = new QLabel;
    m_problem->setWordWrap(true);
    m_problem->hide();
    m_runs = new QListWidget;
    m_runs->setObjectName(QStringLiteral("runList"));
    m_runs->setMinimumHeight(70);
    m_runs->setWordWrap(true); // the panel is narrow
    m_runs->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);

    m_form = new QFormLayout;
    m_form->setRowWrapPolicy(QFormLayout::DontWrapRows);
    m_form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    m_form->addRow(tr("keep"), m_keep);
    m_form->addRow(tr("start"), m_preset);
    using R = core::Recipe;
    whole(tr("steps"), QStringLiteral("stepsSpin"), 0, 1'000'000, [](R& r) -> std::int64_t& { return r.align.steps; });
    whole(tr("batch"), QStringLiteral("batchSpin"), 1, 4096, [](R& r) -> std::int64_t& { return r.align.batch; });
    real(tr("lr q, k, v"), QStringLiteral("lrEdit"), 0, 10, [](R& r) -> double& { return r.align.lr; });
    real(tr("lr others"), QStringLiteral("lrNewEdit"), 0, 10, [](R& r) -> double& { return r.align.lrNew; });
    real(tr("warm-up"), QStringLiteral("warmupEdit"), 0, 1, [](R& r) -> double& { return r.align.warmup; });
    whole(tr("seq_len"), QStringLiteral("seqLenSpin"), 2, 1 << 20, [](R& r) -> std::int64_t& { return r.seqLen; });
    whole(tr("calibration"), QStringLiteral("calibrationSpin"), 1, 2'000'000'000, [](R& r) -> std::int64_t& { return r.calibrationTokens; })->setSuffix(tr(" tokens"));
    whole(tr("selection"), QStringLiteral("selectionSpin"), 0, 2'000'000'000, [](R& r) -> std::int64_t& { return r.selectionTokens; })->setSuffix(tr(" tokens"));
    whole(tr("evaluation"), QStringLiteral("evaluationSpin"), 1, 2'000'000'000, [](R& r) -> std::int64_t& { return r.evaluationTokens; })->setSuffix(tr(" tokens"));

    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(6, 6, 6, 6);
    layout->addLayout(row({m_run, m_pause, m_stop}));
    layout->addLayout(m_form);
    layout->addWidget(m_problem);
    layout->addWidget(new QLabel(tr("Runs")));
    layout->addWidget(m_runs, 1);
    layout->addLayout(row({m_resume, m_open, m_export}));

    connect(m_keep, &QLineEdit::editingFinished, this, &RunPanel::applyKeepRule);
    connect(m_preset, &QComboBox::textActivated, this, [this](const QString& name) {
        edit(tr("Start from %1").arg(name), [&](core::Recipe& r) {
            r.preset = name.toStdString();
            // each preset brings the alignment it was published or measured with; the rest of the recipe stays
            const auto steps = r.align.steps, batch = r.align.batch;
            r.align = core::defaultRecipe("cpu", r.preset).align;
            if (r.align.steps > 0 && steps > 0)
                r.align.steps = steps;
            r.align.batch = batch;
        });
    });
    connect(session->recipe(), &RecipeModel::changed, this, &RunPanel::showRecipe);
    connect(session, &Session::jobChanged, this, &RunPanel::showJob);
    connect(session, &Session::teacherChanged, this, &RunPanel::showJob);
    connect(session, &Session::runsChanged, this, &RunPanel::showRuns);
    connect(m_runs, &QListWidget::currentRowChanged, this, &RunPanel::showJob);
    showRecipe();
    showRuns();
    showJob();
}

void RunPanel::edit(const QString& what, const std::function<void(core::Recipe&)>& change) {
    core::Recipe recipe = m_session->recipe()->recipe();
    change(recipe);
    m_session->recipe()->replace(recipe, what);
}

QSpinBox* RunPanel::whole(const QString& label, const QString& name, int low, int high, std::function<std::int64_t&(core::Recipe&)> field) {
    auto* box = new QSpinBox;
    box->setObjectName(name);
    box->setRange(low, high);
    box->setKeyboardTracking(false);
    box->setGroupSeparatorShown(true);
    box->setMinimumWidth(90); // not the width of the largest value: the panel is narrow
    m_form->addRow(label, box);
    connect(box, &QSpinBox::valueChanged, this, [this, label, field](int value) { edit(tr("Set %1").arg(label), [&](core::Recipe& r) { field(r) = value; }); });
    m_show.push_back([box, field](const core::Recipe& recipe) {
        const QSignalBlocker quiet(box);
        auto copy = recipe;
        box->setValue(static_cast<int>(field(copy)));
    });
    return box;
}

QLineEdit* RunPanel::real(const QString& label, const QString& name, double low, double high, std::function<double&(core::Recipe&)> field) {
    auto* line = new QLineEdit;
    line->setObjectName(name);
    auto* validator = new QDoubleValidator(low, high, 12, line);
    validator->setLocale(QLocale::c());
    line->setValidator(validator);
    m_form->addRow(label, line);
    connect(line, &QLineEdit::editingFinished, this, [this, label, field, line] {
        edit(tr("Set %1").arg(label), [&](core::Recipe& r) { field(r) = QLocale::c().toDouble(line->text()); });
    });
    m_show.push_back([line, field](const core::Recipe& recipe) {
        auto copy = recipe;
        line->setText(QString::number(field(copy), 'g', 6));
    });
    return line;
}

void RunPanel::applyKeepRule() {
    const auto rule = core::guarded([&] { return core::parseKeepRule(m_keep->text().trimmed().toStdString()); });
    if (rule) {
        m_session->recipe()->setKeepRule(*rule);
    } else {
        m_problem->setText(QString::fromStdString(rule.error().message));
        m_problem->show();
    }
}

void RunPanel::showRecipe() {
    const auto& recipe = m_session->recipe()->recipe();
    m_keep->setText(QString::fromStdString(recipe.keep.text()));
    m_keep->setCursorPosition(0); // a long list: its beginning says what it is
    m_preset->setCurrentText(QString::fromStdString(recipe.preset));
    for (const auto& show : m_show)
        show(recipe);
    const auto problems = m_session->teacher() ? m_session->recipe()->problems() : std::vector<core::Error>{};
    m_problem->setVisible(!problems.empty());
    if (!problems.empty())
        m_problem->setText(QString::fromStdString(problems.front().message));
}

void RunPanel::showJob() {
    const auto state = m_session->jobState();
    const bool idle = state == JobState::Idle;
    m_run->setEnabled(idle && m_session->teacher());
    for (int row = 0; row < m_form->rowCount(); ++row) // the recipe belongs to a teacher
        m_form->itemAt(row, QFormLayout::FieldRole)->widget()->setEnabled(m_session->teacher().has_value());
    m_pause->setEnabled(state == JobState::Running || state == JobState::Paused);
    m_pause->setText(state == JobState::Paused ? tr("Continue") : tr("Pause"));
    m_stop->setEnabled(state == JobState::Running || state == JobState::Paused);
    m_stop->setText(state == JobState::Stopping ? tr("Stopping...") : tr("Stop"));
    QString runState;
    for (const auto& run : m_session->runs())
        if (run->folder == selectedRun())
            runState = run->state;
    m_resume->setEnabled(idle && (runState == QLatin1String("stopped") || runState == QLatin1String("failed")));
    m_export->setEnabled(idle && runState == QLatin1String("done"));
    m_open->setEnabled(!runState.isEmpty());
}

QString RunPanel::selectedRun() const {
    const auto* item = m_runs->currentItem();
    return item ? item->data(Qt::UserRole).toString() : QString();
}

void RunPanel::showRuns() {
    const auto selected = selectedRun();
    const auto current = m_session->currentRun();
    const QSignalBlocker quiet(m_runs);
    m_runs->clear();
    for (const auto& run : m_session->runs()) {
        QString line = run->name + QStringLiteral("  ") + run->state;
        if (const auto found = run->evaluation.find("student"); found != run->evaluation.end())
            line += tr(", perplexity %1").arg(found->second.perplexity, 0, 'f', 2);
        auto* item = new QListWidgetItem(line, m_runs);
        item->setData(Qt::UserRole, run->folder);
        item->setToolTip(run->folder);
        if (run->folder == selected || (selected.isEmpty() && current && run->folder == current->folder))
            m_runs->setCurrentItem(item);
    }
    showJob();
}

} // namespace linnet::app
