#include "app/panels/probe_panel.h"

#include "app/models/session.h"
#include "app/panels/probe_dock.h"
#include "app/panels/probe_timings.h"
#include "widgets/decay_view.h"
#include "widgets/empty_state.h"
#include "widgets/imgui_host.h"

#include <QAction>
#include <QActionGroup>
#include <QComboBox>
#include <QDockWidget>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMainWindow>
#include <QStackedWidget>
#include <QToolBar>
#include <QVBoxLayout>
#include <cmath>

namespace linnet::app {
namespace {

constexpr int kTypingMs = 400, kKeyMs = 600;
constexpr int kLeastHeight = 220; // logical pixels
constexpr float kNarrow = 420, kHistogram = 120; // logical pixels

QString text(const std::string& utf8) {
    return QString::fromStdString(utf8);
}

} // namespace

ProbePanel::ProbePanel(Session* session, QWidget* parent, bool software)
    : QWidget(parent), m_session(session), m_views(session->headViews()), m_model(session->recipe(), session->headViews()), m_colors(widgets::PlotColors::fromPalette(palette())) {
    setObjectName(QStringLiteral("probePanel"));
    makeHeader();
    makeHost(software);
    m_textTimer.setSingleShot(true);
    m_textTimer.setInterval(kTypingMs);
    connect(&m_textTimer, &QTimer::timeout, this, [this] { m_views->setText(m_text->text()); });
    m_releaseTimer.setSingleShot(true);
    m_releaseTimer.setInterval(kKeyMs);
    connect(&m_releaseTimer, &QTimer::timeout, &m_model, &ProbeModel::release);
    connect(&m_model, &ProbeModel::changed, this, &ProbePanel::refresh);
    connect(&m_model, &ProbeModel::patternsChanged, this, &ProbePanel::refreshPatterns);
    connect(session, &Session::teacherChanged, this, [this] {
        m_device.clear();
        refresh();
    });
    connect(session, &Session::runsChanged, this, &ProbePanel::refreshRuns);
    for (const auto signal : {&Session::runsChanged, &Session::evaluationChanged, &Session::jobChanged})
        connect(session, signal, this, &ProbePanel::refreshTimings);
    refreshRuns();
    refresh();
}

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
    m_run->setMinimumContentsLength(16);
    connect(m_run, &QComboBox::activated, this, [this](int index) { m_views->setRun(m_run->itemData(index).toString()); });
    m_note = new QLabel;
    m_note->setObjectName(QStringLiteral("probeNote"));
    m_note->setContentsMargins(4, 0, 2, 0);
    m_note->hide();
    auto* line = new QHBoxLayout;
    line->setContentsMargins(4, 2, 4, 0);
    line->addWidget(m_text, 1);
    line->addWidget(m_run);
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
        m_note->setText(cpu ? tr("drawn on the CPU") : QString());
        m_note->setToolTip(cpu ? tr("Without OpenGL: %1. Nothing is missing; drawing takes longer.").arg(m_host->fallbackReason()) : QString());
        m_note->setVisible(cpu);
    });
    m_empty = new widgets::EmptyState(QStringLiteral("◫"), {}, {});
    m_stack = new QStackedWidget;
    m_stack->addWidget(m_empty);
    m_stack->addWidget(m_host);
    m_stack->setMinimumSize(m_host->minimumSize()); // the docks beside this one need not grow for it
    static_cast<QVBoxLayout*>(layout())->addWidget(m_stack, 1);
}

// ---- state ------------------------------------------------------------------------------------------------------------------

void ProbePanel::setPage(Page page) {
    (page == Pattern ? m_patternPage : m_timingsPage)->trigger();
}

// A dock behind another tab counts as visible to Qt, somewhere off the screen; only its signal tells.
bool ProbePanel::event(QEvent* event) {
    if (auto* dock = qobject_cast<QDockWidget*>(parentWidget()); dock && event->type() == QEvent::ParentChange)
        connect(dock, &QDockWidget::visibilityChanged, this, &ProbePanel::setSeen);
    return QWidget::event(event);
}

void ProbePanel::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    if (!qobject_cast<QDockWidget*>(parentWidget()))
        setSeen(true);
}

void ProbePanel::hideEvent(QHideEvent* event) {
    QWidget::hideEvent(event);
    setSeen(false);
}

