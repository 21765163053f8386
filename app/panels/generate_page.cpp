#include "app/panels/generate_page.h"

#include "app/models/session.h"
#include "app/panels/command_menu.h"
#include "app/panels/generate_text.h"
#include "widgets/token_view.h"

#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QGridLayout>
#include <QGuiApplication>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpressionValidator>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QSplitter>
#include <QToolButton>
#include <QVBoxLayout>
#include <cmath>

namespace linnet::app {
namespace {

const QString kCurrent = QStringLiteral("@current"), kOther = QStringLiteral("@other"), kNone = QStringLiteral("@none");
enum Shade { None, Kl, TeacherDoubt, StudentDoubt };

QLabel* labelFor(const QString& text, QWidget* buddy) {
    auto* label = new QLabel(text);
    label->setBuddy(buddy);
    return label;
}

} // namespace

GeneratePage::GeneratePage(Session* session, QWidget* parent) : QWidget(parent), m_session(session), m_model(session->generation()) {
    setObjectName(QStringLiteral("generatePage"));
    auto* layout = new QVBoxLayout(this);
    layout->addWidget(makeForm());
    layout->addWidget(makeOptions());
    layout->addWidget(makeSides(), 1);
    connect(session, &Session::runsChanged, this, &GeneratePage::listStudents);
    connect(session, &Session::jobChanged, this, &GeneratePage::showState);
    connect(m_model, &GenerateModel::teacherChanged, this, &GeneratePage::listStudents);
    connect(m_model, &GenerateModel::begun, this, &GeneratePage::restart);
    connect(m_model, &GenerateModel::spoke, this, &GeneratePage::append);
    connect(m_model, &GenerateModel::judged, this, &GeneratePage::shade);
    connect(m_model, &GenerateModel::stateChanged, this, &GeneratePage::showState);
    connect(m_model, &GenerateModel::historyChanged, this, &GeneratePage::listHistory);
    listStudents();
    listHistory();
    restart();
    showState();
}

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
    m_student->setMinimumContentsLength(14);
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
    auto* options = new QWidget;
    auto* grid = new QGridLayout(options);
    grid->setContentsMargins(0, 0, 0, 0);
    const auto row = [&](int at, std::initializer_list<QWidget*> widgets, int stretched) {
        auto* line = new QHBoxLayout;
        int i = 0;
        for (auto* widget : widgets)
            line->addWidget(widget, i++ == stretched ? 1 : 0);
        if (stretched < 0)
            line->addStretch(1);
        grid->addLayout(line, at, 0);
    };
    row(0, {labelFor(tr("&beside the teacher"), m_student), m_student, m_chat, labelFor(tr("to&kens"), m_tokens), m_tokens}, 1);
    row(1, {m_mode, labelFor(tr("tem&perature"), m_temperature), m_temperature, labelFor(tr("top-p"), m_topP), m_topP, labelFor(tr("top-k"), m_topK), m_topK,
            labelFor(tr("seed"), m_seed), m_seed}, -1);
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
    return options;
}

