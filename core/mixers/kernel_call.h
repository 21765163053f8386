// Between LibTorch's tensors and the launches of kernels/: streams, scratch memory, errors; not a public header.
#pragma once

#include "linnet/kernels/launch.h"

#include <ATen/ATen.h>

namespace linnet::core {

// cudaStream_t of LibTorch's current stream on `device`; null on the CPU.
void* currentStream(const at::Device& device);

// `bytes` of uninitialised memory whose data() is aligned to 1024 bytes. From LibTorch's allocator: a graph capture may hold it.
class Scratch {
public:
    Scratch() = default;
    Scratch(std::size_t bytes, const at::Device& device);
    explicit Scratch(at::Tensor tensor) : m_tensor(std::move(tensor)) {}
    void* data() const; // null when empty
    const at::Tensor& tensor() const { return m_tensor; }

private:
    at::Tensor m_tensor; // uint8, 1023 bytes longer
};

// Strides of a [batch, token, head, dim] view.
kernels::TokenStrides tokenStrides(const at::Tensor& t);

// Throws Failure{Internal} with the operation's name where a launch was refused or failed.
void checkLaunch(kernels::LaunchError error, const char* operation);

} // namespace linnet::core
