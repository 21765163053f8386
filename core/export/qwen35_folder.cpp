// What differs from a Qwen3 teacher, and how it is said there without loss:
// - norms are stored less one, w - 1. In 16 bits that is exact for w in [0.5, 2) only, so a channel with another w gets a power of two, w 2^k,
//   and the columns that read it get 2^-k; after the final norm those are lm_head's, which is then stored beside the embedding.
//   q_norm and k_norm have no such columns: what they lose is counted against `exact`.
// - softmax layers have an output gate, sigmoid(gate) before o_proj: rows of zeros let exactly half pass, o_proj is doubled.
// - a linear layer has q, k and v in one projection and one convolution.
#include "core/torch_pch.h"

#include "core/export/qwen35_folder.h"

#include "core/export/tensor_plan.h"

namespace linnet::core {
namespace {

// 2^k a channel, and so that w 2^k - 1 keeps all digits of w in 16 bits; 1 where nothing is gained.
at::Tensor channelScale(const at::Tensor& w, const std::string& dtype) {
    const at::Tensor size = w.to(at::kDouble).abs(), fine = (size >= 0.5).logical_and_(size < 2).logical_or_(size == 0);
    const at::Tensor scale = at::where(fine, at::ones_like(size), at::exp2(-at::floor(at::log2(size))));
    return (dtype == "f32" ? at::ones_like(size) : scale).to(w.scalar_type());
}

class Planner {
public:
    Planner(const Model& model, const std::string& dtype) : m_model(model), m_c(model.config()), m_dtype(dtype), m_type(storedTypeName(dtype)) {}

    std::vector<PlannedTensor> plan() {
        add("model.embed_tokens.weight", {m_c.vocabSize, m_c.hiddenSize}, {});
        for (std::int64_t l = 0; l < m_c.layers; ++l)
            layer(l);
        add("model.norm.weight", {m_c.hiddenSize}, [this] { return lessOne(finalNorm() * finalScale()); });
        if (!tied())
            add("lm_head.weight", {m_c.vocabSize, m_c.hiddenSize}, [this] { return m_model.head() / finalScale(); });
        return std::move(m_plan);
    }
    bool tied() const { return m_c.tiedEmbeddings && at::equal(finalScale(), at::ones_like(finalScale())); }

private:
    using Make = std::function<at::Tensor()>;
    void add(const std::string& name, std::vector<std::int64_t> shape, Make make) { m_plan.push_back({{name, m_type, std::move(shape)}, std::move(make)}); }
    static at::Tensor lessOne(const at::Tensor& w) { return w.to(at::kDouble) - 1; }
    at::Tensor finalNorm() const {
        at::Tensor w = at::empty({m_c.hiddenSize}, at::kFloat);
        m_model.files().weights->read("model.norm.weight", DType::F32, w.data_ptr());
        return w.to(m_model.head().device());
    }
    at::Tensor finalScale() const { return channelScale(finalNorm(), m_dtype); }

    void layer(std::int64_t l) {
        const auto prefix = "model.layers." + std::to_string(l) + ".";
        const auto norm = [&](const char* name, at::Tensor LayerWeights::*w) {
            add(prefix + name, {m_c.hiddenSize}, [this, l, w] {
                const auto weights = m_model.layer(l);
                return lessOne((*weights).*w * channelScale((*weights).*w, m_dtype));
            });
        };
        norm("input_layernorm.weight", &LayerWeights::inputNorm);
        norm("post_attention_layernorm.weight", &LayerWeights::postNorm);
        const auto middle = m_c.intermediateSize, hidden = m_c.hiddenSize;
        for (const bool up : {false, true})
            add(prefix + (up ? "mlp.up_proj.weight" : "mlp.gate_proj.weight"), {middle, hidden}, [this, l, up, middle] {
                const auto w = m_model.layer(l);
                return w->gateUp.narrow(0, up ? middle : 0, middle) / channelScale(w->postNorm, m_dtype);
            });
        add(prefix + "mlp.down_proj.weight", {hidden, middle}, [this, l] { return m_model.layer(l)->down; });
        if (const auto* mixer = mixerAt(m_model.mixers(), l))
            linear(prefix + "linear_attn.", l, mixer->linear);
        else
            softmax(prefix + "self_attn.", l);
    }

    // Columns that read the input norm's channels.
    at::Tensor reading(std::int64_t l, const at::Tensor& w) const { return w / channelScale(m_model.layer(l)->inputNorm, m_dtype).to(w.device()); }

