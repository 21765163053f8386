// What an export takes on the disk, before anything is written: an upper bound that is near.
#include "core/export/export.h"

#include "core/model/opened_model.h"

namespace linnet::core {
namespace {

std::uint64_t elementBytes(std::uint64_t elements, const std::string& dtype, std::int64_t row) {
    if (dtype == "q8_0" && row % 32 == 0)
        return elements * 34 / 32; // blocks of 32 with a scale in f16; other rows stay f16
    return elements * (dtype == "f32" ? 4 : 2);
}

} // namespace

std::uint64_t exportBytes(const ModelInfo& student, const ExportOptions& options) {
    const auto& c = student.config;
    const auto& format = options.format;
    std::uint64_t linear = 0, kept = 0;
    for (const auto& kind : student.layerKinds) {
        linear += kind != "softmax" && kind != "sliding_window" && kind != "bypass";
        kept += kind == "softmax";
    }
    const auto width = static_cast<std::uint64_t>(c.heads * c.headDim), hidden = static_cast<std::uint64_t>(c.hiddenSize),
               heads = static_cast<std::uint64_t>(c.heads), vocab = static_cast<std::uint64_t>(c.vocabSize);
    // a linear layer: five square projections, two to the heads, taps, vectors
    const std::uint64_t layer = 5 * width * hidden + 2 * heads * hidden + 13 * width + 2 * heads;
    std::uint64_t elements = linear * layer;
    if (format != "adapter")
        elements += parameterCount(c);
    if (format == "qwen3.5" || format == "gguf")
        elements += kept * width * hidden; // rows of the output gate
    if (c.tiedEmbeddings && (format == "fla" || format == "qwen3.5"))
        elements += vocab * hidden; // lm_head beside the embedding
    std::uint64_t beside = (16 << 20) + 8 * vocab * 4; // tokenizer, code, parity file
    if (format == "gguf" && !c.qkNorm)
        beside += kept * (width + static_cast<std::uint64_t>(c.kvHeads * c.headDim)) * hidden * 4; // q and k there keep more bits than the rest
    std::error_code failed;
    if (const auto samples = std::filesystem::file_size(student.path / "samples.safetensors", failed); format == "bundle" && !failed)
        beside += 2 * samples; // the tokenised data, in integers of twice the size
    return elementBytes(elements, options.dtype, c.hiddenSize) + beside;
}

} // namespace linnet::core
