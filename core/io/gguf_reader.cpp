#include "core/io/gguf_reader.h"

#include "core/base/result.h"
#include "core/io/text_checks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace linnet::core {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian memory");

namespace {

constexpr std::uint64_t kMostTensors = 1 << 17, kMostKeys = 1 << 16;
constexpr std::uint64_t kMostArrayElements = 1 << 24; // a vocabulary has at most some 2^18
constexpr std::uint64_t kLongestString = 1 << 30, kLongestKey = 65535, kLongestTensorName = 63;
constexpr std::uint64_t kLargestAlignment = 1 << 20;
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::uint64_t kSmallestTensorEntry = 8 + 1 + 4 + 4 + 8; // name length, name, dimensions, type, offset
constexpr std::uint64_t kSmallestKeyEntry = 8 + 1 + 4 + 1;

enum ValueType : std::uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64, ValueTypeCount };

std::uint64_t smallestBytes(std::uint32_t type) { // of one value in the file
    constexpr std::uint64_t kBytes[ValueTypeCount] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
    return kBytes[type];
}

} // namespace

// Walks the header through a window, so that the guarded copies are few and large.
class GgufParser {
public:
    explicit GgufParser(GgufFile& file) : m_file(file), m_data(*file.m_data) {}

    void parse() {
        readPreamble();
        for (std::uint64_t i = 0; i < m_keyCount; ++i)
            readKey();
        readAlignment();
        for (std::uint64_t i = 0; i < m_tensorCount; ++i)
            readTensor();
        placeTensors();
        m_data.release(0, m_position);
    }

private:
    [[noreturn]] void malformed(const std::string& what, const std::string& key = {}, const std::string& value = {}) const {
        Context context{{"file", m_data.path().string()}};
        if (!key.empty())
            context[key] = value;
        fail(ErrorCode::Malformed, m_data.path().string() + ": " + what, std::move(context));
    }

    std::uint64_t left() const { return m_data.size() - m_position; }

    void readBytes(void* out, std::size_t count, const char* what) {
        if (count > left())
            malformed(std::string("the file ends inside ") + what + " (" + std::to_string(count) + " bytes expected, " +
                      std::to_string(left()) + " found); it may be a download that was cut off");
        if (m_position < m_windowStart || m_position + count > m_windowStart + m_window.size()) {
            constexpr std::uint64_t kWindow = 1 << 20;
            m_window.resize(std::min<std::uint64_t>(std::max<std::uint64_t>(count, kWindow), left()));
            m_windowStart = m_position;
            m_data.copy(m_position, m_window.size(), m_window.data());
        }
        std::memcpy(out, m_window.data() + (m_position - m_windowStart), count);
        m_position += count;
    }

    template <class T> T readNumber(const char* what) {
        T value;
        readBytes(&value, sizeof value, what);
        return value;
    }

    std::string readString(std::uint64_t longest, const std::string& what) {
        const auto length = readNumber<std::uint64_t>("a string's length");
        if (length > longest || length > left())
            malformed(what + " has a length of " + std::to_string(length) + " bytes; at most " +
                      std::to_string(std::min(longest, left())) + " are possible here");
        std::string text(length, '\0');
        readBytes(text.data(), length, "a string");
        return text;
    }

    std::string readName(std::uint64_t longest, const std::string& what) {
        auto name = readString(longest, what);
        if (name.empty() || !isValidUtf8(name) || name.find('\0') != name.npos)
            malformed(what + " " + printable(name) + " is empty or not valid UTF-8 text");
        return name;
    }

    void readPreamble() {
        const auto magic = readNumber<std::uint32_t>("the magic");
        if (magic != 0x46554747) // "GGUF"
            malformed("not a GGUF file: it does not start with the bytes \"GGUF\"");
        m_file.m_version = readNumber<std::uint32_t>("the version");
        if (m_file.m_version != 0 && (m_file.m_version & 0xffff) == 0)
            fail(ErrorCode::Unsupported, m_data.path().string() + ": a big-endian GGUF file; only little-endian ones are read",
                 {{"file", m_data.path().string()}});
        if (m_file.m_version < 2 || m_file.m_version > 3)
            fail(ErrorCode::Unsupported,
                 m_data.path().string() + ": GGUF version " + std::to_string(m_file.m_version) + "; versions 2 and 3 are read",
                 {{"file", m_data.path().string()}, {"found", std::to_string(m_file.m_version)}, {"expected", "2 or 3"}});
        m_tensorCount = readNumber<std::uint64_t>("the number of tensors");
        m_keyCount = readNumber<std::uint64_t>("the number of keys");
        if (m_tensorCount > kMostTensors || m_tensorCount > left() / kSmallestTensorEntry)
            malformed("a tensor count of " + std::to_string(m_tensorCount) + " is too large for this file");
        if (m_keyCount > kMostKeys || m_keyCount > left() / kSmallestKeyEntry)
            malformed("a metadata key count of " + std::to_string(m_keyCount) + " is too large for this file");
    }

