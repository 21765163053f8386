#include "core/mixers/mixer_spec.h"

#include "core/base/json.h"
#include "core/base/result.h"

namespace linnet::core {

const std::vector<MixerSpec>& mixerPresets() {
    // name, decay, delta rule, write, normaliser, q/k of unit norm, short convolution, output gate
    static const std::vector<MixerSpec> presets = {
        {"linear_attention", Decay::None, false, WriteGate::One, Normaliser::None, false, false, false},
        {"retnet", Decay::ConstantPerHead, false, WriteGate::One, Normaliser::None, false, false, true},
        {"gla", Decay::ChannelPerToken, false, WriteGate::One, Normaliser::None, false, false, true},
        {"delta_net", Decay::None, true, WriteGate::Beta, Normaliser::None, true, true, false},
        {"gated_delta_net", Decay::ScalarPerToken, true, WriteGate::Beta, Normaliser::None, true, true, true},
        {"kda", Decay::ChannelPerToken, true, WriteGate::Beta, Normaliser::None, true, true, true},
        {"xlstm", Decay::ScalarPerToken, false, WriteGate::ExponentialInput, Normaliser::MaxStabilised, false, true, true},
    };
    return presets;
}

const MixerSpec& mixerSpec(const std::string& name) {
    std::vector<std::string> known;
    for (const MixerSpec& spec : mixerPresets()) {
        if (spec.name == name)
            return spec;
        known.push_back(spec.name);
    }
    const std::string nearest = nearestName(name, known);
    std::string all;
    for (const std::string& each : known)
        all += (all.empty() ? "" : ", ") + each;
    fail(ErrorCode::Usage,
         "unknown mixer '" + name + "'" + (nearest.empty() ? "" : ", did you mean '" + nearest + "'?") + " (known: " + all + ")",
         {{"found", name}, {"expected", all}});
}

} // namespace linnet::core
