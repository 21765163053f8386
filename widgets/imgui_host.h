// A widget that hosts Dear ImGui. It draws with OpenGL 3 where there is a context to be had, else on the CPU: the same picture, only slower.
// A frame is drawn when something happened (input, redraw(), a new palette, size or screen) and at no other time.
#pragma once

#include <QString>
#include <QWidget>
#include <functional>
#include <memory>

class QImage;

namespace linnet::widgets {

class ImGuiCanvas;
class ImGuiSurface;

class ImGuiHost : public QWidget {
    Q_OBJECT
public:
    enum class Painter { OpenGl, Software };

    // LINNET_OPENGL=0 in the environment, or `software`: never OpenGL. The context is made when the widget is first shown.
    explicit ImGuiHost(QWidget* parent = nullptr, bool software = false);
    ~ImGuiHost() override;
    static bool platformHasOpenGl(); // found out once; platforms without windows have none

    // Draws one frame with ImGui:: calls, inside a window that fills the widget.
    void setContent(std::function<void(ImGuiHost& host)> draw);
    // Keys come here first. Asked with `query` whether it would take a key that may be a shortcut of the window.
    void setKeyHandler(std::function<bool(const QKeyEvent& event, bool query)> handler) { m_keys = std::move(handler); }
    // Tab within the content: false where it should leave the widget.
    void setFocusStep(std::function<bool(bool next)> step) { m_focusStep = std::move(step); }
    void addCharacters(const QString& text); // that will be shown and are not Latin
    // Images by number; texture() gives one to ImGui::Image and ImDrawList::AddImage, within a frame.
    void setImage(int id, const QImage& image);
    void* texture(int id) const;

    Painter painter() const { return m_painter; }
    QString rendererName() const; // "llvmpipe (...)", "software"
    QString fallbackReason() const { return m_reason; } // why not OpenGL; "" with it
    qint64 frames() const { return m_frames; }
    double lastFrameMs() const { return m_lastMs; } // CPU time of building and drawing it
    bool itemActive() const;
    QSize sizeHint() const override { return {640, 320}; }

public Q_SLOTS:
    void redraw();
    void useSoftware(const QString& reason); // from now on, as when the driver gives up

Q_SIGNALS:
    void painterChanged();

protected:
    bool event(QEvent* event) override;
    void changeEvent(QEvent* event) override;
    void showEvent(QShowEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    bool focusNextPrevChild(bool next) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override { mousePressEvent(event); }
    void mouseMoveEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void keyReleaseEvent(QKeyEvent* event) override;
    void inputMethodEvent(QInputMethodEvent* event) override;

private:
    void makeSurface(bool openGl);
    void restyle();
    void changed(); // input came: draw it, and once more for what it changed
    void frameDone(double ms);
    std::unique_ptr<ImGuiCanvas> m_canvas;
    std::unique_ptr<ImGuiSurface> m_surface;
    std::function<bool(const QKeyEvent&, bool)> m_keys;
    std::function<bool(bool)> m_focusStep;
    Painter m_painter = Painter::Software;
    QString m_reason;
    bool m_software;
    int m_owed = 0; // frames still to be drawn
    qint64 m_frames = 0;
    double m_lastMs = 0;
};

} // namespace linnet::widgets