void ProbePanel::setSeen(bool seen) {
    if (m_seen == seen || !m_views) // the latter: the window ends, and the session went first
        return;
    m_seen = seen;
    if (!seen)
        m_model.release();
    m_views->want(this, seen ? HeadViewModel::View : 0);
    refresh();
    refreshTimings();
    if (seen)
        QTimer::singleShot(0, this, &ProbePanel::makeRoom);
}

void ProbePanel::makeRoom() { // the dock lies among docks of a few lines: a picture needs more
    auto* dock = qobject_cast<QDockWidget*>(parentWidget());
    auto* window = dock ? qobject_cast<QMainWindow*>(dock->parentWidget()) : nullptr;
    if (window && !dock->isFloating() && m_seen && height() < kLeastHeight)
        window->resizeDocks({dock}, {std::min(sizeHint().height(), window->height() / 2)}, Qt::Vertical);
}

void ProbePanel::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        m_colors = widgets::PlotColors::fromPalette(palette());
}

QString ProbePanel::emptyTitle() const {
    if (m_timingsPage->isChecked())
        return {};
    if (!m_session->teacher())
        return tr("No model is open");
    if (!m_session->selection()->primary().valid())
        return tr("No head selected");
    const HeadViewModel* views = m_views;
    return views->state() == HeadViewModel::State::Failed && !views->view() ? tr("This head can't be probed") : QString();
}

void ProbePanel::refresh() {
    const HeadViewModel* views = m_views;
    const auto title = emptyTitle();
    if (!title.isEmpty()) {
        const bool failed = views->state() == HeadViewModel::State::Failed;
        m_empty->setContent(QStringLiteral("◫"), title,
                            !m_session->teacher() ? tr("Open a teacher: its heads can then be looked at one by one.")
                            : failed              ? views->stateText()
                                                  : tr("Click a cell of a heat map: its attention on a text is drawn here, and the student's beside it."));
    }
    m_stack->setCurrentIndex(title.isEmpty() && m_seen ? 1 : 0); // unseen: no OpenGL context yet either
    if (!m_text->hasFocus() && m_text->text() != views->text())
        m_text->setText(views->text());
    if (const int index = m_run->findData(views->run()); index >= 0 && index != m_run->currentIndex())
        m_run->setCurrentIndex(index);
    if (views->view() != m_tokensOf) {
        m_tokensOf = views->view();
        QStringList tokens;
        for (std::size_t t = 0; m_tokensOf && t < m_tokensOf->tokens.size(); ++t)
            tokens << text(m_tokensOf->tokens[t]);
        m_host->addCharacters(tokens.join(QString()));
        m_view.setTokens(tokens);
        refreshPatterns();
    }
    for (auto* each : m_pictureTools)
        each->setEnabled(m_patternPage->isChecked());
    m_host->redraw();
}

void ProbePanel::refreshPatterns() {
    m_shown.clear();
    using widgets::ColorMap;
    const bool any = m_model.view() != nullptr;
    if (any && m_teacher->isChecked())
        m_shown.push_back({tr("teacher"), m_model.teacher(), ColorMap::Viridis, m_model.teacherRange()});
    if (any && m_student->isChecked())
        m_shown.push_back({tr("student"), m_model.student(), ColorMap::BlueOrange, m_model.studentRange()});
    if (any && m_difference->isChecked())
        m_shown.push_back({tr("student's shares − teacher"), m_model.difference(), ColorMap::BlueOrange, m_model.differenceRange()});
    m_view.setPatterns(m_shown);
    m_view.setHiddenColumns(m_model.hiddenColumns());
    m_view.setLog(m_log->isChecked());
    m_host->redraw();
}

void ProbePanel::refreshRuns() {
    const auto chosen = m_views->run();
    m_run->clear();
    m_run->addItem(tr("start of the recipe"), QString());
    for (const auto& run : m_session->runs())
        if (run->hasBegun() && (run == m_session->currentRun() || run->folder == chosen || run->report))
            m_run->addItem(run->name, run->folder);
    m_run->setCurrentIndex(std::max(0, m_run->findData(chosen)));
}

