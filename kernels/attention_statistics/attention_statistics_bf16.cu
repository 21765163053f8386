// The kernels for BFloat16, in a translation unit of their own so that the types compile side by side.
#include "attention_statistics_kernels.cuh"

namespace linnet::kernels::statistics {

LaunchError launchBFloat16(Arguments& arguments, void* stream) {
    return launchType<BFloat16>(arguments, stream);
}

} // namespace linnet::kernels::statistics
