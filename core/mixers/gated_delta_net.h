// One converted layer: projections, short convolutions, gates, recurrence, head norm, output gate, output projection.
//     q, k, v = SiLU(conv(proj x)), conv depthwise, causal, 4 taps, tap 3 = the current token
//     q, k    = z * rsqrt(sum z^2 + 1e-6), q times D^-0.5
//     g = -exp(A_log) softplus(a_proj x + dt_bias) ;  beta = sigmoid(b_proj x)
//     S_t = exp(g) (I - beta k k^T) S_{t-1} + beta k v^T ;  o = S_t^T q
//     y = o_proj [RMSNorm_head(o) * o_norm * SiLU(g_proj x)]
// Gated DeltaNet, arXiv 2412.06464 section 3.4. Projections run in the layer's dtype; convolution, gates, norms and recurrence
// in float32 (float64 where the layer is float64). Specs with scalar or no decay and no normaliser: others throw
// Failure{Unsupported}. Everything is differentiable in x and in each parameter.
#pragma once

#include "core/mixers/recurrence.h"

#include <functional>
#include <string>
#include <vector>

namespace linnet::core {

inline constexpr int64_t kConvTaps = 4;

struct LinearLayer {
    at::Tensor qProj, kProj, vProj; // [H*D, hidden]
    at::Tensor qConv, kConv, vConv; // [H*D, 4]; checkpoints store [H*D, 1, 4]
    at::Tensor aProj, bProj;        // [H, hidden]
    at::Tensor gProj;               // [H*D, hidden]
    at::Tensor aLog, dtBias;        // [H]
    at::Tensor oNorm;               // [D]
    at::Tensor oProj;               // [hidden, H*D]

    // Every tensor with its checkpoint name less "model.layers.N.<module>.": "q_proj.weight", "q_conv1d.weight", "A_log", ...
    // always in the order of names(). Convolutions come as the fields hold them, [H*D, 4].
    void forEach(const std::function<void(const std::string&, at::Tensor&)>& visit);
    void forEach(const std::function<void(const std::string&, const at::Tensor&)>& visit) const;
    static std::vector<std::string> names();
};

// The same layer with `fn(name, tensor)` of each defined tensor: to another device or dtype, detached, requiring gradients.
LinearLayer mapped(const LinearLayer& layer, const std::function<at::Tensor(const std::string&, const at::Tensor&)>& fn);
LinearLayer mapped(const LinearLayer& layer, const std::function<at::Tensor(const at::Tensor&)>& fn);

inline constexpr double kQkNormEps = 1e-6; // of the L2 norm of q and k, in flash-linear-attention and here

struct LinearShape {
    int64_t heads = 0;
    int64_t headDim = 0;
    int64_t hidden = 0;
    double normEps = 1e-6; // the teacher's rms_norm_eps
    double qkEps = kQkNormEps; // of the L2 norm of q and k
};

// What a layer carries from one piece of a sequence to the next; undefined tensors mean the start of a sequence.
struct LinearState {
    at::Tensor conv;      // [B, 3, 3*H*D]: the last 3 inputs of the q, k and v convolutions, oldest first
    at::Tensor recurrent; // [B, H, D, D]
};

// x [B, T, hidden] -> y [B, T, hidden] in x's dtype. A given state is continued and updated: pieces of a prefill and decoding
// steps give the outputs of the whole sequence.
at::Tensor linearForward(const MixerSpec& spec, const LinearShape& shape, const LinearLayer& layer, const at::Tensor& x,
                         LinearState* state = nullptr, int64_t chunk = 64);

// The parts that calibration needs; linearForward is made of them.
struct Readout {
    at::Tensor raw;    // o before the head norm [B, T, H, D]
    at::Tensor normed; // RMSNorm_head(o) * o_norm [B, T, H, D]
};
// ruleType: what the rule gets of q, k and v where a GPU's kernels take it; default: the layer's type.
Readout linearReadout(const MixerSpec& spec, const LinearShape& shape, const LinearLayer& layer, const at::Tensor& x,
                      LinearState* state = nullptr, int64_t chunk = 64, std::optional<at::ScalarType> ruleType = {});
at::Tensor outputGate(const LinearLayer& layer, const at::Tensor& x); // SiLU(g_proj x) [B, T, H*D]
// o_proj [normed * gate]: [B, T, hidden] in o_proj's dtype.
at::Tensor linearOutput(const LinearLayer& layer, const at::Tensor& normed, const at::Tensor& gate);

} // namespace linnet::core
