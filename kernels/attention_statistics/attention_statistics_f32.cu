// The kernels for Float32, in a translation unit of their own so that the types compile side by side.
#include "attention_statistics_kernels.cuh"

namespace linnet::kernels::statistics {

LaunchError launchFloat32(Arguments& arguments, void* stream) {
    return launchType<float>(arguments, stream);
}

} // namespace linnet::kernels::statistics
