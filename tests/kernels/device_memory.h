// Memory of the device that a kernel test runs on: the GPU, or this process where the kernels are emulated.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifdef LINNET_EMULATED
#include <cstdlib>
#else
#include <cuda_runtime_api.h>
#endif

// First line of every test function.
#define LINNET_NEEDS_DEVICE()                                                                                                              \
    do {                                                                                                                                   \
        if (!linnet::tests::deviceAvailable())                                                                                             \
            QSKIP("no CUDA device");                                                                                                       \
    } while (false)

namespace linnet::tests {

#ifdef LINNET_EMULATED

inline bool deviceAvailable() { return true; }
inline void synchronise() {}
inline void* deviceAllocate(std::size_t bytes) {
    void* memory = std::aligned_alloc(1024, (bytes + 1023) / 1024 * 1024);
    return memory ? memory : throw std::bad_alloc();
}
inline void deviceFree(void* memory) { std::free(memory); }
inline void deviceFill(void* memory, int byte, std::size_t bytes) { std::memset(memory, byte, bytes); }
inline void deviceCopy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#else

inline void check(cudaError_t error) {
    if (error != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}
inline bool deviceAvailable() {
    static const bool available = [] {
        int count = 0;
        return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
    }();
    return available;
}
inline void synchronise() { check(cudaDeviceSynchronize()); }
inline void* deviceAllocate(std::size_t bytes) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes));
    return memory;
}
inline void deviceFree(void* memory) { cudaFree(memory); }
inline void deviceFill(void* memory, int byte, std::size_t bytes) { check(cudaMemset(memory, byte, bytes)); }
inline void deviceCopy(void* to, const void* from, std::size_t bytes) { check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault)); }

#endif

// `count` values of T, aligned to 1024 bytes and filled with 0xFF (NaN) so that reading what nothing wrote shows.
template <class T> class DeviceBuffer {
public:
    DeviceBuffer() = default;
    explicit DeviceBuffer(std::size_t count) : m_count(count) {
        if (count == 0)
            return;
        m_memory = deviceAllocate(bytes() + kAlignment);
        const auto address = reinterpret_cast<std::size_t>(m_memory);
        m_data = reinterpret_cast<T*>((address + kAlignment - 1) / kAlignment * kAlignment);
        poison();
    }
    explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) { upload(values); }
    DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
    DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
        std::swap(m_memory, other.m_memory);
        std::swap(m_data, other.m_data);
        std::swap(m_count, other.m_count);
        return *this;
    }
    ~DeviceBuffer() {
        if (m_memory)
            deviceFree(m_memory);
    }

    T* data() { return m_data; } // null when empty
    const T* data() const { return m_data; }
    std::size_t size() const { return m_count; }
    std::size_t bytes() const { return m_count * sizeof(T); }
    void poison() { fill(0xFF); }
    void fill(int byte) {
        if (m_count)
            deviceFill(m_data, byte, bytes());
    }
    void upload(const std::vector<T>& values) { // as many values as the buffer holds; an empty buffer takes that size
        if (m_count == 0)
            *this = DeviceBuffer(values.size());
        if (values.size() != m_count)
            throw std::logic_error("DeviceBuffer: " + std::to_string(values.size()) + " values for " + std::to_string(m_count));
        if (m_count)
            deviceCopy(m_data, values.data(), bytes());
    }
    std::vector<T> download() const { // waits for everything queued before
        synchronise();
        std::vector<T> values(m_count);
        if (m_count)
            deviceCopy(values.data(), m_data, bytes());
        return values;
    }

private:
    static constexpr std::size_t kAlignment = 1024;
    void* m_memory = nullptr;
    T* m_data = nullptr;
    std::size_t m_count = 0;
};

} // namespace linnet::tests
