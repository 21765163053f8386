#include "core/torch_pch.h"

#include "core/model/device.h"

#include "core/base/files.h"

#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <charconv>
#include <dlfcn.h>
#include <filesystem>
#include <sched.h>
#include <thread>
#include <unistd.h>

namespace linnet::core {
namespace {

// LibTorch's folder, taken from the half that is linked: its CUDA half lies beside it.
std::filesystem::path torchFolder() {
    Dl_info info{};
    const auto* symbol = reinterpret_cast<const void*>(&at::globalContext);
    return ::dladdr(symbol, &info) && info.dli_fname ? std::filesystem::path(info.dli_fname).parent_path() : std::filesystem::path();
}

// A driver is looked for first: libtorch_cuda takes a second and hundreds of megabytes to load, in vain where there is none.
int loadCuda() {
    if (!::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
        return 0;
    if (!::dlopen((torchFolder() / "libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL))
        return 0;
    return at::detail::getCUDAHooks().hasCUDA() ? at::detail::getCUDAHooks().getNumGPUs() : 0;
}

int cudaDevices() {
    static const int count = loadCuda(); // the registration of libtorch_cuda is for the whole process, and can't be undone
    return count;
}

// Name and memory from the driver, without CUDA's headers: the three calls have had this form since CUDA 3.2.
struct Gpu {
    std::string name; // empty: the driver does not say
    std::size_t bytes = 0;
};

Gpu askDriver(int index) {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto call = [&](const char* name) { return driver ? ::dlsym(driver, name) : nullptr; };
    const auto getDevice = reinterpret_cast<int (*)(int*, int)>(call("cuDeviceGet"));
    const auto getName = reinterpret_cast<int (*)(char*, int, int)>(call("cuDeviceGetName"));
    const auto getMemory = reinterpret_cast<int (*)(std::size_t*, int)>(call("cuDeviceTotalMem_v2"));
    int device = 0;
    char name[256] = {};
    std::size_t bytes = 0;
    if (!getDevice || !getName || !getMemory || getDevice(&device, index) != 0 || getName(name, sizeof name - 1, device) != 0 ||
        getMemory(&bytes, device) != 0)
        return {};
    return {name, bytes};
}

std::string gpuDescription(int index) {
    const auto gpu = askDriver(index);
    const std::string id = "cuda:" + std::to_string(index);
    return gpu.name.empty() ? id : gpu.name + ", " + std::to_string(gpu.bytes >> 30) + " GiB (" + id + ")";
}

int usableCores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

} // namespace

bool cudaAvailable() {
    return cudaDevices() > 0;
}

at::Device deviceFromName(const std::string& name) {
    const int devices = cudaDevices(); // before anything else asks torch for CUDA: torch looks for it only once
    if (name == "cpu" || ((name == "auto" || name.empty()) && devices == 0))
        return at::Device(at::kCPU);
    if (name == "auto" || name.empty())
        return at::Device(at::kCUDA, 0);
    int index = 0;
    const bool indexed = name.rfind("cuda:", 0) == 0;
    if (indexed) {
        const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), index);
        if (error != std::errc() || end != name.data() + name.size() || index < 0)
            index = -1;
    }
    if ((!indexed && name != "cuda") || index < 0)
        fail(ErrorCode::Usage, "unknown device \"" + name + "\", expected cpu, cuda, cuda:0 or auto", {{"device", name}});
    if (index >= devices)
        fail(ErrorCode::Unsupported,
             "device " + name + ": " + (devices == 0 ? "no CUDA device was found here" : std::to_string(devices) + " CUDA devices found") +
                 ", use --device cpu",
             {{"device", name}, {"found", std::to_string(devices)}});
    return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

at::ScalarType dtypeFromName(const std::string& name) {
    if (name == "f32")
        return at::kFloat;
    if (name == "bf16")
        return at::kBFloat16;
    if (name == "f16")
        return at::kHalf;
    fail(ErrorCode::Usage, "unknown dtype \"" + name + "\", expected f32, bf16 or f16", {{"dtype", name}});
}

std::string deviceDescription(const at::Device& device) {
    if (device.is_cuda())
        return gpuDescription(device.index());
    return "cpu, " + std::to_string(at::get_num_threads()) + (at::get_num_threads() == 1 ? " thread" : " threads");
}

std::uint64_t peakDeviceBytes(const at::Device& device) {
    if (!device.is_cuda())
        return peakResidentMemoryBytes();
    auto* allocator = c10::getDeviceAllocator(at::kCUDA);
    if (!allocator->initialized())
        return 0;
    const auto stats = allocator->getDeviceStats(device.index());
    return static_cast<std::uint64_t>(stats.allocated_bytes[0].peak); // 0: over all pools
}

std::uint64_t deviceMemoryBytes(const at::Device& device) {
    if (device.is_cuda())
        return askDriver(device.index()).bytes;
    return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void setThreads(int threads) {
    at::set_num_threads(threads > 0 ? threads : usableCores());
}

} // namespace linnet::core
