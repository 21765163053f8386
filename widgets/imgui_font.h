// Dear ImGui's glyph texture, drawn by Qt: the window's own font, with every character that the font system has.
#pragma once

#include <QFont>
#include <QSet>

struct ImFontAtlas;

namespace linnet::widgets {

// Latin-1, a few signs and `more`; glyphs at pixelRatio times the font's logical size.
void buildFontAtlas(ImFontAtlas& atlas, const QFont& font, double pixelRatio, const QSet<char16_t>& more);

} // namespace linnet::widgets
