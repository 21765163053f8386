#include "core/export/load_lines.h"

#include "core/base/json.h"

#include <algorithm>

namespace linnet::core {
namespace {

constexpr const char* kPrompt = "\"The invention of the printing press\"";

std::string forShell(const std::string& word) {
    const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_@%+=:,./-").find(c) != std::string_view::npos; };
    if (!word.empty() && std::ranges::all_of(word, plain))
        return word;
    std::string quoted = "'";
    for (const char c : word)
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

std::string transformers(const std::string& folder, const std::string& first, const std::string& arguments) {
    const auto name = Json(folder).dump(); // a Python string too
    return first + "from transformers import AutoModelForCausalLM, AutoTokenizer\nmodel = AutoModelForCausalLM.from_pretrained(" + name + arguments +
           ")\ntokenizer = AutoTokenizer.from_pretrained(" + name + arguments + ")\n";
}

} // namespace

std::vector<LoadLines> loadLines(const std::string& format, const std::string& folder, const std::string& weights, bool biases) {
    std::vector<LoadLines> lines;
    const auto shell = forShell(folder), file = forShell(folder + "/" + (weights.empty() ? "MODEL.gguf" : weights));
    if (format == "hf") {
        lines.push_back({"transformers", "python", transformers(folder, "", ", trust_remote_code=True")});
    } else if (format == "qwen3.5") {
        lines.push_back({"transformers", "python", transformers(folder, "", "")});
        lines.push_back({"vLLM", "bash", "vllm serve " + shell + "\n"});
        if (!biases)
            lines.push_back({"SGLang", "bash", "python -m sglang.launch_server --model-path " + shell + "\n"});
    } else if (format == "fla") {
        lines.push_back({"flash-linear-attention", "python", transformers(folder, "import fla  # makes its classes known to transformers\n", "")});
    } else if (format == "gguf") {
        lines.push_back({"llama.cpp", "bash", "llama-cli -m " + file + " -p " + kPrompt + "\n"});
        lines.push_back({"Ollama", "bash", "printf 'FROM %s\\n' " + file + " > Modelfile\nollama create my-hybrid -f Modelfile\nollama run my-hybrid\n"});
        lines.push_back({"LM Studio", "bash", "lms import " + file + "\n"});
    }
    if (format == "bundle")
        lines.push_back({"Taylor-Calibrate", "bash", "TAYLOR_CALIBRATE=CLONE TEACHER=TEACHER " + shell + "/run.sh\n"});
    if (format == "adapter")
        lines.push_back({"Linnet", "bash", "linnet-cli generate " + shell + " --teacher TEACHER --prompt " + kPrompt + "\n"});
    else
        lines.push_back({"Linnet", "bash", "linnet-cli generate " + shell + " --prompt " + kPrompt + "\n"});
    return lines;
}

} // namespace linnet::core
