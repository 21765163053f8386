// One step of alignment for a group of layers as one batch: layers are a leading dimension of every tensor, so a step has as many
// launches as one layer's. Everything that changes from step to step lies on the device (batch rows and learning rates in tables, read
// through a counter), nothing waits for the host: a captured graph of run() can be replayed.
//     x [L, B, T, hidden] -> one product for q, k, v, gate, a, b -> convolutions, gates, gated delta rule, gated norm -> o_proj
//     loss (o - target)^2 -> the same backwards, by hand -> clip by layer, AdamW, locked rows put back
// Precision: float32 masters, moments and gradients; products in `compute` (bfloat16 on a GPU) with float32 sums, activations between
// them in `compute`, norms, gates, loss and update in float32.
#pragma once

#include "core/convert/align_parts.h"
#include "core/convert/packed_layer.h"

namespace linnet::core {

struct AlignGroupShape {
    std::int64_t layers = 0, batch = 0, tokens = 0, windows = 0; // windows of each layer's inputs and targets
    LinearShape linear;
};

class AlignStep {
public:
    // Kernels: kernels/linear_layer (their twins on the CPU) and, where its shapes and the device allow, kernels/gated_delta_rule.
    // Tensors: LibTorch's operators and automatic differentiation between the products: the plain form, for any device.
    enum class Backend { Kernels, Tensors };

    AlignStep(const AlignGroupShape& shape, const MixerSpec& spec, const AlignSettings& settings, at::Device device, at::ScalarType compute, Backend backend);
    ~AlignStep();

    static bool supports(const MixerSpec& spec); // the Gated DeltaNet layer with all its parts
    static Backend backendFor(at::Device device, const LinearShape& shape);
    static std::uint64_t bytesOfLayer(const AlignGroupShape& shape, at::ScalarType compute, at::Device device); // all that one more layer takes

    const PackedLayout& layout() const { return m_layout; }
    at::Tensor inputs, targets;          // [L, windows, T, hidden] in `compute`: to be filled
    at::Tensor parameters, first, second; // [L, total] float32: to be filled, zeros at first
    at::Tensor metrics;                  // [steps, L, 2]: loss, gradient norm

    // Before the first run(): `rows` [steps, L, B], rows of inputs.view({L windows, ..}), and from which step on. Rounds the parameters.
    void begin(const std::vector<std::int32_t>& rows, std::int64_t steps, std::int64_t step, std::vector<AlignLocks> locks);
    void run();
    // Sums over `windows` [1 or L, b] (b <= B, int32 on the device) of (o - target)^2 and target^2: [L, 2] float64. No gradients.
    at::Tensor squareErrors(const at::Tensor& windows);

    std::function<void(const char* part)> onPart; // for benchmarks: called when a part of run() has been queued

private:
    struct Buffers;
    void mark(const char* part) const {
        if (onPart)
            onPart(part);
    }
    at::Tensor forward(std::int64_t batch, const at::Tensor& rows, const at::Tensor* step, bool gradients);
    void backward(const at::Tensor& dOut);
    void between(std::int64_t batch, bool gradients);
    void betweenBackward();
    void rule(std::int64_t batch, bool gradients);
    void ruleBackward();
    at::Tensor flatRows(const at::Tensor& rows, const at::Tensor* step) const;
    void loss(const at::Tensor& out, std::int64_t batch, const at::Tensor& rows, const at::Tensor* step, bool gradients);
    void update();
    void restoreLocks();

    AlignGroupShape m_shape;
    AlignSettings m_settings;
    at::Device m_device;
    at::ScalarType m_compute;
    Backend m_backend;
    bool m_ruleKernels;
    PackedLayout m_layout;
    std::unique_ptr<Buffers> m_b;
    std::vector<AlignLocks> m_locks;
    std::vector<std::pair<at::Tensor, at::Tensor>> m_relocked; // rounded views and the parameters they follow
};

} // namespace linnet::core
