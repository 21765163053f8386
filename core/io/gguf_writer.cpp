#include "core/io/gguf_writer.h"

#include "core/base/result.h"
#include "core/io/dtype_convert.h"
#include "core/io/text_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

namespace linnet::core {
namespace {

constexpr std::uint64_t kAlignment = 32; // the format's default: no key says it
constexpr std::size_t kPieceElements = 1 << 18, kLongestName = 63;

enum ValueType : std::uint32_t { kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9 };

class Bytes { // little-endian, as this machine is
public:
    template <class T> void plain(T value) {
        const auto at = m_bytes.size();
        m_bytes.resize(at + sizeof value);
        std::memcpy(m_bytes.data() + at, &value, sizeof value);
    }
    void text(const std::string& value) {
        plain<std::uint64_t>(value.size());
        m_bytes += value;
    }
    void operator()(bool value) { typed(kBool, static_cast<std::uint8_t>(value)); }
    void operator()(std::uint32_t value) { typed(kUint32, value); }
    void operator()(float value) { typed(kFloat32, value); }
    void operator()(const std::string& value) {
        plain<std::uint32_t>(kString);
        text(value);
    }
    void operator()(const std::vector<bool>& values) {
        array(kBool, values.size());
        for (const bool value : values)
            plain(static_cast<std::uint8_t>(value));
    }
    void operator()(const std::vector<std::int32_t>& values) {
        array(kInt32, values.size());
        for (const auto value : values)
            plain(value);
    }
    void operator()(const std::vector<std::string>& values) {
        array(kString, values.size());
        for (const auto& value : values)
            text(value);
    }
    void pad() { m_bytes.resize((m_bytes.size() + kAlignment - 1) / kAlignment * kAlignment, '\0'); }
    const std::string& bytes() const { return m_bytes; }

private:
    template <class T> void typed(std::uint32_t type, T value) {
        plain(type);
        plain(value);
    }
    void array(std::uint32_t type, std::size_t count) {
        plain<std::uint32_t>(kArray);
        plain(type);
        plain<std::uint64_t>(count);
    }

