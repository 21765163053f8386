// A checkpoint of the reference project's `student` class as a model: what our bundle holds, and what training it there produced.
#pragma once

#include "core/model/opened_model.h"

namespace linnet::core {

// Files of a bundle, beside config.json (core/export/bundle.h).
inline constexpr const char* kBundleFile = "bundle.json"; // {"o_norm_eps": the eps that the checkpoint's o_norm was made with}

// `folder` has a config.json of model_type "student" (src/distill_model/config_distilled_student.py). Students gdn_v4 (no short convolution)
// and gdn_v3 (with one) are read. Their o_norm has the eps of config.json's o_norm_eps (launch.py of a bundle sets it), else that of
// bundle.json, else 1e-5, which that project leaves it at. Throws Unsupported or Malformed naming file and key.
OpenedModel openStudent(const std::filesystem::path& folder);

// `folder` is of flash-linear-attention's `transformer`. What scripts/train_stage1.py saves has the student's attention beside the teacher's in
// it, and what is frozen as int8: Unsupported, with the line that makes a student of it. Others are let pass.
void refuseStage1(const std::filesystem::path& folder);

} // namespace linnet::core
