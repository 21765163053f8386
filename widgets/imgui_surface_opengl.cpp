#include "widgets/imgui_surface.h"

#include <QElapsedTimer>
#include <QOpenGLContext>
#include <QOpenGLFunctions>
#include <QOpenGLWidget>
#include <QTimer>
#include <imgui_impl_opengl3.h>

namespace linnet::widgets {
namespace {

// Its context goes when the widget moves to another window (a dock that floats) and a new one comes: everything of the old context is let
// go in release(), and made again from what the canvas keeps.
class OpenGlSurface : public QOpenGLWidget, protected QOpenGLFunctions, public ImGuiSurface {
public:
    OpenGlSurface(ImGuiCanvas& canvas, Events events, QWidget* parent) : QOpenGLWidget(parent), m_canvas(canvas), m_events(std::move(events)) {
        auto format = QSurfaceFormat::defaultFormat();
        format.setVersion(3, 3);
        format.setProfile(QSurfaceFormat::CoreProfile);
        setFormat(format);
    }
    ~OpenGlSurface() override {
        if (!context())
            return;
        QObject::disconnect(context(), nullptr, this, nullptr); // it dies in the base class, when this object is gone
        makeCurrent();
        release();
        doneCurrent();
    }
    QWidget& widget() override { return *this; }
    QString rendererName() const override { return m_renderer; }

protected:
    void initializeGL() override {
        initializeOpenGLFunctions();
        connect(context(), &QOpenGLContext::aboutToBeDestroyed, this, [this] {
            makeCurrent();
            release();
            doneCurrent();
        }, Qt::DirectConnection);
        const auto* name = reinterpret_cast<const char*>(glGetString(GL_RENDERER));
        m_renderer = name ? QString::fromLatin1(name) : QString();
        m_canvas.makeCurrent();
        m_ready = ImGui_ImplOpenGL3_Init(context()->isOpenGLES() ? "#version 300 es" : "#version 330 core");
        m_fontVersion = -1;
        if (!m_ready)
            fail(QObject::tr("OpenGL has no usable functions"));
    }

    void paintGL() override {
        QElapsedTimer clock;
        clock.start();
        const QColor base = palette().color(QPalette::Base);
        const double ratio = devicePixelRatioF();
        glClearColor(float(base.redF()), float(base.greenF()), float(base.blueF()), 1);
        glClear(GL_COLOR_BUFFER_BIT);
        if (!m_ready)
            return;
        m_canvas.prepare(size(), ratio);
        if (m_fontVersion != m_canvas.fontVersion()) {
            ImGui_ImplOpenGL3_DestroyFontsTexture();
            if (m_fontVersion >= 0) // else NewFrame makes it, with all else
                ImGui_ImplOpenGL3_CreateFontsTexture();
            m_fontVersion = m_canvas.fontVersion();
        }
        ImGui_ImplOpenGL3_NewFrame();
        ImDrawData* data = m_canvas.build([this](int image) { return texture(image); });
        ImGui_ImplOpenGL3_RenderDrawData(data);
        // It asks what went wrong only here: the driver's answer to a lost GPU is an error for good.
        if (const GLenum error = glGetError(); error == GL_OUT_OF_MEMORY || error == 0x0507 /* GL_CONTEXT_LOST */) {
            fail(QObject::tr("the graphics driver gave up (OpenGL error 0x%1)").arg(error, 4, 16, QLatin1Char('0')));
            return;
        }
        m_events.drawn(double(clock.nsecsElapsed()) * 1e-6);
    }

private:
    struct Texture {
        GLuint name = 0;
        int version = 0;
    };

    ImTextureID texture(int image) {
        const auto& source = m_canvas.image(image);
        auto& made = m_textures[image];
        if (made.name == 0)
            glGenTextures(1, &made.name);
        if (made.version != source.version) {
            made.version = source.version;
            glBindTexture(GL_TEXTURE_2D, made.name);
            for (const GLenum filter : {GL_TEXTURE_MIN_FILTER, GL_TEXTURE_MAG_FILTER})
                glTexParameteri(GL_TEXTURE_2D, filter, GL_NEAREST);
            for (const GLenum wrap : {GL_TEXTURE_WRAP_S, GL_TEXTURE_WRAP_T})
                glTexParameteri(GL_TEXTURE_2D, wrap, GL_CLAMP_TO_EDGE);
            glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, source.pixels.width(), source.pixels.height(), 0, GL_RGBA, GL_UNSIGNED_BYTE, source.pixels.constBits());
        }
        return reinterpret_cast<ImTextureID>(std::intptr_t(made.name));
    }

    void release() {
        m_canvas.makeCurrent();
        for (auto& [id, texture] : m_textures)
            if (texture.name)
                glDeleteTextures(1, &texture.name);
        m_textures.clear();
        if (m_ready)
            ImGui_ImplOpenGL3_Shutdown();
        m_ready = false;
    }

    void fail(const QString& reason) {
        QTimer::singleShot(0, this, [failed = m_events.failed, reason] { failed(reason); }); // which ends this surface
    }

    ImGuiCanvas& m_canvas;
    Events m_events;
    std::map<int, Texture> m_textures;
    QString m_renderer;
    bool m_ready = false;
    int m_fontVersion = -1;
};

} // namespace

std::unique_ptr<ImGuiSurface> makeOpenGlSurface(ImGuiCanvas& canvas, ImGuiSurface::Events events, QWidget* parent) {
    return std::make_unique<OpenGlSurface>(canvas, std::move(events), parent);
}

} // namespace linnet::widgets
