#include "widgets/color_maps.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace linnet::widgets {
namespace {

struct Anchor {
    int index;
    QRgb color;
};

// Fewest anchors between which straight lines stay within two units of the published 256 entries.
constexpr Anchor kViridis[] = {{0, 0x440154},   {23, 0x482173},  {50, 0x414287},  {81, 0x32648e},  {132, 0x1f948c},
                               {151, 0x21a685}, {166, 0x2fb47c}, {177, 0x40bd72}, {190, 0x5ac864}, {203, 0x77d153},
                               {233, 0xc5e021}, {239, 0xd5e21a}, {246, 0xe7e419}, {255, 0xfde725}};
constexpr Anchor kCividis[] = {{0, 0x00224e},   {20, 0x003070},  {23, 0x013271},  {28, 0x123570},  {44, 0x2d416d},
                               {86, 0x585e6d},  {134, 0x828079}, {151, 0x928d78}, {191, 0xbbad6d}, {219, 0xd9c55c},
                               {233, 0xe8d24f}, {244, 0xf5dc41}, {251, 0xfde334}, {255, 0xfee838}};
constexpr Anchor kGrey[] = {{0, 0x141414}, {255, 0xf5f5f5}};
// Both ends dark, the middle the lightest and without hue; equal lightness at equal distance from the middle.
constexpr Anchor kBlueOrange[] = {{0, 0x0b3c6f},   {48, 0x2f74b3}, {92, 0x8ab6dc}, {127, 0xf2f2f2},
                                  {128, 0xf2f2f2}, {163, 0xe8ab6e}, {207, 0xb6601a}, {255, 0x6b3000}};
// The same hues the other way round, for dark backgrounds.
constexpr Anchor kBlueOrangeDark[] = {{0, 0xacd6fd},   {48, 0x108cc9}, {92, 0x135073}, {127, 0x262626},
                                      {128, 0x262626}, {163, 0x644525}, {207, 0xb27739}, {255, 0xffc793}};

ColorTable interpolate(std::span<const Anchor> anchors) {
    ColorTable table{};
    for (size_t a = 0; a + 1 < anchors.size(); ++a) {
        const Anchor from = anchors[a], to = anchors[a + 1];
        for (int i = from.index; i <= to.index; ++i) {
            const double t = double(i - from.index) / (to.index - from.index);
            const auto mix = [t](int x, int y) { return int(std::lround(x + t * (y - x))); };
            table[size_t(i)] = qRgb(mix(qRed(from.color), qRed(to.color)), mix(qGreen(from.color), qGreen(to.color)),
                                    mix(qBlue(from.color), qBlue(to.color)));
        }
    }
    return table;
}

} // namespace

const ColorTable& colorTable(ColorMap map) {
    static const ColorTable viridis = interpolate(kViridis), cividis = interpolate(kCividis), grey = interpolate(kGrey),
                            blueOrange = interpolate(kBlueOrange), blueOrangeDark = interpolate(kBlueOrangeDark);
    switch (map) {
    case ColorMap::Viridis: return viridis;
    case ColorMap::Cividis: return cividis;
    case ColorMap::Grey: return grey;
    case ColorMap::BlueOrangeDark: return blueOrangeDark;
    case ColorMap::BlueOrange: break;
    }
    return blueOrange;
}

bool isDiverging(ColorMap map) { return map == ColorMap::BlueOrange || map == ColorMap::BlueOrangeDark; }

ColorMap divergingMap(bool dark) { return dark ? ColorMap::BlueOrangeDark : ColorMap::BlueOrange; }

QString colorMapName(ColorMap map) {
    switch (map) {
    case ColorMap::Viridis: return QStringLiteral("viridis");
    case ColorMap::Cividis: return QStringLiteral("cividis");
    case ColorMap::Grey: return QStringLiteral("grey");
    case ColorMap::BlueOrangeDark: return QStringLiteral("blue-orange, dark");
    case ColorMap::BlueOrange: break;
    }
    return QStringLiteral("blue-orange");
}

QColor mapColor(ColorMap map, double position) {
    const double clamped = std::isfinite(position) ? std::clamp(position, 0.0, 1.0) : 0.0;
    return QColor::fromRgb(colorTable(map)[size_t(std::lround(clamped * 255))]);
}

QColor runColor(int index, RunColors set) {
    // Strongest contrasts first; yellow last of the hues because it is weak on white.
    static constexpr QRgb okabeIto[kRunColorCount] = {0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00, 0xf0e442, 0x888888};
    static constexpr QRgb tol[kRunColorCount] = {0x4477aa, 0xee6677, 0x228833, 0xccbb44, 0x66ccee, 0xaa3377, 0xcc3311, 0xbbbbbb};
    return QColor::fromRgb((set == RunColors::Tol ? tol : okabeIto)[((index % kRunColorCount) + kRunColorCount) % kRunColorCount]);
}

Qt::PenStyle runPenStyle(int index) {
    static constexpr Qt::PenStyle styles[] = {Qt::SolidLine, Qt::DashLine, Qt::DotLine, Qt::DashDotLine};
    return styles[(std::max(0, index) / kRunColorCount) % 4];
}

} // namespace linnet::widgets
