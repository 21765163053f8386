// Names out of files that nobody has vouched for: checked before use, made safe before they are shown.
#pragma once

#include <string>
#include <string_view>

namespace linnet::core {

bool isValidUtf8(std::string_view text);
// In double quotes; control characters and invalid UTF-8 as \xNN, cut after 120 bytes: fit for a message, a log and JSON.
std::string printable(std::string_view text);

} // namespace linnet::core
