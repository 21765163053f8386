#include "core/convert/convert.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace linnet::core {

std::vector<std::vector<HeadTarget>> automaticTargets(const Profile& profile, const std::string& preset) {
    std::vector<std::vector<HeadTarget>> result;
    for (const auto& layer : profile.layers) {
        auto& heads = result.emplace_back();
        for (const auto& head : layer) {
            auto& target = heads.emplace_back();
            target.valueScale = 1.0;
            if (preset == "paper" || preset == "reference") {
                // [TC]: half-life = the mean distance, rate clamped to 1e-3 .. 5; beta from the layer's concentration
                target.halfLife = std::clamp(head.distance.mean, std::log(2.0) / 5, std::log(2.0) / 1e-3);
                target.beta = 0.3 + 0.4 * head.concentrationLayer;
            } else {
                // what the measurements of the method recommend where no grid is run: sink-free median distance, beta 0.1
                target.halfLife = std::max(head.medianNoSink, 0.5);
                target.beta = 0.1;
                target.outputGate = preset == "zero-gate" ? 0.0 : 1.0;
            }
        }
    }
    return result;
}

} // namespace linnet::core