QWidget* GeneratePage::makeSides() {
    m_parting = new QLabel;
    m_parting->setObjectName(QStringLiteral("partingLabel"));
    m_parting->setWordWrap(true);
    m_toParting = new QPushButton(tr("Sho&w"));
    m_toParting->setObjectName(QStringLiteral("toPartingButton"));
    m_toParting->setToolTip(tr("Scroll to the first token that differs"));
    m_judge = new QPushButton(tr("Co&mpare"));
    m_judge->setObjectName(QStringLiteral("judgeButton"));
    m_judge->setToolTip(tr("Let both models score every token of the stopped texts"));
    m_shade = new QComboBox;
    m_shade->setObjectName(QStringLiteral("shadeCombo"));
    m_shade->setAccessibleName(tr("What the ground of a token shows"));
    m_shade->addItems({tr("no shade"), tr("shade: KL"), tr("shade: teacher's doubt"), tr("shade: student's doubt")});
    m_shade->setToolTip(tr("KL(teacher || student) there, full at 1 nat; doubt: one less the probability that the model gives the token"));
    auto* copy = new QToolButton;
    copy->setObjectName(QStringLiteral("copyButton"));
    copy->setText(tr("Copy"));
    copy->setPopupMode(QToolButton::InstantPopup);
    m_copyMenu = new QMenu(copy);
    m_copyMenu->setToolTipsVisible(true);
    copy->setMenu(m_copyMenu);
    connect(m_copyMenu, &QMenu::aboutToShow, this, [this] {
        m_copyMenu->clear();
        for (const std::size_t side : {kTeacher, kStudent})
            m_copyMenu->addAction(side == kTeacher ? tr("Teacher's text") : tr("Student's text"), this, [this, side] {
                this->copy(m_model->settings().prompt + m_model->side(side).text(), side == kTeacher ? tr("Copied the teacher's text") : tr("Copied the student's text"));
            })->setEnabled(!m_model->side(side).tokens.empty());
        m_copyMenu->addAction(tr("Tokens as a table"), this, [this] { this->copy(GenerateText::table(*m_model), tr("Copied a table of all tokens")); })
            ->setEnabled(!m_model->side(kTeacher).tokens.empty());
        m_copyMenu->addSeparator();
        CommandMenu::addTo(m_copyMenu, m_session, tr("Copy as &command"), [this] { return Commands::generate(*m_session, settings()); });
    });
    auto* head = new QHBoxLayout;
    head->addWidget(m_parting, 1);
    for (auto* widget : {static_cast<QWidget*>(m_toParting), static_cast<QWidget*>(m_judge), static_cast<QWidget*>(m_shade), static_cast<QWidget*>(copy)})
        head->addWidget(widget);
    auto* splitter = new QSplitter;
    splitter->setChildrenCollapsible(false);
    for (const int side : {0, 1}) {
        m_titles[std::size_t(side)] = new QLabel;
        m_titles[std::size_t(side)]->setWordWrap(true);
        m_titles[std::size_t(side)]->setObjectName(side == 0 ? QStringLiteral("teacherTitle") : QStringLiteral("studentTitle"));
        auto* view = m_views[std::size_t(side)] = new widgets::TokenView;
        view->setObjectName(side == 0 ? QStringLiteral("teacherView") : QStringLiteral("studentView"));
        view->setAccessibleName(side == 0 ? tr("The teacher's text") : tr("The student's text"));
        view->setToolTipText([this, side](int token) { return details(side, token, true); });
        auto* pane = m_panes[std::size_t(side)] = new QWidget;
        auto* column = new QVBoxLayout(pane);
        column->setContentsMargins(0, 0, 0, 0);
        column->addWidget(m_titles[std::size_t(side)]);
        column->addWidget(view, 1);
        splitter->addWidget(pane);
        connect(view, &widgets::TokenView::tokenPointed, this, [this, side](int token) { point(side, token); });
        connect(view->verticalScrollBar(), &QScrollBar::valueChanged, this, [this, side](int value) { // both texts scroll together
            if (m_scrolling)
                return;
            m_scrolling = true;
            m_views[std::size_t(1 - side)]->verticalScrollBar()->setValue(value);
            m_scrolling = false;
        });
    }
    m_details = new QLabel;
    m_details->setObjectName(QStringLiteral("tokenDetails"));
    m_details->setWordWrap(true);
    m_details->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    m_details->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_details->setMinimumHeight(3 * fontMetrics().lineSpacing() + 2); // one height whatever it says: nothing jumps
    auto* box = new QWidget;
    auto* layout = new QVBoxLayout(box);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addLayout(head);
    layout->addWidget(splitter, 1);
    layout->addWidget(m_details);
    connect(m_judge, &QPushButton::clicked, m_model, &GenerateModel::score);
    connect(m_shade, &QComboBox::currentIndexChanged, this, &GeneratePage::shade);
    connect(m_toParting, &QPushButton::clicked, this, [this] {
        if (const auto parting = m_model->parting())
            for (auto* view : m_views)
                view->scrollToToken(*parting);
    });
    return box;
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
    return current && current->report && (!teacher || !current->recipe || current->recipe->teacherHash == teacher->hash);
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

// ---- what is said -------------------------------------------------------------------------------------------------------------

void GeneratePage::restart() {
    m_shown = {};
    m_pointed = {-1, -1};
    for (const std::size_t side : {kTeacher, kStudent})
        m_views[side]->begin(m_model->side(side).state == SideState::Empty ? QString() : m_model->settings().prompt + (m_model->settings().chat ? QStringLiteral("\n\n") : QString()));
    m_panes[kStudent]->setVisible(m_model->hasStudent() || m_model->side(kTeacher).state == SideState::Empty);
    m_details->setText(tr("Point at a token, or move the caret to it: what both models think of it stands here."));
    for (const int side : {0, 1})
        append(side);
}

void GeneratePage::append(int side) {
    const auto at = static_cast<std::size_t>(side);
    const auto& tokens = m_model->side(at).tokens;
    QStringList texts;
    for (auto i = static_cast<std::size_t>(m_shown[at]); i < tokens.size(); ++i)
        texts << (tokens[i].end ? QStringLiteral(" ⏹") : tokens[i].text); // the end is a token too: it can be pointed at
    m_shown[at] = static_cast<int>(tokens.size());
    if (!texts.isEmpty())
        m_views[at]->append(texts);
    for (auto* view : m_views) {
        const auto parting = m_model->parting();
        view->setMark(parting);
    }
}

void GeneratePage::shade() {
    const int by = m_shade->currentIndex();
    for (const std::size_t side : {kTeacher, kStudent}) {
        std::vector<double> shades;
        for (const auto& token : m_model->side(side).tokens)
            shades.push_back(!token.score || by == None ? std::nan("") : by == Kl ? token.score->kl : 1 - (by == TeacherDoubt ? token.score->teacher : token.score->student));
        m_views[side]->setShades(by == None ? std::vector<double>{} : shades);
    }
    if (m_pointed[1] >= 0)
        point(m_pointed[0], m_pointed[1]);
}

void GeneratePage::point(int side, int token) {
    m_pointed = {side, token};
    const auto parting = m_model->parting();
    for (const int each : {0, 1}) // the same token on the other side while both say the same
        m_views[std::size_t(each)]->setPointed(each == side || !parting || token <= *parting ? std::optional(token) : std::nullopt);
    m_details->setText(details(side, token, false));
}

QString GeneratePage::details(int side, int token, bool rich) const {
    return GenerateText::token(*m_model, static_cast<std::size_t>(side), static_cast<std::size_t>(token), rich);
}

QString GeneratePage::sideTitle(int side) const {
    const auto& teacher = m_session->teacher();
    QString name = side == 0 ? (teacher ? QFileInfo(QString::fromStdString(teacher->path.string())).fileName() : QString())
                             : QFileInfo(m_model->hasStudent() ? m_model->settings().student : studentFolder()).fileName();
    if (side == 1)
        for (const auto& run : m_session->runs())
            if (run->folder == m_model->settings().student)
                name = run->name;
    const auto who = side == 0 ? tr("Teacher") : tr("Student");
    const auto heading = QStringLiteral("<b>%1</b> %2").arg(who, name.toHtmlEscaped());
    const auto state = GenerateText::side(m_model->side(static_cast<std::size_t>(side)));
    return state.isEmpty() ? heading : heading + QStringLiteral("<br>") + state;
}

void GeneratePage::showState() {
    const bool idle = m_session->jobState() == JobState::Idle, running = m_model->running(), stopping = m_session->jobState() == JobState::Stopping;
    m_run->setText(running ? (stopping ? tr("Stopping...") : tr("&Stop")) : tr("&Generate"));
    const auto refusal = !m_session->teacher()                       ? tr("Open a teacher first")
                         : !idle                                     ? tr("Another job is running")
                         : m_prompt->toPlainText().isEmpty()         ? tr("The prompt is empty")
                                                                     : QString();
    m_run->setEnabled(running ? !stopping : refusal.isEmpty());
    m_run->setToolTip(running ? tr("Stop at once; what was said stays") : refusal);
    m_chat->setEnabled(m_model->chatTemplate());
    m_chat->setToolTip(m_model->chatTemplate() ? tr("The prompt as a user's message, by the tokenizer's own template") : tr("This tokenizer has no chat template"));
    m_judge->setVisible(m_model->canScore());
    m_judge->setEnabled(idle);
    const auto parting = m_model->parting();
    m_toParting->setVisible(parting.has_value());
    m_parting->setText(GenerateText::parting(*m_model));
    for (const int side : {0, 1})
        m_titles[std::size_t(side)]->setText(sideTitle(side));
    m_views[kTeacher]->setPlaceholderText(m_session->teacher() ? tr("The teacher's text appears here.") : tr("Open a teacher: its text appears here."));
    m_views[kStudent]->setPlaceholderText(!studentFolder().isEmpty() ? tr("The student's text appears here.")
                                                                     : tr("No student yet: run a conversion, or choose a run or an exported folder above."));
}

void GeneratePage::copy(const QString& text, const QString& what) {
    QGuiApplication::clipboard()->setText(text);
    Q_EMIT m_session->notice(what);
}

} // namespace linnet::app
