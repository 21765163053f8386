#include "core/io/safetensors_writer.h"

#include "core/base/json.h"
#include "core/base/partial_file.h"
#include "core/base/result.h"
#include "core/io/text_checks.h"

#include <set>

namespace linnet::core {

struct SafetensorsWriter::State {
    PartialFile file;
    std::vector<TensorToWrite> tensors;
    std::vector<std::size_t> bytes; // of each tensor
    std::size_t next = 0, done = 0; // the tensor that write expects, and how much of it came

    [[noreturn]] void misuse(const std::string& what) const {
        fail(ErrorCode::Internal, "writing " + file.target().string() + ": " + what, {{"file", file.target().string()}});
    }
};

namespace {

std::size_t widthOf(const std::string& dtype) {
    if (dtype == "I64")
        return 8;
    if (dtype == "F32" || dtype == "I32")
        return 4;
    return dtype == "F16" || dtype == "BF16" ? 2 : 0;
}

// The JSON header, padded with spaces so that the data starts at a multiple of 8; fills in each tensor's size.
std::string header(const std::vector<TensorToWrite>& tensors, const std::map<std::string, std::string>& metadata,
                   std::vector<std::size_t>& bytes, const std::string& file) {
    auto json = nlohmann::ordered_json::object();
    if (!metadata.empty())
        json["__metadata__"] = metadata;
    std::set<std::string> names;
    std::size_t offset = 0;
    for (const auto& tensor : tensors) {
        std::size_t size = widthOf(tensor.dtype);
        bool valid = size > 0 && !tensor.name.empty() && tensor.name != "__metadata__" && names.insert(tensor.name).second;
        for (const auto dimension : tensor.shape)
            valid = valid && dimension >= 0 && !__builtin_mul_overflow(size, static_cast<std::size_t>(dimension), &size);
        if (!valid || !isValidUtf8(tensor.name))
            fail(ErrorCode::Internal,
                 "writing " + file + ": tensor " + printable(tensor.name) + " has an invalid name, type (" + tensor.dtype +
                     ") or shape",
                 {{"file", file}, {"tensor", tensor.name}});
        json[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + size}}};
        bytes.push_back(size);
        offset += size;
    }
    auto text = json.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
}

} // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file, std::vector<TensorToWrite> tensors,
                                     std::map<std::string, std::string> metadata) {
    std::vector<std::size_t> bytes;
    const auto text = header(tensors, metadata, bytes, file.string());
    m_state.reset(new State{PartialFile(file), std::move(tensors), std::move(bytes)});
    const std::uint64_t length = text.size(); // little-endian, as this machine is
    m_state->file.append(&length, sizeof length);
    m_state->file.append(text.data(), text.size());
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(const std::string& name, const void* bytes, std::size_t count) {
    auto& state = *m_state;
    if (state.next == state.tensors.size() || state.tensors[state.next].name != name)
        state.misuse("tensor " + printable(name) + " came, expected " +
                     (state.next == state.tensors.size() ? "none" : printable(state.tensors[state.next].name)));
    if (count > state.bytes[state.next] - state.done)
        state.misuse("tensor " + printable(name) + " has " + std::to_string(state.done + count) + " bytes or more, expected " +
                     std::to_string(state.bytes[state.next]));
    state.file.append(bytes, count);
    state.done += count;
    if (state.done == state.bytes[state.next]) {
        ++state.next;
        state.done = 0;
    }
}

void SafetensorsWriter::finish() {
    auto& state = *m_state;
    if (state.next != state.tensors.size())
        state.misuse("tensor " + printable(state.tensors[state.next].name) + " was not written");
    state.file.finish();
}

} // namespace linnet::core
