// The probe dock's rows of tools, and the place that Dear ImGui draws in.
#include "app/panels/probe_panel.h"

#include "app/models/session.h"
#include "widgets/empty_state.h"
#include "widgets/imgui_host.h"

#include <QAction>
#include <QActionGroup>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QStackedWidget>
#include <QToolBar>
#include <QVBoxLayout>

namespace linnet::app {

void ProbePanel::makeHeader() {
    auto* tools = new QToolBar;
    tools->setObjectName(QStringLiteral("probeTools"));
    tools->setIconSize({12, 12});
    makeTools(tools);
    m_text = new QLineEdit;
    m_text->setObjectName(QStringLiteral("probeText"));
    m_text->setAccessibleName(tr("Probe text"));
    m_text->setPlaceholderText(tr("Text to probe with; empty: the start of the recipe's own data"));
    m_text->setClearButtonEnabled(true);
    m_text->setText(m_views->text());
    connect(m_text, &QLineEdit::textEdited, this, [this] { m_textTimer.start(); });
    connect(m_text, &QLineEdit::returnPressed, this, [this] {
        m_textTimer.stop();
        m_views->setText(m_text->text());
    });
    m_run = new QComboBox;
    m_run->setObjectName(QStringLiteral("probeRun"));
    m_run->setAccessibleName(tr("Student to probe"));
    m_run->setToolTip(tr("The student: the start that the recipe gives the head, or the layer that a run has trained"));
    m_run->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    m_run->setMinimumContentsLength(8); // a narrow dock leaves the text its room; a wide one shows "start of the recipe"
    connect(m_run, &QComboBox::activated, this, [this](int index) { m_views->setRun(m_run->itemData(index).toString()); });
    m_note = new QLabel;
    m_note->setObjectName(QStringLiteral("probeNote"));
    m_note->setContentsMargins(4, 0, 2, 0);
    m_note->hide();
    auto* line = new QHBoxLayout;
    line->setContentsMargins(4, 2, 4, 0);
    line->setSpacing(4);
    line->addWidget(m_text, 3);
    line->addWidget(m_run, 1);
    line->addWidget(m_note);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(line);
    layout->addWidget(tools);
}

void ProbePanel::makeTools(QToolBar* tools) {
    const auto add = [&](const QString& name, const QString& title, const QString& tip, bool checkable, bool checked) {
        auto* action = tools->addAction(title);
        action->setObjectName(name);
        action->setToolTip(tip);
        action->setCheckable(checkable);
        action->setChecked(checked);
        tools->widgetForAction(action)->setFocusPolicy(Qt::TabFocus);
        return action;
    };
    auto* pages = new QActionGroup(this);
    m_patternPage = add(QStringLiteral("probePattern"), tr("Pattern"), tr("The head's attention, and its student's"), true, true);
    m_timingsPage = add(QStringLiteral("probeTimings"), tr("Timings"), tr("What the last jobs took on this device"), true, false);
    for (auto* page : {m_patternPage, m_timingsPage})
        pages->addAction(page);
    connect(pages, &QActionGroup::triggered, this, [this] { refresh(), refreshTimings(); });
    tools->addSeparator();
    m_teacher = add(QStringLiteral("probeTeacher"), tr("Teacher"), tr("Softmax attention of the teacher"), true, true);
    m_student = add(QStringLiteral("probeStudent"), tr("Student"), tr("Effective weights of the linear recurrence: what each token takes from each earlier one"), true, true);
    m_difference = add(QStringLiteral("probeDifference"), tr("Difference"), tr("Student less teacher, its rows as shares of their magnitude"), true, false);
    tools->addSeparator();
    m_hide = add(QStringLiteral("probeHide"), tr("Hide first %1").arg(kFirstTokens), tr("Leave out the first tokens, on which many heads rest"), true, false);
    m_log = add(QStringLiteral("probeLog"), tr("Log"), tr("Colours by decades instead of even steps"), true, false);
    tools->addSeparator();
    connect(add(QStringLiteral("probeIn"), QStringLiteral("+"), tr("Zoom in (wheel, +)"), false, false), &QAction::triggered, this, [this] { patternKey(Qt::Key_Plus, false), m_host->redraw(); });
    connect(add(QStringLiteral("probeOut"), QStringLiteral("−"), tr("Zoom out (wheel, −)"), false, false), &QAction::triggered, this, [this] { patternKey(Qt::Key_Minus, false), m_host->redraw(); });
    connect(add(QStringLiteral("probeFit"), tr("Whole"), tr("The whole pattern (double click, 0)"), false, false), &QAction::triggered, this, [this] { patternKey(Qt::Key_0, false), m_host->redraw(); });
    m_pictureTools = tools->actions().mid(3); // after the pages and their separator
    for (auto* each : {m_teacher, m_student, m_difference})
        connect(each, &QAction::toggled, this, &ProbePanel::refreshPatterns);
    connect(m_log, &QAction::toggled, this, &ProbePanel::refreshPatterns);
    connect(m_hide, &QAction::toggled, this, [this](bool on) { m_model.setHiddenColumns(on ? kFirstTokens : 0), refreshPatterns(); });
}

void ProbePanel::makeHost(bool software) {
    m_host = new widgets::ImGuiHost(nullptr, software);
    m_host->setObjectName(QStringLiteral("probeHost"));
    m_host->setAccessibleName(tr("Attention patterns and sliders of the probed head"));
    m_host->setAccessibleDescription(tr("Every slider is also a row of the table of targets"));
    m_host->setContent([this](widgets::ImGuiHost&) { draw(); });
    m_host->setKeyHandler([this](const QKeyEvent& event, bool query) { return key(event, query); });
    m_host->setFocusStep([this](bool next) { return stepFocus(next); });
    m_host->installEventFilter(this);
    connect(m_host, &widgets::ImGuiHost::painterChanged, this, [this] {
        const bool cpu = m_host->painter() == widgets::ImGuiHost::Painter::Software;
        m_note->setText(cpu ? tr("CPU") : QString()); // short: the text beside it needs the room
        m_note->setAccessibleName(cpu ? tr("Drawn on the CPU") : QString());
        m_note->setToolTip(cpu ? tr("Drawn on the CPU, without OpenGL: %1. Nothing is missing; drawing takes longer.").arg(m_host->fallbackReason()) : QString());
        m_note->setVisible(cpu);
    });
    m_empty = new widgets::EmptyState(QStringLiteral("◫"), {}, {});
    m_stack = new QStackedWidget;
    m_stack->addWidget(m_empty);
    m_stack->addWidget(m_host);
    m_stack->setMinimumSize(m_host->minimumSize()); // the docks beside this one need not grow for it
    static_cast<QVBoxLayout*>(layout())->addWidget(m_stack, 1);
}

} // namespace linnet::app
