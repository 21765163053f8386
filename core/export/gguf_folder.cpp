// What differs from core/export/qwen35_folder.cpp's tensors, beside their names:
// - norms are stored as they are, in float32: the graph multiplies by them; so nothing is folded and tied embeddings stay tied;
// - A_log is stored as what the graph multiplies by, -exp(A_log); the convolution is [channels, taps];
// - q and k of lifted softmax layers (core/io/eps_lift.h) are never F16 or Q8_0;
// - norms, taps, decay and the small projections of the gates stay float32 in every dtype; rows that are no whole Q8_0 blocks are F16.
#include "core/torch_pch.h"

#include "core/export/gguf_folder.h"

#include "core/base/files.h"
#include "core/export/gguf_sampling.h"
#include "core/export/gguf_tokenizer.h"
#include "core/export/provenance.h"
#include "core/export/qwen35_folder.h"
#include "core/io/gguf_names.h"
#include "core/io/model_files.h"

namespace linnet::core {
namespace {

constexpr std::size_t kPieceElements = 8 << 20; // between two looks at the control: a multiple of every block
constexpr const char* kTokenizerProbe = "In 1842, it's 3,650 carts\n\n  (\"na\xc3\xafve\") \xe4\xb8\x96\xe7\x95\x8c \xf0\x9f\x98\x80\tx = a[i] + 10;";

GgufType typeOf(const std::string& dtype) {
    return dtype == "f32" ? GgufType::F32 : dtype == "f16" ? GgufType::F16 : dtype == "bf16" ? GgufType::BF16 : GgufType::Q8_0;
}

std::uint32_t fileTypeOf(const std::string& dtype) { // general.file_type, llama.cpp's LLAMA_FTYPE
    return dtype == "f32" ? 0 : dtype == "f16" ? 1 : dtype == "bf16" ? 32 : 7;
}

// The interval n where every n-th layer and no other is softmax: what loaders older than the array of layers understand.
std::optional<std::uint32_t> intervalOf(const std::vector<bool>& recurrent) {
    const auto first = static_cast<std::size_t>(std::ranges::find(recurrent, false) - recurrent.begin()) + 1;
    for (std::size_t l = 0; l < recurrent.size(); ++l)
        if (recurrent[l] != ((l + 1) % first != 0))
            return std::nullopt;
    return static_cast<std::uint32_t>(first);
}

struct Stored {
    GgufTensorToWrite entry;
    std::string source; // its name in the plan
    std::function<at::Tensor()> make;
};

GgufType storedType(const std::string& name, const std::vector<std::int64_t>& shape, const std::string& dtype) {
    const bool small = shape.size() < 2 || name.find("ssm_conv1d") != name.npos || name.find("ssm_alpha") != name.npos || name.find("ssm_beta") != name.npos;
    if (small)
        return GgufType::F32;
    const auto type = typeOf(dtype);
    return type == GgufType::Q8_0 && shape.back() % 32 != 0 ? GgufType::F16 : type;
}

std::vector<Stored> storedTensors(const Model& model, const std::string& dtype) {
    std::vector<Stored> all;
    for (auto& planned : qwen35Plan(model, "f32", NormsStored::Plain)) {
        const auto name = planned.entry.name;
        if (name.ends_with("o_proj.bias"))
            continue; // llama.cpp has none; exportChoice refuses teachers that have one
        Stored stored{{qwen35GgufName(name), GgufType::F32, planned.entry.shape}, name, std::move(planned.make)};
        if (name.ends_with(".conv1d.weight"))
            stored.entry.shape = {planned.entry.shape.front(), planned.entry.shape.back()};
        if (name.ends_with(".A_log"))
            stored.make = [make = std::move(stored.make)] { return -make().to(at::kDouble).exp(); };
        stored.entry.type = storedType(stored.entry.name, stored.entry.shape, dtype);
        if (!model.config().qkNorm && (name.ends_with(".self_attn.q_proj.weight") || name.ends_with(".self_attn.k_proj.weight"))) // their exponents need 8 bits
            stored.entry.type = dtype == "bf16" || dtype == "q8_0" ? GgufType::BF16 : GgufType::F32;
        all.push_back(std::move(stored));
    }
    return all;
}

// False where a value was rounded (but for A_log, whose exponential nobody else stores). Progress: stage "export" in bytes of float32.
bool writeFile(const WriteJob& job, const std::filesystem::path& file, const GgufMetadata& metadata, const Control& control) {
    const auto tensors = storedTensors(job.model, job.options.dtype);
    std::vector<GgufTensorToWrite> entries;
    double total = 0, done = 0;
    for (const auto& tensor : tensors) {
        entries.push_back(tensor.entry);
        total += static_cast<double>(c10::multiply_integers(tensor.entry.shape)) * sizeof(float);
    }
    GgufWriter writer(file, metadata, entries);
    bool exact = true;
    for (const auto& [entry, source, make] : tensors) {
        control.report("export", done, total, entry.name);
        at::Tensor values = at::empty(make ? std::vector<std::int64_t>{0} : entry.shape, at::kFloat);
        if (make)
            values = make().detach().to(at::kCPU, at::kFloat).contiguous();
        else
            job.model.files().weights->read(source, DType::F32, values.mutable_data_ptr());
        const auto count = static_cast<std::size_t>(values.numel());
        for (std::size_t from = 0; from < count; from += kPieceElements) {
            const auto piece = std::min(kPieceElements, count - from);
            exact = writer.write(entry.name, values.const_data_ptr<float>() + from, piece) && exact;
            done += static_cast<double>(piece * sizeof(float));
            control.report("export", done, total, entry.name);
        }
    }
    writer.finish();
    return exact;
}

// What is read back must cut a text as the tokenizer at hand does.
void checkTokenizer(const Model& model, const std::filesystem::path& file) {
    const auto back = openGgufTokenizer(file);
    for (const bool special : {false, true})
        if (back->encode(kTokenizerProbe, special) != modelTokenizer(model).encode(kTokenizerProbe, special))
            fail(ErrorCode::Unsupported, "export gguf: the tokenizer (" + modelTokenizer(model).type() + ") can't be said in GGUF: the one that is read back cuts text otherwise",
                 {{"option", "--format"}, {"value", "gguf"}});
}

} // namespace

GgufMetadata ggufModelKeys(const Model& model, const std::string& dtype) {
    const auto& c = model.config();
    std::vector<bool> recurrent(static_cast<std::size_t>(c.layers), false);
    for (const auto& [layer, mixer] : model.mixers())
        recurrent[static_cast<std::size_t>(layer)] = true;
    const auto number = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
    GgufMetadata keys{{"general.architecture", std::string("qwen35")}, {"general.type", std::string("model")}, {"general.file_type", fileTypeOf(dtype)},
                      {"general.quantization_version", std::uint32_t{2}}};
    const auto add = [&](const std::string& key, GgufWrittenValue value) { keys.emplace_back("qwen35." + key, std::move(value)); };
    add("block_count", number(c.layers));
    add("context_length", number(c.maxPositions));
    add("embedding_length", number(c.hiddenSize));
    add("feed_forward_length", number(c.intermediateSize));
    add("attention.head_count", number(c.heads));
    add("attention.head_count_kv", number(c.kvHeads));
    add("attention.key_length", number(c.headDim));
    add("attention.value_length", number(c.headDim));
    add("attention.layer_norm_rms_epsilon", static_cast<float>(c.rmsNormEps));
    add("attention.recurrent_layers", recurrent);
    if (const auto interval = intervalOf(recurrent))
        add("full_attention_interval", *interval);
    add("rope.freq_base", static_cast<float>(c.rope.theta));
    add("rope.dimension_count", number(c.headDim));
    const auto pairs = static_cast<std::int32_t>(c.headDim / 2); // interleaved sections of time, height, width: a text has one position in all three
    add("rope.dimension_sections", std::vector<std::int32_t>{(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
    if (c.rope.type == "linear") {
        add("rope.scaling.type", std::string("linear"));
        add("rope.scaling.factor", static_cast<float>(c.rope.factor));
    }
    add("ssm.conv_kernel", number(kConvTaps));
    add("ssm.state_size", number(c.headDim));
    add("ssm.group_count", number(c.heads));
    add("ssm.time_step_rank", number(c.heads));
    add("ssm.inner_size", number(c.heads * c.headDim));
    keys.emplace_back("linnet.teacher_type", c.modelType); // llama.cpp passes over what it does not know
    return keys;
}

WrittenFolder writeGgufFolder(const WriteJob& job, const Control& control) {
    const auto& [model, student, folder, options] = job;
    if (model.mixers().empty())
        fail(ErrorCode::Unsupported, "export gguf: no layer is converted, and llama.cpp's architecture qwen35 runs no model without a linear layer", {{"option", "--format"}, {"value", "gguf"}});
    WrittenFolder written;
    auto metadata = ggufModelKeys(model, options.dtype);
    const auto origin = provenanceOf(model, student).teacher;
    metadata.emplace_back("general.name", origin.name + " hybrid");
    metadata.emplace_back("general.description", std::to_string(model.mixers().size()) + " of " + std::to_string(model.config().layers) + " layers are Gated DeltaNet; made with Linnet");
    if (!origin.license.empty())
        metadata.emplace_back("general.license", origin.license);
    if (!origin.baseModel.empty())
        metadata.emplace_back("general.source.huggingface.repository", origin.baseModel);
    for (auto& key : ggufTokenizer(modelTokenizer(model), model.config(), written.notes))
        metadata.push_back(std::move(key));
    addSamplingKeys(metadata, model, written.notes);
    if (const double eps = model.config().rmsNormEps; eps != kQkNormEps) // can't be said otherwise: SiLU stands before that norm, so q and k can't be scaled, and o_norm shares the eps
        written.notes.push_back("llama.cpp adds the model's eps, " + Json(eps).dump() + ", to the squared length of q and k in linear layers, where Linnet and flash-linear-attention add " +
                                Json(kQkNormEps).dump() + "; of SmolLM2's heads (lengths around 9) that moves logits by 2e-6 of the largest, of very short ones more: the parity check computes as llama.cpp does and measures it");
    if (options.dtype == "q8_0")
        written.notes.push_back("matrices are quantised to 8 bits (Q8_0); norms, taps and gates stay float32, rows that are no multiple of 32 float16");
    if (!model.config().qkNorm)
        written.notes.push_back("q and k of softmax layers are stored times a power of two so small that llama.cpp's norm of them is a constant, which takes it back "
                                "(compared with llama.cpp on the CPU); they stay " + std::string(options.dtype == "bf16" || options.dtype == "q8_0" ? "bf16" : "float32"));
    if (model.config().qkvBias)
        written.notes.push_back("llama.cpp reads the biases of q, k and v in this architecture since 2026; older ones refuse the file");
    written.exact = writeFile(job, folder / kGgufFile, metadata, control);
    written.files.emplace_back(kGgufFile);
    checkTokenizer(model, folder / kGgufFile);
    for (const char* name : {"recipe.json", "report.json"})
        if (std::filesystem::exists(student / name)) {
            writeFileAtomically(folder / name, readTextFile(student / name));
            written.files.emplace_back(name);
        }
    return written;
}

} // namespace linnet::core
