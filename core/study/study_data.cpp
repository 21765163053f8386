#include "core/torch_pch.h"

#include "core/study/study_data.h"

#include "core/base/files.h"
#include "core/base/result.h"

#include <sstream>

namespace linnet::core {
namespace {

constexpr std::array<const char*, 4> kNames = {"evaluation", "selection", "calibration", "training"};

std::vector<std::string> genresOf(const std::string& text, const std::string& origin) { // as readDocuments goes through the lines
    std::vector<std::string> genres;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.find_first_not_of(" \t\r") == line.npos)
            continue;
        const Json json = parseJson(line, origin);
        const auto genre = json.find("genre");
        genres.push_back(genre != json.end() && genre->is_string() ? genre->get<std::string>() : "unnamed");
    }
    return genres;
}

} // namespace

StudyText::StudyText(const std::filesystem::path& file, const Tokenizer& tokenizer, const std::vector<std::int64_t>& tokens) {
    const auto documents = readDocuments({file.string()});
    const auto text = readTextFile(file);
    m_hash = hashBytes(text);
    auto genres = file.extension() == ".jsonl" ? genresOf(text, file.string()) : std::vector<std::string>();
    genres.resize(documents.size(), "unnamed");
    std::size_t next = 0;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        StudyRegion region{kNames[i], 0, {}, {}};
        const bool rest = i == tokens.size();
        const auto wanted = rest ? std::int64_t{1} : tokens[i];
        std::vector<std::string> own;
        std::int64_t held = 0;
        const auto take = [&] {
            if (next == documents.size())
                fail(ErrorCode::Usage, file.string() + ": its " + std::to_string(documents.size()) + " documents end in the study's " + region.name + " region, which needs " + std::to_string(wanted) + " tokens: give more text",
                     {{"file", file.string()}, {"key", region.name}, {"expected", std::to_string(wanted)}});
            held += rest ? 0 : std::ssize(tokenizer.encode(documents[next], false));
            ++region.genres[genres[next]];
            own.push_back(documents[next++]);
        };
        while (rest ? next < documents.size() || own.empty() : held < wanted)
            take();
        // One window of the whole region: joined, tokenised and cut as every text is.
        region.ids = tokenWindows(tokenizer, own, rest ? 1 : wanted, rest ? 0 : wanted).ids;
        region.documents = std::ssize(own);
        m_regions.push_back(std::move(region));
    }
}

Slices StudyText::slices(std::int64_t seqLen) const {
    const auto cut = [&](std::size_t region) {
        TokenWindows windows{m_regions[region].ids, std::ssize(m_regions[region].ids) / seqLen, seqLen};
        windows.ids.resize(static_cast<std::size_t>(windows.tokens()));
        return windows;
    };
    Slices slices;
    slices.evaluation = cut(0), slices.selection = cut(1), slices.calibration = cut(2), slices.training = cut(3);
    return slices;
}

Json StudyText::summary() const {
    Json regions = Json::array();
    for (const auto& region : m_regions)
        regions.push_back({{"name", region.name}, {"documents", region.documents}, {"tokens", region.ids.size()}, {"genres", region.genres}});
    return {{"hash", m_hash}, {"regions", regions}};
}

} // namespace linnet::core
