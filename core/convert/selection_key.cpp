#include "core/torch_pch.h"

#include "core/convert/selection_key.h"

#include "core/convert/select.h"

namespace linnet::core {
namespace {

BankKind bankOf(const KeepRule& keep) { // as Pipeline::measuredOn
    const auto bank = bankFor(keep.method);
    return bank == BankKind::None && keep.budget == KeepRule::Budget::Perplexity ? BankKind::Aligned : bank;
}

Recipe withoutStudent(const Recipe& frozen) {
    Recipe key;
    key.teacherSource = frozen.teacherSource, key.teacherHash = frozen.teacherHash;
    key.dataText = frozen.dataText, key.seqLen = frozen.seqLen, key.seed = frozen.seed;
    key.calibrationTokens = frozen.calibrationTokens, key.selectionTokens = frozen.selectionTokens, key.evaluationTokens = frozen.evaluationTokens;
    key.device = frozen.device, key.dtype = frozen.dtype;
    if (frozen.keep.method == "score") // the profile's bins
        key.preset = frozen.preset, key.ropeTreatment = frozen.ropeTreatment;
    return key;
}

} // namespace

Recipe selectionKey(const Recipe& frozen) {
    const auto bank = bankOf(frozen.keep);
    Recipe key = bank == BankKind::None ? withoutStudent(frozen) : frozen;
    key.keep = parseKeepRule("first:0");
    key.align.drift = AlignSettings().drift;
    key.align.driftSteps = AlignSettings().driftSteps;
    key.distill = {};
    key.evaluateSeqLen = 0;
    if (bank == BankKind::Starts) {
        key.align = {};
        key.targets.clear();
    }
    return key;
}

std::filesystem::path selectionFolder(const Recipe& frozen, const std::filesystem::path& bankFolder) {
    const auto folder = bankFolder.empty() ? std::filesystem::temp_directory_path() / "linnet-select" : bankFolder;
    return folder / ("select-" + recipeHash(selectionKey(frozen)));
}

} // namespace linnet::core
