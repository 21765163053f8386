// C entries of the gated delta rule, for callers without a C++ compiler: ctypes in tests/bench/bench_kernels.py. A caller lays
// the structs out by hand, so linnetStructLayout says how this build laid them out; compare before the first call.
#include "layout.h"

#include <exception>
#include <string>

namespace {

using namespace linnet::kernels;

// An exception must not cross into C. Kernels on a GPU throw none; the emulator does where threads wait for each other.
template <class F> const char* guarded(F&& call) {
    try {
        return call();
    } catch (const std::exception& e) {
        thread_local std::string text;
        text = e.what();
        return text.c_str();
    }
}

static_assert(sizeof(TokenStrides) == 24 && sizeof(GatedDeltaRuleBytes) == 24);

} // namespace

extern "C" {

// Writes the bytes of GatedDeltaRuleParams and the offsets of some of its members, at most `count` numbers; returns how many
// there are.
int linnetStructLayout(std::int64_t* out, int count) {
    const std::size_t layout[] = {sizeof(GatedDeltaRuleParams),
                                  offsetof(GatedDeltaRuleParams, qStrides),
                                  offsetof(GatedDeltaRuleParams, initialState),
                                  offsetof(GatedDeltaRuleParams, scale),
                                  offsetof(GatedDeltaRuleParams, o),
                                  offsetof(GatedDeltaRuleParams, dO),
                                  offsetof(GatedDeltaRuleParams, dDtBias),
                                  offsetof(GatedDeltaRuleParams, batch),
                                  offsetof(GatedDeltaRuleParams, sequences),
                                  offsetof(GatedDeltaRuleParams, dataType),
                                  offsetof(GatedDeltaRuleParams, workspace),
                                  offsetof(GatedDeltaRuleParams, stream)};
    constexpr int kNumbers = sizeof layout / sizeof layout[0];
    for (int i = 0; i < kNumbers && i < count; ++i)
        out[i] = static_cast<std::int64_t>(layout[i]);
    return kNumbers;
}

int linnetEmulated() {
    return device::kEmulated ? 1 : 0;
}

const char* linnetGatedDeltaRuleBytes(const GatedDeltaRuleParams* params, GatedDeltaRuleBytes* bytes) {
    return guarded([&] { return *bytes = gatedDeltaRuleBytes(*params), nullptr; });
}
const char* linnetGatedDeltaRuleForward(const GatedDeltaRuleParams* params) {
    return guarded([&] { return gatedDeltaRuleForward(*params); });
}
const char* linnetGatedDeltaRuleBackward(const GatedDeltaRuleParams* params) {
    return guarded([&] { return gatedDeltaRuleBackward(*params); });
}
const char* linnetGatedDeltaRuleStep(const GatedDeltaRuleParams* params) {
    return guarded([&] { return gatedDeltaRuleStep(*params); });
}

} // extern "C"