void ProbePanel::refreshTimings() {
    if (!m_timingsPage->isChecked() || !m_seen)
        return;
    m_tables = jobTimings(*m_session);
    if (m_device.isEmpty())
        m_device = deviceFacts(m_session->teacher() ? QString::fromStdString(m_session->teacher()->device) : QStringLiteral("cpu"));
    m_host->redraw();
}

// ---- drawing ----------------------------------------------------------------------------------------------------------------

void ProbePanel::draw() {
    if (m_patternPage->isChecked())
        return drawPattern();
    auto facts = m_device;
    facts << tr("probe: pattern %1 ms, frame %2 ms, drawn by %3")
                 .arg(m_model.patternMs() > 0 ? QString::number(m_model.patternMs(), 'f', 1) : QStringLiteral("–"))
                 .arg(m_host->lastFrameMs(), 0, 'f', 1)
                 .arg(m_host->rendererName());
    drawTimings(facts, m_tables);
}

QString ProbePanel::subject() const {
    const auto head = m_views->head();
    const auto state = m_views->stateText();
    const auto what = tr("layer %1, head %2").arg(head.layer).arg(head.head);
    return state.isEmpty() ? what : what + QStringLiteral(" · ") + state;
}

QString ProbePanel::extent() const {
    const auto* view = m_model.view();
    return view->textTokens > view->length ? tr("first %1 of %2 tokens").arg(view->length).arg(view->textTokens) : tr("%1 tokens").arg(view->length);
}

void ProbePanel::drawPattern() {
    const ImVec2 space = ImGui::GetContentRegionAvail(), at = ImGui::GetCursorScreenPos();
    if (!m_model.view()) {
        ImGui::TextUnformatted(subject().toUtf8().constData());
        return;
    }
    const float line = ImGui::GetTextLineHeightWithSpacing();
    const float readout = line * static_cast<float>(std::max<std::size_t>(1, m_shown.size())) + 4;
    const float height = space.y - readout, sliders = m_sliders.height();
    const bool beside = space.x >= kNarrow || height < sliders + kHistogram + 150;
    const bool focused = m_host->hasFocus() && m_focus == 0;
    if (beside) {
        const float aside = std::clamp(space.x * 0.3F, 170.F, 300.F);
        m_view.draw(*m_host, {space.x - aside - 12, height}, m_colors, focused);
        drawAside({at.x + space.x - aside, at.y}, {aside, height});
    } else {
        const float below = sliders + kHistogram + 2 * line;
        m_view.draw(*m_host, {space.x, height - below}, m_colors, focused);
        drawAside({at.x, at.y + height - below}, {space.x, below});
    }
    ImGui::SetCursorScreenPos({at.x, at.y + height + 2});
    drawReadout(line, space.x);
}

void ProbePanel::drawAside(ImVec2 at, ImVec2 size) {
    const float line = ImGui::GetTextLineHeightWithSpacing();
    ImGui::SetCursorScreenPos(at);
    ImGui::PushClipRect(at, {at.x + size.x, at.y + size.y}, true);
    const auto what = subject().toUtf8(), length = extent().toUtf8();
    const float indent = ImGui::CalcTextSize(what.constData()).x + 10;
    const bool together = indent + ImGui::CalcTextSize(length.constData()).x <= size.x;
    const float head = together ? line : 2 * line;
    ImGui::TextUnformatted(what.constData());
    ImGui::GetWindowDrawList()->AddText({at.x + (together ? indent : 0), at.y + head - line}, ImGui::GetColorU32(ImGuiCol_TextDisabled), length.constData());
    const float sliders = m_sliders.height(), histogram = size.y - sliders - head - 12;
    if (histogram > 50) {
        ImGui::SetCursorScreenPos({at.x, at.y + head});
        widgets::drawDecay({m_model.view()->distanceEdges, m_model.view()->distanceMass, m_model.value(TargetField::HalfLife)}, {size.x, histogram}, m_colors);
    }
    ImGui::PopClipRect();
    const float top = std::max(at.y + line, at.y + size.y - sliders - 2);
    ImGui::SetCursorScreenPos({at.x, top});
    m_sliderArea = QRectF(double(at.x), double(top), double(size.x), double(sliders));
    ImGui::BeginGroup(); // so that each starts below the other, not at the window's edge
    m_sliders.draw(size.x, m_colors, m_host->hasFocus() ? m_focus - 1 : -1);
    ImGui::EndGroup();
}

