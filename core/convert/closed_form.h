// The `linnet` start of a converted layer: closed form, linear regressions only (method.md section 9, docs/results.md).
//
// 1 A head can be started in several ways (HeadOption). For each of them its readout z is computed on some calibration windows, and the way is
//   scored by how well the best linear map of z gives the teacher's head output y_T, in the metric of W_O:
//     residual = tr((S - X' G^-1 X) M) / tr(S M),  S = y_T' y_T, X = z' y_T, G = z' z + 1e-4 mean diagonal I, M = W_O^h' W_O^h     (own residual)
//   Jointly (closed_form.joint), heads take turns: each takes the option with which the ridge regression of the layer's output on the readouts
//   of all heads leaves least, the others' held fixed, until nobody moves (the own residual forgets that heads share their work).
//   First half-lives, betas and taps as a grid, then (closed_form.refine) each of the other parts in turn at what the head has by then.
// 2 Output gate and o_proj by regression over the calibration windows (core/convert/gate_fit.h); or gate 1 and o_proj by ridge alone.
#pragma once

#include "core/base/control.h"
#include "core/convert/calibration.h"

namespace linnet::core {

struct HeadOption {
    double halfLife = 0; // tokens; infinity: no decay (rate 1e-4 in arithmetic)
    double beta = 0;     // mean of the write gate
    bool histogramTaps = false; // value convolution from the sink-free histogram's mass at distances 0 to 3, normalised; else identity
    bool foldRope = false;      // queries turned by E[exp(i w delta)]
    bool foldBias = true, foldQkNorm = true;
    bool centredKeys = false;   // mean key removed: softmax does not see it
    bool negatedValues = false; // SiLU(-v) is another feature than SiLU(v): two heads of a group then have v between them
    double queryScale = 1;      // of queries and keys before SiLU
    double keyPrior = 0;        // of the softmax logit that a key gets from the mean query, in the write gate's logit
    bool operator==(const HeadOption&) const = default;
};
struct HeadTrial {
    HeadOption option;
    double residual = 0; // own
};
struct HeadFit {
    HeadOption chosen;
    double residual = 0;          // own residual of the chosen option
    std::vector<HeadTrial> tried; // all, in the grid's order
};
// What a part of the teacher that a Gated DeltaNet layer cannot hold costs, folded and dropped: mean own residual over the heads, the rest as chosen.
struct TreatmentCost {
    std::string part;      // rope, bias, qk_norm (those that the teacher has)
    std::string treatment; // of the recipe
    double folded = 0, dropped = 0;
    std::int64_t headsFolded = 0; // fit: how many chose it
};
struct ClosedFormFit {
    LinearLayer layer;             // float32, on the teacher's device
    std::vector<HeadFit> heads;
    double ridge = 0;              // of o_proj: closed_form.ridge, or ridge_before_alignment where alignment follows
    double residual = 0;           // of the layer: squared error / square of the target, over all windows
    std::vector<double> gateResiduals; // the same for the teacher's o_proj: at the gate's levels, then after each round
    std::vector<TreatmentCost> treatments;
};
// context.capture holds all calibration windows (x, heads, target).
// Targets of the recipe restrict what a head may choose (half_life, beta), set its gate's level (output_gate), or scale its fitted columns
// of o_proj (value_scale). Throws Failure; checks `control` between pieces of work (at most 200 ms on a GPU, a second on a CPU).
ClosedFormFit closedForm(const LayerContext& context, const Control& control);

Json closedFormToJson(std::int64_t layer, const ClosedFormFit& fit); // one layer of a run folder's closed_form.json
Json headFitToJson(const HeadFit& fit);

} // namespace linnet::core
