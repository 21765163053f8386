#include "core/io/dtype_convert.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace linnet::core {

const char* dtypeName(DType dtype) {
    switch (dtype) {
    case DType::F32:
        return "f32";
    case DType::F16:
        return "f16";
    case DType::BF16:
        return "bf16";
    }
    return "f32";
}

std::size_t dtypeBytes(DType dtype) {
    return dtype == DType::F32 ? 4 : 2;
}

std::uint16_t floatToHalf(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
    std::uint32_t magnitude = bits & 0x7fffffffu;
    std::uint32_t half;
    if (magnitude > 0x7f800000u)
        half = 0x7e00u | ((magnitude >> 13) & 0x3ffu); // stays NaN
    else if (magnitude >= 0x477ff000u)                 // 65520 and above round to infinity
        half = 0x7c00u;
    else if (magnitude < 0x38800000u) // below 2^-14: adding 0.5 makes the FPU round to multiples of 2^-24
        half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    else
        half = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    return static_cast<std::uint16_t>(half | sign);
}

std::uint16_t floatToBfloat(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return static_cast<std::uint16_t>((bits >> 16) | 0x40u); // stays NaN when the low half is cut
    return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float float8ToFloat(std::uint8_t value) {
    const int exponent = (value >> 3) & 15, mantissa = value & 7;
    float magnitude;
    if (exponent == 15 && mantissa == 7)
        magnitude = std::numeric_limits<float>::quiet_NaN();
    else if (exponent == 0)
        magnitude = std::ldexp(static_cast<float>(mantissa), -9);
    else
        magnitude = std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    return value & 0x80 ? -magnitude : magnitude;
}

void convertFloats(const float* in, std::size_t count, DType dtype, void* out) {
    if (dtype == DType::F32) {
        std::memcpy(out, in, count * sizeof(float));
        return;
    }
    auto* words = static_cast<std::uint16_t*>(out);
    if (dtype == DType::F16)
        for (std::size_t i = 0; i < count; ++i)
            words[i] = floatToHalf(in[i]);
    else
        for (std::size_t i = 0; i < count; ++i)
            words[i] = floatToBfloat(in[i]);
}

} // namespace linnet::core
