// What lies between the matrix products of a linear layer that is being aligned, for several layers at once: row gather, short
// convolution, gates, gated head norm, loss and AdamW with clipping. Float sums have a fixed order: the same bits each run.
// linear_layer/linear_layer.md has the formulas and the plan. Every `fooCpu` takes host pointers and is the launch's twin.
//
// Common shapes: L layers, B sequences a layer, T tokens; activations are [L, B, T, row] with `row` elements from token to token.
// Parameters are float32 and differ by layer: `parameterStride` (gradients: `gradientStride`) floats from layer to layer.
// Pointers are aligned to 16 bytes, rows and strides are multiples of 8 elements.
#pragma once

#include "linnet/kernels/launch.h"

namespace linnet::kernels {

struct LayerGroup {
    std::int64_t layers = 0, batch = 0, tokens = 0;
    std::int64_t parameterStride = 0, gradientStride = 0;
    DataType dataType = DataType::BFloat16; // of activations
    void* stream = nullptr;                 // cudaStream_t
};

// to[i] = from[rows[step * count + i]], rows of `rowBytes` (a multiple of 16). `from` may be pinned host memory.
struct GatherRowsParams {
    const void* from = nullptr;
    void* to = nullptr;
    const std::int32_t* rows = nullptr; // [steps, count]
    const std::int32_t* step = nullptr; // device counter; null: 0
    std::int64_t count = 0, rowBytes = 0;
    void* stream = nullptr;
};
LaunchError gatherRows(const GatherRowsParams& params);
void gatherRowsCpu(const GatherRowsParams& params);

// a = SiLU(y), y_t = sum_j taps_j u_{t-3+j}, for the three streams q, k, v that lie side by side: u and a hold 3 `width` columns.
struct ShortConvolutionParams {
    LayerGroup group;
    std::int64_t width = 0;            // of one stream
    const void* u = nullptr;
    std::int64_t uRow = 0;
    const float* taps = nullptr;       // [3 width, 4]
    void* a = nullptr;
    std::int64_t aRow = 0;
    // Backward: da of each stream apart, [L, B, T, width] contiguous.
    const void* da[3] = {};
    void* du = nullptr;
    std::int64_t duRow = 0;
    float* dTaps = nullptr;            // [3 width, 4]
    float* workspace = nullptr;        // shortConvolutionWorkspace(params) floats
};
std::int64_t shortConvolutionWorkspace(const ShortConvolutionParams& params);
LaunchError shortConvolutionForward(const ShortConvolutionParams& params);
LaunchError shortConvolutionBackward(const ShortConvolutionParams& params);
void shortConvolutionForwardCpu(const ShortConvolutionParams& params);
void shortConvolutionBackwardCpu(const ShortConvolutionParams& params);

// g = -exp(aLog_h) softplus(a + dtBias_h) ;  beta = sigmoid(b).   a and b lie side by side in rows of `row` elements.
struct GatesParams {
    LayerGroup group;
    std::int64_t heads = 0, row = 0;
    const void *a = nullptr, *b = nullptr;             // first element of each
    const float *aLog = nullptr, *dtBias = nullptr;    // [heads]
    float *g = nullptr, *beta = nullptr;               // [L, B, T, heads]
    // Backward
    const float *dg = nullptr, *dbeta = nullptr;       // [L, B, T, heads]
    void *da = nullptr, *db = nullptr;
    std::int64_t dRow = 0;
    float *dALog = nullptr, *dDtBias = nullptr;        // [heads]
};
LaunchError gatesForward(const GatesParams& params);
LaunchError gatesBackward(const GatesParams& params);
void gatesForwardCpu(const GatesParams& params);
void gatesBackwardCpu(const GatesParams& params);

// y = o rsqrt(mean_head o^2 + eps) w SiLU(gate).   headDim is even and at most 256.
struct GatedNormParams {
    LayerGroup group;
    std::int64_t heads = 0, headDim = 0;
    float eps = 1e-6F;
    const void* o = nullptr;           // [L, B, T, heads, headDim]
    const void* gate = nullptr;        // [L, B, T, heads headDim]
    std::int64_t gateRow = 0;
    const float* weight = nullptr;     // [headDim]
    void* y = nullptr;                 // like o
    // Backward
    const void* dy = nullptr;          // like o
    void* dO = nullptr;                // like o
    void* dGate = nullptr;
    std::int64_t dGateRow = 0;
    float* dWeight = nullptr;          // [headDim]; null: not wanted
    float* workspace = nullptr;        // gatedNormWorkspace(params) floats, where dWeight is wanted
};
std::int64_t gatedNormWorkspace(const GatedNormParams& params);
LaunchError gatedNormForward(const GatedNormParams& params);
LaunchError gatedNormBackward(const GatedNormParams& params);
void gatedNormForwardCpu(const GatedNormParams& params);
void gatedNormBackwardCpu(const GatedNormParams& params);

// Sums of (out - target)^2 and target^2 of each layer, in kLossBlocks parts, and dOut = 2 (out - target) / (B T hidden).
constexpr int kLossBlocks = 128;
struct SquareErrorParams {
    LayerGroup group;
    std::int64_t hidden = 0;
    const void* out = nullptr;          // [L, B, T, hidden]
    const void* targets = nullptr;      // windows of [T, hidden]; row i of `rows` is the window of sequence i = layer B + b
    const std::int32_t* rows = nullptr; // [steps, L, B]
    const std::int32_t* step = nullptr; // null: 0
    void* dOut = nullptr;               // may be `out` itself; null: not wanted
    float* sums = nullptr;              // [L, kLossBlocks, 2]
};
LaunchError squareError(const SquareErrorParams& params);
void squareErrorCpu(const SquareErrorParams& params);

// One AdamW step (decoupled weight decay, betas 0.9 and 0.999, eps 1e-8) of every layer, its gradient clipped to a global norm.
// [0, firstCount) takes the first learning rate of the schedule, [firstCount, count) the second. loss = sums / values.
constexpr int kNormBlocks = 256;
struct AlignUpdateParams {
    LayerGroup group;                   // parameterStride is also that of both moments and of `rounded`
    std::int64_t firstCount = 0, count = 0; // multiples of 4
    float *parameters = nullptr, *first = nullptr, *second = nullptr;
    const float* gradients = nullptr;
    void* rounded = nullptr;            // the parameters in group.dataType; null: not wanted
    const float* schedule = nullptr;    // [steps, 4]: lr of either part, 1 - 0.9^t, sqrt(1 - 0.999^t)
    const std::int32_t* step = nullptr; // device counter; not null
    float weightDecay = 0, clip = 1;
    bool relative = false;              // gradients are of the square error: divide them by the target's mean square
    const float* sums = nullptr;        // squareError's
    std::int64_t values = 0;            // B T hidden
    float* workspace = nullptr;         // [L, kNormBlocks]
    float* metrics = nullptr;           // [steps, L, 2]: loss, gradient norm before clipping
};
LaunchError alignUpdate(const AlignUpdateParams& params);
void alignUpdateCpu(const AlignUpdateParams& params);

} // namespace linnet::kernels
