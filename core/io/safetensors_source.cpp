#include "core/io/safetensors_source.h"

#include "core/base/files.h"
#include "core/base/result.h"
#include "core/io/dtype_convert.h"
#include "core/io/gguf_dequant.h"
#include "core/io/model_files.h"
#include "core/io/row_decoder.h"
#include "core/io/text_checks.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace linnet::core {
namespace {

constexpr const char* kScaleSuffix = "_scale_inv";

std::optional<GgufType> plainType(const std::string& dtype) { // the plain types are GGUF's, too: one decoder for both
    if (dtype == "F32")
        return GgufType::F32;
    if (dtype == "F16")
        return GgufType::F16;
    if (dtype == "BF16")
        return GgufType::BF16;
    return std::nullopt;
}

template <class T> auto decodeIntegers(std::int64_t columns) {
    return [columns](std::int64_t, const std::byte* in, float* values) {
        for (std::int64_t i = 0; i < columns; ++i) {
            T value;
            std::memcpy(&value, in + static_cast<std::size_t>(i) * sizeof value, sizeof value);
            values[i] = static_cast<float>(value);
        }
    };
}

std::int64_t blocks(std::int64_t size, std::int64_t block) {
    return size / block + (size % block != 0);
}

} // namespace

SafetensorsSource::SafetensorsSource(std::vector<SafetensorsFile> files, BlockSize block)
    : m_files(std::move(files)), m_block(block) {
    std::string hashes;
    for (const auto& file : m_files) {
        hashes += hashFileSampled(file.path());
        for (const auto& entry : file.entries()) {
            const auto [known, added] = m_byName.emplace(entry.name, Stored{&file, &entry});
            if (!added)
                fail(ErrorCode::Malformed,
                     "tensor " + printable(entry.name) + " is in two files: " + known->second.file->path().string() + " and " +
                         file.path().string(),
                     {{"file", file.path().string()}, {"tensor", entry.name}});
        }
    }
    m_hash = m_files.size() == 1 ? hashes : hashBytes(hashes);
    attachScales();
    chooseNativeDType();
}

void SafetensorsSource::attachScales() {
    for (const auto& file : m_files)
        for (const auto& entry : file.entries()) {
            if (entry.name.ends_with(kScaleSuffix)) // listed only if it is not the scale of a tensor
                if (const auto owner = m_byName.find(entry.name.substr(0, entry.name.size() - std::strlen(kScaleSuffix)));
                    owner != m_byName.end() && owner->second.entry->dtype == "F8_E4M3")
                    continue;
            m_listed.emplace(entry.name, m_tensors.size());
            m_tensors.push_back({entry.name, entry.shape, entry.dtype, entry.bytes});
            if (entry.dtype != "F8_E4M3")
                continue;
            const auto refuse = [&](ErrorCode code, const std::string& why) {
                fail(code, file.path().string() + ": FP8 tensor " + printable(entry.name) + " " + why,
                     {{"file", file.path().string()}, {"tensor", entry.name}, {"found", entry.dtype}});
            };
            const auto scales = m_byName.find(entry.name + kScaleSuffix);
            if (entry.shape.size() != 2 || scales == m_byName.end())
                refuse(ErrorCode::Unsupported,
                       std::string("is no matrix with block scales in a tensor of the same name + \"") + kScaleSuffix + "\"");
            const auto& scaleEntry = *scales->second.entry;
            const std::vector<std::int64_t> expected{blocks(entry.shape[0], m_block.rows),
                                                     blocks(entry.shape[1], m_block.columns)};
            if (scaleEntry.shape != expected || !plainType(scaleEntry.dtype))
                refuse(ErrorCode::Malformed, "needs " + std::to_string(expected[0]) + " x " + std::to_string(expected[1]) +
                                                 " float scales in " + printable(scaleEntry.name));
            m_byName.at(entry.name).scales = &scales->second;
        }
}

void SafetensorsSource::chooseNativeDType() {
    std::uint64_t bytes[3] = {};
    bool quantised = false;
    for (const auto& tensor : m_tensors) {
        if (const auto type = plainType(tensor.storedType))
            bytes[static_cast<int>(*plainDType(*type))] += tensor.storedBytes;
        quantised |= tensor.storedType == "F8_E4M3";
    }
    m_native = quantised ? DType::F32 : static_cast<DType>(std::max_element(bytes, bytes + 3) - bytes);
}

