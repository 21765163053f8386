// One Dear ImGui context without a screen: Qt's events in, draw lists out. What puts them on the screen is a surface (imgui_surface.h).
// Coordinates are logical pixels; glyphs are drawn by Qt in the widget's own font, at the device's pixels.
#pragma once

#include <QFont>
#include <QImage>
#include <QPalette>
#include <QPointF>
#include <QSet>
#include <deque>
#include <exception>
#include <functional>
#include <imgui.h>
#include <map>
#include <utility>

class QKeyEvent;

namespace linnet::widgets {

class ImGuiCanvas {
public:
    ImGuiCanvas();
    ~ImGuiCanvas();
    ImGuiCanvas(const ImGuiCanvas&) = delete;
    ImGuiCanvas& operator=(const ImGuiCanvas&) = delete;

    void setContent(std::function<void()> draw) { m_content = std::move(draw); } // inside one window that fills the canvas
    void setStyle(const QPalette& palette, const QFont& font);
    void addCharacters(const QString& text); // beside Latin: what will be shown must be known before a frame

    // Input is queued: a press and its release within one frame are two frames to Dear ImGui.
    void move(QPointF position);
    void leave();
    void button(Qt::MouseButton button, bool down);
    void wheel(QPointF notches);
    void key(const QKeyEvent& event, bool down);
    void text(const QString& committed);
    void releaseAll(); // the focus went elsewhere: nothing stays pressed
    bool hasInput() const { return !m_input.empty(); }
    bool wantsText() const;
    bool itemActive() const; // something is held: a slider is dragged
    Qt::CursorShape cursor() const;

    void makeCurrent() const;
    // A frame is prepare(), then what the surface's backend wants, then build().
    void prepare(QSize size, double pixelRatio);
    ImDrawData* build(const std::function<ImTextureID(int image)>& texture);
    std::exception_ptr takeThrown() { return std::exchange(m_thrown, nullptr); } // what the content threw in the last frame, which is whole without it
    int fontVersion() const { return m_fontVersion; } // of the glyph texture
    ImTextureID texture(int image) const { return m_texture(image); } // during a frame only

    struct Image {
        QImage pixels; // RGBA8888
        int version = 0;
    };
    void setImage(int id, const QImage& image);
    const Image& image(int id) const { return m_images.at(id); }

private:
    struct Input {
        enum Kind { Move, Button, Wheel, Key, Text } kind;
        QPointF point;
        int code = -1; // button or key
        bool down = false;
        Qt::KeyboardModifiers modifiers;
        QString text;
    };
    void takeInput();
    void buildFont(double pixelRatio);
    ImGuiContext* m_context;
    std::function<void()> m_content;
    std::function<ImTextureID(int)> m_texture;
    std::deque<Input> m_input;
    std::map<int, Image> m_images;
    QFont m_font;
    QSet<char16_t> m_characters;
    QByteArray m_clipboard;
    std::exception_ptr m_thrown;
    double m_fontRatio = 0; // 0: to be built
    int m_fontVersion = 0;
    qint64 m_lastFrameNs = 0;
};

} // namespace linnet::widgets
