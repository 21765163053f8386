// One head of a student as a layer of its own; not a public header.
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

std::vector<std::string> tokenPieces(const Model& model, const std::vector<TokenId>& ids);

} // namespace linnet::core
