// Which values a format stores. No torch: the wizard's list is this one.
#pragma once

#include <string>
#include <vector>

namespace linnet::core {

std::vector<std::string> exportDTypes(const std::string& format); // f32 first; throws Failure{Usage} for a format that is none

} // namespace linnet::core
