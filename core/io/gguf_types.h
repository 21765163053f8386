// The tensor types of GGUF (ggml): sizes of all, so that offsets can be checked; only some can be decoded (gguf_dequant.h).
#pragma once

#include <cstdint>

namespace linnet::core {

enum class GgufType : std::uint32_t {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    BF16 = 30, // and others that are only known by GgufTypeInfo
};

struct GgufTypeInfo {
    GgufType type;
    const char* name;
    std::uint32_t blockElements, blockBytes;
    bool decodable;
};

// Null for numbers that name no type (never given out, or removed from the format).
const GgufTypeInfo* findGgufType(std::uint32_t id);

} // namespace linnet::core
