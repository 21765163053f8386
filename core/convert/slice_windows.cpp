#include "core/convert/slice_windows.h"

#include "core/convert/convert.h"

#include <algorithm>

namespace linnet::core {
namespace {

bool isSlices(const std::string& path) {
    return std::filesystem::path(path).extension() == ".safetensors";
}

TokenWindows chosen(const std::filesystem::path& file, const std::string& slice) {
    auto slices = loadSlices(file);
    TokenWindows* found = slice == "calibration" ? &slices.calibration : slice == "selection" ? &slices.selection : slice == "evaluation" ? &slices.evaluation
                          : slice == "training"  ? &slices.training
                                                 : nullptr;
    if (!found)
        fail(ErrorCode::Usage, "--slice: found \"" + slice + "\", expected calibration, selection, evaluation or training", {{"option", "--slice"}, {"found", slice}});
    if (found->sequences == 0)
        fail(ErrorCode::NotFound, file.string() + ": tensor " + slice + " isn't there: the run used no such tokens", {{"file", file.string()}, {"tensor", slice}});
    return std::move(*found);
}

// The run's own teacher says which tokenizer its ids are of, as far as that teacher is still where the run found it.
void checkVocabulary(const ModelInfo& model, const std::filesystem::path& file, const std::string& slice) {
    const auto recipe = readRecipe(std::filesystem::absolute(file).parent_path() / "recipe.json");
    if (!recipe || recipe->teacherHash == model.hash)
        return;
    const auto teacher = guarded([&] { return orFail(readModelInfo(recipe->teacherSource == "default" ? defaultTeacher() : resolvePath(*recipe, recipe->teacherSource))); });
    if (!teacher || teacher->tokenizerVocabSize == model.tokenizerVocabSize)
        return;
    fail(ErrorCode::Usage, file.string() + ": tensor " + slice + " holds tokens of a vocabulary of " + std::to_string(teacher->tokenizerVocabSize) + " (" + teacher->path.string() + "), the model's has " +
                               std::to_string(model.tokenizerVocabSize),
         {{"file", file.string()}, {"tensor", slice}, {"found", std::to_string(teacher->tokenizerVocabSize)}, {"expected", std::to_string(model.tokenizerVocabSize)}});
}

} // namespace

bool namesSlices(const std::vector<std::string>& text) {
    const auto count = std::ranges::count_if(text, isSlices);
    if (count > 0 && text.size() > 1)
        fail(ErrorCode::Usage, "--data: " + *std::ranges::find_if(text, isSlices) + " holds a run's tokens and stands alone, found beside other text", {{"option", "--data"}});
    return count > 0;
}

TokenWindows windowsOfSlice(const Model& model, const std::filesystem::path& file, const std::string& slice, std::int64_t seqLen, std::int64_t tokens) {
    auto windows = chosen(file, slice);
    const auto info = modelInfo(model);
    checkVocabulary(info, file, slice);
    if (const auto largest = *std::ranges::max_element(windows.ids); largest >= info.config.vocabSize)
        fail(ErrorCode::Usage, file.string() + ": tensor " + slice + " holds token " + std::to_string(largest) + ", the model's vocabulary has " + std::to_string(info.config.vocabSize),
             {{"file", file.string()}, {"tensor", slice}, {"found", std::to_string(largest)}, {"expected", "below " + std::to_string(info.config.vocabSize)}});
    const auto length = seqLen > 0 ? seqLen : windows.seqLen;
    const auto wanted = tokens > 0 ? std::min(tokens, windows.tokens()) : windows.tokens();
    if (wanted < length)
        fail(ErrorCode::Usage, file.string() + ": tensor " + slice + ": found " + std::to_string(wanted) + " tokens, expected at least one window of " + std::to_string(length) + " (--seq-len, --tokens)",
             {{"file", file.string()}, {"tensor", slice}, {"found", std::to_string(wanted)}, {"expected", std::to_string(length)}});
    windows.sequences = wanted / length;
    windows.seqLen = length;
    windows.ids.resize(static_cast<std::size_t>(windows.tokens()));
    return windows;
}

} // namespace linnet::core
