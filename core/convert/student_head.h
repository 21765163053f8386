// One head of a student as a layer of its own, and the teacher beside it; not a public header.
#pragma once

#include "core/convert/head_view.h"
#include "core/convert/target_probe_state.h"

namespace linnet::core {

struct StudentHead {
    LinearLayer layer; // one head, float32 on the teacher's device; o_proj [hidden, D]
    const MixerSpec* spec = nullptr;
    LinearShape shape;
    bool trained = false;
    bool ownGate = false;                  // its gate rows are the head's own, not a stand-in
    std::optional<double> halfLife, beta, outputGate; // of a start: what it was made for
    double valueScale = 1;
};

// The state is prepared for the request's layer.
StudentHead studentHead(TargetProbe::State& state, const LayerContext& context, const HeadRequest& request);

// What every question about a head begins with: the layer prepared, and the head's student. The context refers to state, recipe and control.
struct OpenedHead {
    LayerContext context;
    StudentHead student;
};
OpenedHead openHead(TargetProbe::State& state, const Recipe& recipe, const HeadRequest& request, const Control& control);

// One converted layer of a run's file, float32 on the teacher's device; the others are not read. nullopt: not there, or no linear one.
std::optional<LinearLayer> linearLayerOf(const std::filesystem::path& file, std::int64_t layer, const Model& teacher, const std::string& mixer);

// Softmax attention of one head for x [1, T, hidden]: [T, T] float32, 0 above the diagonal.
at::Tensor teacherAttention(const Model& teacher, const LayerWeights& weights, const at::Tensor& x, std::int64_t head);

std::vector<std::string> tokenPieces(const Model& model, const std::vector<TokenId>& ids);

} // namespace linnet::core
