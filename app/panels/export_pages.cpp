#include "app/panels/export_pages.h"

#include "app/models/command_lines.h"
#include "app/models/layer_choice.h"
#include "app/models/session.h"
#include "core/base/files.h"
#include "core/export/dtypes.h"
#include "core/export/load_lines.h"
#include "widgets/theme.h"

#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QDesktopServices>
#include <QDir>
#include <QEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QFontDatabase>
#include <QFormLayout>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QTableWidget>
#include <QUrl>
#include <QVBoxLayout>

namespace linnet::app {
namespace {

QLabel* wrapped(const char* name = "") {
    auto* label = new QLabel;
    label->setObjectName(QString::fromLatin1(name));
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    return label;
}

QString bytes(std::uint64_t count) {
    return bytesText(static_cast<double>(count));
}

QString formatName(const std::string& format) {
    static const std::map<std::string, QString> names{{"hf", ExportPage::tr("Hugging Face folder")}, {"qwen3.5", ExportPage::tr("Qwen3.5 dense")}, {"gguf", QStringLiteral("GGUF")},
                                                      {"fla", QStringLiteral("flash-linear-attention")}, {"adapter", ExportPage::tr("Adapter")}, {"bundle", ExportPage::tr("Training bundle")}};
    const auto found = names.find(format);
    return found == names.end() ? QString::fromStdString(format) : found->second;
}

QString dtypeName(const std::string& dtype) {
    return dtype == "f32"    ? ExportPage::tr("f32 (the student's own values)")
           : dtype == "q8_0" ? ExportPage::tr("q8_0 (about a quarter of the size, quantised)")
                             : ExportPage::tr("%1 (half the size, rounded)").arg(QString::fromStdString(dtype));
}

double allowedKl(const std::string& dtype) { // nats, as core's requireParity has it
    return dtype == "f32" ? 1e-6 : 0.05;
}

QString fidelity(core::Fidelity value) {
    return QString::fromLatin1(core::fidelityName(value));
}

QString fidelityHint(core::Fidelity value) {
    switch (value) {
    case core::Fidelity::Exact: return ExportPage::tr("The runtime computes what the student computes; only the rounding of the stored values differs.");
    case core::Fidelity::NormRounding: return ExportPage::tr("The same, but norm weights are stored less one: what 16 bits round of them then differs by at most a bf16 step.");
    case core::Fidelity::Lifted: return ExportPage::tr("The same: the format norms queries and keys, which this teacher does not; they are made so small that the norm divides by a constant, which is taken into the weights. Not for float16, not to be trained on.");
    case core::Fidelity::RemoteCode: return ExportPage::tr("The same, by Python code that lies in the folder: transformers runs it only with trust_remote_code=True.");
    case core::Fidelity::NotExpressible: break;
    }
    return ExportPage::tr("The format has no way to say what this student computes.");
}

} // namespace

QString loadText(const core::ExportReport& report, bool biases) {
    std::string gguf;
    for (const auto& file : report.files)
        if (file.ends_with(".gguf"))
            gguf = file;
    QStringList blocks;
    for (const auto& lines : core::loadLines(report.format, report.folder.string(), gguf, biases))
        blocks << QStringLiteral("# %1\n%2").arg(QString::fromStdString(lines.runtime), QString::fromStdString(lines.text));
    return blocks.join(QLatin1Char('\n'));
}

// ---- 1 what ---------------------------------------------------------------------------------------------------------------------

ExportWhatPage::ExportWhatPage(ExportWizard* wizard) : ExportPage(wizard) {
    setTitle(tr("What"));
    setSubTitle(tr("The student of a finished run, in a format that other runtimes read."));
    m_run = new QComboBox;
    m_run->setObjectName(QStringLiteral("runCombo"));
    for (const auto& run : wizard->session().runs())
        if (run->report || run->folder == plan().run)
            m_run->addItem(run->name, run->folder);
    if (m_run->findData(plan().run) < 0)
        m_run->addItem(QFileInfo(plan().run).fileName(), plan().run);
    m_run->setCurrentIndex(m_run->findData(plan().run));
    m_layers = wrapped("layersLabel");
    m_formats = new QTableWidget(0, 4);
    m_formats->setObjectName(QStringLiteral("formatTable"));
    m_formats->setAccessibleName(tr("Formats"));
    m_formats->setHorizontalHeaderLabels({tr("format"), tr("float32"), tr("16 bits"), tr("why")});
    const QString hints[] = {tr("Which files are written, and so which programs load them"), tr("How near the exported model is to the student when its values are stored in 32 bits"),
                             tr("Likewise when they are stored in 16 bits (bf16, f16) or quantised"), tr("What reads it, and what differs or is missing")};
    for (int column = 0; column < 4; ++column)
        m_formats->horizontalHeaderItem(column)->setToolTip(hints[column]);
    m_formats->horizontalHeader()->setHighlightSections(false);
    m_formats->verticalHeader()->hide();
    m_formats->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_formats->setSelectionMode(QAbstractItemView::SingleSelection);
    m_formats->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_formats->setTabKeyNavigation(false);
    m_formats->setWordWrap(true);
    m_formats->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
    for (const int column : {1, 2}) // the longest of their words takes two lines
        m_formats->setColumnWidth(column, fontMetrics().horizontalAdvance(QStringLiteral("exact up to bf16 MM")));
    m_formats->horizontalHeader()->setSectionResizeMode(3, QHeaderView::Stretch);
    m_formats->verticalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    m_dtype = new QComboBox;
    m_dtype->setObjectName(QStringLiteral("dtypeCombo"));
    m_dtype->setToolTip(tr("How each weight is stored. bf16 has the range of f32 with 8 bits of precision, f16 11 bits in a smaller range; q8_0 stores 8 bits a weight with a scale for each 32."));
    m_lift = new QCheckBox(tr("&Lift: q and k so small that the format's norm of them is a constant"));
    m_lift->setObjectName(QStringLiteral("liftCheck"));
    m_lift->setToolTip(fidelityHint(core::Fidelity::Lifted));
    m_cost = wrapped("liftCost");
    m_tokenizer = wrapped("tokenizerLabel");
    m_tokenizer->setToolTip(tr("Cuts text into the tokens that the model reads; it is the teacher's, and goes with the export"));
    m_layers->setToolTip(tr("Kinds of the student's layers. softmax: the teacher's own attention, kept; gated_delta_net: linear attention with a state of fixed size"));
    auto* form = new QFormLayout;
    form->addRow(tr("&Run"), m_run);
    form->addRow(tr("Layers"), m_layers);
    form->addRow(tr("&Values"), m_dtype);
    form->addRow(tr("Tokenizer"), m_tokenizer);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(form);
    layout->addWidget(m_formats, 1);
    layout->addWidget(m_lift);
    layout->addWidget(m_cost);
    connect(m_lift, &QCheckBox::toggled, this, [this](bool on) {
        plan().options.lift = on;
        showFormat(); // whether it is still asked for
        Q_EMIT completeChanged();
    });
    connect(m_run, &QComboBox::currentIndexChanged, this, [this] {
        m_wizard->setRun(m_run->currentData().toString());
        showStudent({});
    });
    connect(m_dtype, &QComboBox::currentIndexChanged, this, [this] { plan().options.dtype = m_dtype->currentData().toString().toStdString(); });
    connect(m_formats, &QTableWidget::itemSelectionChanged, this, &ExportWhatPage::chooseFormat);
    connect(wizard, &ExportWizard::studentRead, this, &ExportWhatPage::showStudent);
    showStudent({});
}

void ExportWhatPage::showStudent(const QString& error) {
    const auto& info = plan().student;
    m_formats->setRowCount(0);
    m_tokenizer->setText(QStringLiteral("–"));
    m_layers->setText(!error.isEmpty() ? error : info ? QString() : tr("reading..."));
    if (info) {
        std::vector<std::int64_t> kept;
        std::map<std::string, int> converted;
        for (std::size_t l = 0; l < info->layerKinds.size(); ++l)
            if (info->layerKinds[l] == "softmax")
                kept.push_back(static_cast<std::int64_t>(l));
            else
                ++converted[info->layerKinds[l]];
        QStringList parts;
        for (const auto& [kind, count] : converted)
            parts << tr("%1 %2").arg(count).arg(QString::fromStdString(kind));
        parts << (kept.empty() ? tr("no softmax") : tr("%1 softmax (%2)").arg(kept.size()).arg(layerRanges(kept, QStringLiteral(", "))));
        m_layers->setText(parts.join(QStringLiteral(", ")));
        fillFormats(info->exports);
    }
    showFormat();
    Q_EMIT completeChanged();
}

void ExportWhatPage::fillFormats(const std::vector<core::ExportChoice>& choices) {
    m_formats->setRowCount(static_cast<int>(choices.size()));
    int chosen = -1;
    for (int row = 0; row < m_formats->rowCount(); ++row) {
        const auto& choice = choices[static_cast<std::size_t>(row)];
        const QStringList cells{formatName(choice.format), fidelity(choice.fidelity), fidelity(choice.in16Bits), QString::fromStdString(choice.reason)};
        for (int column = 0; column < cells.size(); ++column) {
            auto* item = new QTableWidgetItem(cells[column]);
            item->setToolTip(column == 1 ? fidelityHint(choice.fidelity) : column == 2 ? fidelityHint(choice.in16Bits) : cells.back());
            if (!choice.available())
                item->setFlags(Qt::NoItemFlags);
            m_formats->setItem(row, column, item);
        }
        if (choice.available() && (chosen < 0 || choice.format == plan().options.format))
            chosen = row;
    }
    if (chosen >= 0)
        m_formats->selectRow(chosen);
}

void ExportWhatPage::chooseFormat() {
    const int row = m_formats->currentRow();
    if (plan().student && row >= 0 && row < std::ssize(plan().student->exports)) {
        const auto& format = plan().student->exports[static_cast<std::size_t>(row)].format;
        if (format != plan().options.format)
            plan().folder.clear(); // its proposal names the format
        plan().options.format = format;
    }
    showFormat();
    Q_EMIT completeChanged();
}

const core::ExportChoice* ExportWhatPage::chosen() const {
    if (plan().student)
        for (const auto& choice : plan().student->exports)
            if (choice.format == plan().options.format)
                return &choice;
    return nullptr;
}

void ExportWhatPage::showFormat() {
    const auto& format = plan().options.format;
    const auto* choice = chosen();
    const bool lifts = choice && choice->fidelity == core::Fidelity::Lifted;
    m_lift->setVisible(lifts);
    m_cost->setVisible(lifts);
    m_cost->setText(!lifts ? QString() : QString::fromStdString(choice->reason) + (m_lift->isChecked() ? QString() : tr(". <b>Tick Lift to go on.</b>")));
    plan().options.lift = lifts && m_lift->isChecked();
    const QSignalBlocker quiet(m_dtype);
    m_dtype->clear();
    const auto dtypes = choice && choice->available() ? core::exportDTypes(format, lifts) : std::vector<std::string>{"f32"};
    for (const auto& dtype : dtypes)
        m_dtype->addItem(dtypeName(dtype), QString::fromStdString(dtype));
    m_dtype->setCurrentIndex(std::max(0, m_dtype->findData(QString::fromStdString(plan().options.dtype))));
    plan().options.dtype = m_dtype->currentData().toString().toStdString();
    if (const auto& info = plan().student) {
        const auto where = format == "gguf" ? tr("in the file, with its chat template") : format == "adapter" ? tr("the teacher's, not written") : tr("tokenizer.json and tokenizer_config.json are written beside the weights");
        m_tokenizer->setText(tr("%1, %2 tokens: %3").arg(QString::fromStdString(info->tokenizerType)).arg(info->tokenizerVocabSize).arg(where));
    }
}

bool ExportWhatPage::isComplete() const {
    const auto* choice = chosen();
    return choice && choice->available() && (choice->fidelity != core::Fidelity::Lifted || plan().options.lift);
}

// ---- 2 where --------------------------------------------------------------------------------------------------------------------

ExportWherePage::ExportWherePage(ExportWizard* wizard) : ExportPage(wizard) {
    setTitle(tr("Where"));
    setSubTitle(tr("The folder is made when everything is written and checked: until then nothing stands under its name."));
    m_folder = new QLineEdit;
    m_folder->setObjectName(QStringLiteral("folderEdit"));
    auto* browse = new QPushButton(tr("&Browse..."));
    m_space = wrapped("spaceLabel");
    m_said = wrapped("folderProblem");
    m_free = new QPushButton(tr("&Use a free name"));
    m_free->setObjectName(QStringLiteral("freeNameButton"));
    auto* rule = wrapped();
    rule->setText(tr("Nothing is ever overwritten: the folder must not be there yet, or be empty."));
    auto* row = new QHBoxLayout;
    row->addWidget(m_folder, 1);
    row->addWidget(browse);
    auto* problem = new QHBoxLayout;
    problem->addWidget(m_said, 1);
    problem->addWidget(m_free);
    auto* form = new QFormLayout(this);
    auto* label = new QLabel(tr("&Folder"));
    label->setBuddy(m_folder);
    form->addRow(label, row);
    form->addRow({}, problem);
    form->addRow(tr("Space"), m_space);
    form->addRow(tr("Overwriting"), rule);
    connect(browse, &QPushButton::clicked, this, [this] {
        const auto parent = QFileDialog::getExistingDirectory(this, tr("Folder to make the export in"), QFileInfo(m_folder->text()).path());
        if (!parent.isEmpty())
            m_folder->setText(parent + QLatin1Char('/') + QFileInfo(m_folder->text()).fileName());
    });
    connect(m_folder, &QLineEdit::textChanged, this, &ExportWherePage::check);
    connect(m_free, &QPushButton::clicked, this, [this] { m_folder->setText(freeExportName(m_folder->text())); });
}

void ExportWherePage::initializePage() {
    if (plan().folder.isEmpty())
        plan().folder = freeExportName(QFileInfo(plan().run).absoluteFilePath() + QLatin1Char('-') + QString::fromStdString(plan().options.format));
    m_folder->setText(plan().folder);
    check();
}

void ExportWherePage::changeEvent(QEvent* event) {
    ExportPage::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && m_free)
        check(); // what is wrong is said in the theme's colour
}

