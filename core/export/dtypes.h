// Which values a format stores. No torch: the wizard's list is this one.
#pragma once

#include <string>
#include <vector>

namespace linnet::core {

// f32 first; throws Failure{Usage} for a format that is none. A lifted model (Fidelity::Lifted) has no float16.
std::vector<std::string> exportDTypes(const std::string& format, bool lifted = false);

} // namespace linnet::core
