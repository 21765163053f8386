// One head on one text, ready to be drawn and redrawn: the teacher's attention and what the student's recurrence gets. Torch-free.
// Arrays are row-major float32; T tokens, D head_dim. A pattern [T, T] has the query's row first: W[t, s] is what t takes from s <= t.
#pragma once

#include "core/convert/target_probe.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace linnet::core {

inline constexpr std::int64_t kProbeTokens = 512; // of a person's text: longer ones are cut

inline constexpr std::array<std::int64_t, 3> kTopSources = {1, 4, 16};
inline constexpr std::int64_t kTopWindows = 8; // calibration windows that it is measured on, at most
struct TopMass { // share of a row's attention that its k largest weights have: mean over all rows (1 where a row has no more than k)
    std::int64_t rows = 0, windows = 0;
    std::array<double, kTopSources.size()> mean{}, se{}; // se over windows; NaN with one
};
TopMass topMass(const std::vector<std::vector<float>>& patterns, std::int64_t length); // each [length, length]

struct HeadView {
    std::int64_t layer = 0, head = 0, length = 0 /*T*/, headDim = 0 /*D*/;
    std::int64_t textTokens = 0;         // of the whole text: above `length` it was cut
    std::vector<std::string> tokens;     // [T] text pieces
    std::vector<float> teacher;          // [T, T] softmax attention, 0 where s > t
    std::vector<float> q, k, v;          // [T, D] as the student's rule gets them (after convolution, SiLU, normalisation; q scaled)
    std::vector<float> logDecay, beta;   // [T] per token, <= 0 and in (0, 1): of the layer as it stands
    std::vector<float> gate;             // [T] RMS of the output gate over the head's channels
    std::vector<float> unit;             // [T] along which a target moves the write gate's logit; its mean over the data is 1
    std::vector<double> distanceEdges, distanceMass; // measured histogram of this head: edges is one longer, mass sums to 1
    TopMass top;                         // of the teacher, on the recipe's data whatever the text is
    // What the sliders stand at now. halfLife: infinity = no decay, of a trained layer ln 2 / mean rate on this text. betaMean: sigmoid of the
    // mean logit. outputGate: level of the gate (trained: mean RMS on this text). valueScale: the recipe's target, or 1.
    double halfLife = 0, betaMean = 0, valueScale = 1, outputGate = 1;
    bool deltaRule = true, decays = true, writes = true; // of the mixer; without a decay or a write gate their sliders have no effect
    bool trained = false;                // of a run's aligned layer; false: the start, with the recipe's targets
};

struct HeadRequest {
    std::int64_t layer = 0, head = 0;
    std::string text;                       // "": the first calibration window of the recipe's data
    std::filesystem::path run;              // its layer, aligned or further; "": the start that the recipe would give the head
    std::shared_ptr<const Profile> profile; // of the teacher; null: the histogram of the probe's own windows
};
// The start is the head's own closed form (that of target_probe.h) with a gate of its level: the fitted gate rows of a run belong to the
// whole layer. Other presets than linnet give their start of the layer. Unsupported: mixers with a decay by channel or a normaliser, the
// sliding-window preset, a run that keeps the layer softmax or is of another teacher. `probe` is of the recipe's windows.
Result<HeadView> headView(TargetProbe& probe, const Recipe& recipe, const HeadRequest& request, const Control& control = {});

struct HeadSliders { // nullopt: as the layer has it
    std::optional<double> halfLife = {}, beta = {}, valueScale = {}, outputGate = {};
};

// Effective weights of the gated delta rule: o_t = sum_s W[t, s] v_s, W [T, T] causal and signed. Rows are multiplied by gate_t and value
// scale; the head's norm, which would divide row t by the RMS of o_t, is left out. With G_t = sum of the log decays up to t:
//     L[t, s] = beta_t exp(G_t - G_s) k_t.k_s (s < t),  P[t, s] = exp(G_t - G_s) q_t.k_s (s <= t),  W = P (I + L)^-1 diag(beta)
// A half-life stands for all tokens; beta moves the logits along `unit`, as the recipe's target does. Milliseconds at T 512, D 64.
std::vector<float> recurrencePattern(const HeadView& view, const HeadSliders& sliders);

// Each row divided by the sum of its magnitudes (rows of zeros stay): what can be laid beside a softmax pattern.
std::vector<float> rowShares(const std::vector<float>& pattern, std::int64_t length);

} // namespace linnet::core
