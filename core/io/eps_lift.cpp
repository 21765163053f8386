#include "core/io/eps_lift.h"

#include "core/base/result.h"
#include "core/io/dtype_convert.h"

#include <algorithm>
#include <cmath>

namespace linnet::core {
namespace {

double lengthOf(std::span<const float> values) {
    double sum = 0;
    for (const double value : values)
        sum += value * value;
    return std::sqrt(sum);
}

} // namespace

double largestMeanSquare(const HeadRows& heads) {
    const std::size_t hidden = heads.inputNorm.size(), d = heads.headDim;
    double largest = 0;
    for (std::size_t first = 0; first * hidden < heads.rows.size(); first += d) {
        double sum = 0;
        for (std::size_t row = first; row < first + d; ++row)
            for (std::size_t i = 0; i < hidden; ++i) {
                const double value = static_cast<double>(heads.rows[row * hidden + i]) * heads.inputNorm[i];
                sum += value * value;
            }
        const double length = std::sqrt(sum * static_cast<double>(hidden)) + (heads.bias.empty() ? 0 : lengthOf(heads.bias.subspan(first, d)));
        if (!(length * length <= largest)) // NaN stays
            largest = length * length;
    }
    return largest / static_cast<double>(d);
}

int epsLiftShift(double meanSquare, double eps) {
    if (!std::isfinite(meanSquare))
        fail(ErrorCode::Malformed, "q or k of a softmax layer has weights that are no finite numbers");
    return std::max(16, static_cast<int>(std::ceil(0.5 * std::log2(std::max(meanSquare, 1e-30) / eps) + 12))); // w - 1 keeps w's digits from about 12 on
}

double epsLiftNorm(int shift, double eps) {
    return std::ldexp(std::sqrt(static_cast<double>(static_cast<float>(eps))), shift);
}

std::optional<int> epsLiftShiftOf(std::span<const float> norm, double eps) {
    if (norm.empty() || !(norm[0] > 0) || !std::isfinite(norm[0]))
        return std::nullopt;
    const int shift = static_cast<int>(std::lround(std::log2(norm[0] / epsLiftNorm(0, eps))));
    const double w = epsLiftNorm(shift, eps), rounded = static_cast<double>(bfloatToFloat(floatToBfloat(static_cast<float>(w - 1)))) + 1;
    const auto is = [&](double expected) { return std::ranges::all_of(norm, [&](float value) { return std::abs(value - expected) <= 1e-5 * expected; }); };
    return is(w) || is(rounded) ? std::optional(shift) : std::nullopt;
}

} // namespace linnet::core
