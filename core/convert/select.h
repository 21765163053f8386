// Which layers to convert: every ranking of method.md section 6, and the choice that a keep rule makes of it.
// Scores are measured on the selection slice, which is neither calibration nor evaluation data.
#pragma once

#include "core/convert/convert.h"
#include "core/model/model.h"

namespace linnet::core {

struct SelectionJob {
    const Model& teacher;
    const TokenWindows& windows;
    const Mixers* bank = nullptr;     // see bankFor; a mixer in the teacher's dtype for every layer but `never`
    const Profile* profile = nullptr; // score
    std::set<std::int64_t> never, always;
    // Measured at every number of kept layers; a perplexity budget needs it anyway. Without a bank or without windows there is
    // none.
    bool curve = true;
    // What is measured already, by kind of bank and set of layers; gets the new. Belongs to one teacher (in one dtype), one set
    // of windows, one bank of each kind. See select_meter.h.
    Json& finished;
    std::function<void()> save; // called when `finished` has grown
    const Control& control;
    std::uint64_t memoryBytes = 0; // that hidden states kept for reuse may take; 0: 1 GiB, 2 on a GPU
    std::int64_t window = 0;       // keys that a converted layer keeps (a sliding window and its sinks); 0: it has a state instead
};

// bypass: rise of the loss with one layer's attention removed. kl: KL with one layer converted. greedy: from the teacher, the
// layer whose conversion costs least given those before it, of the 10 cheapest by kl. restore: from all converted, the layer
// whose return gains most; its ranking begins with the last to return. ga-s2 ([TC]): loss with only that layer softmax, over a
// bank of unaligned starts; its score is what the loss gains over none kept. score: from the profile, no forward.
// Pins: `never` layers are kept and `always` layers converted in every set that greedy, restore, ga-s2 and the curve measure,
// and don't appear in these methods' rankings; kl leaves out `never`. Where neither curve nor rule asks for more, greedy and
// restore rank the layers of the steps that they made, and no others.
Selection selectLayers(const KeepRule& rule, const SelectionJob& job); // throws Failure

enum class BankKind { None, Starts, Aligned };
// Throws Usage for an unknown method. None: a perplexity budget, or a curve, still needs an aligned one.
BankKind bankFor(const std::string& method);

// The most kept layers within a Cache rule's budget that the pins allow. Over short texts a state can be larger than keys and values: fewer
// then cost more. Throws Usage with the smallest cache that there is.
std::int64_t keptByCache(const KeepRule& rule, const ModelConfig& config, std::int64_t cacheElementBytes, std::int64_t window,
                         const std::set<std::int64_t>& never, const std::set<std::int64_t>& always);

// Bytes that one sequence of `tokens` takes in the student: keys and values of the kept layers in `cacheElementBytes`, and
// of the converted ones states (float32) and convolution inputs, or, with `window` > 0, keys and values of so many tokens.
std::uint64_t studentCacheBytes(const ModelConfig& config, std::int64_t keptLayers, std::int64_t tokens,
                                std::int64_t cacheElementBytes, std::int64_t window = 0);

} // namespace linnet::core