    void readKey() {
        const auto key = readName(kLongestKey, "a metadata key");
        const auto type = readNumber<std::uint32_t>("a value type");
        if (type >= ValueTypeCount)
            malformed("key " + printable(key) + " has the unknown value type " + std::to_string(type), "key", key);
        if (key == "general.alignment" && type != U32)
            malformed("key \"general.alignment\" must be a uint32", "key", key);
        auto value = type == Array ? readArray(key) : readScalar(type, key);
        if (!m_file.m_metadata.emplace(key, std::move(value)).second)
            malformed("key " + printable(key) + " appears twice", "key", key);
    }

    std::int64_t readInteger(std::uint32_t type) { // not U64, whose range is larger
        switch (type) {
        case U8:
            return readNumber<std::uint8_t>("a value");
        case I8:
            return readNumber<std::int8_t>("a value");
        case U16:
            return readNumber<std::uint16_t>("a value");
        case I16:
            return readNumber<std::int16_t>("a value");
        case U32:
            return readNumber<std::uint32_t>("a value");
        case I32:
            return readNumber<std::int32_t>("a value");
        case Bool:
            return readNumber<std::uint8_t>("a value") != 0;
        default:
            return readNumber<std::int64_t>("a value");
        }
    }

    double readReal(std::uint32_t type) { return type == F32 ? readNumber<float>("a value") : readNumber<double>("a value"); }

    GgufValue readScalar(std::uint32_t type, const std::string& key) {
        if (type == String)
            return readString(kLongestString, "the value of " + printable(key));
        if (type == F32 || type == F64)
            return readReal(type);
        if (type == Bool)
            return readInteger(type) != 0;
        if (type == U64) {
            const auto value = readNumber<std::uint64_t>("a value");
            if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                return value;
            return static_cast<std::int64_t>(value);
        }
        return readInteger(type);
    }

    GgufValue readArray(const std::string& key) {
        const auto type = readNumber<std::uint32_t>("an array's type");
        if (type >= ValueTypeCount || type == Array) // the reference parser reads no arrays of arrays either
            malformed("key " + printable(key) + " is an array of the unknown or nested type " + std::to_string(type), "key",
                      key);
        const auto count = readNumber<std::uint64_t>("an array's length");
        if (count > kMostArrayElements || count > left() / smallestBytes(type))
            malformed("key " + printable(key) + " is an array of " + std::to_string(count) + " elements, more than fit", "key",
                      key);
        if (type == String) {
            std::vector<std::string> values(count);
            for (auto& value : values)
                value = readString(kLongestString, "an element of " + printable(key));
            return values;
        }
        if (type == F32 || type == F64) {
            std::vector<double> values(count);
            for (auto& value : values)
                value = readReal(type);
            return values;
        }
        std::vector<std::int64_t> values(count);
        for (auto& value : values) {
            value = readInteger(type);
            if (type == U64 && value < 0)
                malformed("key " + printable(key) + " holds an integer above 2^63", "key", key);
        }
        return values;
    }

    void readAlignment() {
        if (const auto* alignment = m_file.find<std::int64_t>("general.alignment"))
            m_alignment = static_cast<std::uint64_t>(*alignment);
        if (!std::has_single_bit(m_alignment) || m_alignment > kLargestAlignment)
            malformed("key \"general.alignment\" is " + std::to_string(m_alignment) + ", a power of two up to " +
                          std::to_string(kLargestAlignment) + " was expected",
                      "key", "general.alignment");
    }

