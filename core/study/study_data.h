// A study's text: consecutive regions cut at document boundaries, tokenised once.
#pragma once

#include "core/base/json.h"
#include "core/data/text_data.h"

#include <map>

namespace linnet::core {

struct StudyRegion {
    std::string name;
    std::int64_t documents = 0;
    std::map<std::string, std::int64_t> genres; // documents of each
    std::vector<TokenId> ids;
};

class StudyText {
public:
    // `tokens` of evaluation, selection and calibration: each takes as many whole documents as hold them, and of those the first tokens.
    StudyText(const std::filesystem::path& file, const Tokenizer& tokenizer, const std::vector<std::int64_t>& tokens);

    const std::string& hash() const { return m_hash; } // of the file
    const std::vector<StudyRegion>& regions() const { return m_regions; }
    Slices slices(std::int64_t seqLen) const; // windows of each region; its tail is dropped
    Json summary() const;

private:
    std::string m_hash;
    std::vector<StudyRegion> m_regions; // evaluation, selection, calibration, training
};

} // namespace linnet::core
