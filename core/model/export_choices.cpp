#include "core/model/export_choices.h"

#include "core/base/result.h"

#include <algorithm>

namespace linnet::core {
namespace {

ExportChoice refused(const std::string& format, const std::string& why) {
    return {format, Fidelity::NotExpressible, Fidelity::NotExpressible, "not expressible: " + why};
}

// The first layer that is neither softmax nor Gated DeltaNet, in words; "" where there is none.
std::string oddLayer(const std::vector<std::string>& kinds, bool windows = false) {
    for (std::size_t l = 0; l < kinds.size(); ++l)
        if (kinds[l] != "softmax" && kinds[l] != "gated_delta_net" && !(windows && kinds[l] == kWindowWithoutSinks))
            return "layer " + std::to_string(l) + " is " + (kinds[l].starts_with("sliding_window") ? "a sliding window" + std::string(windows ? " with sinks" : "") : "a " + kinds[l]) +
                   ", only softmax" + (windows ? ", windows without sinks" : "") + " and gated_delta_net have a place there";
    return {};
}

ExportChoice qwen35(const ModelConfig& c, const std::vector<std::string>& kinds) {
    if (const auto odd = oddLayer(kinds); !odd.empty())
        return refused("qwen3.5", odd);
    if (c.mlpBias)
        return refused("qwen3.5", "biases of this teacher's feed-forward layers have no place there");
    const bool kept = std::ranges::find(kinds, "softmax") != kinds.end(), biases = kept && (c.qkvBias || c.outputBias);
    const std::string biased = c.outputBias ? " (but SGLang has no biases, vLLM none for o_proj)" : " (but SGLang has no biases)", runtimes = "transformers' own Qwen3_5ForCausalLM, vLLM, SGLang";
    if (kept && !c.qkNorm)
        return {"qwen3.5", Fidelity::Lifted, Fidelity::Lifted, runtimes + (biases ? biased : "") +
                "; its norm of q and k, which this teacher has not, is made a constant by its eps: same size and speed, but for float32 and bfloat16 only and not to be trained on"};
    return {"qwen3.5", Fidelity::Exact, Fidelity::NormRounding, runtimes + (biases ? biased : !c.qkNorm ? " (no softmax layer is left that would need QK-norm)" : " (QK-norm maps one to one)")};
}

// llama.cpp's src/models/qwen35.cpp: its softmax layers have no o_proj bias and plain rotary positions. Its memory for both kinds of layers ends
// the program (GGML_ASSERT(buffer)) where there is none of a kind; a teacher that is still to be converted is told what it will be.
ExportChoice gguf(const ModelConfig& c, const std::vector<std::string>& kinds) {
    if (const auto odd = oddLayer(kinds); !odd.empty())
        return refused("gguf", odd);
    if (c.mlpBias)
        return refused("gguf", "biases of this teacher's feed-forward layers have no place there");
    if (std::ranges::find(kinds, "softmax") == kinds.end())
        return refused("gguf", "no softmax layer is left, and llama.cpp runs no model of this architecture without one");
    if (c.outputBias)
        return refused("gguf", "llama.cpp's architecture qwen35 has no bias of o_proj, which this teacher's softmax layers have");
    if (c.rope.type == "llama3" || !c.rope.frequencyDivisors.empty())
        return refused("gguf", "llama.cpp's architecture qwen35 does not scale rotary positions as Llama 3 does, which this teacher's softmax layers need");
    std::string how = c.qkNorm ? "" : "; its norm of q and k, which this teacher has not, is made a constant by its eps at no cost";
    if (std::ranges::find(kinds, "gated_delta_net") == kinds.end()) // the writer refuses that
        how += "; at least one layer must be converted first";
    return {"gguf", Fidelity::Exact, Fidelity::Exact, "llama.cpp's own architecture qwen35, and what is built on it (LM Studio); norms and gates stay float32, q8_0 quantises the matrices" + how};
}

ExportChoice bundle(const ModelConfig& c, const std::vector<std::string>& kinds) {
    if (const auto odd = oddLayer(kinds); !odd.empty())
        return refused("bundle", odd);
    const bool keeps = std::ranges::find(kinds, "softmax") != kinds.end();
    if (keeps && (c.rope.type != "default" || !c.rope.frequencyDivisors.empty()))
        return refused("bundle", "the student class of Taylor-Calibrate has no rope scaling, which this teacher's softmax layers have");
    if (keeps && c.outputBias)
        return refused("bundle", "the student class of Taylor-Calibrate has no bias of o_proj, which this teacher's softmax layers have");
    if (keeps && c.qkNorm && c.qkvBias)
        return refused("bundle", "this teacher's softmax layers have biases of q, k and v beside QK-norm, which are not read back from the student class of Taylor-Calibrate");
    if (c.mlpBias)
        return refused("bundle", "the student class of Taylor-Calibrate has no biases in its MLP, which this teacher has");
    return {"bundle", Fidelity::Exact, Fidelity::Exact, "Taylor-Calibrate's student class with configuration, tokens and launch line to train on (GPU); read by Linnet"};
}

// flash-linear-attention's GatedDeltaNetForCausalLM: its softmax layers (fla/layers/attn.py) know plain rotary positions, biases of q, k and v, and
// heads that share hidden_size among them; windows without sinks.
ExportChoice fla(const ModelConfig& c, const std::vector<std::string>& kinds) {
    if (const auto odd = oddLayer(kinds, true); !odd.empty())
        return refused("fla", odd);
    if (c.mlpBias)
        return refused("fla", "biases of this teacher's feed-forward layers have no place there");
    std::string lost; // of the softmax layers
    if (c.qkNorm)
        lost = "QK-norm";
    else if (c.rope.type != "default" || !c.rope.frequencyDivisors.empty())
        lost = "scaled rotary positions (" + std::string(c.rope.frequencyDivisors.empty() ? c.rope.type : "llama3") + ")";
    else if (c.outputBias)
        lost = "a bias of o_proj";
    else if (c.heads * c.headDim != c.hiddenSize)
        lost = "heads of " + std::to_string(c.headDim) + " (hidden_size " + std::to_string(c.hiddenSize) + " / " + std::to_string(c.heads) + " heads is all they can have)";
    const bool keeps = std::ranges::any_of(kinds, [](const std::string& kind) { return kind == "softmax" || kind == kWindowWithoutSinks; });
    if (keeps && !lost.empty())
        return refused("fla", "this teacher's softmax layers have " + lost + ", which flash-linear-attention's have not; with no layer kept that would not matter");
    return {"fla", Fidelity::Exact, Fidelity::Exact, "flash-linear-attention's own GatedDeltaNetForCausalLM" +
            (lost.empty() ? " (softmax layers need the flash-attn package)" : " (no softmax layer is left that would need " + lost + ")")};
}

ExportChoice later(const std::string& format) {
    return {format, Fidelity::NotExpressible, Fidelity::NotExpressible, "comes with a later release"};
}

} // namespace

const std::vector<std::string> kExportFormats{"hf", "qwen3.5", "gguf", "fla", "adapter", "bundle"};

const char* fidelityName(Fidelity fidelity) {
    switch (fidelity) {
    case Fidelity::Exact: return "exact";
    case Fidelity::NormRounding: return "exact up to bf16 norm rounding";
    case Fidelity::Lifted: return "lifted";
    case Fidelity::RemoteCode: return "remote code only";
    case Fidelity::NotExpressible: break;
    }
    return "not expressible";
}

ExportChoice exportChoice(const std::string& format, const ModelConfig& c, const std::vector<std::string>& kinds) {
    if (format == "hf")
        return {format, Fidelity::RemoteCode, Fidelity::RemoteCode, "own folder with the teacher's tensor names; read by the code in it (trust_remote_code) and by Linnet"};
    if (format == "qwen3.5")
        return qwen35(c, kinds);
    if (format == "gguf")
        return gguf(c, kinds);
    if (format == "fla")
        return fla(c, kinds);
    if (format == "adapter")
        return {format, Fidelity::Exact, Fidelity::Exact, "the converted layers alone, in megabytes; read by Linnet, which lays them over the teacher (known by its hash)"};
    if (format == "bundle")
        return bundle(c, kinds);
    if (std::ranges::find(kExportFormats, format) != kExportFormats.end())
        return later(format);
    fail(ErrorCode::Usage, "export format \"" + format + "\" is none of hf, qwen3.5, gguf, fla, adapter, bundle", {{"option", "--format"}, {"value", format}});
}

std::vector<ExportChoice> exportChoices(const ModelConfig& config, const std::vector<std::string>& layerKinds) {
    std::vector<ExportChoice> choices;
    for (const auto& format : kExportFormats)
        choices.push_back(exportChoice(format, config, layerKinds));
    return choices;
}

} // namespace linnet::core
