#include "core/torch_pch.h"

#include "core/convert/convert.h"

#include "core/model/model.h"

#include <cstdlib>

namespace linnet::core {
namespace {

std::filesystem::path installed(const char* variable, const std::filesystem::path& folder, const std::string& extension, const std::string& what) {
    if (const char* set = std::getenv(variable); set && *set)
        return set;
    std::error_code ignored;
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
        if (entry.path().extension() == extension)
            found.push_back(entry.path());
    if (found.empty())
        fail(ErrorCode::NotFound, "the default " + what + " is not installed: " + folder.string() + " holds no " + extension +
                                      " file; run ./linnet build, or set " + variable, {{"file", folder.string()}, {"default", what}});
    return *std::min_element(found.begin(), found.end());
}

// What `body` finds too little of is called by its name.
template <class F> auto namingText(const std::vector<std::string>& text, F body) {
    try {
        return body();
    } catch (Failure& failure) {
        constexpr std::string_view kBegin = "the text has ";
        if (!failure.error.message.starts_with(kBegin))
            throw;
        std::string names;
        for (const auto& each : text)
            names += (names.empty() ? "" : ", ") + each;
        failure.error.message.replace(0, kBegin.size(), "the text (" + names + ") has ");
        failure.error.context["text"] = names;
        throw;
    }
}

} // namespace

std::filesystem::path cacheFolder() {
    if (const char* set = std::getenv("XDG_CACHE_HOME"); set && *set == '/')
        return std::filesystem::path(set) / "linnet";
    const char* home = std::getenv("HOME");
    return std::filesystem::path(home && *home ? home : "/tmp") / ".cache" / "linnet";
}

std::filesystem::path defaultTeacher() {
    return installed("LINNET_TEACHER", cacheFolder() / "teacher", ".gguf", "teacher");
}

std::filesystem::path defaultText() {
    return installed("LINNET_TEXT", cacheFolder() / "text", ".txt", "text");
}

std::vector<std::string> resolveText(const std::vector<std::string>& text) {
    std::vector<std::string> result;
    for (const auto& entry : text)
        result.push_back(entry == "default" ? defaultText().string() : entry);
    return result;
}

TokenWindows windowsOf(const Model& model, const std::vector<std::string>& text, std::int64_t seqLen, std::int64_t tokens, std::uint64_t seed,
                       const Control& control) {
    if (text.size() == 1 && text[0].starts_with("self:")) {
        std::int64_t count = 0;
        try {
            std::size_t used = 0;
            count = std::stoll(text[0].substr(5), &used);
            if (used + 5 != text[0].size() || count < 1 || count > 1'000'000)
                throw std::invalid_argument("count");
        } catch (const std::exception&) {
            fail(ErrorCode::Usage, "data \"" + text[0] + "\": self:N takes a whole number of sequences, 1 to 1000000", {{"value", text[0]}});
        }
        return {orFail(sampleSequences(model, count, seqLen, seed, control)), count, seqLen};
    }
    return namingText(text, [&] { return tokenWindows(modelTokenizer(model), readDocuments(resolveText(text)), seqLen, tokens); });
}

Slices slicesOf(const TokenWindows& all, const Recipe& recipe) {
    return namingText(recipe.dataText, [&] { return splitSlices(all, recipe.calibrationTokens, recipe.selectionTokens, recipe.evaluationTokens); });
}

} // namespace linnet::core
