// What each export format can say of a hybrid made from a teacher. The one home of that knowledge: writers refuse with its words, `info`, the
// wizard and the tables print it. Sources: the classes' own code (core/export names them).
#pragma once

#include "core/io/model_config.h"

#include <string>
#include <vector>

namespace linnet::core {

enum class Fidelity {
    Exact,
    NormRounding,   // the same function, but that 16 bits round what norm weights lose when one is taken from them
    Lifted,         // the same function, q and k so small that a norm of them is a constant; an option, since float16 and training can't take that
    RemoteCode,     // the same function, by the code in the folder only
    NotExpressible,
};
const char* fidelityName(Fidelity fidelity); // "exact", "exact up to bf16 norm rounding", "lifted", "remote code only", "not expressible"

struct ExportChoice {
    std::string format;                             // hf | qwen3.5 | gguf | fla | adapter | bundle
    Fidelity fidelity = Fidelity::NotExpressible;   // stored in float32
    Fidelity in16Bits = Fidelity::NotExpressible;   // stored in bf16 or f16, or quantised
    std::string reason;                             // why not, or what differs and what reads it
    bool available() const { return fidelity != Fidelity::NotExpressible; }
    bool exact() const { return fidelity == Fidelity::Exact || fidelity == Fidelity::RemoteCode; }
};

extern const std::vector<std::string> kExportFormats; // in the order that tables have
inline constexpr const char* kWindowWithoutSinks = "sliding_window without sinks";
// `layerKinds` as ModelInfo has them ("softmax", "gated_delta_net", "sliding_window", ...), but that windows without sinks are told apart.
std::vector<ExportChoice> exportChoices(const ModelConfig& config, const std::vector<std::string>& layerKinds);
ExportChoice exportChoice(const std::string& format, const ModelConfig& config, const std::vector<std::string>& layerKinds); // throws Usage for a name that is none

} // namespace linnet::core
