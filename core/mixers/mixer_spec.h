// The seven mixers as settings of one recurrence. Per head, state S [Dk, Dv], per token t:
//     S_t = (I - beta_t k_t k_t^T) Decay_t S_{t-1} + write_t k_t v_t^T ;  o_t = S_t^T q_t  (then normaliser, norm, gate)
// The decay acts before the erase. Sources: linear attention (Katharopoulos 2020), RetNet (arXiv 2307.08621), GLA (2312.06635),
// DeltaNet (2406.06484), Gated DeltaNet (2412.06464), KDA (2510.26692), xLSTM's mLSTM (2405.04517).
#pragma once

#include <string>
#include <vector>

namespace linnet::core {

enum class Decay { None, ConstantPerHead, ScalarPerToken, ChannelPerToken };
enum class WriteGate { One, Beta, ExponentialInput }; // ExponentialInput: the gate is given before its exponential
enum class Normaliser {
    None,
    Denominator,  // o / (n^T q) with n the decayed sum of keys: for non-negative feature maps
    MaxStabilised // mLSTM: o / max(|n^T q|, 1) with every exponent held at or below 0 by a running maximum
};

struct MixerSpec {
    std::string name;
    Decay decay = Decay::None;
    bool deltaRule = false;
    WriteGate write = WriteGate::One;
    Normaliser normaliser = Normaliser::None;
    bool qkL2Norm = false;
    bool shortConvolution = false;
    bool outputGate = false;
};

// linear_attention, retnet, gla, delta_net, gated_delta_net, kda, xlstm
const std::vector<MixerSpec>& mixerPresets();

// Throws Failure{Usage} that names the nearest preset.
const MixerSpec& mixerSpec(const std::string& name);

} // namespace linnet::core
