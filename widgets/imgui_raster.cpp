#include "widgets/imgui_raster.h"

#include <algorithm>
#include <cmath>
#include <imgui.h>
#include <vector>

namespace linnet::widgets {
namespace {

struct Vertex { // device pixels
    float x, y, u, v;
    ImU32 color;
};

class Rasterizer {
public:
    explicit Rasterizer(QImage& target) {
        for (int y = 0; y < target.height(); ++y)
            m_lines.push_back(reinterpret_cast<QRgb*>(target.scanLine(y)));
    }
    void use(QRect clip, const RasterTexture& texture) { m_clip = clip, m_texture = texture; }

    // Two triangles (a, b, c), (a, c, d) that are one upright rectangle of one colour: glyphs, images, bars.
    bool rectangle(const Vertex& a, const Vertex& b, const Vertex& c, const Vertex& d) {
        const bool upright = a.y == b.y && b.x == c.x && c.y == d.y && d.x == a.x && a.x < c.x && a.y < c.y;
        if (!upright || a.color != b.color || a.color != c.color || a.color != d.color)
            return false;
        const bool plain = a.u == c.u && a.v == c.v;
        // A glyph is as large as its texels: whole pixels keep it sharp. Others cover the pixels whose middle they hold.
        const int left = int(std::lround(a.x)), top = int(std::lround(a.y)), right = int(std::lround(c.x)), bottom = int(std::lround(c.y));
        const QRect area = QRect(QPoint(left, top), QPoint(right - 1, bottom - 1)) & m_clip;
        if (area.isEmpty())
            return true;
        if (plain)
            return fill(area, shade(a.color, a.u, a.v));
        const float du = (c.u - a.u) / float(std::max(1, right - left)), dv = (c.v - a.v) / float(std::max(1, bottom - top));
        m_columns.clear();
        for (int x = area.left(); x <= area.right(); ++x)
            m_columns.push_back(texel(a.u + du * (float(x - left) + 0.5F), m_texture.width));
        const bool asItIs = a.color == IM_COL32_WHITE && m_texture.pixels;
        for (int y = area.top(); y <= area.bottom(); ++y) {
            QRgb* line = m_lines[y] + area.left();
            const auto row = std::size_t(texel(a.v + dv * (float(y - top) + 0.5F), m_texture.height)) * std::size_t(m_texture.width);
            for (std::size_t x = 0; x < m_columns.size(); ++x) {
                const auto from = row + std::size_t(m_columns[x]);
                if (!asItIs)
                    blend(line[x], tinted(a.color, from));
                else if (const QRgb pixel = m_texture.pixels[from]; qAlpha(pixel) == 255)
                    line[x] = pixel;
                else
                    blend(line[x], pixel);
            }
        }
        return true;
    }

