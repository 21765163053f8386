#include "app/panels/probe_panel.h"

#include "app/guarded.h"
#include "app/models/session.h"
#include "app/panels/probe_dock.h"
#include "widgets/empty_state.h"
#include "widgets/imgui_host.h"

#include <QAction>
#include <QComboBox>
#include <QDockWidget>
#include <QLineEdit>
#include <QMainWindow>
#include <QStackedWidget>

namespace linnet::app {
namespace {

constexpr int kTypingMs = 400, kKeyMs = 600;
constexpr int kLeastHeight = 250; // logical pixels

QString text(const std::string& utf8) {
    return QString::fromStdString(utf8);
}

} // namespace

ProbePanel::ProbePanel(Session* session, QWidget* parent, bool software)
    : ExportWidget(parent), m_session(session), m_views(session->headViews()), m_model(session->recipe(), session->headViews()), m_colors(widgets::PlotColors::fromPalette(palette())) {
    setObjectName(QStringLiteral("probePanel"));
    setAccessibleName(tr("Attention patterns"));
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
    m_host->redraw();
    if (!m_device.isEmpty())
        return;
    m_device = {tr("asking the device...")};
    inBackground([panel = QPointer(this), device = m_session->teacher() ? QString::fromStdString(m_session->teacher()->device) : QString()] {
        auto facts = deviceFacts(device);
        QMetaObject::invokeMethod(QCoreApplication::instance(), [panel, facts = std::move(facts)] {
            if (!panel)
                return;
            panel->m_device = facts;
            panel->m_host->redraw();
        });
    });
}

QWidget* makeProbePanel(Session* session) {
    return new ProbePanel(session);
}

} // namespace linnet::app
