#pragma once

#include "core/base/control.h"

#include <filesystem>
#include <string>

namespace linnet::core {

// Of every byte of the file (hashFileSampled of files.h reads parts only); heeds a stop at every 4 MiB. Throws NotFound or Io.
std::string hashWholeFile(const std::filesystem::path& file, const Control& control = {});

} // namespace linnet::core
