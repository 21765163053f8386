// Between float32 and the 16-bit and 8-bit floats, bit-exact; to 16 bits with round-to-nearest-even, as torch and numpy do.
#pragma once

#include "core/io/weight_source.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace linnet::core {

inline float halfToFloat(std::uint16_t half) {
    const std::uint32_t sign = (half & 0x8000u) << 16;
    const std::uint32_t magnitude = half & 0x7fffu;
    std::uint32_t bits;
    if (magnitude >= 0x7c00) // infinity, NaN
        bits = 0x7f800000u | (magnitude << 13);
    else if (magnitude >= 0x0400) // normal: the exponent's bias moves from 15 to 127
        bits = (magnitude << 13) + (112u << 23);
    else // subnormal: a multiple of 2^-24
        bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    return std::bit_cast<float>(bits | sign);
}

inline float bfloatToFloat(std::uint16_t value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

std::uint16_t floatToHalf(float value);
std::uint16_t floatToBfloat(float value);
float float8ToFloat(std::uint8_t value); // E4M3 with NaN and without infinities (float8_e4m3fn)

// `count` floats to `dtype`, into out (room for count * dtypeBytes(dtype)).
void convertFloats(const float* in, std::size_t count, DType dtype, void* out);

} // namespace linnet::core