    void softmax(const std::string& prefix, std::int64_t l) {
        const auto H = m_c.heads, K = m_c.kvHeads, D = m_c.headDim, hidden = m_c.hiddenSize;
        add(prefix + "q_proj.weight", {2 * H * D, hidden}, [=, this] {
            const at::Tensor q = reading(l, m_model.layer(l)->attention.q(m_c)).view({H, D, hidden});
            return at::cat({q, at::zeros_like(q)}, 1).reshape({2 * H * D, hidden});
        });
        add(prefix + "k_proj.weight", {K * D, hidden}, [=, this] { return reading(l, m_model.layer(l)->attention.k(m_c)); });
        add(prefix + "v_proj.weight", {K * D, hidden}, [=, this] { return reading(l, m_model.layer(l)->attention.v(m_c)); });
        add(prefix + "o_proj.weight", {hidden, H * D}, [=, this] { return m_model.layer(l)->attention.o * 2; });
        add(prefix + "q_norm.weight", {D}, [=, this] { return lessOne(m_model.layer(l)->attention.qNorm); });
        add(prefix + "k_norm.weight", {D}, [=, this] { return lessOne(m_model.layer(l)->attention.kNorm); });
    }

    void linear(const std::string& prefix, std::int64_t l, const LinearLayer& layer) {
        const auto H = m_c.heads, W = H * m_c.headDim, hidden = m_c.hiddenSize;
        add(prefix + "in_proj_qkv.weight", {3 * W, hidden}, [=, this] { return reading(l, at::cat({layer.qProj, layer.kProj, layer.vProj})); });
        add(prefix + "in_proj_z.weight", {W, hidden}, [=, this] { return reading(l, layer.gProj); });
        add(prefix + "in_proj_a.weight", {H, hidden}, [=, this] { return reading(l, layer.aProj); });
        add(prefix + "in_proj_b.weight", {H, hidden}, [=, this] { return reading(l, layer.bProj); });
        add(prefix + "conv1d.weight", {3 * W, 1, kConvTaps}, [=] { return at::cat({layer.qConv, layer.kConv, layer.vConv}).unsqueeze(1); });
        add(prefix + "A_log", {H}, [=] { return layer.aLog; });
        add(prefix + "dt_bias", {H}, [=] { return layer.dtBias; });
        add(prefix + "norm.weight", {m_c.headDim}, [=] { return layer.oNorm; });
        add(prefix + "out_proj.weight", {hidden, W}, [=] { return layer.oProj; });
    }

    const Model& m_model;
    const ModelConfig& m_c;
    std::string m_dtype, m_type;
    std::vector<PlannedTensor> m_plan;
};

} // namespace

Json qwen35Config(const Model& model, const std::string& dtype) {
    const auto& c = model.config();
    std::vector<std::string> types(static_cast<std::size_t>(c.layers), "full_attention");
    for (const auto& [layer, mixer] : model.mixers())
        types[static_cast<std::size_t>(layer)] = "linear_attention";
    Json rope = ropeParameters(c);
    rope["partial_rotary_factor"] = 1.0;
    Json config{{"model_type", "qwen3_5_text"}, {"architectures", {"Qwen3_5ForCausalLM"}}, {"rope_parameters", rope}, {"partial_rotary_factor", 1.0},
                {"attention_bias", false}, {"attn_output_gate", true}, {"layer_types", types}, {"linear_conv_kernel_dim", kConvTaps},
                {"linear_key_head_dim", c.headDim}, {"linear_value_head_dim", c.headDim}, {"linear_num_key_heads", c.heads}, {"linear_num_value_heads", c.heads}};
    addCommonKeys(config, model, dtype);
    config["tie_word_embeddings"] = Planner(model, dtype).tied();
    config["use_cache"] = std::ranges::find(types, "full_attention") != types.end(); // transformers 5.24 asks a softmax layer for the cache's length
    return config;
}

WrittenFolder writeQwen35Folder(const WriteJob& job, const Control& control) {
    const auto& [model, student, folder, options] = job;
    const auto& dtype = options.dtype;
    const Json config = qwen35Config(model, dtype);
    WrittenFolder written{writeBesideWeights(model, student, folder, config, modelCard(model, student, dtype, false)), true, {}};
    written.exact = writeTensors(model, folder / "model.safetensors", dtype, Planner(model, dtype).plan(), control);
    written.files.push_back("model.safetensors");
    return written;
}

} // namespace linnet::core
