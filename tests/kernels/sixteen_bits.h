// Sixteen-bit numbers on the host, rounded to nearest even as the kernels' inputs are.
#pragma once

#include "linnet/kernels/launch.h"

#include <cstdint>
#include <cstring>

namespace linnet::tests {

using kernels::DataType;

inline std::uint16_t rounded(double x, DataType type) {
    std::uint16_t bits;
    if (type == DataType::Float16) {
        const auto half = static_cast<_Float16>(x);
        std::memcpy(&bits, &half, 2);
        return bits;
    }
    const auto single = static_cast<float>(x);
    std::uint32_t wide;
    std::memcpy(&wide, &single, 4);
    return static_cast<std::uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
}

inline double valueOf(std::uint16_t bits, DataType type) {
    if (type == DataType::Float16) {
        _Float16 half;
        std::memcpy(&half, &bits, 2);
        return static_cast<double>(half);
    }
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float single;
    std::memcpy(&single, &wide, 4);
    return single;
}

} // namespace linnet::tests
