#include "tile_kernels.h"

// One binary runs everywhere: the body is compiled for AVX-512, for AVX2 with FMA, and for the compiler's base set (SSE2, NEON: four
// lanes). Vector types and a target pragma around an include, because target_clones lowers vector types before it makes its clones.
namespace linnet::kernels::tile {

namespace base {
constexpr int kLanes = 4;
constexpr int kGroup = 4;
#include "tile_body.h"
} // namespace base

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr int kLanes = 8;
constexpr int kGroup = 4;
#include "tile_body.h"
} // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx2,fma")
namespace avx512 {
constexpr int kLanes = 16;
constexpr int kGroup = 8;
#include "tile_body.h"
} // namespace avx512
#pragma GCC pop_options
#endif

const Functions& functions() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        return avx512::kFunctions;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return avx2::kFunctions;
    }
#endif
    return base::kFunctions;
}

} // namespace linnet::kernels::tile
