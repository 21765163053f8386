// Stage 2 for several layers at once (method.md section 5): what alignLayer does for one, as one batch, at the speed of the device.
// A step is a captured graph where the device has graphs; losses and norms stay on the device and come to the host in blocks of steps,
// so that the host never holds the device up and still stops it within a fraction of a second.
// The numbers depend on the recipe and on which layers share a group, not on stops, blocks, timing or where inputs and targets lie.
// With align.early_stop a layer's best state and curve end where its own alignment would; the group goes on until all have stopped.
// Loss kl_metric: as in align.h, states and losses are in the metric, what start() takes and best() gives is an ordinary layer.
#pragma once

#include "core/convert/align.h"
#include "core/convert/align_feed.h"

namespace linnet::core {

struct AlignGroupJob {
    const Recipe& recipe;
    std::vector<std::int64_t> layers;
    AlignGroupShape shape; // layers = layers.size()
    at::Device device;
    at::ScalarType compute; // of inputs, targets and products
    AlignStep::Backend backend;
    std::vector<OutputMetric> metrics = {}; // by layer, for loss kl_metric
    bool spill = false; // inputs and targets in host memory (align_feed.h)
};

struct AlignGroupEvents {
    std::function<void(const MetricRow&)> onMetric;                        // by step, in it by layer
    std::function<void()> save;                                            // called at times, and before Cancelled leaves
    std::function<void(std::int64_t step)> onSteps;                        // finished steps; may throw Cancelled
    std::function<void(const std::string&)> onLog;
};

std::int64_t forwardSequences(at::Device device, std::int64_t tokens); // of a piece of a forward over calibration windows

class AlignGroup {
public:
    explicit AlignGroup(const AlignGroupJob& job);
    ~AlignGroup();

    // bfloat16 on a GPU for teachers of any dtype, float32 on the CPU. Measured on SmolLM2-135M, layers 6 and 21, 100 steps of 4 x 256:
    // the masters' held-out relative loss in float32 is .25318 and .19313 after float32 steps, .25320 and .19316 after bfloat16 ones.
    static at::ScalarType computeType(at::Device device, at::ScalarType teacher);
    // Layers that fit into `budget` bytes, at least one; then `count` layers in groups of nearly the same size.
    static std::vector<std::int64_t> groupSizes(std::int64_t count, const AlignGroupShape& shape, at::Device device, at::ScalarType compute, std::uint64_t budget);
    // Is a GPU's budget too small for even one layer's inputs and targets?
    static bool spills(const AlignGroupShape& shape, at::Device device, at::ScalarType compute, std::uint64_t budget);

    const std::vector<std::int64_t>& layers() const { return m_job.layers; }
    // [windows, T, hidden], in host memory where the group spills: to be filled. run() multiplies targets by the loss's metric.
    at::Tensor inputs(std::size_t index) const { return (m_feed ? m_feed->inputs : m_step.inputs)[static_cast<std::int64_t>(index)]; }
    at::Tensor targets(std::size_t index) const { return (m_feed ? m_feed->targets : m_step.targets)[static_cast<std::int64_t>(index)]; }
    void start(std::size_t index, const LinearLayer& layer);
    void restore(std::size_t index, const AlignState& state);   // all layers or none, all at one step

    void run(const AlignGroupEvents& events); // once; to recipe.align.steps, or until all layers have stopped
    AlignState state(std::size_t index) const; // now, on the host
    LinearLayer best(std::size_t index) const; // on the host
    std::pair<double, double> losses(std::size_t index) const { return {m_lossFirst[index], m_lossLast[index]}; }
    std::pair<std::int64_t, std::optional<double>> kept(std::size_t index) const; // step and held-out loss of the state that best() gives
    std::uint64_t stateBytes() const; // of all layers' states on disk

private:
    class Blocks;
    void measure();
    void targetsIntoMetric();
    std::vector<std::int64_t> windowsOf(std::int64_t step) const; // [L B]
    std::vector<std::int32_t> batchRows() const;
    bool allStopped(std::int64_t steps) const;

    AlignGroupJob m_job;
    std::int64_t m_heldOut, m_training, m_measureEvery;
    AlignStep m_step;
    std::optional<AlignFeed> m_feed;
    std::int64_t m_done = 0;                    // steps queued
    at::Tensor m_best;                          // [L, total]
    at::Tensor m_bestLoss, m_bestStep;          // [L] float64, int64 (-1: none)
    at::Tensor m_heldOutLosses;                 // [measurements, L, 2] float64: loss, relative loss
    std::vector<at::Tensor> m_lockNorms;        // by layer
    std::vector<double> m_lossFirst, m_lossLast;
    // What the host knows of bestLoss and bestStep: as far as measurements have come. Decides which layers have stopped.
    std::vector<double> m_seenLoss;
    std::vector<std::int64_t> m_seenStep;
};

} // namespace linnet::core
