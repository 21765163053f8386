// What choices cost, each measured once: from SelectionJob::finished where it is known, else by the scorer, made on need.
#pragma once

#include "core/convert/select.h"
#include "core/convert/select_scorer.h"

namespace linnet::core {

using LayerSet = std::set<std::int64_t>;
std::string listed(const LayerSet& layers); // "3,7"

// Entries of `finished`: "teacher", "bypass 3" (without that layer's attention), "aligned 3,7" and "starts 3,7" (those layers
// from such a bank): {"loss", "kl"}, null where it is not finite; bypass without "kl".
class SelectionMeter {
public:
    SelectionMeter(const SelectionJob& job, BankKind bank);
    void plan(std::int64_t measurements) { m_planned = static_cast<double>(measurements); } // in all, for the progress
    ChoiceScore teacher();
    double withoutAttention(std::int64_t layer); // loss
    // `base`: the set that it is compared with, for the scorer's sake.
    ChoiceScore converted(const LayerSet& layers, const LayerSet& base, const std::string& text);
    bool measured() const; // anything at all: then the teacher is

private:
    using Choice = SelectionScorer::Choice;
    Choice choiceOf(const LayerSet& layers) const;
    ChoiceScore measure(const std::string& key, const std::string& text, const Choice& choice, const Choice& base,
                        bool withKl = true);

    const SelectionJob& m_job;
    std::string m_bank;
    std::optional<SelectionScorer> m_scorer;
    Mixer m_bypass;
    double m_done = 0, m_planned = 0;
};

} // namespace linnet::core