void ExportWherePage::check() {
    const auto text = m_folder->text().trimmed();
    plan().folder = text;
    const QFileInfo file(text);
    const QDir dir(text);
    QFileInfo parent(file.isAbsolute() ? file.path() : QStringLiteral("/")); // the nearest that is there: the rest is made
    while (!parent.exists() && !parent.isRoot())
        parent = QFileInfo(parent.path());
    const bool taken = file.exists() && (!file.isDir() || !dir.isEmpty());
    const auto needed = plan().student ? core::exportBytes(*plan().student, plan().options) : 0;
    const auto there = text.isEmpty() ? 0 : core::freeDiskBytes(parent.filePath().toStdString());
    m_problem = text.isEmpty()                     ? tr("The export needs a folder.")
                : file.isRelative()                ? tr("Give the whole path, from / on.")
                : taken && !file.isDir()           ? tr("A file of this name is there.")
                : taken                            ? tr("This folder is there and not empty.")
                : !parent.isDir()                  ? tr("%1 is no folder.").arg(parent.filePath())
                : !parent.isWritable()             ? tr("%1 can't be written in.").arg(parent.filePath())
                : there < needed                   ? tr("There is not enough space.")
                                                   : QString();
    m_said->setText(m_problem.isEmpty() ? tr("Free to use.") : QStringLiteral("<b style='color:%1'>%2</b>").arg(widgets::stateColors(palette()).bad.name(), m_problem.toHtmlEscaped()));
    m_free->setVisible(taken);
    m_space->setText(tr("%1 needed, %2 free").arg(bytes(needed), bytes(there)));
    Q_EMIT completeChanged();
}

