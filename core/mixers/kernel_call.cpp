#include "core/torch_pch.h"

#include "core/mixers/kernel_call.h"

#include "core/base/result.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace linnet::core {

void* currentStream(const at::Device& device) {
    return device.is_cuda() ? c10::impl::VirtualGuardImpl(at::kCUDA).getStream(device).native_handle() : nullptr;
}

Scratch::Scratch(std::size_t bytes, const at::Device& device) {
    if (bytes > 0)
        m_tensor = at::empty({static_cast<std::int64_t>(bytes) + 1023}, at::TensorOptions(device).dtype(at::kByte));
}

void* Scratch::data() const {
    if (!m_tensor.defined())
        return nullptr;
    auto* start = static_cast<unsigned char*>(m_tensor.data_ptr());
    return start + (1024 - reinterpret_cast<std::uintptr_t>(start) % 1024) % 1024;
}

kernels::TokenStrides tokenStrides(const at::Tensor& t) {
    return {t.stride(0), t.stride(1), t.stride(2)};
}

void checkLaunch(kernels::LaunchError error, const char* operation) {
    if (error)
        fail(ErrorCode::Internal, std::string(operation) + ": " + error, {{"operation", operation}});
}

} // namespace linnet::core
