// CUDA graphs for code that links LibTorch without its CUDA half. What a graph needs of libtorch_cuda (its allocator's private pools)
// sits in a module of its own (torch_module.h); where it is missing, everything runs without graphs.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace linnet::core {

class StepGraph {
public:
    virtual ~StepGraph() = default;
    virtual void replay() = 0; // on the current stream
};

// Captures what `work` queues on the current stream, which must not be the default one; nothing of it runs. Null where that can't be
// done, and then `why` says so; `work` may have been called in part, but has queued nothing.
std::unique_ptr<StepGraph> captureGraph(const std::function<void()>& work, std::string& why);

} // namespace linnet::core
