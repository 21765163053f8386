// Stage 1: the closed-form start of one converted layer from the teacher's weights and statistics (method.md sections 2 to 4;
// Taylor-Calibrate, arXiv 2606.16429 section 3).
#pragma once

#include "core/base/control.h"
#include "core/model/model.h"
#include "core/profile/profile.h"
#include "core/recipe/recipe.h"

namespace linnet::core {

struct ClosedFormFit; // core/convert/closed_form.h

// What a layer does on the calibration windows: N sequences of T tokens.
struct LayerCapture {
    at::Tensor x;      // [N, T, hidden] input of the token mixer, model dtype
    at::Tensor heads;  // [N, T, H*D] the teacher's A V before W_O
    at::Tensor target; // [N, T, hidden] the teacher's attention output after W_O
};

// 1 / mean square of the residual stream after the attention's addition [.., hidden] -> [..], which the next norm divides by; float32.
at::Tensor streamWeights(const at::Tensor& stream);

// First and second moments of a layer's inputs, float64.
struct InputMoments {
    at::Tensor mean;   // [hidden]
    at::Tensor second; // [hidden, hidden], 1e-5 of its mean diagonal added
    // The least-variance row w with mean(w x) = 1: second^-1 mean / (mean' second^-1 mean). [hidden]
    at::Tensor unitRow() const;
    at::Tensor solve(const at::Tensor& rhs) const; // second^-1 rhs, both [hidden]
};
InputMoments inputMoments(const at::Tensor& x);

// Parameters that the teacher does not have, drawn as flash-linear-attention draws them; float32 on the host.
struct NewParameters {
    at::Tensor aProj, bProj; // [H, hidden]
    at::Tensor gProj;        // [H*D, hidden]
    at::Tensor aLog, dtBias; // [H]
};
NewParameters drawNewParameters(const ModelConfig& config, std::uint64_t seed, std::int64_t layer);

// Everything of one layer that a start depends on.
struct LayerContext {
    const Model& teacher;
    const LayerWeights& weights;
    std::int64_t layer;
    const Recipe& recipe;
    const LayerCapture& capture;
    const InputMoments& moments;
    const Profile* profile; // of the calibration windows; needed by `paper` only, taken for distances where its bins are exact
    const NewParameters* drawn = nullptr; // null: drawn where they are needed
    ClosedFormFit* fit = nullptr;         // preset linnet: what its closed form found
    const Control* control = nullptr;     // checked by the closed form; null: it is never stopped
};

// float32 parameters on the teacher's device: projections copied block-wise, new parameters by `preset`, then the recipe's targets.
// Preset linnet is closedForm() of closed_form.h.
LinearLayer initialLayer(const LayerContext& context, const std::string& preset);

// ---- the pieces, each one home of its formula --------------------------------------------------------------------------------
struct Treatments { // of what a Gated DeltaNet layer cannot hold: folded in or dropped
    bool foldBias = true, foldQkNorm = true, foldRope = false;
};
Treatments treatmentsOf(const Recipe& recipe); // `fit` counts as these defaults, where the closed form begins

struct Projections {
    at::Tensor q, k, v; // [H D, hidden] float32 on the teacher's device; keys and values repeated block-wise for their query heads
};
// `distances` as attentionDistances() gives them; read with foldRope only. `scrambled`: the released codes' repetition.
Projections copiedProjections(const LayerContext& context, const Treatments& treatments, const at::Tensor& distances, bool scrambled = false);
// Mass of each head's attention by distance, sink-free (method.md section 1): of the profile where its bins are exact, else of the first
// closed_form.sequences captured windows. [H, T] float64 on the host, rows sum to 1; undefined for windows of 8 tokens or fewer.
at::Tensor attentionDistances(const LayerContext& context);
void setDecay(LinearLayer& layer, std::int64_t head, double rate); // constant: a_proj row and A_log zero
at::Tensor floatOn(const Model& model, const at::Tensor& tensor);  // float32 on the model's device
at::Tensor expandKeyValueRows(const at::Tensor& weight, std::int64_t kvHeads, std::int64_t group, bool scrambled); // [K D, in] -> [H D, in]
double inverseSoftplus(double y);
double inverseSiLU(double y); // rising branch, y >= 0
double logit(double p);
double decayRate(double halfLife); // ln 2 / half-life, floor 1e-4 (no decay)

} // namespace linnet::core
