#include "core/io/safetensors_writer.h"

#include "core/base/json.h"
#include "core/base/result.h"
#include "core/io/text_checks.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <unistd.h>

namespace linnet::core {

struct SafetensorsWriter::State {
    std::filesystem::path file, partial;
    std::vector<TensorToWrite> tensors;
    std::vector<std::size_t> bytes; // of each tensor
    std::size_t next = 0;           // the tensor that write expects
    int descriptor = -1;

    [[noreturn]] void failErrno() const {
        const int code = errno;
        fail(code == ENOSPC || code == EDQUOT ? ErrorCode::Disk : ErrorCode::Io,
             "can't write " + file.string() + ": " + std::strerror(code), {{"file", file.string()}});
    }

    [[noreturn]] void misuse(const std::string& what) const {
        fail(ErrorCode::Internal, "writing " + file.string() + ": " + what, {{"file", file.string()}});
    }

    void append(const char* data, std::size_t count) const {
        while (count > 0) {
            const auto written = ::write(descriptor, data, count);
            if (written < 0 && errno == EINTR)
                continue;
            if (written < 0)
                failErrno();
            data += written;
            count -= static_cast<std::size_t>(written);
        }
    }

    ~State() {
        if (descriptor >= 0) {
            ::close(descriptor);
            ::unlink(partial.c_str());
        }
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
                                     std::map<std::string, std::string> metadata)
    : m_state(std::make_unique<State>()) {
    auto& state = *m_state;
    state.file = state.partial = file;
    state.partial += ".part." + std::to_string(::getpid());
    state.tensors = std::move(tensors);
    const auto text = header(state.tensors, metadata, state.bytes, file.string());
    state.descriptor = ::open(state.partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (state.descriptor < 0)
        state.failErrno();
    const std::uint64_t length = text.size(); // little-endian, as this machine is
    state.append(reinterpret_cast<const char*>(&length), sizeof length);
    state.append(text.data(), text.size());
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(const std::string& name, const void* bytes, std::size_t count) {
    auto& state = *m_state;
    if (state.next == state.tensors.size() || state.tensors[state.next].name != name)
        state.misuse("tensor " + printable(name) + " came, expected " +
                     (state.next == state.tensors.size() ? "none" : printable(state.tensors[state.next].name)));
    if (count != state.bytes[state.next])
        state.misuse("tensor " + printable(name) + " has " + std::to_string(count) + " bytes, expected " +
                     std::to_string(state.bytes[state.next]));
    state.append(static_cast<const char*>(bytes), count);
    ++state.next;
}

void SafetensorsWriter::finish() {
    auto& state = *m_state;
    if (state.next != state.tensors.size())
        state.misuse("tensor " + printable(state.tensors[state.next].name) + " was not written");
    if (state.descriptor < 0)
        state.misuse("it was finished before");
    if (::fsync(state.descriptor) != 0 || ::rename(state.partial.c_str(), state.file.c_str()) != 0)
        state.failErrno();
    ::close(state.descriptor);
    state.descriptor = -1;
}

} // namespace linnet::core
