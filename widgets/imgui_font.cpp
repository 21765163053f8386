#include "widgets/imgui_font.h"

#include <QFontInfo>
#include <QFontMetricsF>
#include <QImage>
#include <QPainter>
#include <cmath>
#include <imgui.h>
#include <vector>

namespace linnet::widgets {
namespace {

struct Glyph {
    QChar character;
    int rect = -1; // of the atlas; -1: nothing to draw
    QRect box;     // around the origin on the baseline, device pixels
};

std::vector<Glyph> wanted(const QSet<char16_t>& more) {
    std::vector<Glyph> glyphs;
    const auto add = [&](char16_t c) { glyphs.push_back({QChar(c), -1, {}}); };
    for (char16_t c = 0x20; c <= 0xff; ++c)
        if (c < 0x7f || c > 0x9f)
            add(c);
    for (const char16_t c : u"–—…←→≤≥−±Σ\u2423\ufffd")
        if (c > 0xff && !more.contains(c))
            add(c);
    for (const char16_t c : more)
        add(c);
    return glyphs;
}

void paint(const Glyph& glyph, const QFont& font, unsigned char* texture, int textureWidth, int left, int top) {
    QImage image(glyph.box.size(), QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    QPainter painter(&image);
    painter.setFont(font);
    painter.setPen(Qt::white);
    painter.drawText(-glyph.box.topLeft(), QString(glyph.character));
    painter.end();
    for (int y = 0; y < image.height(); ++y) {
        const auto* line = reinterpret_cast<const QRgb*>(image.constScanLine(y));
        for (int x = 0; x < image.width(); ++x)
            texture[(top + y) * textureWidth + left + x] = static_cast<unsigned char>(qAlpha(line[x]));
    }
}

} // namespace

void buildFontAtlas(ImFontAtlas& atlas, const QFont& font, double pixelRatio, const QSet<char16_t>& more) {
    QFont scaled = font;
    scaled.setPixelSize(std::max(6, int(std::lround(QFontInfo(font).pixelSize() * pixelRatio))));
    const QFontMetricsF metrics(scaled);
    atlas.Clear();
    atlas.Flags |= ImFontAtlasFlags_NoMouseCursors | ImFontAtlasFlags_NoBakedLines;
    static constexpr ImWchar kLeast[] = {'?', '?', 0}; // the library wants one glyph of its own; ours takes its place
    ImFontConfig config;
    config.SizePixels = float(std::round(metrics.height()));
    config.GlyphRanges = kLeast;
    ImFont* made = atlas.AddFontDefault(&config);
    auto glyphs = wanted(more);
    for (auto& glyph : glyphs) {
        const auto bounds = metrics.boundingRect(glyph.character);
        glyph.box = bounds.isEmpty() ? QRect() : bounds.toAlignedRect().adjusted(-1, -1, 1, 1);
        const auto size = glyph.box.isNull() ? QSize(1, 1) : glyph.box.size();
        const ImVec2 offset(float(glyph.box.left()), float(std::round(metrics.ascent()) + glyph.box.top()));
        glyph.rect = atlas.AddCustomRectFontGlyph(made, glyph.character.unicode(), size.width(), size.height(),
                                                  float(std::round(metrics.horizontalAdvance(glyph.character))), offset); // whole: no glyph between pixels
    }
    atlas.Build();
    unsigned char* texture = nullptr;
    int width = 0, height = 0;
    atlas.GetTexDataAsAlpha8(&texture, &width, &height);
    for (const auto& glyph : glyphs) {
        const auto& rect = *atlas.GetCustomRectByIndex(glyph.rect);
        if (!glyph.box.isNull() && rect.X != 0xffff)
            paint(glyph, scaled, texture, width, rect.X, rect.Y);
    }
}

} // namespace linnet::widgets
