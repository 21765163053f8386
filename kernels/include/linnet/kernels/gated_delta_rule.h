// Gated delta rule on a GPU (arXiv 2412.06464), chunkwise forward and backward, and one decoding step. Per head, S [D keys, D values]:
//     S_t = exp(g_t) (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T ;  o_t = scale S_t^T q_t
// Query head j reads key/value head j / (heads / kvHeads); g, beta, o and S belong to query heads.
// A NaN in a token reaches every token of its chunk of 64 and all later ones of that head and sequence, no other head or sequence.
// All pointers are device pointers. gated_delta_rule/gated_delta_rule.md has the mathematics and the plan.
#pragma once

#include "linnet/kernels/launch.h"

#include <cstddef>

namespace linnet::kernels {

struct GatedDeltaRuleParams {
    // q [batch, tokens, heads, headDim], k and v [batch, tokens, kvHeads, headDim] in dataType (Float16 or BFloat16);
    // g and beta float32 [batch, tokens, heads], contiguous; 0 <= beta, and in chunks one below 1e-12 (Float16: 2^-14) counts as that.
    const void *q = nullptr, *k = nullptr, *v = nullptr;
    const float *g = nullptr, *beta = nullptr;
    TokenStrides qStrides, kStrides, vStrides;
    const float* initialState = nullptr; // [sequences or batch, heads, D, D], key-major; null: zeros
    // Fused non-linearities. aLog given: g = -exp(aLog[h]) softplus(g_in + dtBias[h]), else g is the log decay itself (<= 0).
    // betaIsLogit: beta = sigmoid(beta_in). normalise: q and k are divided by sqrt(sum of squares + normEps) first.
    const float *aLog = nullptr, *dtBias = nullptr; // [heads]
    bool betaIsLogit = false, normalise = false;
    float normEps = 1e-6F, scale = 1.0F;

    void* o = nullptr;            // [batch, tokens, heads, D], dataType
    TokenStrides oStrides;
    float* finalState = nullptr;  // like initialState; null: not wanted

    // Backward. All gradients contiguous; null ones aren't written. dk and dv are sums over the query heads of a key head.
    const void* dO = nullptr;            // like o, doStrides
    TokenStrides doStrides;
    const float* dFinalState = nullptr;  // null: zeros
    void *dq = nullptr, *dk = nullptr, *dv = nullptr; // dataType: [B, T, H, D], [B, T, K, D], [B, T, K, D]
    float *dg = nullptr, *dbeta = nullptr;            // [B, T, H], of g_in and beta_in
    float* dInitialState = nullptr;
    float *dALog = nullptr, *dDtBias = nullptr;       // [H]

    std::int64_t batch = 0, tokens = 0, heads = 0, kvHeads = 0, headDim = 0; // headDim 64, 96, 128 or 256
    // Variable length: batch = 1 and sequences > 0; sequence n is tokens sequenceStarts[n] .. sequenceStarts[n + 1] - 1.
    // They must cover all tokens: o and gradients of others aren't written.
    const std::int32_t* sequenceStarts = nullptr; // device, [sequences + 1]
    std::int64_t sequences = 0;

    DataType dataType = DataType::BFloat16;
    Path path = Path::Automatic;
    std::int64_t segmentChunks = 0; // chunks of 64 tokens per segment of the two-level scan; 0: chosen from the shape and the device
    // Scratch, 1024-byte aligned, gatedDeltaRuleBytes(params).forwardWorkspace or backwardWorkspace bytes; its content need not survive between calls.
    void* workspace = nullptr;
    // What backward needs of forward, gatedDeltaRuleBytes(params).saved bytes; null in forward: inference. Backward must get the
    // same parameters and the saved bytes of that forward.
    void* saved = nullptr;
    void* stream = nullptr; // cudaStream_t
};

struct GatedDeltaRuleBytes {
    std::size_t forwardWorkspace = 0, backwardWorkspace = 0, saved = 0;
};

GatedDeltaRuleBytes gatedDeltaRuleBytes(const GatedDeltaRuleParams& params);
LaunchError gatedDeltaRuleForward(const GatedDeltaRuleParams& params);
LaunchError gatedDeltaRuleBackward(const GatedDeltaRuleParams& params);

// One token of each of `batch` sequences: tokens = 1; initialState is read, finalState written (they may be the same memory).
LaunchError gatedDeltaRuleStep(const GatedDeltaRuleParams& params);

} // namespace linnet::kernels
