// C entries of the attention statistics, for ctypes (tests/bench/linnet_kernels.py); gated_delta_rule/c_api.cu says more.
#include "../cuda/device.h"

#include "linnet/kernels/attention_statistics.h"

#include <exception>
#include <string>

using namespace linnet::kernels;

extern "C" {

// Like linnetStructLayout, of AttentionStatisticsCudaParams.
int linnetStatisticsLayout(std::int64_t* out, int count) {
    const AttentionStatisticsCudaParams p; // by addresses: offsetof is not for classes with bases
    const auto at = [&](const void* member) { return static_cast<const char*>(member) - reinterpret_cast<const char*>(&p); };
    const std::ptrdiff_t layout[] = {
        sizeof p, at(&p.batch),  at(&p.scale),          at(&p.binsPerOctave), at(&p.distance), at(&p.histogramNoSink),
        at(&p.q), at(&p.output), at(&p.sequenceStarts), at(&p.workspace),     at(&p.stream),   at(&p.dataType)};
    constexpr int kNumbers = sizeof layout / sizeof layout[0];
    for (int i = 0; i < kNumbers && i < count; ++i)
        out[i] = layout[i];
    return kNumbers;
}

// Bins of the histogram for that many tokens; 0 where there can be none.
std::int64_t linnetDistanceBins(std::int64_t tokens, int binsPerOctave) {
    try {
        return static_cast<std::int64_t>(distanceEdges(tokens, binsPerOctave).size()) - 1;
    } catch (const std::exception&) {
        return 0;
    }
}

std::size_t linnetAttentionStatisticsWorkspace(const AttentionStatisticsCudaParams* params) {
    return attentionStatisticsCudaWorkspace(*params);
}

const char* linnetAttentionStatistics(const AttentionStatisticsCudaParams* params) {
    try {
        return attentionStatisticsCuda(*params);
    } catch (const std::exception& e) { // the emulator's
        thread_local std::string text;
        text = e.what();
        return text.c_str();
    }
}

} // extern "C"
