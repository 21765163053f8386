#include "core/io/head_lift.h"

#include <cmath>

namespace linnet::core {
namespace {

// `number` as a sum of exactly `count` squares of whole numbers, the largest first and at most `most`; empty: there is none.
std::vector<std::int64_t> squares(std::int64_t number, int count, std::int64_t most) {
    for (std::int64_t root = most; root > 0; --root) {
        const std::int64_t rest = number - root * root;
        if (rest == 0 && count == 1)
            return {root};
        if (rest <= 0 || count == 1)
            continue;
        if (auto others = squares(rest, count - 1, root); !others.empty()) {
            others.insert(others.begin(), root);
            return others;
        }
    }
    return {};
}

std::vector<std::int64_t> fewestSquares(std::int64_t number) {
    for (int count = 1;; ++count) // Lagrange: 4 suffice
        if (auto found = squares(number, count, static_cast<std::int64_t>(std::sqrt(static_cast<double>(number)) + 0.5)); !found.empty())
            return found;
}

std::vector<double> times(const std::vector<std::int64_t>& roots, double scale) {
    std::vector<double> pads;
    for (const auto root : roots)
        pads.push_back(static_cast<double>(root) * scale);
    return pads;
}

} // namespace

double HeadLift::rotaryPart() const {
    const auto d = static_cast<double>(headDim), all = static_cast<double>(padded);
    double part = d / all;
    while (all * part < d)
        part = std::nextafter(part, 2.0);
    return part;
}

std::int64_t liftedHeadDim(std::int64_t headDim) {
    for (std::int64_t padded = (headDim / 32 + 1) * 32;; padded += 32)
        if (std::ssize(fewestSquares(headDim)) <= padded - headDim && std::ssize(fewestSquares(padded)) <= padded - headDim)
            return padded;
}

HeadLift headLift(std::int64_t headDim, bool half) {
    HeadLift lift = noLift(headDim);
    lift.padded = liftedHeadDim(headDim);
    lift.scale = std::exp2(half ? 11 : 20);
    lift.queryPads = times(fewestSquares(headDim), lift.scale);
    lift.keyPads = times(fewestSquares(lift.padded), lift.scale);
    return lift;
}

HeadLift noLift(std::int64_t headDim) {
    HeadLift lift;
    lift.headDim = lift.padded = headDim;
    return lift;
}

} // namespace linnet::core