const TensorInfo* SafetensorsSource::find(const std::string& name) const {
    const auto entry = m_listed.find(name);
    return entry == m_listed.end() ? nullptr : &m_tensors[entry->second];
}

const SafetensorsSource::Stored& SafetensorsSource::stored(const std::string& name) const {
    const auto entry = m_byName.find(name);
    if (entry == m_byName.end())
        fail(ErrorCode::NotFound, m_files.front().path().string() + ": there is no tensor " + printable(name),
             {{"file", m_files.front().path().string()}, {"tensor", name}});
    return entry->second;
}

std::vector<float> SafetensorsSource::readScales(const Stored& tensor) const {
    const auto& shape = tensor.scales->entry->shape;
    std::vector<float> scales(static_cast<std::size_t>(shape[0] * shape[1]));
    read(tensor.scales->entry->name, DType::F32, scales.data());
    return scales;
}

void SafetensorsSource::read(const std::string& name, DType dtype, void* out) const {
    const auto& tensor = stored(name);
    const auto& entry = *tensor.entry;
    const auto columns = entry.shape.empty() ? 1 : entry.shape.back();
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < entry.shape.size(); ++i)
        rows *= entry.shape[i];
    if (rows == 0 || columns == 0)
        return;
    StoredRows matrix{tensor.file->data(), entry.offset, rows, columns, entry.bytes / static_cast<std::uint64_t>(rows)};
    if (const auto type = plainType(entry.dtype)) {
        matrix.plainType = plainDType(*type);
        matrix.decode = [type, columns](std::int64_t, const std::byte* in, float* values) {
            dequantize(*type, in, columns, values);
        };
    } else if (tensor.scales) {
        std::array<float, 256> floats;
        for (std::size_t i = 0; i < floats.size(); ++i)
            floats[i] = float8ToFloat(static_cast<std::uint8_t>(i));
        matrix.decode = [this, floats, columns, scales = readScales(tensor)](std::int64_t row, const std::byte* in,
                                                                             float* values) {
            const float* rowScales = scales.data() + row / m_block.rows * blocks(columns, m_block.columns);
            for (std::int64_t i = 0; i < columns; ++i)
                values[i] = floats[static_cast<std::size_t>(in[i])] * rowScales[i / m_block.columns];
        };
    } else if (entry.dtype == "I32") { // ids and counts: exact up to 2^24
        matrix.decode = decodeIntegers<std::int32_t>(columns);
    } else if (entry.dtype == "I64") {
        matrix.decode = decodeIntegers<std::int64_t>(columns);
    } else {
        fail(ErrorCode::Unsupported,
             tensor.file->path().string() + ": tensor " + printable(name) + " is stored as " + entry.dtype +
                 ", which is not decoded; F32, F16, BF16, I32, I64 and F8_E4M3 with block scales are",
             {{"file", tensor.file->path().string()}, {"tensor", name}, {"found", entry.dtype}});
    }
    readRows(matrix, dtype, out);
}

bool SafetensorsSource::sameBytes(const std::string& first, const std::string& second) const {
    const auto &a = stored(first), &b = stored(second);
    if (a.entry->dtype != b.entry->dtype || a.entry->shape != b.entry->shape)
        return false;
    constexpr std::uint64_t kChunk = 1 << 20;
    std::vector<std::byte> left(kChunk), right(kChunk);
    for (std::uint64_t done = 0; done < a.entry->bytes; done += kChunk) {
        const auto count = static_cast<std::size_t>(std::min(kChunk, a.entry->bytes - done));
        a.file->data().copy(a.entry->offset + done, count, left.data());
        b.file->data().copy(b.entry->offset + done, count, right.data());
        a.file->data().release(a.entry->offset + done, count);
        b.file->data().release(b.entry->offset + done, count);
        if (std::memcmp(left.data(), right.data(), count) != 0)
            return false;
    }
    return true;
}

std::unique_ptr<WeightSource> openSafetensorsFile(const std::filesystem::path& file) {
    std::vector<SafetensorsFile> files;
    files.emplace_back(file);
    return std::make_unique<SafetensorsSource>(std::move(files), BlockSize{});
}

} // namespace linnet::core