    void triangle(const Vertex& a, Vertex b, Vertex c) {
        float area = (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
        if (!(std::abs(area) > 0))
            return;
        if (area < 0) {
            std::swap(b, c);
            area = -area;
        }
        const auto [lowX, highX] = std::minmax({a.x, b.x, c.x});
        const auto [lowY, highY] = std::minmax({a.y, b.y, c.y});
        const QRect box = QRect(QPoint(int(std::floor(lowX)), int(std::floor(lowY))), QPoint(int(std::ceil(highX)), int(std::ceil(highY)))) & m_clip;
        const bool plain = a.color == b.color && a.color == c.color && a.u == b.u && a.u == c.u && a.v == b.v && a.v == c.v;
        const QRgb flat = plain ? shade(a.color, a.u, a.v) : 0;
        for (int y = box.top(); y <= box.bottom(); ++y) {
            QRgb* line = m_lines[y];
            const float py = float(y) + 0.5F;
            for (int x = box.left(); x <= box.right(); ++x) {
                const float px = float(x) + 0.5F;
                const float wa = edge(b, c, px, py), wb = edge(c, a, px, py), wc = area - wa - wb;
                if (!inside(wa, b, c) || !inside(wb, c, a) || !inside(wc, a, b))
                    continue;
                const float fa = wa / area, fb = wb / area, fc = wc / area;
                blend(line[x], plain ? flat : shade(mix(a.color, b.color, c.color, fa, fb, fc), a.u * fa + b.u * fb + c.u * fc, a.v * fa + b.v * fb + c.v * fc));
            }
        }
    }

private:
    static float edge(const Vertex& from, const Vertex& to, float x, float y) { return (to.x - from.x) * (y - from.y) - (to.y - from.y) * (x - from.x); }
    // A pixel on the edge of two triangles belongs to one of them: the upper or the left edge's.
    static bool inside(float weight, const Vertex& from, const Vertex& to) {
        return weight > 0 || (weight == 0 && (to.y - from.y < 0 || (to.y == from.y && to.x > from.x)));
    }
    static ImU32 mix(ImU32 a, ImU32 b, ImU32 c, float fa, float fb, float fc) {
        ImU32 result = 0;
        for (int shift = 0; shift < 32; shift += 8)
            result |= ImU32(float((a >> shift) & 255) * fa + float((b >> shift) & 255) * fb + float((c >> shift) & 255) * fc + 0.5F) << shift;
        return result;
    }
    static int texel(float position, int size) { return std::clamp(int(position * float(size)), 0, size - 1); }
    QRgb shade(ImU32 color, float u, float v) const {
        return tinted(color, std::size_t(texel(v, m_texture.height)) * std::size_t(m_texture.width) + std::size_t(texel(u, m_texture.width)));
    }
    bool fill(const QRect& area, QRgb color) {
        for (int y = area.top(); y <= area.bottom(); ++y) {
            QRgb *from = m_lines[y] + area.left(), *to = from + area.width();
            if (qAlpha(color) == 255)
                std::fill(from, to, color);
            else
                std::for_each(from, to, [color](QRgb& under) { blend(under, color); });
        }
        return true;
    }
    QRgb tinted(ImU32 color, std::size_t at) const { // not premultiplied
        const QRgb texel = m_texture.pixels ? m_texture.pixels[at] : qRgba(255, 255, 255, m_texture.coverage ? m_texture.coverage[at] : 255);
        const auto times = [](int a, int b) { return (a * b + 127) / 255; };
        return qRgba(times(int((color >> IM_COL32_R_SHIFT) & 255), qRed(texel)), times(int((color >> IM_COL32_G_SHIFT) & 255), qGreen(texel)),
                     times(int((color >> IM_COL32_B_SHIFT) & 255), qBlue(texel)), times(int((color >> IM_COL32_A_SHIFT) & 255), qAlpha(texel)));
    }
    static void blend(QRgb& under, QRgb over) {
        const int alpha = qAlpha(over), rest = 255 - alpha;
        if (alpha == 0)
            return;
        const auto mixed = [&](int o, int u) { return (o * alpha + u * rest + 127) / 255; };
        under = qRgb(mixed(qRed(over), qRed(under)), mixed(qGreen(over), qGreen(under)), mixed(qBlue(over), qBlue(under)));
    }

    QList<QRgb*> m_lines; // of the target
    std::vector<int> m_columns; // of the texture, for each pixel of a row
    QRect m_clip;
    RasterTexture m_texture;
};

void drawCommand(Rasterizer& raster, const ImDrawList& list, const ImDrawCmd& command, ImVec2 origin, ImVec2 scale) {
    const ImDrawIdx* indices = list.IdxBuffer.Data + command.IdxOffset;
    const auto vertex = [&](unsigned i) {
        const ImDrawVert& v = list.VtxBuffer[int(command.VtxOffset + indices[i])];
        return Vertex{(v.pos.x - origin.x) * scale.x, (v.pos.y - origin.y) * scale.y, v.uv.x, v.uv.y, v.col};
    };
    for (unsigned i = 0; i + 2 < command.ElemCount;) {
        const bool quad = i + 5 < command.ElemCount && indices[i] == indices[i + 3] && indices[i + 2] == indices[i + 4];
        if (quad && raster.rectangle(vertex(i), vertex(i + 1), vertex(i + 2), vertex(i + 5))) {
            i += 6;
            continue;
        }
        raster.triangle(vertex(i), vertex(i + 1), vertex(i + 2));
        i += 3;
    }
}

} // namespace

void rasterize(const ImDrawData& data, QImage& target, const std::function<RasterTexture(void*)>& texture) {
    Rasterizer raster(target);
    for (int n = 0; n < data.CmdListsCount; ++n) {
        const ImDrawList& list = *data.CmdLists[n];
        for (const ImDrawCmd& command : list.CmdBuffer) {
            if (command.UserCallback) // none of ours sets one
                continue;
            const auto x = [&](float v) { return (v - data.DisplayPos.x) * data.FramebufferScale.x; };
            const auto y = [&](float v) { return (v - data.DisplayPos.y) * data.FramebufferScale.y; };
            const ImVec4& r = command.ClipRect;
            const QRect clip = QRect(QPoint(int(x(r.x)), int(y(r.y))), QPoint(int(x(r.z)) - 1, int(y(r.w)) - 1)) & target.rect();
            if (clip.isEmpty())
                continue;
            raster.use(clip, texture(command.GetTexID()));
            drawCommand(raster, list, command, data.DisplayPos, data.FramebufferScale);
        }
    }
}

} // namespace linnet::widgets
