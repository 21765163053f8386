#include "core/model/export_choices.h"

#include "core/base/result.h"

#include <algorithm>

namespace linnet::core {
namespace {

ExportChoice refused(const std::string& format, const std::string& why) {
    return {format, Fidelity::NotExpressible, Fidelity::NotExpressible, "not expressible: " + why};
}

// The first layer that is neither softmax nor Gated DeltaNet, in words; "" where there is none.
std::string oddLayer(const std::vector<std::string>& kinds) {
    for (std::size_t l = 0; l < kinds.size(); ++l)
        if (kinds[l] != "softmax" && kinds[l] != "gated_delta_net")
            return "layer " + std::to_string(l) + " is " + (kinds[l] == "sliding_window" ? "a sliding window" : "a " + kinds[l]) +
                   ", only softmax and gated_delta_net have a place there";
    return {};
}

ExportChoice qwen35(const ModelConfig& c, const std::vector<std::string>& kinds) {
    if (const auto odd = oddLayer(kinds); !odd.empty())
        return refused("qwen3.5", odd);
    if (c.qkNorm && (c.qkvBias || c.outputBias || c.mlpBias))
        return refused("qwen3.5", "biases of this teacher's layers have no place there");
    if (!c.qkNorm)
        return refused("qwen3.5", "this teacher has no QK-norm, which softmax layers of that class cannot do without");
    return {"qwen3.5", Fidelity::Exact, Fidelity::NormRounding, "transformers' own Qwen3_5ForCausalLM, vLLM, SGLang (QK-norm maps one to one)"};
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