void ProbePanel::drawReadout(float lineHeight, float width) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    auto* list = ImGui::GetWindowDrawList();
    list->PushClipRect(at, {at.x + width, at.y + lineHeight * 4}, true);
    const auto say = [&](int line, const QString& what, bool dim) {
        list->AddText({at.x, at.y + lineHeight * static_cast<float>(line)}, ImGui::GetColorU32(dim ? ImGuiCol_TextDisabled : ImGuiCol_Text), what.toUtf8().constData());
    };
    if (m_model.dragging())
        say(0, tr("preview: letting go (Enter) makes it one edit of the recipe, Esc takes it back"), true);
    else if (m_view.row() < 0)
        say(0, tr("Point at a row for its top sources; wheel zooms, drag moves. Right click on a slider: automatic again."), true);
    else
        for (std::size_t i = 0; i < m_shown.size(); ++i)
            say(static_cast<int>(i), m_view.rowText(m_shown[i]), false);
    list->PopClipRect();
}

// ---- keyboard ---------------------------------------------------------------------------------------------------------------

bool ProbePanel::stepFocus(bool next) {
    const int to = m_focus + (next ? 1 : -1);
    if (!m_patternPage->isChecked() || !m_model.view() || to < 0 || to > static_cast<int>(kTargetFields.size()))
        return false;
    m_model.release();
    m_focus = to;
    return true;
}

bool ProbePanel::eventFilter(QObject* watched, QEvent* event) {
    if (watched == m_host && event->type() == QEvent::FocusIn) {
        const auto reason = static_cast<QFocusEvent*>(event)->reason();
        if (reason == Qt::TabFocusReason || reason == Qt::BacktabFocusReason)
            m_focus = reason == Qt::TabFocusReason ? 0 : static_cast<int>(kTargetFields.size());
    }
    if (watched == m_host && event->type() == QEvent::FocusOut && m_views && m_releaseTimer.isActive()) { // steps by key end here
        m_releaseTimer.stop();
        m_model.release();
    }
    return QWidget::eventFilter(watched, event);
}

bool ProbePanel::key(const QKeyEvent& event, bool query) {
    if (!m_patternPage->isChecked() || !m_model.view() || (event.modifiers() & (Qt::ControlModifier | Qt::AltModifier)))
        return false;
    if (event.key() == Qt::Key_Escape) {
        const bool ours = m_model.dragging() || (m_focus == 0 && m_view.row() >= 0);
        if (query || !ours)
            return ours;
        m_releaseTimer.stop();
        if (m_model.dragging())
            m_sliders.escape();
        else
            m_view.clearRow();
        return true;
    }
    if (m_focus == 0)
        return patternKey(event.key(), query);
    if (event.key() == Qt::Key_Return || event.key() == Qt::Key_Enter) {
        if (!query)
            m_releaseTimer.stop(), m_model.release();
        return true;
    }
    const bool ours = m_sliders.step(kTargetFields[static_cast<std::size_t>(m_focus - 1)], event.key(), query);
    if (ours && !query && m_model.dragging())
        m_releaseTimer.start();
    return ours;
}

bool ProbePanel::patternKey(int key, bool query) {
    const auto act = [&](auto&& what) {
        if (!query)
            what();
        return true;
    };
    const double step = m_view.window().span / 8;
    switch (key) {
    case Qt::Key_Up: return act([&] { m_view.moveRow(-1); });
    case Qt::Key_Down: return act([&] { m_view.moveRow(1); });
    case Qt::Key_PageUp: return act([&] { m_view.moveRow(-16); });
    case Qt::Key_PageDown: return act([&] { m_view.moveRow(16); });
    case Qt::Key_Left: return act([&] { m_view.pan(-step, 0); });
    case Qt::Key_Right: return act([&] { m_view.pan(step, 0); });
    case Qt::Key_Plus:
    case Qt::Key_Equal: return act([&] { m_view.zoom(1.5); });
    case Qt::Key_Minus: return act([&] { m_view.zoom(1 / 1.5); });
    case Qt::Key_0:
    case Qt::Key_Home: return act([&] { m_view.fit(); });
    default: return false;
    }
}

QWidget* makeProbePanel(Session* session) {
    return new ProbePanel(session);
}

} // namespace linnet::app
