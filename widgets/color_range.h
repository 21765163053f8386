// From values to positions in a colour map: which range, which scale, which ticks on the colour bar.
#pragma once

#include <QString>
#include <vector>

namespace linnet::widgets {

enum class ColorScale { Linear, Log2, Log10 };

struct ScaleMode {
    enum Kind { Global, PerLayer, Fixed, Quantile }; // Quantile: 2 % to 98 %
    Kind kind = Global;
    double minimum = 0, maximum = 1; // Fixed only

    static ScaleMode fixed(double minimum, double maximum) { return {Fixed, minimum, maximum}; }
};

class ColorRange {
public:
    struct Tick {
        double position; // 0 = low end of the bar, 1 = high end
        QString label;
    };

    ColorRange() = default;
    // values: [layers, heads], row-major; not-a-number = not measured. On a log scale values <= 0 count as below the range.
    // A diverging map is linear and symmetric about 0, whatever the scale or the fixed range asked for.
    ColorRange(const std::vector<double>& values, int layers, int heads, ColorScale scale, ScaleMode mode, bool diverging);

    // 0..1 inside the range, outside it below 0 or above 1, not-a-number for what was not measured.
    double position(double value, int layer) const;
    double valueAt(double position, int layer = 0) const; // its inverse

    bool isEmpty() const { return m_limits.empty(); } // nothing measured
    bool clipsLow() const { return m_clipsLow; }
    bool clipsHigh() const { return m_clipsHigh; }
    bool hasMissing() const { return m_missing; }
    double minimum(int layer = 0) const;
    double maximum(int layer = 0) const;
    std::vector<Tick> ticks(int atMost) const;
    QString modeText() const; // "global, log2"

private:
    struct Limits {
        double low, high; // in transformed units
    };

    double transformed(double value) const;
    double restored(double value) const;
    Limits limitsOf(std::vector<double> transformedValues) const;
    const Limits& limits(int layer) const;

    ColorScale m_scale = ColorScale::Linear;
    ScaleMode m_mode;
    bool m_diverging = false, m_clipsLow = false, m_clipsHigh = false, m_missing = false;
    std::vector<Limits> m_limits; // one, or one a layer
};

// Six significant digits, "not measured" for not-a-number.
QString readout(double value);

// Few digits for axes.
QString tickLabel(double value);

} // namespace linnet::widgets
