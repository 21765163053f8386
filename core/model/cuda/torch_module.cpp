#include "core/model/cuda/torch_module.h"

#include <dlfcn.h>
#include <filesystem>

namespace linnet::core {
namespace {

void* loadModule(std::string& why) {
    std::error_code ignored;
    const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    for (const auto& file : {folder / "liblinnet_torch_cuda.so", folder / "../lib/liblinnet_torch_cuda.so", folder / "../lib/linnet/liblinnet_torch_cuda.so"}) {
        if (!std::filesystem::exists(file, ignored))
            continue;
        if (void* module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
            return module;
        const char* error = ::dlerror();
        why = error ? error : file.string() + " can't be loaded";
        return nullptr;
    }
    why = "liblinnet_torch_cuda.so is not beside the program";
    return nullptr;
}

} // namespace

void* torchModuleFunction(const char* name, std::string& why) {
    static std::string missing;
    static void* const module = loadModule(missing);
    void* const function = module ? ::dlsym(module, name) : nullptr;
    if (!function)
        why = module ? std::string("liblinnet_torch_cuda.so is of another build: it has no ") + name : missing;
    return function;
}

} // namespace linnet::core
