#include "core/io/safetensors_reader.h"

#include "core/base/json.h"
#include "core/base/result.h"
#include "core/io/text_checks.h"

#include <algorithm>
#include <limits>

namespace linnet::core {
namespace {

constexpr std::uint64_t kLargestHeader = 1 << 25; // the format allows 100 MB; a real one stays below 1 MB
constexpr std::int64_t kMostQuotes = 1 << 18;     // 10 for each tensor: bounds tensors and keys before anything is built
constexpr std::size_t kLongestName = 1024, kMostDimensions = 8;

int bitsOf(const std::string& dtype) { // 0: no type of the format
    struct Width {
        int bits;
        std::vector<std::string> names;
    };
    static const std::vector<Width> kWidths{
        {64, {"F64", "I64", "U64", "C64"}},
        {32, {"F32", "I32", "U32"}},
        {16, {"F16", "BF16", "I16", "U16"}},
        {8, {"BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}},
        {6, {"F6_E2M3", "F6_E3M2"}},
        {4, {"F4"}},
    };
    for (const auto& width : kWidths)
        if (std::find(width.names.begin(), width.names.end(), dtype) != width.names.end())
            return width.bits;
    return 0;
}

class HeaderParser {
public:
    HeaderParser(const MappedFile& data, std::vector<SafetensorsEntry>& entries, std::map<std::string, std::string>& metadata)
        : m_data(data), m_file(data.path().string()), m_entries(entries), m_metadata(metadata) {}

    void parse() {
        const auto header = parseLargeJson(headerText(), m_file + " (header)");
        for (const auto& [name, value] : header.items())
            if (name == "__metadata__")
                readMetadata(value);
            else
                readEntry(name, value);
        placeEntries();
        m_data.release(0, m_dataStart);
    }

private:
    [[noreturn]] void malformed(const std::string& what, const std::string& tensor = {}) const {
        Context context{{"file", m_file}};
        if (!tensor.empty())
            context["tensor"] = tensor;
        fail(ErrorCode::Malformed, m_file + ": " + (tensor.empty() ? "" : "tensor " + printable(tensor) + " ") + what, context);
    }

    std::string headerText() {
        std::uint64_t length = 0;
        if (m_data.size() < sizeof length)
            malformed("has " + std::to_string(m_data.size()) + " bytes, a safetensors file has at least 8");
        m_data.copy(0, sizeof length, &length);
        if (length > kLargestHeader)
            malformed("announces a header of " + std::to_string(length) + " bytes, at most " + std::to_string(kLargestHeader) +
                      " are read; it may be no safetensors file");
        if (length > m_data.size() - sizeof length)
            malformed("announces a header of " + std::to_string(length) + " bytes, but the file has " +
                      std::to_string(m_data.size()) + "; it may be a download that was cut off");
        std::string text(length, '\0');
        m_data.copy(sizeof length, length, text.data());
        if (!text.starts_with('{'))
            malformed("its header does not start with '{'");
        if (!isValidUtf8(text))
            malformed("its header is not valid UTF-8");
        if (std::count(text.begin(), text.end(), '"') > kMostQuotes)
            malformed("its header names too many tensors or keys");
        m_dataStart = sizeof length + length;
        return text;
    }

    void readMetadata(const nlohmann::json& value) {
        if (!value.is_object())
            malformed("\"__metadata__\" must be an object");
        for (const auto& [key, text] : value.items()) {
            if (!text.is_string())
                malformed("\"__metadata__\" holds " + printable(key) + ", which is no string");
            m_metadata[key] = text.get<std::string>();
        }
    }

    static bool isCount(const nlohmann::json& value) {
        return value.is_number_unsigned() &&
               value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    }

    void readEntry(const std::string& name, const nlohmann::json& value) {
        if (name.empty() || name.size() > kLongestName || name.find('\0') != name.npos)
            malformed("a tensor name has " + std::to_string(name.size()) + " bytes or holds a NUL: " + printable(name));
        if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
            !value.contains("data_offsets"))
            malformed("must have exactly the keys dtype, shape and data_offsets", name);
        SafetensorsEntry entry{name, {}, {}};
        if (!value["dtype"].is_string())
            malformed("has a dtype that is no string", name);
        entry.dtype = value["dtype"].get<std::string>();
        const int bits = bitsOf(entry.dtype);
        if (bits == 0)
            fail(ErrorCode::Unsupported,
                 m_file + ": tensor " + printable(name) + " has the unknown dtype " + printable(entry.dtype),
                 {{"file", m_file}, {"tensor", name}, {"found", entry.dtype}});

        const auto& shape = value["shape"];
        if (!shape.is_array() || shape.size() > kMostDimensions)
            malformed("has a shape that is no list of at most 8 sizes", name);
        std::uint64_t size = static_cast<std::uint64_t>(bits);
        for (const auto& dimension : shape) {
            if (!isCount(dimension))
                malformed("has the impossible size " + dimension.dump() + " in its shape", name);
            if (__builtin_mul_overflow(size, dimension.get<std::uint64_t>(), &size))
                malformed("has a shape whose product is too large", name);
            entry.shape.push_back(dimension.get<std::int64_t>());
        }
        if (size % 8 != 0)
            malformed("does not fill whole bytes", name);

        const auto& offsets = value["data_offsets"];
        if (!offsets.is_array() || offsets.size() != 2 || !isCount(offsets[0]) || !isCount(offsets[1]))
            malformed("has data_offsets that are no two non-negative integers", name);
        entry.offset = offsets[0].get<std::uint64_t>();
        const auto end = offsets[1].get<std::uint64_t>();
        if (end < entry.offset)
            malformed("ends at " + std::to_string(end) + ", before its start at " + std::to_string(entry.offset), name);
        entry.bytes = end - entry.offset;
        if (entry.bytes != size / 8)
            malformed("has " + std::to_string(entry.bytes) + " bytes of data, its shape and dtype " + entry.dtype +
                          " call for " + std::to_string(size / 8),
                      name);
        m_entries.push_back(std::move(entry));
    }

    // The data must be covered without holes or overlap, from its first byte to the file's last.
    void placeEntries() {
        std::stable_sort(m_entries.begin(), m_entries.end(), [](const auto& a, const auto& b) {
            return std::pair(a.offset, a.offset + a.bytes) < std::pair(b.offset, b.offset + b.bytes);
        });
        std::uint64_t next = 0;
        for (auto& entry : m_entries) {
            if (entry.offset != next)
                malformed("starts at " + std::to_string(entry.offset) + ", expected " + std::to_string(next), entry.name);
            next += entry.bytes;
            entry.offset += m_dataStart;
        }
        if (next != m_data.size() - m_dataStart)
            malformed("its tensors need " + std::to_string(next) + " bytes of data, but the file has " +
                      std::to_string(m_data.size() - m_dataStart) +
                      (next > m_data.size() - m_dataStart ? "; it may be a download that was cut off" : " of them"));
    }

    const MappedFile& m_data;
    std::string m_file;
    std::vector<SafetensorsEntry>& m_entries;
    std::map<std::string, std::string>& m_metadata;
    std::uint64_t m_dataStart = 0;
};

} // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file) : m_data(std::make_unique<MappedFile>(file)) {
    HeaderParser(*m_data, m_entries, m_metadata).parse();
}

} // namespace linnet::core
