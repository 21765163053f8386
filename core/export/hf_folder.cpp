#include "core/torch_pch.h"

#include "core/export/hf_folder.h"

#include "core/base/files.h"
#include "core/convert/convert.h"
#include "core/io/safetensors_writer.h"

#include <sstream>

namespace linnet::core {
namespace {

constexpr const char* kSelfAttention = ".self_attn.";

DType storedDType(const std::string& dtype) {
    if (dtype == "f32")
        return DType::F32;
    if (dtype == "bf16")
        return DType::BF16;
    if (dtype == "f16")
        return DType::F16;
    fail(ErrorCode::Usage, "export: dtype \"" + dtype + "\" is none of f32, bf16, f16", {{"option", "--dtype"}, {"value", dtype}});
}

at::ScalarType scalarType(DType dtype) {
    return dtype == DType::F32 ? at::kFloat : dtype == DType::BF16 ? at::kBFloat16 : at::kHalf;
}

// "model.layers.7.self_attn.q_proj.weight" of a layer that has a linear mixer now: replaced, so left out.
bool replaced(const std::string& name, const Model& model) {
    for (const auto& [layer, mixer] : model.mixers())
        if (mixer.kind == Mixer::Kind::Linear && name.starts_with("model.layers." + std::to_string(layer) + kSelfAttention))
            return true;
    return false;
}

bool copiedFromTeacher(const TensorInfo& info, const Model& model) {
    if (info.name == "lm_head.weight" && model.config().tiedEmbeddings)
        return false;
    return !replaced(info.name, model) && info.name.find(std::string(".") + kLinearModule + ".") == info.name.npos && !info.name.ends_with(".sliding_window");
}

using Written = std::vector<std::pair<TensorToWrite, at::Tensor>>; // tensor undefined: read from the teacher's files

Written tensorsToWrite(const Model& model, const std::string& type) {
    Written result;
    for (const auto& info : model.files().weights->tensors())
        if (copiedFromTeacher(info, model))
            result.emplace_back(TensorToWrite{info.name, type, info.shape}, at::Tensor());
    for (const auto& [layer, mixer] : model.mixers()) {
        const auto prefix = "model.layers." + std::to_string(layer) + ".";
        if (mixer.kind == Mixer::Kind::SlidingWindow) {
            const at::Tensor window = at::tensor({static_cast<double>(mixer.window), static_cast<double>(mixer.sinks)}, at::kFloat);
            result.emplace_back(TensorToWrite{prefix + "sliding_window", "F32", {2}}, window);
            continue;
        }
        mixer.linear.forEach([&](const std::string& name, const at::Tensor& tensor) {
            auto shape = tensor.sizes().vec();
            if (name.find("_conv1d.") != name.npos)
                shape.insert(shape.begin() + 1, 1);
            result.emplace_back(TensorToWrite{prefix + kLinearModule + "." + name, type, shape}, tensor);
        });
    }
    return result;
}

void writeWeights(const Model& model, const std::filesystem::path& file, const std::string& dtype, const Control& control) {
    const auto stored = storedDType(dtype);
    const std::string type = dtype == "f32" ? "F32" : dtype == "bf16" ? "BF16" : "F16";
    const auto tensors = tensorsToWrite(model, type);
    std::vector<TensorToWrite> header;
    for (const auto& [entry, tensor] : tensors)
        header.push_back(entry);
    SafetensorsWriter writer(file, header, {{"format", "pt"}});
    double done = 0;
    std::vector<std::byte> buffer;
    for (const auto& [entry, tensor] : tensors) {
        control.report("export", done++, static_cast<double>(tensors.size()), entry.name);
        if (tensor.defined()) {
            const at::Tensor values = tensor.detach().to(at::kCPU, entry.dtype == "F32" ? at::kFloat : scalarType(stored)).contiguous();
            if (stored == DType::F16 && !at::isfinite(values).all().item<bool>())
                fail(ErrorCode::Unsupported, "export: tensor " + entry.name + " does not fit in f16; use bf16 or f32", {{"tensor", entry.name}});
            writer.write(entry.name, values.data_ptr(), values.nbytes());
            continue;
        }
        std::size_t count = dtypeBytes(stored);
        for (const auto size : entry.shape)
            count *= static_cast<std::size_t>(size);
        buffer.resize(count);
        model.files().weights->read(entry.name, stored, buffer.data());
        writer.write(entry.name, buffer.data(), buffer.size());
    }
    writer.finish();
}

} // namespace

std::string modelCard(const Model& model, const std::filesystem::path& student, const std::string& dtype) {
    const auto& c = model.config();
    std::ostringstream card;
    card << "---\nlibrary_name: transformers\ntags: [linear-attention, gated-deltanet, hybrid, linnet]\n---\n# A hybrid made with Linnet\n\n"
         << c.modelType << " teacher with " << c.layers << " layers; " << model.mixers().size() << " of them converted:";
    for (const auto& [layer, mixer] : model.mixers())
        card << ' ' << layer << (mixer.kind == Mixer::Kind::SlidingWindow ? " (window)" : "");
    card << ". Weights are stored as " << dtype << ".\n\n```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n"
         << "model = AutoModelForCausalLM.from_pretrained(FOLDER, trust_remote_code=True)\ntokenizer = AutoTokenizer.from_pretrained(FOLDER, trust_remote_code=True)\n```\n";
    if (const auto report = readReport(student); report) {
        card << "\n| | perplexity | KL to the teacher | top-1 agreement |\n|---|---|---|---|\n";
        for (const auto& [name, e] : report->evaluation) {
            const auto cell = [](const std::optional<double>& value) { return value ? std::to_string(*value) : std::string("-"); };
            card << "| " << name << " | " << e.perplexity << " | " << cell(e.klToTeacher) << " | " << cell(e.top1Agreement) << " |\n";
        }
        for (const auto& [name, e] : report->evaluation)
            if (name == "student")
                card << "\nPerplexity: convention " << e.convention << ", windows of " << e.seqLen << ", " << e.tokens << " predictions.\n";
        for (const auto& note : report->notes)
            card << "\n- " << note << "\n";
    }
    card << "\nThe licence of the weights is the teacher's; the modelling file is GPL-3.0-or-later.\n";
    return card.str();
}

std::vector<std::string> writeHfFolder(const Model& model, const std::filesystem::path& student, const std::filesystem::path& folder,
                                       const std::string& dtype, const Control& control) {
    std::vector<std::string> files;
    const auto put = [&](const std::string& name, const std::string& text) {
        writeFileAtomically(folder / name, text);
        files.push_back(name);
    };
    const auto& tokenizer = *model.files().tokenizer;
    put("config.json", hfConfig(model, dtype).dump(2) + "\n"); // first: it refuses what can't be expressed
    put("modeling_linnet.py", kModelingPython);
    put("tokenizer.json", tokenizer.tokenizerJson());
    put("tokenizer_config.json", tokenizer.tokenizerConfigJson());
    if (const auto chat = tokenizer.chatTemplate(); !chat.empty())
        put("chat_template.jinja", chat);
    Json generation = Json::object();
    const Json config = hfConfig(model, dtype);
    for (const char* key : {"bos_token_id", "eos_token_id"})
        if (config.contains(key))
            generation[key] = config[key];
    put("generation_config.json", generation.dump(2) + "\n");
    for (const char* name : {"recipe.json", "report.json"})
        if (std::filesystem::exists(student / name))
            put(name, readTextFile(student / name));
    put("README.md", modelCard(model, student, dtype));
    writeWeights(model, folder / "model.safetensors", dtype, control);
    files.push_back("model.safetensors");
    return files;
}

} // namespace linnet::core
