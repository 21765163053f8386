#include "widgets/imgui_raster.h"
#include "widgets/imgui_surface.h"

#include <QElapsedTimer>
#include <QPainter>
#include <cmath>

namespace linnet::widgets {
namespace {

class SoftwareSurface : public QWidget, public ImGuiSurface {
public:
    SoftwareSurface(ImGuiCanvas& canvas, Events events, QWidget* parent) : QWidget(parent), m_canvas(canvas), m_events(std::move(events)) {
        setAttribute(Qt::WA_OpaquePaintEvent);
    }
    QWidget& widget() override { return *this; }
    QString rendererName() const override { return QStringLiteral("software"); }

protected:
    void paintEvent(QPaintEvent*) override {
        QElapsedTimer clock;
        clock.start();
        const double ratio = devicePixelRatioF();
        const QSize pixels(int(std::ceil(width() * ratio)), int(std::ceil(height() * ratio)));
        if (m_image.size() != pixels)
            m_image = QImage(pixels, QImage::Format_RGB32);
        m_image.fill(palette().color(QPalette::Base));
        m_canvas.prepare(size(), ratio);
        auto& fonts = *ImGui::GetIO().Fonts;
        fonts.SetTexID(reinterpret_cast<ImTextureID>(std::intptr_t(1)));
        const auto* data = m_canvas.build([](int image) { return reinterpret_cast<ImTextureID>(std::intptr_t(image + 2)); });
        rasterize(*data, m_image, [&](void* id) { return texture(int(reinterpret_cast<std::intptr_t>(id))); });
        m_image.setDevicePixelRatio(ratio);
        QPainter(this).drawImage(QPointF(0, 0), m_image);
        m_image.setDevicePixelRatio(1);
        m_events.drawn(double(clock.nsecsElapsed()) * 1e-6);
    }

private:
    RasterTexture texture(int id) {
        RasterTexture result;
        if (id == 1) {
            unsigned char* pixels = nullptr;
            ImGui::GetIO().Fonts->GetTexDataAsAlpha8(&pixels, &result.width, &result.height);
            result.coverage = pixels;
            return result;
        }
        const auto& image = m_canvas.image(id - 2);
        auto& kept = m_converted[id - 2];
        if (kept.version != image.version)
            kept = {image.pixels.convertToFormat(QImage::Format_ARGB32), image.version};
        return {nullptr, reinterpret_cast<const QRgb*>(kept.pixels.constBits()), kept.pixels.width(), kept.pixels.height()};
    }

    ImGuiCanvas& m_canvas;
    Events m_events;
    QImage m_image;
    std::map<int, ImGuiCanvas::Image> m_converted;
};

} // namespace

std::unique_ptr<ImGuiSurface> makeSoftwareSurface(ImGuiCanvas& canvas, ImGuiSurface::Events events, QWidget* parent) {
    return std::make_unique<SoftwareSurface>(canvas, std::move(events), parent);
}

} // namespace linnet::widgets
