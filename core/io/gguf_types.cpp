#include "core/io/gguf_types.h"

namespace linnet::core {
namespace {

constexpr GgufTypeInfo known(std::uint32_t id, const char* name, std::uint32_t elements, std::uint32_t bytes, bool decodable) {
    return {static_cast<GgufType>(id), name, elements, bytes, decodable};
}

constexpr GgufTypeInfo kTypes[] = {
    known(0, "F32", 1, 4, true),          known(1, "F16", 1, 2, true),          known(30, "BF16", 1, 2, true),
    known(2, "Q4_0", 32, 18, true),       known(3, "Q4_1", 32, 20, true),       known(6, "Q5_0", 32, 22, true),
    known(7, "Q5_1", 32, 24, true),       known(8, "Q8_0", 32, 34, true),       known(10, "Q2_K", 256, 84, true),
    known(11, "Q3_K", 256, 110, true),    known(12, "Q4_K", 256, 144, true),    known(13, "Q5_K", 256, 176, true),
    known(14, "Q6_K", 256, 210, true),    known(9, "Q8_1", 32, 40, false),      known(15, "Q8_K", 256, 292, false),
    known(16, "IQ2_XXS", 256, 66, false), known(17, "IQ2_XS", 256, 74, false),  known(18, "IQ3_XXS", 256, 98, false),
    known(19, "IQ1_S", 256, 50, false),   known(20, "IQ4_NL", 32, 18, false),   known(21, "IQ3_S", 256, 110, false),
    known(22, "IQ2_S", 256, 82, false),   known(23, "IQ4_XS", 256, 136, false), known(24, "I8", 1, 1, false),
    known(25, "I16", 1, 2, false),        known(26, "I32", 1, 4, false),        known(27, "I64", 1, 8, false),
    known(28, "F64", 1, 8, false),        known(29, "IQ1_M", 256, 56, false),   known(34, "TQ1_0", 256, 54, false),
    known(35, "TQ2_0", 256, 66, false),   known(39, "MXFP4", 32, 17, false),    known(40, "NVFP4", 64, 36, false),
    known(41, "Q1_0", 128, 18, false),
};

} // namespace

const GgufTypeInfo* findGgufType(std::uint32_t id) {
    for (const auto& type : kTypes)
        if (static_cast<std::uint32_t>(type.type) == id)
            return &type;
    return nullptr;
}

} // namespace linnet::core
