// A decoder-only Transformer whose attention may be replaced layer by layer. Weights are immutable; a hybrid is a teacher
// plus a `Mixers` map, so that any number of students share one teacher in memory.
//
// Shapes: B sequences, T tokens, H query heads, K key/value heads, D head_dim. Hidden states [B, T, hidden] in dtype().
#pragma once

#include "core/torch_pch.h"

#include "core/io/model_files.h"
#include "core/mixers/gated_delta_net.h"
#include "core/mixers/mixer_spec.h"
#include "core/model/model_api.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace linnet::core {

struct AttentionWeights {
    at::Tensor qkv, qkvBias; // [(H + 2K) D, hidden], [(H + 2K) D] or undefined; rows q, k, v
    at::Tensor o, oBias;     // [hidden, H D], [hidden] or undefined
    at::Tensor qNorm, kNorm; // [D] or undefined
    // Rows of the fused matrix, as views.
    at::Tensor q(const ModelConfig& c) const { return qkv.narrow(0, 0, c.heads * c.headDim); }
    at::Tensor k(const ModelConfig& c) const { return qkv.narrow(0, c.heads * c.headDim, c.kvHeads * c.headDim); }
    at::Tensor v(const ModelConfig& c) const { return qkv.narrow(0, (c.heads + c.kvHeads) * c.headDim, c.kvHeads * c.headDim); }
};

struct LayerWeights {
    at::Tensor inputNorm, postNorm; // [hidden]
    AttentionWeights attention;     // undefined tensors where the folder holds a converted layer only
    at::Tensor gateUp, gateUpBias, down, downBias; // [2 I, hidden] rows gate, up; [hidden, I]; biases or undefined
};

// What stands in for a layer's softmax attention.
struct Mixer {
    enum class Kind { Linear, SlidingWindow, Bypass } kind = Kind::Linear;
    const MixerSpec* spec = nullptr; // Linear
    LinearLayer linear;              // Linear
    std::int64_t window = 64, sinks = 4; // SlidingWindow: a token sees the last `window` keys (itself included) and the first `sinks`
    double headNormEps = 0;              // Linear: of o_norm, where another trainer's differs from the model's rms_norm_eps; 0: that
    double qkNormEps = 0;                // Linear: of the L2 norm of q and k, where a runtime's differs from 1e-6 (llama.cpp's is rms_norm_eps); 0: that
};
using Mixers = std::map<std::int64_t, Mixer>; // by layer; the others are softmax

class Model {
public:
    Model(ModelFiles files, at::Device device, at::ScalarType dtype, bool streamed, Mixers mixers, const Control& control);

    const ModelConfig& config() const { return m_files.config; }
    const ModelFiles& files() const { return m_files; }
    at::Device device() const { return m_device; }
    at::ScalarType dtype() const { return m_dtype; }
    bool streamed() const { return m_streamed; }
    const Mixers& mixers() const { return m_mixers; } // of a student folder; empty for a teacher
    std::string hash() const { return m_files.hash(); } // of teacher and converted layers
    const at::Tensor& head() const { return m_head; } // [V, hidden]
    // Resident, or read from the file now (streamed): hold it no longer than needed.
    std::shared_ptr<const LayerWeights> layer(std::int64_t index) const;
    LinearShape linearShape() const; // H, D, hidden, rms_norm_eps
    LinearShape linearShape(const Mixer& mixer) const; // with the mixer's own eps

    at::Tensor embed(const at::Tensor& ids) const;         // [B, T] int64 -> [B, T, hidden]
    at::Tensor finalNorm(const at::Tensor& hidden) const;  // [.., hidden]
    at::Tensor logits(const at::Tensor& normed) const;     // [.., hidden] -> [.., V] in dtype()
    at::Tensor ropeCos(std::int64_t length) const;         // [>= length, D] in float32, grown on need
    at::Tensor ropeSin(std::int64_t length) const;
    std::pair<at::Tensor, at::Tensor> ropeRounded(std::int64_t length) const; // cos and sin in dtype()

private:
    LayerWeights readLayer(std::int64_t index) const;
    at::Tensor read(const std::vector<std::string>& names, std::vector<std::int64_t> shape) const; // rows of all, one tensor
    void growRope(std::int64_t length) const; // with m_ropeMutex held
    ModelFiles m_files;
    at::Device m_device;
    at::ScalarType m_dtype;
    bool m_streamed;
    Mixers m_mixers;
    at::Tensor m_embedding, m_finalNorm, m_head; // m_head shares m_embedding where tied
    std::vector<std::shared_ptr<const LayerWeights>> m_layers;
    mutable std::mutex m_ropeMutex;
    mutable at::Tensor m_cos, m_sin, m_roundedCos, m_roundedSin;
};

