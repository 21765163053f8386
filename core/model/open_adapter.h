// An adapter: the converted layers alone, which lie over the teacher that they were made from (core/export/adapter.cpp writes it).
//   adapter_config.json {"linnet_adapter": 1, "mixer", "layers": {"1": "gated_delta_net", "3": "sliding_window"}, "head_norm_eps": {"1": 1e-05},
//                        "teacher": {"name", "hash": WeightSource::hash, "contents": weightContents, "source"}, "recipe": the run's or null}
//   adapter.safetensors model.layers.N.linear_attn.* and .sliding_window (student_files.cpp), any float type
#pragma once

#include "core/model/opened_model.h"

namespace linnet::core {

inline constexpr const char* kAdapterFile = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter"; // .safetensors
// Environment: the teacher's path, before all other places (the commands' --teacher sets it).
inline constexpr const char* kTeacherVariable = "LINNET_ADAPTER_TEACHER";

bool isAdapter(const std::filesystem::path& folder);
// The teacher is looked for where kTeacherVariable says, else in the folder and beside it by its name, then at the recorded source; its hash is
// checked, and its contents when weights are read (openModel). `links`: of openFiles. Throws NotFound naming the places, Malformed with both hashes.
OpenedModel openAdapter(const std::filesystem::path& folder, int links);

} // namespace linnet::core
