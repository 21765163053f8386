#include "core/model/cuda/step_graph.h"

#include "core/base/result.h"

#include <dlfcn.h>
#include <exception>
#include <filesystem>

namespace linnet::core {
namespace {

using Capture = StepGraph* (*)(const std::function<void()>*);

Capture loadModule(std::string& why) {
    std::error_code ignored;
    const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    for (const auto& file : {folder / "liblinnet_torch_cuda.so", folder / "../lib/liblinnet_torch_cuda.so", folder / "../lib/linnet/liblinnet_torch_cuda.so"}) {
        if (!std::filesystem::exists(file, ignored))
            continue;
        if (void* module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
            if (const auto capture = reinterpret_cast<Capture>(::dlsym(module, "linnetCaptureGraph")))
                return capture;
        const char* error = ::dlerror();
        why = error ? error : file.string() + " is no module of this program";
        return nullptr;
    }
    why = "liblinnet_torch_cuda.so is not beside the program";
    return nullptr;
}

} // namespace

std::unique_ptr<StepGraph> captureGraph(const std::function<void()>& work, std::string& why) {
    static std::string missing;
    static const Capture capture = loadModule(missing);
    if (!capture) {
        why = missing;
        return nullptr;
    }
    try {
        return std::unique_ptr<StepGraph>(capture(&work));
    } catch (const std::exception& error) {
        why = std::string(error.what()).substr(0, 300);
        return nullptr;
    } catch (const Failure& failure) { // a launch that a kernel refused
        if (failure.error.code == ErrorCode::Cancelled)
            throw;
        why = failure.error.message;
        return nullptr;
    }
}

} // namespace linnet::core