// ---- 3 verify -------------------------------------------------------------------------------------------------------------------

ExportVerifyPage::ExportVerifyPage(ExportWizard* wizard) : ExportPage(wizard) {
    setTitle(tr("Verify"));
    setSubTitle(tr("Before the folder gets its name it is read back and compared with the student."));
    m_verify = new QCheckBox(tr("&Reload the folder and compare"));
    m_verify->setObjectName(QStringLiteral("verifyCheck"));
    m_verify->setChecked(true);
    m_verify->setToolTip(tr("Without it the export is not checked here; linnet-cli verify can do it later"));
    m_what = wrapped("verifyWhat");
    m_what->setToolTip(tr("Logits: the scores of all tokens before they become probabilities. KL: how much the reloaded model's probabilities differ from the student's, 0 where they are the same, in nats. "
                          "First choice: the token that is the most probable. Greedy: the first choice is taken at each step."));
    m_busy = wrapped("busyLabel");
    auto* layout = new QVBoxLayout(this);
    layout->addWidget(m_verify);
    layout->addWidget(m_what);
    layout->addStretch(1);
    layout->addWidget(m_busy);
    connect(m_verify, &QCheckBox::toggled, this, [this](bool on) { plan().options.verify = on; });
    connect(&wizard->session(), &Session::jobChanged, this, &QWizardPage::completeChanged);
}

