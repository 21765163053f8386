// What differs from a Qwen3 teacher, and how it is said there without loss (one without QK-norm needs the lift on top, core/io/eps_lift.h):
// - norms are stored less one, w - 1. In 16 bits that is exact for w in [0.5, 2) only, so a channel with another w gets a power of two, w 2^k,
//   and the columns that read it get 2^-k; after the final norm those are lm_head's, which is then stored beside the embedding.
//   q_norm and k_norm have no such columns: what they lose is counted against `exact`.
// - softmax layers have an output gate, sigmoid(gate) before o_proj: rows of zeros let exactly half pass, o_proj is doubled.
// - a linear layer has q, k and v in one projection and one convolution.
#include "core/torch_pch.h"

#include "core/export/qwen35_folder.h"

#include "core/export/tensor_plan.h"
#include "core/io/eps_lift.h"

namespace linnet::core {
namespace {

// 2^k a channel, and so that w 2^k - 1 keeps all digits of w in 16 bits; 1 where nothing is gained. k ends where float32 does.
at::Tensor channelScale(const at::Tensor& w, const std::string& dtype) {
    const at::Tensor size = w.to(at::kDouble).abs(), fine = (size >= 0.5).logical_and_(size < 2).logical_or_(size == 0);
    const at::Tensor scale = at::where(fine, at::ones_like(size), at::exp2(-at::floor(at::log2(size)).clamp_min(-126)));
    return (dtype == "f32" ? at::ones_like(size) : scale).to(w.scalar_type());
}

std::int64_t softmaxLayers(const Model& model) {
    return model.config().layers - std::ssize(model.mixers());
}

bool isLifted(const Model& model) {
    return !model.config().qkNorm && softmaxLayers(model) > 0;
}

// [H d, ..] -> [2 H d, ..]: after each head's queries the rows of its output gate.
at::Tensor withGates(const at::Tensor& rows, std::int64_t headDim) {
    const at::Tensor heads = rows.unflatten(0, {rows.size(0) / headDim, headDim});
    return at::cat({heads, at::zeros_like(heads)}, 1).flatten(0, 1);
}

std::span<const float> valuesOf(const at::Tensor& tensor) { // contiguous, float, on the CPU
    return tensor.defined() ? std::span(tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())) : std::span<const float>();
}

class Planner {
public:
    Planner(const Model& model, const std::string& dtype, NormsStored norms = NormsStored::LessOne)
        : m_model(model), m_c(model.config()), m_dtype(dtype), m_type(storedTypeName(dtype)), m_norms(norms) {}

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
    at::Tensor lessOne(const at::Tensor& w) const { return m_norms == NormsStored::LessOne ? w.to(at::kDouble) - 1 : w; }
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

    // 2^-k of q's or k's rows and bias; 1 where nothing is lifted.
    double scaleOf(std::int64_t l, bool keys) const { return m_c.qkNorm ? 1 : std::ldexp(1.0, -shift(l, keys)); }
    int shift(std::int64_t l, bool keys) const {
        const auto layer = m_model.layer(l);
        const auto here = [](const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kFloat).contiguous(); };
        const at::Tensor rows = here(keys ? layer->attention.k(m_c) : layer->attention.q(m_c)), norm = here(layer->inputNorm);
        const at::Tensor bias = layer->attention.qkvBias.defined() ? here(ownBias(*layer, keys ? m_c.heads : 0, keys ? m_c.kvHeads : m_c.heads)) : at::Tensor();
        return epsLiftShift(largestMeanSquare({valuesOf(rows), valuesOf(bias), valuesOf(norm), static_cast<std::size_t>(m_c.headDim)}), m_c.rmsNormEps);
    }
    at::Tensor liftedNorm(int shift) const { // as it is stored: no value of the student's is rounded
        const double w = epsLiftNorm(shift, m_c.rmsNormEps) - (m_norms == NormsStored::LessOne ? 1 : 0);
        return at::full({m_c.headDim}, w, at::kDouble).to(m_dtype == "bf16" ? at::kBFloat16 : at::kFloat);
    }
    // The teacher's, zeros where it has none.
    at::Tensor ownBias(const LayerWeights& layer, std::int64_t firstHead, std::int64_t heads) const {
        const at::Tensor& all = layer.attention.qkvBias;
        return all.defined() ? all.narrow(0, firstHead * m_c.headDim, heads * m_c.headDim) : at::zeros({heads * m_c.headDim}, layer.inputNorm.options());
    }

