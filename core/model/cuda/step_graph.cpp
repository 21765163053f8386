#include "core/model/cuda/step_graph.h"

#include "core/base/result.h"
#include "core/model/cuda/torch_module.h"

#include <exception>

namespace linnet::core {

std::unique_ptr<StepGraph> captureGraph(const std::function<void()>& work, std::string& why) {
    using Capture = StepGraph* (*)(const std::function<void()>*);
    const auto capture = reinterpret_cast<Capture>(torchModuleFunction("linnetCaptureGraph", why));
    if (!capture)
        return nullptr;
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
