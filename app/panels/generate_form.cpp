// The form of the Generate page: prompt, student, sampling, and the prompts before.
#include "app/panels/generate_page.h"

#include "app/models/run_results.h"
#include "app/models/session.h"
#include "app/models/settings.h"
#include "app/panels/command_menu.h"
#include "app/panels/generate_text.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QGridLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpressionValidator>
#include <QSignalBlocker>
#include <QToolButton>

namespace linnet::app {
namespace {

const QString kCurrent = QStringLiteral("@current"), kOther = QStringLiteral("@other"), kNone = QStringLiteral("@none");

QLabel* labelFor(const QString& text, QWidget* buddy) {
    auto* label = new QLabel(text);
    label->setBuddy(buddy);
    return label;
}

} // namespace

// ---- the form -----------------------------------------------------------------------------------------------------------------

QWidget* GeneratePage::makeForm() {
    m_prompt = new QPlainTextEdit(tr("The invention of the printing press"));
    m_prompt->setObjectName(QStringLiteral("promptEdit"));
    m_prompt->setAccessibleName(tr("Prompt"));
    m_prompt->setPlaceholderText(tr("A text that both models continue"));
    m_prompt->setTabChangesFocus(true);
    m_prompt->setToolTip(tr("Ctrl+Enter generates; Ctrl+Up and Ctrl+Down go through earlier prompts"));
    m_prompt->setFixedHeight(3 * fontMetrics().lineSpacing() + 14);
    m_prompt->installEventFilter(this);
    m_run = new QPushButton(tr("&Generate"));
    m_run->setObjectName(QStringLiteral("generateButton"));
    m_historyButton = new QToolButton;
    m_historyButton->setObjectName(QStringLiteral("promptHistory"));
    m_historyButton->setText(tr("History"));
    m_historyButton->setToolTip(tr("Earlier prompts with their settings"));
    m_historyButton->setPopupMode(QToolButton::InstantPopup);
    m_historyButton->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    m_history = new QMenu(m_historyButton);
    m_historyButton->setMenu(m_history);
    auto* form = new QWidget;
    auto* grid = new QGridLayout(form);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->addWidget(m_prompt, 0, 0, 2, 1);
    grid->addWidget(m_run, 0, 1);
    grid->addWidget(m_historyButton, 1, 1);
    grid->setColumnStretch(0, 1);
    CommandMenu::attach(m_run, m_session, [this] { return Commands::generate(*m_session, settings()); });
    connect(m_run, &QPushButton::clicked, this, &GeneratePage::run);
    connect(m_prompt, &QPlainTextEdit::textChanged, this, &GeneratePage::showState);
    return form;
}

QWidget* GeneratePage::makeOptions() {
    m_student = new QComboBox;
    m_student->setObjectName(QStringLiteral("studentCombo"));
    m_student->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    m_student->setMinimumContentsLength(10);
    m_chat = new QCheckBox(tr("&chat template"));
    m_chat->setObjectName(QStringLiteral("chatCheck"));
    m_tokens = new QSpinBox;
    m_tokens->setObjectName(QStringLiteral("tokensSpin"));
    m_tokens->setRange(1, 100'000);
    m_tokens->setValue(64);
    m_mode = new QComboBox;
    m_mode->setObjectName(QStringLiteral("modeCombo"));
    m_mode->addItems({tr("greedy"), tr("sampled")});
    m_mode->setToolTip(tr("greedy: the most likely token each time; sampled: drawn with the settings beside"));
    const auto real = [this](const char* name, double low, double high, double value, const QString& hint) {
        auto* spin = new QDoubleSpinBox;
        spin->setObjectName(QString::fromLatin1(name));
        spin->setDecimals(3);
        spin->setRange(low, high);
        spin->setSingleStep(0.05);
        spin->setValue(value);
        spin->setToolTip(hint);
        return spin;
    };
    m_temperature = real("temperatureSpin", 0.001, 100, 0.8, tr("logits are divided by it: below 1 the likely tokens gain"));
    m_topP = real("topPSpin", 0.001, 1, 1, tr("the fewest tokens whose probability reaches it; 1 = off"));
    m_topK = new QSpinBox;
    m_topK->setObjectName(QStringLiteral("topKSpin"));
    m_topK->setRange(0, 1'000'000);
    m_topK->setSpecialValueText(tr("off"));
    m_seed = new QLineEdit(QStringLiteral("0"));
    m_seed->setObjectName(QStringLiteral("seedEdit"));
    m_seed->setValidator(new QRegularExpressionValidator(QRegularExpression(QStringLiteral("[0-9]{1,19}")), m_seed));
    m_seed->setMaximumWidth(fontMetrics().horizontalAdvance(QStringLiteral("00000000000")));
    m_seed->setToolTip(tr("Both models draw with the same seed: what differs is the models"));
    m_mode->setAccessibleName(tr("How tokens are chosen"));
    for (auto* each : {static_cast<QWidget*>(m_temperature), static_cast<QWidget*>(m_topP), static_cast<QWidget*>(m_topK), static_cast<QWidget*>(m_seed)})
        each->setEnabled(false);
    connect(m_mode, &QComboBox::currentIndexChanged, this, [this](int mode) {
        for (auto* each : {static_cast<QWidget*>(m_temperature), static_cast<QWidget*>(m_topP), static_cast<QWidget*>(m_topK), static_cast<QWidget*>(m_seed)})
            each->setEnabled(mode == 1);
    });
    connect(m_student, &QComboBox::activated, this, [this] {
        if (m_student->currentData() != kOther)
            return;
        const auto folder = QFileDialog::getExistingDirectory(this, tr("A run or an exported folder"), m_session->runsFolder());
        if (folder.isEmpty())
            m_student->setCurrentIndex(0);
        else
            setStudent(folder);
    });
    return arrangeOptions();
}

// One line that is always there, and what is seldom changed below it, folded away.
QWidget* GeneratePage::arrangeOptions() {
    const auto row = [](std::initializer_list<QWidget*> widgets) {
        auto* line = new QHBoxLayout;
        line->setContentsMargins(0, 0, 0, 0);
        for (auto* widget : widgets)
            line->addWidget(widget);
        return line;
    };
    auto* settings = new QWidget;
    settings->setObjectName(QStringLiteral("generateSettings"));
    auto* lines = new QVBoxLayout(settings);
    lines->setContentsMargins(0, 0, 0, 0);
    auto* sampling = row({m_mode, labelFor(tr("tem&perature"), m_temperature), m_temperature, labelFor(tr("top-p"), m_topP), m_topP, labelFor(tr("top-k"), m_topK), m_topK, labelFor(tr("seed"), m_seed), m_seed});
    sampling->addStretch(1);
    lines->addLayout(sampling);
    auto* reading = row({m_chat, labelFor(tr("ground shows"), m_shade), m_shade});
    reading->addStretch(1);
    lines->addLayout(reading);
    m_settings = new QToolButton;
    m_settings->setObjectName(QStringLiteral("generateSettingsButton"));
    m_settings->setText(tr("Settin&gs"));
    m_settings->setToolTip(tr("Sampling, chat template, and what the ground of a token shows"));
    m_settings->setCheckable(true);
    m_settings->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    m_settings->setArrowType(Qt::RightArrow);
    m_settings->setFocusPolicy(Qt::StrongFocus);
    connect(m_settings, &QToolButton::toggled, this, [this, settings](bool open) {
        m_settings->setArrowType(open ? Qt::DownArrow : Qt::RightArrow);
        settings->setVisible(open);
        Settings().setValue(QStringLiteral("generate/settings"), open);
    });
    settings->hide();
    m_settings->setChecked(Settings().value(QStringLiteral("generate/settings"), false).toBool());
    auto* options = new QWidget;
    auto* layout = new QVBoxLayout(options);
    layout->setContentsMargins(0, 0, 0, 0);
    auto* always = row({labelFor(tr("&beside the teacher"), m_student), m_student, labelFor(tr("to&kens"), m_tokens), m_tokens, m_settings, m_judge, m_copy});
    always->setStretchFactor(m_student, 1);
    layout->addLayout(always);
    layout->addWidget(settings);
    return options;
}

// ---- what is chosen -----------------------------------------------------------------------------------------------------------

void GeneratePage::listStudents() {
    const auto chosen = m_student->currentData().toString();
    const auto current = m_session->currentRun();
    const QSignalBlocker quiet(m_student);
    m_student->clear();
    m_student->addItem(!current             ? tr("no run is chosen")
                       : speaksForCurrent() ? tr("chosen run: %1").arg(current->name)
                       : current->report    ? tr("chosen run: %1 (of another teacher)").arg(current->name)
                                            : tr("chosen run: %1 (has no student yet)").arg(current->name),
                       kCurrent);
    for (const auto& run : m_session->runs())
        if (run->report && run != current)
            m_student->addItem(run->name, run->folder);
    if (!chosen.isEmpty() && m_student->findData(chosen) < 0 && !chosen.startsWith(QLatin1Char('@'))) // a folder that a person chose
        m_student->addItem(QFileInfo(chosen).fileName(), chosen);
    m_student->addItem(tr("nothing: the teacher alone"), kNone);
    m_student->addItem(tr("another folder..."), kOther);
    m_student->setCurrentIndex(std::max(0, m_student->findData(chosen)));
    showState();
}

void GeneratePage::setStudent(const QString& folder) {
    if (m_student->findData(folder) < 0)
        m_student->insertItem(1, QFileInfo(folder).fileName(), folder);
    m_student->setCurrentIndex(m_student->findData(folder));
    showState();
}

QString GeneratePage::studentFolder() const {
    const auto data = m_student->currentData().toString();
    if (data != kCurrent)
        return data == kOther || data == kNone ? QString() : data;
    return speaksForCurrent() ? m_session->currentRun()->folder : QString();
}

bool GeneratePage::speaksForCurrent() const {
    const auto current = m_session->currentRun();
    const auto& teacher = m_session->teacher();
    return current && current->report && (!teacher || isRunOf(*current, *teacher));
}

GenerateSettings GeneratePage::settings() const {
    GenerateSettings settings;
    settings.prompt = m_prompt->toPlainText();
    settings.chat = m_chat->isChecked() && m_model->chatTemplate();
    settings.student = studentFolder();
    auto& o = settings.options;
    o.tokens = m_tokens->value();
    o.greedy = m_mode->currentIndex() == 0;
    o.temperature = m_temperature->value();
    o.topP = m_topP->value();
    o.topK = m_topK->value();
    o.seed = m_seed->text().toULongLong();
    return settings;
}

void GeneratePage::fill(const GenerateSettings& settings) {
    m_prompt->setPlainText(settings.prompt);
    m_chat->setChecked(settings.chat);
    const auto& o = settings.options;
    m_tokens->setValue(static_cast<int>(o.tokens));
    m_mode->setCurrentIndex(o.greedy ? 0 : 1);
    m_temperature->setValue(o.temperature);
    m_topP->setValue(o.topP);
    m_topK->setValue(static_cast<int>(o.topK));
    m_seed->setText(QString::number(o.seed));
}

void GeneratePage::listHistory() {
    m_history->clear();
    m_historyAt = -1;
    for (const auto& entry : m_model->history())
        m_history->addAction(GenerateText::elided(entry.prompt), this, [this, entry] { fill(entry); })->setToolTip(entry.prompt);
    m_history->setToolTipsVisible(true);
    m_historyButton->setEnabled(!m_model->history().isEmpty());
    if (m_model->history().isEmpty())
        return;
    m_history->addSeparator();
    m_history->addAction(tr("Forget all"), m_model, &GenerateModel::clearHistory);
}

void GeneratePage::stepHistory(int by) {
    const auto& history = m_model->history();
    if (history.isEmpty())
        return;
    m_historyAt = std::clamp(m_historyAt + by, 0, static_cast<int>(history.size()) - 1);
    fill(history[m_historyAt]);
    m_prompt->moveCursor(QTextCursor::End);
}

bool GeneratePage::eventFilter(QObject* watched, QEvent* event) {
    if (watched == m_prompt && event->type() == QEvent::KeyPress) {
        const auto* key = static_cast<QKeyEvent*>(event);
        const bool control = key->modifiers() & Qt::ControlModifier;
        if (control && (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter))
            return run(), true;
        if (control && (key->key() == Qt::Key_Up || key->key() == Qt::Key_Down))
            return stepHistory(key->key() == Qt::Key_Up ? 1 : -1), true;
    }
    return QWidget::eventFilter(watched, event);
}

void GeneratePage::run() {
    if (m_model->running())
        m_session->stop();
    else if (m_run->isEnabled())
        m_model->start(settings());
}

} // namespace linnet::app
