// The output gate and o_proj of the closed form. The readouts n (after the head's norm) lack what softmax attention's output has: its size,
// token by token. A ridge regression of o_proj makes the best of that, but leaves o_proj small and turned away from the teacher's, and
// alignment then starts where features get little gradient: it ends behind a naive start. So o_proj stays the teacher's W, and the gate
// rows are fitted for it:
//   1 levels: one number c_h a head, least squares of y on the heads' W_h n_h (H unknowns); gate row SiLU^-1(|c_h|) unitRow, its sign in W_h.
//   2 `rounds` of block-wise Gauss-Newton on the gate rows G, all channels at once, which is linear regression only:
//        u = G x, s = SiLU(u), f = n SiLU'(u), e = y - W (n s), eps_j = (W'e)_j / |W_j|^2
//        dG_j = (Sigma + 0.1 mean diagonal I)^-1 E[f_j eps_j x] / E[f_j^2],  G += a dG,  a = <e, d> / <d, d>, d = W (f dG x)
//   3 ridge regression of what is left on n s, towards W.
#pragma once

#include "core/convert/calibration.h"

namespace linnet::core {

struct GateFit {
    at::Tensor gProj;              // [H D, hidden] float32
    at::Tensor oProj;              // [hidden, H D] float32: W, signed and scaled; step 3 is OutputRegression's
    std::vector<double> residuals; // squared error / square of y: at the levels, then after each round
};

// `layer`: everything but g_proj and o_proj. A head whose target names output_gate keeps that level in every channel; its c_h / level goes
// into W_h. The first 8k tokens are enough (64k on a GPU).
GateFit fitGate(const LayerContext& context, const LinearLayer& layer, std::int64_t rounds, const Control& control);

} // namespace linnet::core
