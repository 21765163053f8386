// A hand-over to the reference project of Taylor-Calibrate (github.com/FutureMLS-Lab/Taylor-Calibrate): the folder is its student checkpoint
// (config.json, model.safetensors, tokenizer) and holds beside it
//   stage1.yaml, stage2.yaml  configurations of scripts/train_stage1.py and scripts/train.py, from the run's recipe
//   data/stageN/all_tokens.npy  the run's own windows (uint32), in the cache that scripts/preprocess_data.py cuts windows from
//   run.sh, launch.py, TRAIN.md  one line to go on with; bundle.json: what config.json has no key for (core/model/open_student.h)
// What comes out of it opens as a model again.
#pragma once

#include "core/export/format.h"
#include "core/recipe/recipe.h"

namespace linnet::core {

struct BundleFacts {
    std::string student;             // gdn_v4, or gdn_v3 where the convolutions do something
    std::vector<std::int64_t> kept;  // layers
    double headNormEps = 0;          // of o_norm
    Recipe recipe;                   // of the run; the defaults where there was none
    bool fromRun = false;            // `recipe` is the run's
    std::int64_t calibrationWindows = 0, trainingWindows = 0, seqLen = 0; // 0: no tokens in the bundle
};

// The texts, without machine paths; TAYLOR_CALIBRATE (a clone) and TEACHER (a folder or Hub name) are the environment's.
std::string bundleStageYaml(const BundleFacts& facts, int stage); // 1 | 2
std::string bundleRunScript(const BundleFacts& facts);
std::string bundleLaunchPython();
std::string bundleGuide(const BundleFacts& facts);
std::vector<std::string> bundleNotes(const BundleFacts& facts); // what the project's trainer can't be told, and what was not tried

// NumPy's .npy 1.0, one dimension of uint32.
std::string npyOf(const std::vector<TokenId>& ids);

} // namespace linnet::core
