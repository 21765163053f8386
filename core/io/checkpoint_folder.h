// Folders as trainers leave them: transformers' Trainer (checkpoint-N), flame (torch's distributed checkpoints).
#pragma once

#include <filesystem>
#include <string>

namespace linnet::core {

// A folder that holds no model itself (no config.json) but checkpoint-N folders, or `final`, that do: `final`, else the one with the largest
// N. Any other path comes back as it is. Throws Unsupported with the line that converts it for a folder of distributed checkpoints (.distcp).
std::filesystem::path newestCheckpoint(const std::filesystem::path& path);

// Where a checkpoint's tokenizer lies: in the folder, else in the nearest of three parents of a checkpoint-N or final that has a tokenizer.json.
std::filesystem::path tokenizerFolder(const std::filesystem::path& folder);

// What makes a safetensors file of a pickled one (.pt, .pth, .bin) without running code of it: one line for a shell.
std::string safetensorsLine(const std::string& pickled);

} // namespace linnet::core
