#include "core/torch_pch.h"

#include "core/export/hf_folder.h"

#include "core/base/files.h"
#include "core/convert/convert.h"
#include "core/export/tensor_plan.h"

#include <sstream>

namespace linnet::core {
namespace {

constexpr const char* kSelfAttention = ".self_attn.";

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

std::vector<PlannedTensor> plannedTensors(const Model& model, const std::string& type) {
    std::vector<PlannedTensor> plan;
    for (const auto& info : model.files().weights->tensors())
        if (copiedFromTeacher(info, model))
            plan.push_back({{info.name, type, info.shape}, {}});
    for (const auto& [layer, mixer] : model.mixers()) {
        const auto prefix = "model.layers." + std::to_string(layer) + ".";
        if (mixer.kind == Mixer::Kind::SlidingWindow) {
            plan.push_back({{prefix + "sliding_window", "F32", {2}}, [&mixer = mixer] { return at::tensor({static_cast<double>(mixer.window), static_cast<double>(mixer.sinks)}, at::kFloat); }});
            continue;
        }
        mixer.linear.forEach([&](const std::string& name, const at::Tensor& tensor) {
            auto shape = tensor.sizes().vec();
            if (name.find("_conv1d.") != name.npos)
                shape.insert(shape.begin() + 1, 1);
            plan.push_back({{prefix + kLinearModule + "." + name, type, shape}, [tensor] { return tensor; }});
        });
    }
    return plan;
}

} // namespace

std::string modelCard(const Model& model, const std::filesystem::path& student, const std::string& dtype, bool ownCode) {
    const auto& c = model.config();
    const char* const code = ownCode ? ", trust_remote_code=True" : "";
    std::ostringstream card;
    card << "---\nlibrary_name: transformers\ntags: [linear-attention, gated-deltanet, hybrid, linnet]\n---\n# A hybrid made with Linnet\n\n"
         << c.modelType << " teacher with " << c.layers << " layers; " << model.mixers().size() << " of them converted:";
    for (const auto& [layer, mixer] : model.mixers())
        card << ' ' << layer << (mixer.kind == Mixer::Kind::SlidingWindow ? " (window)" : "");
    card << ". Weights are stored as " << dtype << ".\n\n```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n"
         << "model = AutoModelForCausalLM.from_pretrained(FOLDER" << code << ")\ntokenizer = AutoTokenizer.from_pretrained(FOLDER" << code << ")\n```\n";
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
    card << "\nThe licence of the weights is the teacher's" << (ownCode ? "; the modelling file is GPL-3.0-or-later" : "") << ".\n";
    return card.str();
}

std::vector<std::string> writeBesideWeights(const Model& model, const std::filesystem::path& student, const std::filesystem::path& folder, const Json& config,
                                            const std::string& card) {
    std::vector<std::string> files;
    const auto put = [&](const std::string& name, const std::string& text) {
        writeFileAtomically(folder / name, text);
        files.push_back(name);
    };
    const auto& tokenizer = *model.files().tokenizer;
    put("config.json", config.dump(2) + "\n");
    put("tokenizer.json", tokenizer.tokenizerJson());
    put("tokenizer_config.json", tokenizer.tokenizerConfigJson());
    if (const auto chat = tokenizer.chatTemplate(); !chat.empty())
        put("chat_template.jinja", chat);
    Json generation = Json::object();
    for (const char* key : {"bos_token_id", "eos_token_id"})
        if (config.contains(key))
            generation[key] = config[key];
    put("generation_config.json", generation.dump(2) + "\n");
    for (const char* name : {"recipe.json", "report.json"})
        if (std::filesystem::exists(student / name))
            put(name, readTextFile(student / name));
    put("README.md", card);
    return files;
}

WrittenFolder writeHfFolder(const WriteJob& job, const Control& control) {
    const auto& [model, student, folder, options] = job;
    const auto& dtype = options.dtype;
    const Json config = hfConfig(model, dtype); // first: it refuses what can't be expressed
    WrittenFolder written{writeBesideWeights(model, student, folder, config, modelCard(model, student, dtype, true)), true, {}};
    writeFileAtomically(folder / "modeling_linnet.py", kModelingPython);
    written.exact = writeTensors(model, folder / "model.safetensors", dtype, plannedTensors(model, storedTypeName(dtype)), control);
    written.files.insert(written.files.end(), {"modeling_linnet.py", "model.safetensors"});
    return written;
}

} // namespace linnet::core