void ExportVerifyPage::initializePage() {
    setButtonText(QWizard::NextButton, tr("&Export"));
    const auto limit = (plan().options.dtype == "f32" ? tr("The values are stored as they are: more than %1 nats of mean KL refuses the export.").arg(allowedKl("f32"))
                                                      : tr("Values are rounded to %1: more than %2 nats of mean KL refuses the export.").arg(QString::fromStdString(plan().options.dtype)).arg(allowedKl(plan().options.dtype)));
    m_what->setText(tr("A fixed probe of three sentences and a line of code goes through the student and through the reloaded folder:"
                       "<ul><li>logits of its last positions, 8 at most: largest and mean difference, KL, agreement of the first choice</li>"
                       "<li>the greedy tokens that continue it, 16 or fewer where the text ends before</li></ul>%1<br><br>Reading it back takes about %2 of memory besides what is open.<br>"
                       "A hash of every file goes with it, so that <tt>linnet-cli verify</tt> can repeat the check anywhere.")
                        .arg(limit, bytes(plan().student ? static_cast<std::uint64_t>(plan().student->parameters) * 4 * 2 : 0)));
    Q_EMIT completeChanged();
}

bool ExportVerifyPage::isComplete() const {
    const bool idle = m_wizard->session().jobState() == JobState::Idle;
    m_busy->setText(idle ? QString() : tr("Another job is running: the export can start when it has ended."));
    return idle;
}

