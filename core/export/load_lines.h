// The lines that load an export in the runtimes it is for: the model card and the export wizard show the same ones. No torch.
#pragma once

#include <string>
#include <vector>

namespace linnet::core {

struct LoadLines {
    std::string runtime;  // "transformers", "vLLM", ...
    std::string language; // "python" | "bash", as Markdown names it
    std::string text;     // lines, each with its end
};
// `folder` as the reader has it: an absolute path, or a name that they replace. `weights`: the folder's .gguf, where the format has one.
// `biases`: softmax layers have some, which SGLang's class would leave out.
std::vector<LoadLines> loadLines(const std::string& format, const std::string& folder, const std::string& weights = {}, bool biases = false);

} // namespace linnet::core
