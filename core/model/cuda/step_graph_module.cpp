// The module's functions; see step_graph.h and core/model/device_memory.h.
#include "core/model/cuda/step_graph.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/util/Exception.h>

namespace {

class Graph : public linnet::core::StepGraph {
public:
    explicit Graph(const std::function<void()>& work) {
        // Other threads (a file being written, a gauge) may call CUDA meanwhile.
        m_graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
        try {
            work();
        } catch (...) {
            try {
                m_graph.capture_end();
            } catch (...) { // the first error says what went wrong
            }
            cudaGetLastError();
            throw;
        }
        m_graph.capture_end();
    }
    void replay() override { m_graph.replay(); }

private:
    at::cuda::CUDAGraph m_graph;
};

} // namespace

extern "C" linnet::core::StepGraph* linnetCaptureGraph(const std::function<void()>* work) {
    return new Graph(*work);
}

// Of every stream that ever multiplied: 32 MiB each, which no emptying of the allocator's cache reaches.
extern "C" void linnetClearWorkspaces() {
    at::cuda::clearCublasWorkspaces();
}
