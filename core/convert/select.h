#pragma once

#include "core/convert/convert.h"
#include "core/model/model.h"

namespace linnet::core {

// Rise of the mean loss over the windows with one layer's attention removed, cheapest first. `finished` holds scores of an
// earlier, interrupted ranking (by layer) and gets the new ones; `save` is called after each.
std::vector<LayerScore> bypassRanking(const Model& teacher, const TokenWindows& windows, std::map<std::int64_t, double>& finished,
                                      const std::function<void()>& save, const Control& control);
Selection selectionOf(const Model& teacher, const std::string& method, const std::vector<LayerScore>& ranking, std::int64_t keep,
                      const std::set<std::int64_t>& never, const std::set<std::int64_t>& always);
void checkMethod(const std::string& method); // throws Unsupported for those that follow later

} // namespace linnet::core
