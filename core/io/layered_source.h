// Some tensors of a model over another's.
#pragma once

#include "core/io/weight_source.h"

namespace linnet::core {

// The tensors of both; a name that both have is `upper`'s. Its hash is made of the two.
std::shared_ptr<const WeightSource> layeredSource(std::shared_ptr<const WeightSource> upper, std::shared_ptr<const WeightSource> lower);

} // namespace linnet::core
