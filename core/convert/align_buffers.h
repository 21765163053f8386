// What one alignment step works in: allocated once, so that a step allocates nothing where the kernels run. Not a public header.
#pragma once

#include "core/convert/align_step.h"
#include "core/mixers/kernel_call.h"

#include "linnet/kernels/gated_delta_rule.h"
#include "linnet/kernels/linear_layer.h"

#include <array>

namespace linnet::core {

struct AlignStep::Buffers {
    Buffers(const AlignGroupShape& shape, const PackedLayout& layout, at::ScalarType compute, at::Device device, Backend backend);
    static std::uint64_t bytes(const AlignGroupShape& shape, const PackedLayout& layout, at::ScalarType compute, at::Device device, Backend backend);
    static bool ruleKernels(const AlignGroupShape& shape, at::ScalarType compute, at::Device device);

    // Views of the first `batch` sequences' worth of each activation (held-out windows may be fewer than a step's).
    void use(std::int64_t batch);

    at::Tensor rounded, gradients;               // [L, total]
    at::Tensor rows, schedule, step, layerOffsets; // tables of all steps, the counter, l * windows
    at::Tensor sums, normSums;                   // partial sums of loss and gradient norm
    // [L, B, T, row] in `compute`; g, beta and their gradients float32
    at::Tensor x, u, a, o, y, out, g, beta;
    at::Tensor dy, dO, du, dg, dbeta;
    std::array<at::Tensor, 3> dHeads;            // gradients of q, k, v
    at::Tensor convolutionWorkspace, normWorkspace;
    Scratch ruleWorkspace, ruleSaved;
    std::vector<at::Tensor> leaves;              // where automatic differentiation does the rule, or all between the products
    at::Tensor ruleOutput;

    kernels::LayerGroup group(const AlignGroupShape& shape, std::int64_t batch) const;
    kernels::ShortConvolutionParams convolution(const at::Tensor& parameters, const PackedLayout& layout, const AlignGroupShape& shape, std::int64_t batch) const;
    kernels::GatesParams gates(const at::Tensor& parameters, const PackedLayout& layout, const AlignGroupShape& shape, std::int64_t batch) const;
    kernels::GatedNormParams norm(const at::Tensor& parameters, const PackedLayout& layout, const AlignGroupShape& shape, std::int64_t batch) const;
    kernels::GatedDeltaRuleParams rule(const PackedLayout& layout, const AlignGroupShape& shape, std::int64_t batch, bool training) const;

    // Backend::Tensors: u -> y by LibTorch's operators, and back (u, taps, A_log, dt_bias, o_norm).
    void tensorsBetween(const at::Tensor& parameters, const PackedLayout& layout, const AlignGroupShape& shape, std::int64_t batch, bool training);
    void tensorsBetweenBackward(const PackedLayout& layout, const AlignGroupShape& shape);

private:
    struct Activation {
        at::Tensor* view;
        at::Tensor all;
    };
    std::vector<Activation> m_activations;
    at::Device m_device;
    at::ScalarType m_compute;
};

} // namespace linnet::core