// ---- 4 write --------------------------------------------------------------------------------------------------------------------

ExportWritePage::ExportWritePage(ExportWizard* wizard) : ExportPage(wizard) {
    setTitle(tr("Write"));
    m_bar = new QProgressBar;
    m_bar->setObjectName(QStringLiteral("exportBar"));
    m_state = wrapped("stateLabel");
    m_result = wrapped("resultLabel");
    m_result->setToolTip(tr("Logits: the scores of all tokens before they become probabilities. KL: how much the reloaded model's probabilities differ from the student's, in nats. "
                            "Top-1 agreement: share of positions at which both hold the same token the most probable."));
    m_load = new QPlainTextEdit;
    m_load->setObjectName(QStringLiteral("loadLines"));
    m_load->setAccessibleName(tr("How to load it"));
    m_load->setReadOnly(true);
    m_load->setTabChangesFocus(true);
    m_load->setLineWrapMode(QPlainTextEdit::NoWrap);
    m_load->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    m_open = new QPushButton(tr("&Open folder"));
    m_open->setObjectName(QStringLiteral("openFolderButton"));
    m_copy = new QPushButton(tr("Copy these &lines"));
    m_copy->setObjectName(QStringLiteral("copyLinesButton"));
    auto* row = new QHBoxLayout;
    row->addWidget(m_open);
    row->addWidget(m_copy);
    row->addStretch(1);
    auto* layout = new QVBoxLayout(this);
    for (QWidget* widget : {static_cast<QWidget*>(m_state), static_cast<QWidget*>(m_bar), static_cast<QWidget*>(m_result)})
        layout->addWidget(widget);
    layout->addWidget(m_load, 1);
    layout->addLayout(row);
    layout->addStretch();
    connect(m_open, &QPushButton::clicked, this, [this] { QDesktopServices::openUrl(QUrl::fromLocalFile(plan().folder)); });
    connect(m_copy, &QPushButton::clicked, this, [this] { QGuiApplication::clipboard()->setText(m_load->toPlainText()); });
    connect(&wizard->session(), &Session::jobChanged, this, &ExportWritePage::showJob);
    connect(&wizard->session(), &Session::exported, this, &ExportWritePage::exported);
    connect(&wizard->session(), &Session::failed, this, [this](const QString&, const core::Error& error) {
        if (m_wizard->writing())
            ended(QString::fromStdString(error.message));
    });
}

void ExportWritePage::initializePage() {
    for (QWidget* widget : {static_cast<QWidget*>(m_load), static_cast<QWidget*>(m_open), static_cast<QWidget*>(m_copy)})
        widget->hide();
    m_result->clear();
    m_bar->show();
    setSubTitle(tr("Cancel stops and leaves nothing behind."));
    m_wizard->setWriting(true, false);
    m_wizard->session().exportRun(plan().run, plan().folder, plan().options);
    if (!m_wizard->session().isRunning(JobKind::Export))
        ended(tr("Another job is running."));
}