    void readTensor() {
        const auto name = readName(kLongestTensorName, "a tensor name");
        const auto bad = [&](const std::string& what) { malformed("tensor " + printable(name) + " " + what, "tensor", name); };
        const auto dimensions = readNumber<std::uint32_t>("a tensor's dimensions");
        if (dimensions > kMostDimensions)
            bad("has " + std::to_string(dimensions) + " dimensions, at most 4 are allowed");
        std::vector<std::int64_t> dims(dimensions);
        std::int64_t elements = 1;
        for (auto& dim : dims) {
            dim = readNumber<std::int64_t>("a tensor's dimensions");
            if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements))
                bad("has the impossible dimension " + std::to_string(dim));
        }
        const auto typeId = readNumber<std::uint32_t>("a tensor's type");
        const auto* type = findGgufType(typeId);
        if (!type)
            fail(ErrorCode::Unsupported,
                 m_data.path().string() + ": tensor " + printable(name) + " has the unknown type number " +
                     std::to_string(typeId),
                 {{"file", m_data.path().string()}, {"tensor", name}, {"found", std::to_string(typeId)}});
        const auto offset = readNumber<std::uint64_t>("a tensor's offset");
        const auto rowElements = dims.empty() ? 1 : dims[0];
        if (rowElements % type->blockElements != 0)
            bad("has rows of " + std::to_string(rowElements) + " elements, not a multiple of " + type->name + "'s block of " +
                std::to_string(type->blockElements));
        std::uint64_t bytes = 0;
        if (__builtin_mul_overflow(static_cast<std::uint64_t>(elements / type->blockElements), type->blockBytes, &bytes) ||
            bytes > m_data.size())
            bad("needs more bytes than the file has");
        if (!m_file.m_tensorByName.emplace(name, m_file.m_tensors.size()).second)
            bad("appears twice");
        m_file.m_tensors.push_back({name, std::move(dims), *type, offset, bytes});
    }

    std::uint64_t padded(std::uint64_t bytes) const { return (bytes + m_alignment - 1) / m_alignment * m_alignment; }

    // Offsets must be the running sum in the file's order, so no two tensors overlap and no byte is hidden between them.
    void placeTensors() {
        const auto start = padded(m_position);
        std::uint64_t next = 0; // each size is within the file's, and there are at most 2^17: no overflow below 2^46 bytes
        for (auto& tensor : m_file.m_tensors) {
            if (tensor.offset != next)
                malformed("tensor " + printable(tensor.name) + " starts at " + std::to_string(tensor.offset) + ", expected " +
                              std::to_string(next),
                          "tensor", tensor.name);
            if (start > m_data.size() || next > m_data.size() - start || tensor.bytes > m_data.size() - start - next)
                malformed("tensor " + printable(tensor.name) + " (" + std::to_string(tensor.bytes) + " bytes at " +
                              std::to_string(start + next) + ") lies beyond the end of the file (" +
                              std::to_string(m_data.size()) + " bytes); it may be a download that was cut off",
                          "tensor", tensor.name);
            next += padded(tensor.bytes);
            tensor.offset += start;
        }
    }

    GgufFile& m_file;
    const MappedFile& m_data;
    std::uint64_t m_position = 0, m_windowStart = 0;
    std::vector<char> m_window;
    std::uint64_t m_tensorCount = 0, m_keyCount = 0, m_alignment = 32;
};

std::int64_t GgufTensor::rows() const {
    std::int64_t count = 1;
    for (std::size_t i = 1; i < dims.size(); ++i)
        count *= dims[i];
    return count;
}

GgufFile::GgufFile(const std::filesystem::path& file) : m_data(std::make_unique<MappedFile>(file)) {
    GgufParser(*this).parse();
}

const GgufTensor* GgufFile::findTensor(std::string_view name) const {
    const auto entry = m_tensorByName.find(name);
    return entry == m_tensorByName.end() ? nullptr : &m_tensors[entry->second];
}

void GgufFile::failType(std::string_view key) const {
    fail(ErrorCode::Malformed, path().string() + ": metadata key " + printable(key) + " holds a value of the wrong type",
         {{"file", path().string()}, {"key", std::string(key)}});
}

void GgufFile::failMissing(std::string_view key) const {
    fail(ErrorCode::NotFound, path().string() + ": metadata key " + printable(key) + " is missing",
         {{"file", path().string()}, {"key", std::string(key)}});
}

} // namespace linnet::core
