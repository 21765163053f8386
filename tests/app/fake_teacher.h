// A teacher and a profile made up for the panels' tests.
#pragma once

#include "core/model/model_api.h"
#include "core/profile/profile.h"

namespace linnet::tests {

inline constexpr int kLayers = 6, kHeads = 4;

inline core::ModelInfo fakeTeacher() {
    core::ModelInfo info;
    info.path = "/models/a-teacher-with-a-rather-long-name-that-does-not-fit-the-card.gguf";
    auto& c = info.config;
    c.modelType = "llama";
    c.layers = kLayers, c.heads = kHeads, c.kvHeads = 2, c.headDim = 8, c.hiddenSize = 32, c.vocabSize = 1000, c.intermediateSize = 64;
    c.storedDType = "Q4_1";
    c.tiedEmbeddings = true;
    info.parameters = 123456;
    info.layerKinds.assign(kLayers, "softmax");
    info.cacheBytesPerToken = kLayers * 2 * 2 * 8 * 4;
    info.device = "cpu", info.dtype = "f32";
    info.warnings = {"decoded weights"};
    return info;
}

inline std::shared_ptr<core::Profile> fakeProfile() { // each number tells its layer and head
    auto profile = std::make_shared<core::Profile>();
    profile->seqLen = 64, profile->sequences = 3, profile->tokens = 192, profile->kvHeads = 2;
    profile->edges = {0, 1, 2, 4, 8, 16, 32, 64};
    profile->layers.resize(kLayers);
    for (int l = 0; l < kLayers; ++l)
        for (int h = 0; h < kHeads; ++h) {
            core::HeadProfile head;
            head.distance = {1.5 + l * kHeads + h, 0.25};
            head.medianNoSink = 2.5 + l * kHeads + h;
            head.p10 = 1, head.p50 = 5, head.p90 = 20;
            head.concentrationLayer = 0.01 * (l * kHeads + h + 1);
            head.concentrationAbsolute = 0.5;
            head.rmsPostO = 0.125 * (l * kHeads + h + 1);
            head.histogram.assign(7, 1.0 / 7);
            profile->layers[static_cast<std::size_t>(l)].push_back(head);
        }
    return profile;
}

} // namespace linnet::tests
