// When a run was saved. Of a layer's checkpoints only the newest stays on disk; checkpoints/saves.jsonl tells of all that were written:
// {"stage": "align", "layer": 3, "step": 412, "time": 61.5} a line, where rows of metrics.jsonl up to step - 1 are in the checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace linnet::core {

struct SavePoint {
    std::string stage;       // align, distill
    std::int64_t layer = -1; // -1: all converted layers together
    std::int64_t step = -1;  // steps done; -1: all that there were, the layer was finished
    double time = 0;         // seconds since the run began, as in metrics.jsonl
};
// In the order of writing; of steps that a resumed run went through again, the last. What can't be read is left out.
std::vector<SavePoint> readSavePoints(const std::filesystem::path& run);

} // namespace linnet::core