    std::string m_bytes;
};

// Elements and bytes of a tensor that is valid; nothing where it is not.
std::optional<std::pair<std::size_t, std::size_t>> sizeOf(const GgufTensorToWrite& tensor) {
    const auto* type = findGgufType(static_cast<std::uint32_t>(tensor.type));
    std::size_t elements = 1, bytes = 0;
    if (!type || tensor.shape.empty() || tensor.shape.size() > 4 || tensor.shape.back() % type->blockElements != 0)
        return std::nullopt;
    for (const auto dimension : tensor.shape)
        if (dimension < 1 || __builtin_mul_overflow(elements, static_cast<std::size_t>(dimension), &elements))
            return std::nullopt;
    if (__builtin_mul_overflow(elements / type->blockElements, std::size_t{type->blockBytes}, &bytes))
        return std::nullopt;
    return std::pair(elements, bytes);
}

bool blockQ8_0(const float* values, std::byte* out) {
    float largest = 0;
    for (int i = 0; i < 32; ++i)
        largest = std::max(largest, std::abs(values[i]));
    const float d = largest / 127, inverse = d != 0 ? 1 / d : 0;
    const auto stored = floatToHalf(d);
    const float decoded = halfToFloat(stored);
    if (!std::isfinite(decoded))
        fail(ErrorCode::Unsupported, "a value near " + std::to_string(largest) + " is too large for Q8_0");
    std::memcpy(out, &stored, sizeof stored);
    bool exact = true;
    for (int i = 0; i < 32; ++i) {
        const auto q = static_cast<std::int8_t>(std::round(values[i] * inverse));
        out[sizeof stored + static_cast<std::size_t>(i)] = static_cast<std::byte>(q);
        exact = exact && static_cast<float>(q) * decoded == values[i];
    }
    return exact;
}

} // namespace

bool encodeGguf(GgufType type, const float* values, std::size_t elements, std::vector<std::byte>& out) {
    if (!std::all_of(values, values + elements, [](float v) { return std::isfinite(v); }))
        fail(ErrorCode::Unsupported, "it holds values that are not finite");
    const auto* info = findGgufType(static_cast<std::uint32_t>(type));
    const auto start = out.size();
    out.resize(start + elements / info->blockElements * info->blockBytes);
    std::byte* const to = out.data() + start;
    bool exact = true;
    if (type == GgufType::F32)
        std::memcpy(to, values, elements * sizeof(float));
    else if (type == GgufType::Q8_0)
        for (std::size_t block = 0; block < elements / 32; ++block)
            exact = blockQ8_0(values + 32 * block, to + info->blockBytes * block) && exact;
    else
        for (std::size_t i = 0; i < elements; ++i) {
            const auto stored = type == GgufType::F16 ? floatToHalf(values[i]) : floatToBfloat(values[i]);
            const float decoded = type == GgufType::F16 ? halfToFloat(stored) : bfloatToFloat(stored);
            if (!std::isfinite(decoded))
                fail(ErrorCode::Unsupported, "a value near " + std::to_string(values[i]) + " is too large for 16 bits; use bf16 or f32");
            exact = exact && decoded == values[i];
            std::memcpy(to + i * sizeof stored, &stored, sizeof stored);
        }
    return exact;
}

GgufWriter::GgufWriter(const std::filesystem::path& file, const GgufMetadata& metadata, std::vector<GgufTensorToWrite> tensors)
    : m_file(file), m_tensors(std::move(tensors)) {
    Bytes head;
    head.plain<std::uint32_t>(0x46554747); // "GGUF"
    head.plain<std::uint32_t>(3);
    head.plain<std::uint64_t>(m_tensors.size());
    head.plain<std::uint64_t>(metadata.size());
    std::set<std::string> names;
    for (const auto& [key, value] : metadata) {
        if (key.empty() || !names.insert(key).second)
            misuse("metadata key " + printable(key) + " is empty or comes twice");
        head.text(key);
        std::visit(head, value);
    }
    names.clear();
    std::uint64_t offset = 0;
    for (const auto& tensor : m_tensors) {
        const auto size = sizeOf(tensor);
        if (!size || tensor.name.empty() || tensor.name.size() > kLongestName || !names.insert(tensor.name).second)
            misuse("tensor " + printable(tensor.name) + " has an invalid name, type or shape");
        head.text(tensor.name);
        head.plain(static_cast<std::uint32_t>(tensor.shape.size()));
        for (auto dimension = tensor.shape.rbegin(); dimension != tensor.shape.rend(); ++dimension)
            head.plain(static_cast<std::uint64_t>(*dimension));
        head.plain(static_cast<std::uint32_t>(tensor.type));
        head.plain(offset);
        offset += (size->second + kAlignment - 1) / kAlignment * kAlignment;
    }
    head.pad();
    m_file.append(head.bytes().data(), head.bytes().size());
}

void GgufWriter::misuse(const std::string& what) const {
    fail(ErrorCode::Internal, "writing " + m_file.target().string() + ": " + what, {{"file", m_file.target().string()}});
}

bool GgufWriter::write(const std::string& name, const float* values, std::size_t elements) {
    if (m_next == m_tensors.size() || m_tensors[m_next].name != name)
        misuse("tensor " + printable(name) + " came, expected " + (m_next == m_tensors.size() ? "none" : printable(m_tensors[m_next].name)));
    const auto& tensor = m_tensors[m_next];
    const auto [all, bytes] = *sizeOf(tensor);
    const auto block = findGgufType(static_cast<std::uint32_t>(tensor.type))->blockElements;
    if (elements > all - m_written || elements % block != 0)
        misuse("tensor " + printable(name) + " gets " + std::to_string(m_written + elements) + " values, expected " + std::to_string(all));
    std::vector<std::byte> piece;
    bool exact = true;
    for (std::size_t from = 0; from < elements; from += kPieceElements) { // a multiple of every block
        piece.clear();
        try {
            exact = encodeGguf(tensor.type, values + from, std::min(kPieceElements, elements - from), piece) && exact;
        } catch (Failure& failure) {
            failure.error.message = "tensor " + printable(name) + ": " + failure.error.message;
            failure.error.context.emplace("tensor", name);
            throw;
        }
        m_file.append(piece.data(), piece.size());
    }
    m_written += elements;
    if (m_written < all)
        return exact;
    const std::string padding((kAlignment - bytes % kAlignment) % kAlignment, '\0');
    m_file.append(padding.data(), padding.size());
    ++m_next;
    m_written = 0;
    return exact;
}

void GgufWriter::finish() {
    if (m_next != m_tensors.size())
        misuse("tensor " + printable(m_tensors[m_next].name) + " was not written");
    m_file.finish();
}

} // namespace linnet::core
