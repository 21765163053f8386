#include "widgets/pattern_image.h"

#include <algorithm>
#include <cmath>

namespace linnet::widgets {
namespace {

bool fits(const std::vector<float>& values, int length) {
    return length > 0 && values.size() == std::size_t(length) * std::size_t(length);
}

// The texel of each cell from `first` to `last`, both included.
std::vector<int> texels(double origin, double span, int first, int last, int pixels, bool reduced) {
    std::vector<int> result;
    for (int cell = first; cell <= last; ++cell)
        result.push_back(reduced ? std::clamp(int((cell + 0.5 - origin) / span * pixels), 0, pixels - 1) : cell - first);
    return result;
}

} // namespace

double patternPosition(double value, const PatternStyle& style) {
    const double share = std::min(1.0, std::abs(value) / style.range);
    const double magnitude = style.log ? std::max(0.0, 1 + std::log10(std::max(share, 1e-30)) / kPatternDecades) : share;
    return isDiverging(style.map) ? 0.5 + 0.5 * std::copysign(magnitude, value) : magnitude;
}

PatternImage patternImage(const std::vector<float>& values, int length, PatternWindow window, int pixels, const PatternStyle& style) {
    PatternImage result;
    if (!fits(values, length) || pixels < 1 || !(window.span > 0) || !(style.range > 0))
        return result;
    const auto last = [&](double origin) { return std::clamp(int(std::ceil(origin + window.span)) - 1, 0, length - 1); };
    const int left = std::clamp(int(std::floor(window.x)), 0, length - 1), right = last(window.x);
    const int top = std::clamp(int(std::floor(window.y)), 0, length - 1), bottom = last(window.y);
    const bool reduced = window.span > pixels;
    const QSize size = reduced ? QSize(pixels, pixels) : QSize(right - left + 1, bottom - top + 1);
    result.cells = reduced ? QRectF(window.x, window.y, window.span, window.span) : QRectF(left, top, size.width(), size.height());
    result.image = QImage(size, QImage::Format_RGBA8888);
    result.image.fill(Qt::transparent);
    const auto columns = texels(window.x, window.span, left, right, pixels, reduced), rows = texels(window.y, window.span, top, bottom, pixels, reduced);
    const auto& table = colorTable(style.map);
    const float none = std::nanf("");
    std::vector<float> largest(std::size_t(size.width()), none);
    for (int row = top; row <= bottom; ++row) {
        for (int column = std::max(left, style.hiddenColumns); column <= std::min(right, row); ++column) {
            const float value = values[std::size_t(row) * std::size_t(length) + std::size_t(column)];
            float& kept = largest[std::size_t(columns[std::size_t(column - left)])];
            if (!(std::abs(value) <= std::abs(kept))) // also where nothing is kept yet
                kept = value;
        }
        const int line = rows[std::size_t(row - top)];
        if (row < bottom && rows[std::size_t(row - top + 1)] == line)
            continue;
        auto* bytes = result.image.scanLine(line);
        for (int x = 0; x < size.width(); ++x, bytes += 4) {
            const float value = largest[std::size_t(x)];
            if (!std::isfinite(value))
                continue;
            const QRgb color = table[std::size_t(std::lround(patternPosition(value, style) * 255))];
            bytes[0] = uchar(qRed(color)), bytes[1] = uchar(qGreen(color)), bytes[2] = uchar(qBlue(color)), bytes[3] = 255;
        }
        std::fill(largest.begin(), largest.end(), none);
    }
    return result;
}

double patternRange(const std::vector<float>& values, int length, int hiddenColumns, double share) {
    if (!fits(values, length))
        return 0;
    std::vector<float> magnitudes;
    magnitudes.reserve(values.size() / 2 + std::size_t(length));
    for (int row = hiddenColumns; row < length; ++row)
        for (int column = hiddenColumns; column <= row; ++column)
            if (const float value = std::abs(values[std::size_t(row) * std::size_t(length) + std::size_t(column)]); std::isfinite(value))
                magnitudes.push_back(value);
    if (magnitudes.empty())
        return 0;
    const auto at = magnitudes.begin() + std::ptrdiff_t(std::floor(share * double(magnitudes.size() - 1)));
    std::nth_element(magnitudes.begin(), at, magnitudes.end());
    return *at > 0 ? double(*at) : double(*std::max_element(at, magnitudes.end()));
}

std::vector<PatternSource> topSources(const std::vector<float>& values, int length, int row, int count, int hiddenColumns) {
    std::vector<PatternSource> sources;
    if (!fits(values, length) || row < 0 || row >= length)
        return sources;
    for (int column = hiddenColumns; column <= row; ++column)
        if (const float value = values[std::size_t(row) * std::size_t(length) + std::size_t(column)]; std::isfinite(value) && std::abs(value) > 0)
            sources.push_back({column, value});
    const auto kept = sources.begin() + std::min<std::ptrdiff_t>(count, std::ssize(sources));
    std::partial_sort(sources.begin(), kept, sources.end(), [](const auto& a, const auto& b) {
        return std::abs(a.value) != std::abs(b.value) ? std::abs(a.value) > std::abs(b.value) : a.column < b.column;
    });
    sources.erase(kept, sources.end());
    return sources;
}

} // namespace linnet::widgets