// ---- pieces of a block (core/model/blocks.cpp); all differentiable, all on the model's device -----------------------------
// In float32. On the CPU a narrow dtype is rounded before the weight too, as Hugging Face does it; on a GPU once, after it.
at::Tensor rmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);
struct QueryKeyValue {
    at::Tensor q, k, v; // [B, H, T, D], [B, K, T, D], [B, K, T, D]; q and k normed (QK-norm) and rotated
};
QueryKeyValue queryKeyValue(const Model& model, const LayerWeights& layer, const at::Tensor& x, std::int64_t position = 0);
at::Tensor headOutputs(const Model& model, const LayerWeights& layer, const at::Tensor& x);     // A V before W_O [B, T, H D]
at::Tensor outputProjection(const LayerWeights& layer, const at::Tensor& heads);                // W_O y + bias
at::Tensor feedForward(const Model& model, const LayerWeights& layer, const at::Tensor& hidden); // MLP(norm(h)), no residual
at::Tensor attentionInput(const Model& model, const LayerWeights& layer, const at::Tensor& hidden); // x = input_layernorm(h)

// Output of the layer's token mixer for x = attentionInput(h): softmax attention, or `mixer` in its place. [B, T, hidden]
// A Bypass mixer gives zeros (the residual stream passes).
at::Tensor mixerOutput(const Model& model, const LayerWeights& layer, const Mixer* mixer, const at::Tensor& x);
// One whole block: h + mixer, then + MLP.
at::Tensor runBlock(const Model& model, const LayerWeights& layer, const Mixer* mixer, const at::Tensor& hidden);

// ---- whole forwards (core/model/forward.cpp) --------------------------------------------------------------------------------
class Cache; // growing keys and values of softmax layers, states of linear layers (core/model/cache.h)
// Final normed hidden states [B, T, hidden] of ids [B, T]. `mixers` lies over the model's own. Checks `control` in each layer.
at::Tensor forwardHidden(const Model& model, const Mixers& mixers, const at::Tensor& ids, const Control& control = {},
                         Cache* cache = nullptr);

const Mixer* mixerAt(const Mixers& mixers, std::int64_t layer); // nullptr where softmax
// What runs there: of `mixers`, else the model's own (a hybrid that further layers are converted of); nullptr where softmax.
const Mixer* mixerAt(const Model& model, const Mixers& mixers, std::int64_t layer);

// ---- students on disk (core/model/student_files.cpp) ------------------------------------------------------------------------
// Tensors "model.layers.N.linear_attn.<name>" plus metadata {"mixer": spec name}; used by run folders and by exports alike.
// A layer with a sliding window is one float32 tensor "model.layers.N.sliding_window" [2]: window, sinks.
inline constexpr const char* kLinearModule = "linear_attn";
inline constexpr const char* kSlidingWindow = "sliding_window";
// Layers N that have a tensor "model.layers.N.<module>" or one below it.
std::set<std::int64_t> layersWith(const WeightSource& source, const std::string& module);
void saveLinearLayers(const std::filesystem::path& file, const Mixers& mixers); // float32 safetensors, atomic
Mixers loadLinearLayers(const WeightSource& source, const LinearShape& shape, at::Device device, at::ScalarType dtype,
                        const std::string& mixerName);
struct OpenedModel; // core/model/opened_model.h
Mixers mixersOf(const OpenedModel& opened, at::Device device, at::ScalarType dtype); // empty for a teacher

} // namespace linnet::core
