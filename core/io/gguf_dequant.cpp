#include "core/io/gguf_dequant.h"

#include "core/base/result.h"
#include "core/io/dtype_convert.h"
#include "core/io/row_decoder.h"
#include "core/io/text_checks.h"

#include <cstring>

namespace linnet::core {
namespace {

using Byte = std::uint8_t;

float halfAt(const Byte* bytes) {
    std::uint16_t half;
    std::memcpy(&half, bytes, sizeof half);
    return halfToFloat(half);
}

// Each of the following decodes one block. Blocks of 32: the low nibbles are the first 16 values, the high ones the rest.
void blockQ4_0(const Byte* in, float* out) {
    const float d = halfAt(in);
    for (int i = 0; i < 16; ++i) {
        out[i] = static_cast<float>((in[2 + i] & 15) - 8) * d;
        out[i + 16] = static_cast<float>((in[2 + i] >> 4) - 8) * d;
    }
}

void blockQ4_1(const Byte* in, float* out) {
    const float d = halfAt(in), m = halfAt(in + 2);
    for (int i = 0; i < 16; ++i) {
        out[i] = static_cast<float>(in[4 + i] & 15) * d + m;
        out[i + 16] = static_cast<float>(in[4 + i] >> 4) * d + m;
    }
}

void blockQ5_0(const Byte* in, float* out) {
    const float d = halfAt(in);
    std::uint32_t high;
    std::memcpy(&high, in + 2, sizeof high);
    for (int i = 0; i < 16; ++i) {
        out[i] = static_cast<float>(static_cast<int>((in[6 + i] & 15) | (((high >> i) & 1) << 4)) - 16) * d;
        out[i + 16] = static_cast<float>(static_cast<int>((in[6 + i] >> 4) | (((high >> (i + 16)) & 1) << 4)) - 16) * d;
    }
}

void blockQ5_1(const Byte* in, float* out) {
    const float d = halfAt(in), m = halfAt(in + 2);
    std::uint32_t high;
    std::memcpy(&high, in + 4, sizeof high);
    for (int i = 0; i < 16; ++i) {
        out[i] = static_cast<float>((in[8 + i] & 15) | (((high >> i) & 1) << 4)) * d + m;
        out[i + 16] = static_cast<float>((in[8 + i] >> 4) | (((high >> (i + 16)) & 1) << 4)) * d + m;
    }
}

void blockQ8_0(const Byte* in, float* out) {
    const float d = halfAt(in);
    for (int i = 0; i < 32; ++i)
        out[i] = static_cast<float>(static_cast<std::int8_t>(in[2 + i])) * d;
}

// K blocks: 256 values in groups of 16 or 32, each group with a small integer scale (and minimum) of its own.
void blockQ2_K(const Byte* in, float* out) {
    const Byte *scales = in, *q = in + 16;
    const float d = halfAt(in + 80), dmin = halfAt(in + 82);
    for (int group = 0; group < 16; ++group) { // of 16 values; 8 groups share 32 bytes, each pair at its own shift
        const Byte* bytes = q + 32 * (group / 8) + 16 * (group % 2);
        const int shift = 2 * (group % 8 / 2);
        const float scale = d * static_cast<float>(scales[group] & 15), minimum = dmin * static_cast<float>(scales[group] >> 4);
        for (int i = 0; i < 16; ++i)
            *out++ = scale * static_cast<float>((bytes[i] >> shift) & 3) - minimum;
    }
}

void blockQ3_K(const Byte* in, float* out) {
    const Byte *mask = in, *q = in + 32, *scales = in + 96;
    const float d = halfAt(in + 108);
    for (int group = 0; group < 16; ++group) {
        const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
        const int high = (scales[8 + group % 4] >> (2 * (group / 4))) & 3;
        const float scale = d * static_cast<float>((low | (high << 4)) - 32);
        const Byte* bytes = q + 32 * (group / 8) + 16 * (group % 2);
        const Byte* maskBytes = mask + 16 * (group % 2);
        const int shift = 2 * (group % 8 / 2), maskBit = group / 2;
        for (int i = 0; i < 16; ++i) {
            const int value = ((bytes[i] >> shift) & 3) - ((maskBytes[i] >> maskBit) & 1 ? 0 : 4);
            *out++ = scale * static_cast<float>(value);
        }
    }
}

struct ScaleAndMinimum {
    int scale, minimum;
};

// Eight 6-bit scales and eight 6-bit minima in 12 bytes, as Q4_K and Q5_K pack them.
ScaleAndMinimum unpackSixBits(const Byte* packed, int group) {
    if (group < 4)
        return {packed[group] & 63, packed[group + 4] & 63};
    return {(packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4), (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4)};
}

void blockQ4_K(const Byte* in, float* out) {
    const float d = halfAt(in), dmin = halfAt(in + 2);
    for (int group = 0; group < 8; ++group) { // of 32 values; two groups share 32 bytes: low nibbles, then high ones
        const auto packed = unpackSixBits(in + 4, group);
        const float scale = d * static_cast<float>(packed.scale), minimum = dmin * static_cast<float>(packed.minimum);
        const Byte* q = in + 16 + 32 * (group / 2);
        const int shift = 4 * (group % 2);
        for (int i = 0; i < 32; ++i)
            *out++ = scale * static_cast<float>((q[i] >> shift) & 15) - minimum;
    }
}

void blockQ5_K(const Byte* in, float* out) {
    const float d = halfAt(in), dmin = halfAt(in + 2);
    const Byte* high = in + 16; // bit `group` of byte i is the fifth bit of the group's value i
    for (int group = 0; group < 8; ++group) {
        const auto packed = unpackSixBits(in + 4, group);
        const float scale = d * static_cast<float>(packed.scale), minimum = dmin * static_cast<float>(packed.minimum);
        const Byte* q = in + 48 + 32 * (group / 2);
        const int shift = 4 * (group % 2);
        for (int i = 0; i < 32; ++i)
            *out++ = scale * static_cast<float>(((q[i] >> shift) & 15) | (((high[i] >> group) & 1) << 4)) - minimum;
    }
}

void blockQ6_K(const Byte* in, float* out) {
    const float d = halfAt(in + 208);
    for (int group = 0; group < 16; ++group) { // of 16 values
        const int half = group / 8, quarter = group % 8 / 2, start = 16 * (group % 2);
        const Byte* low = in + 64 * half + 32 * (quarter % 2) + start;
        const Byte* high = in + 128 + 32 * half + start;
        const float scale = d * static_cast<float>(static_cast<std::int8_t>(in[192 + group]));
        const int lowShift = 4 * (quarter / 2), highShift = 2 * quarter;
        for (int i = 0; i < 16; ++i) {
            const int value = ((low[i] >> lowShift) & 15) | (((high[i] >> highShift) & 3) << 4);
            *out++ = scale * static_cast<float>(value - 32);
        }
    }
}

template <int elementsPerBlock, int bytesPerBlock, void (*block)(const Byte*, float*)>
void blocks(const std::byte* stored, std::int64_t elements, float* out) {
    const auto* in = reinterpret_cast<const Byte*>(stored);
    for (std::int64_t i = 0; i < elements; i += elementsPerBlock, in += bytesPerBlock)
        block(in, out + i);
}

template <float (*convert)(std::uint16_t)> void words(const std::byte* stored, std::int64_t elements, float* out) {
    for (std::int64_t i = 0; i < elements; ++i) {
        std::uint16_t word;
        std::memcpy(&word, stored + 2 * i, sizeof word);
        out[i] = convert(word);
    }
}

} // namespace

void dequantize(GgufType type, const std::byte* stored, std::int64_t elements, float* out) {
    switch (type) {
    case GgufType::F32:
        std::memcpy(out, stored, static_cast<std::size_t>(elements) * sizeof(float));
        return;
    case GgufType::F16:
        return words<halfToFloat>(stored, elements, out);
    case GgufType::BF16:
        return words<bfloatToFloat>(stored, elements, out);
    case GgufType::Q4_0:
        return blocks<32, 18, blockQ4_0>(stored, elements, out);
    case GgufType::Q4_1:
        return blocks<32, 20, blockQ4_1>(stored, elements, out);
    case GgufType::Q5_0:
        return blocks<32, 22, blockQ5_0>(stored, elements, out);
    case GgufType::Q5_1:
        return blocks<32, 24, blockQ5_1>(stored, elements, out);
    case GgufType::Q8_0:
        return blocks<32, 34, blockQ8_0>(stored, elements, out);
    case GgufType::Q2_K:
        return blocks<256, 84, blockQ2_K>(stored, elements, out);
    case GgufType::Q3_K:
        return blocks<256, 110, blockQ3_K>(stored, elements, out);
    case GgufType::Q4_K:
        return blocks<256, 144, blockQ4_K>(stored, elements, out);
    case GgufType::Q5_K:
        return blocks<256, 176, blockQ5_K>(stored, elements, out);
    case GgufType::Q6_K:
        return blocks<256, 210, blockQ6_K>(stored, elements, out);
    }
    fail(ErrorCode::Internal, "GGUF type " + std::to_string(static_cast<std::uint32_t>(type)) + " has no decoder");
}

std::optional<DType> plainDType(GgufType type) {
    switch (type) {
    case GgufType::F32:
        return DType::F32;
    case GgufType::F16:
        return DType::F16;
    case GgufType::BF16:
        return DType::BF16;
    default:
        return std::nullopt;
    }
}

void readGgufTensor(const GgufFile& file, const GgufTensor& tensor, DType dtype, void* out,
                    std::function<std::int64_t(std::int64_t)> placeRow) {
    if (!tensor.type.decodable)
        fail(ErrorCode::Unsupported,
             file.path().string() + ": tensor " + printable(tensor.name) + " is stored as " + tensor.type.name +
                 ", which is not decoded; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K are",
             {{"file", file.path().string()}, {"tensor", tensor.name}, {"found", tensor.type.name}});
    const auto type = tensor.type.type;
    const auto elements = tensor.rowElements();
    StoredRows rows{file.data(), tensor.offset, tensor.rows(), elements,
                    static_cast<std::uint64_t>(elements) / tensor.type.blockElements * tensor.type.blockBytes};
    rows.plainType = plainDType(type);
    rows.decode = [type, elements](std::int64_t, const std::byte* stored, float* values) {
        dequantize(type, stored, elements, values);
    };
    rows.place = std::move(placeRow);
    readRows(rows, dtype, out);
}

} // namespace linnet::core
