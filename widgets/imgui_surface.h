// Private to widgets: what shows an ImGuiCanvas. Both draw the same draw lists.
#pragma once

#include "widgets/imgui_canvas.h"

#include <QWidget>
#include <memory>

namespace linnet::widgets {

class ImGuiSurface {
public:
    struct Events {
        std::function<void(double ms)> drawn;
        std::function<void(const QString& reason)> failed; // no OpenGL after all; not from within a paint event
    };
    virtual ~ImGuiSurface() = default;
    virtual QWidget& widget() = 0;
    virtual QString rendererName() const = 0;
};

std::unique_ptr<ImGuiSurface> makeOpenGlSurface(ImGuiCanvas& canvas, ImGuiSurface::Events events, QWidget* parent);
std::unique_ptr<ImGuiSurface> makeSoftwareSurface(ImGuiCanvas& canvas, ImGuiSurface::Events events, QWidget* parent);

} // namespace linnet::widgets
