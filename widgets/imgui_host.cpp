#include "widgets/imgui_host.h"

#include "widgets/imgui_surface.h"

#include <QGuiApplication>
#include <QKeyEvent>
#include <QOffscreenSurface>
#include <QOpenGLContext>
#include <QTimer>

namespace linnet::widgets {

bool ImGuiHost::platformHasOpenGl() {
    static const bool has = [] {
        // Qt 6.4 crashes when it shows an OpenGL widget on platforms that can't compose one, though they give out contexts.
        static const QStringList without{QStringLiteral("offscreen"), QStringLiteral("minimal"), QStringLiteral("linuxfb"), QStringLiteral("vnc")};
        if (without.contains(QGuiApplication::platformName()))
            return false;
        QOpenGLContext context;
        if (!context.create())
            return false;
        QOffscreenSurface surface;
        surface.setFormat(context.format());
        surface.create();
        if (!surface.isValid() || !context.makeCurrent(&surface))
            return false;
        const bool recent = context.format().version() >= qMakePair(3, 0);
        context.doneCurrent();
        return recent;
    }();
    return has;
}

ImGuiHost::ImGuiHost(QWidget* parent, bool software)
    : QWidget(parent), m_canvas(std::make_unique<ImGuiCanvas>()), m_software(software || qEnvironmentVariable("LINNET_OPENGL") == QLatin1String("0")) {
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setAttribute(Qt::WA_InputMethodEnabled);
    setMinimumSize(120, 60);
    restyle();
}

ImGuiHost::~ImGuiHost() {
    m_surface.reset(); // before the canvas that it draws
}

void ImGuiHost::setContent(std::function<void(ImGuiHost&)> draw) {
    m_canvas->setContent([this, draw = std::move(draw)] { draw(*this); });
    redraw();
}

void ImGuiHost::addCharacters(const QString& text) {
    m_canvas->addCharacters(text);
}

void ImGuiHost::setImage(int id, const QImage& image) {
    m_canvas->setImage(id, image);
}

void* ImGuiHost::texture(int id) const {
    return m_canvas->texture(id);
}

bool ImGuiHost::itemActive() const {
    return m_canvas->itemActive();
}

QString ImGuiHost::rendererName() const {
    return m_surface ? m_surface->rendererName() : QString();
}

// ---- the surface ------------------------------------------------------------------------------------------------------------

void ImGuiHost::makeSurface(bool openGl) {
    ImGuiSurface::Events events{[this](double ms) { frameDone(ms); }, [this](const QString& reason) { useSoftware(reason); }};
    m_surface.reset();
    m_surface = openGl ? makeOpenGlSurface(*m_canvas, std::move(events), this) : makeSoftwareSurface(*m_canvas, std::move(events), this);
    m_painter = openGl ? Painter::OpenGl : Painter::Software;
    auto& widget = m_surface->widget();
    widget.setAttribute(Qt::WA_TransparentForMouseEvents); // the host has the input, whatever draws
    widget.setFocusPolicy(Qt::NoFocus);
    widget.setGeometry(rect());
    widget.show();
    Q_EMIT painterChanged();
    redraw();
}

void ImGuiHost::useSoftware(const QString& reason) {
    m_software = true;
    m_reason = reason;
    makeSurface(false);
}

void ImGuiHost::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    if (m_surface)
        return redraw();
    if (!m_software && platformHasOpenGl())
        return makeSurface(true);
    m_reason = m_software ? tr("OpenGL is switched off (LINNET_OPENGL=0)") : tr("this display has no OpenGL 3");
    makeSurface(false);
}

void ImGuiHost::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    if (m_surface)
        m_surface->widget().setGeometry(rect());
    redraw();
}

void ImGuiHost::restyle() {
    m_canvas->setStyle(palette(), font());
    redraw();
}

void ImGuiHost::redraw() {
    m_owed = std::max(m_owed, 1);
    if (m_surface)
        m_surface->widget().update();
}

void ImGuiHost::changed() {
    m_owed = 2;
    redraw();
}

void ImGuiHost::frameDone(double ms) {
    ++m_frames;
    m_lastMs = ms;
    m_owed = std::max(0, m_owed - 1);
    if (const auto thrown = m_canvas->takeThrown()) // not through the painting: as an event of its own, which the application guards
        QMetaObject::invokeMethod(this, [thrown] { std::rethrow_exception(thrown); }, Qt::QueuedConnection);
    if (const auto shape = m_canvas->cursor(); cursor().shape() != shape)
        setCursor(shape);
    if (m_canvas->hasInput())
        m_owed = std::max(m_owed, 2); // the next part of it, and what that changes
    if (m_owed > 0)
        QTimer::singleShot(0, this, [this] { m_surface->widget().update(); });
}

// ---- events -----------------------------------------------------------------------------------------------------------------

bool ImGuiHost::event(QEvent* event) {
    switch (event->type()) {
    case QEvent::ShortcutOverride: { // typing, and the keys of the content, before shortcuts of the window
        const auto& key = *static_cast<QKeyEvent*>(event);
        if (m_canvas->wantsText() || (m_keys && m_keys(key, true))) {
            event->accept();
            return true;
        }
        break;
    }
    case QEvent::ScreenChangeInternal: redraw(); break;
    default: break;
    }
    return QWidget::event(event);
}

void ImGuiHost::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange || event->type() == QEvent::StyleChange)
        restyle();
}

bool ImGuiHost::focusNextPrevChild(bool next) {
    if (m_canvas->wantsText())
        return false; // Tab is a key of the text field
    if (m_focusStep && m_focusStep(next)) {
        changed();
        return true;
    }
    return QWidget::focusNextPrevChild(next);
}

void ImGuiHost::focusInEvent(QFocusEvent* event) {
    QWidget::focusInEvent(event);
    changed();
}

void ImGuiHost::focusOutEvent(QFocusEvent* event) {
    QWidget::focusOutEvent(event);
    m_canvas->releaseAll();
    changed();
}

void ImGuiHost::mousePressEvent(QMouseEvent* event) {
    m_canvas->move(event->position());
    m_canvas->button(event->button(), true);
    changed();
}

void ImGuiHost::mouseReleaseEvent(QMouseEvent* event) {
    m_canvas->move(event->position());
    m_canvas->button(event->button(), false);
    changed();
}

void ImGuiHost::mouseMoveEvent(QMouseEvent* event) {
    m_canvas->move(event->position());
    changed();
}

void ImGuiHost::leaveEvent(QEvent*) {
    m_canvas->leave();
    changed();
}

void ImGuiHost::wheelEvent(QWheelEvent* event) {
    m_canvas->move(event->position());
    m_canvas->wheel(QPointF(event->angleDelta()) / 120);
    event->accept();
    changed();
}

void ImGuiHost::keyPressEvent(QKeyEvent* event) {
    if (m_keys && !m_canvas->wantsText() && m_keys(*event, false))
        return changed();
    m_canvas->key(*event, true);
    event->setAccepted(m_canvas->wantsText() || m_canvas->itemActive());
    changed();
}

void ImGuiHost::keyReleaseEvent(QKeyEvent* event) {
    m_canvas->key(*event, false);
    changed();
}

void ImGuiHost::inputMethodEvent(QInputMethodEvent* event) {
    m_canvas->text(event->commitString());
    event->accept();
    changed();
}

} // namespace linnet::widgets
