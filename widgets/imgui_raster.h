// Dear ImGui's draw lists without OpenGL: triangles and rectangles into an image on the CPU.
#pragma once

#include <QImage>
#include <functional>

struct ImDrawData;

namespace linnet::widgets {

struct RasterTexture { // one of the two
    const unsigned char* coverage = nullptr; // white, this opaque
    const QRgb* pixels = nullptr;            // Format_ARGB32
    int width = 0, height = 0;
};

// target: Format_RGB32 or ARGB32, in device pixels; what is there stays where nothing is drawn. Textures are taken at their nearest texel.
void rasterize(const ImDrawData& data, QImage& target, const std::function<RasterTexture(void* id)>& texture);

} // namespace linnet::widgets
