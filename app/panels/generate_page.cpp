#include "app/panels/generate_page.h"

#include "app/models/session.h"
#include "app/panels/command_menu.h"
#include "app/panels/generate_text.h"
#include "widgets/token_view.h"

#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QFileInfo>
#include <QGuiApplication>
#include <QLabel>
#include <QMenu>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QSplitter>
#include <QToolButton>
#include <QVBoxLayout>
#include <cmath>

namespace linnet::app {
namespace {

enum Shade { None, Kl, TeacherDoubt, StudentDoubt };

} // namespace

GeneratePage::GeneratePage(Session* session, QWidget* parent) : QWidget(parent), m_session(session), m_model(session->generation()) {
    setObjectName(QStringLiteral("generatePage"));
    auto* layout = new QVBoxLayout(this);
    makeReading();
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

void GeneratePage::makeReading() {
    m_judge = new QPushButton(tr("Co&mpare"));
    m_judge->setObjectName(QStringLiteral("judgeButton"));
    m_judge->setToolTip(tr("Let both models score every token of the stopped texts"));
    m_shade = new QComboBox;
    m_shade->setObjectName(QStringLiteral("shadeCombo"));
    m_shade->setAccessibleName(tr("What the ground of a token shows"));
    m_shade->addItems({tr("no shade"), tr("shade: KL"), tr("shade: teacher's doubt"), tr("shade: student's doubt")});
    m_shade->setToolTip(tr("KL(teacher || student) there, full at 1 nat; doubt: one less the probability that the model gives the token"));
    m_copy = new QToolButton;
    m_copy->setObjectName(QStringLiteral("copyButton"));
    m_copy->setText(tr("Copy"));
    m_copy->setPopupMode(QToolButton::InstantPopup);
    m_copyMenu = new QMenu(m_copy);
    m_copyMenu->setToolTipsVisible(true);
    m_copy->setMenu(m_copyMenu);
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
    connect(m_judge, &QPushButton::clicked, this, [this] {
        if (m_shade->currentIndex() == None)
            m_shade->setCurrentIndex(Kl); // else nothing would be seen of it
        m_model->score();
    });
    connect(m_shade, &QComboBox::currentIndexChanged, this, &GeneratePage::shade);
}

QWidget* GeneratePage::makeSides() {
    m_parting = new QLabel;
    m_parting->setObjectName(QStringLiteral("partingLabel"));
    m_parting->setWordWrap(true);
    m_toParting = new QPushButton(tr("Sho&w"));
    m_toParting->setObjectName(QStringLiteral("toPartingButton"));
    m_toParting->setToolTip(tr("Scroll to the first token that differs"));
    auto* head = new QHBoxLayout;
    head->addWidget(m_parting, 1);
    head->addWidget(m_toParting);
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
    connect(m_toParting, &QPushButton::clicked, this, [this] {
        if (const auto parting = m_model->parting())
            for (auto* view : m_views)
                view->scrollToToken(*parting);
    });
    return box;
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
    m_parting->setVisible(!m_parting->text().isEmpty());
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