    void softmax(const std::string& prefix, std::int64_t l) {
        const auto H = m_c.heads, K = m_c.kvHeads, D = m_c.headDim, hidden = m_c.hiddenSize;
        const auto weights = [this, l] { return m_model.layer(l); };
        add(prefix + "q_proj.weight", {2 * H * D, hidden}, [=, this] { return withGates(reading(l, weights()->attention.q(m_c)) * scaleOf(l, false), D); });
        add(prefix + "k_proj.weight", {K * D, hidden}, [=, this] { return reading(l, weights()->attention.k(m_c)) * scaleOf(l, true); });
        add(prefix + "v_proj.weight", {K * D, hidden}, [=, this] { return reading(l, weights()->attention.v(m_c)); });
        add(prefix + "o_proj.weight", {hidden, H * D}, [=] { return weights()->attention.o * 2; });
        for (const bool keys : {false, true})
            add(prefix + (keys ? "k_norm.weight" : "q_norm.weight"), {D}, [=, this] {
                const auto layer = weights();
                return !m_c.qkNorm ? liftedNorm(shift(l, keys)) : lessOne(keys ? layer->attention.kNorm : layer->attention.qNorm);
            });
        if (!m_c.qkvBias && !m_c.outputBias)
            return;
        // the class has all four or none
        add(prefix + "q_proj.bias", {2 * H * D}, [=, this] { return withGates(ownBias(*weights(), 0, H) * scaleOf(l, false), D); });
        add(prefix + "k_proj.bias", {K * D}, [=, this] { return ownBias(*weights(), H, K) * scaleOf(l, true); });
        add(prefix + "v_proj.bias", {K * D}, [=, this] { return ownBias(*weights(), H + K, K); });
        add(prefix + "o_proj.bias", {hidden}, [=] {
            const auto layer = weights();
            return layer->attention.oBias.defined() ? layer->attention.oBias : at::zeros({hidden}, layer->inputNorm.options());
        });
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
    NormsStored m_norms;
    std::vector<PlannedTensor> m_plan;
};

std::vector<std::string> notesOf(const Model& model) {
    const auto& c = model.config();
    std::vector<std::string> notes;
    if (isLifted(model))
        notes = {"lifted: q and k of softmax layers are stored times a power of two so small that the class's norm of them is a constant, which takes it back; heads, KV cache and arithmetic "
                 "are the teacher's (compared with transformers on the CPU)",
                 "lifted: load it in float32 or bfloat16, never in float16 (--dtype half, a GPU without bfloat16, quantisers that keep float16 scales), whose smallest numbers those are",
                 "lifted: not to be trained on, since a step of any optimiser is larger than those weights; train from the hf or fla folder or the bundle"};
    if (softmaxLayers(model) > 0 && (c.qkvBias || c.outputBias))
        notes.push_back("vLLM reads this teacher's biases by its key qkv_bias" + std::string(c.outputBias ? " but has none for o_proj" : "") +
                        ", SGLang's class has none (read in their code, not run)");
    return notes;
}

} // namespace

Json qwen35Config(const Model& model, const std::string& dtype) {
    const auto& c = model.config();
    std::vector<std::string> types(static_cast<std::size_t>(c.layers), "full_attention");
    for (const auto& [layer, mixer] : model.mixers())
        types[static_cast<std::size_t>(layer)] = "linear_attention";
    const bool biases = c.qkvBias || c.outputBias;
    Json rope = ropeParameters(c);
    rope["partial_rotary_factor"] = 1.0;
    Json config{{"model_type", "qwen3_5_text"}, {"architectures", {"Qwen3_5ForCausalLM"}}, {"rope_parameters", rope},
                {"partial_rotary_factor", 1.0}, {"attention_bias", biases}, {"attn_output_gate", true}, {"layer_types", types},
                {"linear_conv_kernel_dim", kConvTaps}, {"linear_key_head_dim", c.headDim}, {"linear_value_head_dim", c.headDim}, {"linear_num_key_heads", c.heads}, {"linear_num_value_heads", c.heads}};
    addCommonKeys(config, model, dtype);
    if (biases)
        config["qkv_bias"] = true; // vLLM's name of attention_bias
    if (!c.qkNorm) // for core/model/open_qwen35.cpp; other readers pass over it
        config["linnet_lift"] = {{"teacher_type", c.modelType}, {"qkv_bias", c.qkvBias}, {"output_bias", c.outputBias}};
    config["tie_word_embeddings"] = Planner(model, dtype).tied();
    config["use_cache"] = softmaxLayers(model) > 0; // transformers 5.24 asks a softmax layer for the cache's length
    return config;
}

std::vector<PlannedTensor> qwen35Plan(const Model& model, const std::string& dtype, NormsStored norms) {
    const auto planner = std::make_shared<Planner>(model, dtype, norms);
    auto plan = planner->plan();
    for (auto& tensor : plan)
        if (tensor.make)
            tensor.make = [planner, make = std::move(tensor.make)] { return make(); };
    return plan;
}

WrittenFolder writeQwen35Folder(const WriteJob& job, const Control& control) {
    const auto& dtype = job.options.dtype;
    WrittenFolder written{writeBesideWeights(job, qwen35Config(job.model, dtype)), true, notesOf(job.model)};
    writeTensors(job, qwen35Plan(job.model, dtype, NormsStored::LessOne), written, control);
    return written;
}

} // namespace linnet::core