void ExportWritePage::showJob() {
    if (!m_wizard->writing())
        return;
    const auto& session = m_wizard->session();
    if (session.jobState() == JobState::Idle) // stopped: an end with a result or an error comes by its own signal, right after
        return QMetaObject::invokeMethod(this, [this] {
            if (m_wizard->writing() && m_wizard->session().jobState() == JobState::Idle)
                ended(tr("Stopped. Nothing was left at %1.").arg(plan().folder));
        }, Qt::QueuedConnection), void();
    const double fraction = session.jobFraction();
    m_bar->setRange(0, fraction < 0 ? 0 : 1000);
    m_bar->setValue(qRound(fraction * 1000));
    m_state->setText(session.jobState() == JobState::Stopping ? tr("Stopping...") : session.jobTitle());
    m_wizard->setWriting(true, false); // QWizard enables Back by itself
}

void ExportWritePage::ended(const QString& text) {
    m_wizard->setWriting(false, false);
    m_bar->hide();
    m_state->setText(QStringLiteral("<b>%1</b>").arg(tr("Not written")));
    m_result->setText(text.toHtmlEscaped() + QStringLiteral("<br><br>") + tr("Back leads to other settings."));
    setSubTitle(tr("Nothing stands under the folder's name."));
    Q_EMIT completeChanged(); // and QWizard enables Back
}

void ExportWritePage::exported(const core::ExportReport& report) {
    if (!m_wizard->writing())
        return;
    plan().folder = QString::fromStdString(report.folder.string());
    qint64 size = 0;
    QStringList files;
    for (const auto& name : report.files) {
        files << QString::fromStdString(name).toHtmlEscaped();
        size += QFileInfo(plan().folder + QLatin1Char('/') + QString::fromStdString(name)).size();
    }
    m_bar->hide();
    m_state->setText(tr("<b>Written to %1</b>: %2 in %3 files, %4")
                         .arg(plan().folder.toHtmlEscaped(), bytes(static_cast<std::uint64_t>(size)), QString::number(files.size()), report.exact ? tr("every value bit for bit") : tr("values rounded")));
    const auto& p = report.parity;
    QString text = files.join(QStringLiteral(", ")) + tr("<br><br>What the format can hold: %1. This file's values: %2.").arg(QString::fromStdString(report.fidelity), report.exact ? tr("the student's own, bit for bit") : tr("rounded to %1").arg(QString::fromStdString(report.dtype)));
    for (const auto& note : report.notes)
        text += QStringLiteral("<br>") + QString::fromStdString(note).toHtmlEscaped();
    if (report.verified)
        text += tr("<br><br><b>Passed</b>: KL %1 nats, at most %2 is allowed.").arg(p.meanKl, 0, 'g', 3).arg(allowedKl(report.dtype)) +
                tr("<br>Reloaded and compared at the end of a probe of %1 tokens: logits differ by %2 at most, %3 on average; KL %4 nats, top-1 agreement %5; %6 of %7 greedy tokens are the same.")
                    .arg(p.tokens).arg(p.maxAbsLogit, 0, 'g', 3).arg(p.meanAbsLogit, 0, 'g', 3).arg(p.meanKl, 0, 'g', 3).arg(p.top1Agreement, 0, 'f', 4).arg(p.greedySame).arg(p.greedyTokens);
    else
        text += tr("<br><br>It was not read back: <tt>linnet-cli verify</tt> does it later.");
    m_result->setText(text);
    const auto& student = plan().student;
    const bool softmax = student && std::ranges::find(student->layerKinds, "softmax") != student->layerKinds.end();
    m_load->setPlainText(loadText(report, softmax && (student->config.qkvBias || student->config.outputBias)));
    for (QWidget* widget : {static_cast<QWidget*>(m_load), static_cast<QWidget*>(m_open), static_cast<QWidget*>(m_copy)})
        widget->show();
    setSubTitle(tr("The folder is complete: it can be moved, copied and loaded."));
    m_wizard->setWriting(false, true);
    Q_EMIT completeChanged();
    m_wizard->setWriting(false, true);
    m_open->setFocus();
}

} // namespace linnet::app
