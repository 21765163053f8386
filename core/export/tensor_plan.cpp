#include "core/torch_pch.h"

#include "core/export/tensor_plan.h"

#include "core/base/files.h"
#include "core/base/json.h"

#include <span>

namespace linnet::core {
namespace {

struct Stored {
    const char *dtype, *name;
    DType type;
    at::ScalarType scalar;
};

const Stored& storedAs(const std::string& dtype) {
    static const Stored kTypes[] = {{"f32", "F32", DType::F32, at::kFloat}, {"bf16", "BF16", DType::BF16, at::kBFloat16}, {"f16", "F16", DType::F16, at::kHalf}};
    for (const auto& type : kTypes)
        if (dtype == type.dtype)
            return type;
    fail(ErrorCode::Usage, "export: dtype \"" + dtype + "\" is none of f32, bf16, f16", {{"option", "--dtype"}, {"value", dtype}});
}

} // namespace

const char* storedTypeName(const std::string& dtype) {
    return storedAs(dtype).name;
}

namespace {

constexpr std::size_t kPiece = 32 << 20; // bytes between two looks at the control

// Which shard each tensor is in: as many in a row as fit.
std::vector<std::size_t> shardOf(const std::vector<PlannedTensor>& plan, std::uint64_t most) {
    std::vector<std::size_t> shards;
    std::size_t shard = 0;
    std::uint64_t filled = 0;
    for (const auto& tensor : plan) {
        const auto bytes = tensorBytes(tensor.entry);
        if (filled > 0 && filled + bytes > most) {
            ++shard;
            filled = 0;
        }
        filled += bytes;
        shards.push_back(shard);
    }
    return shards;
}

std::string shardName(const std::string& name, std::size_t shard, std::size_t count) {
    char numbers[48];
    std::snprintf(numbers, sizeof numbers, "-%05zu-of-%05zu", shard + 1, count);
    return name + (count > 1 ? numbers : "") + ".safetensors";
}

class Writing {
public:
    Writing(const WriteJob& job, const std::vector<PlannedTensor>& plan, WrittenFolder& written, const Control& control)
        : m_job(job), m_stored(storedAs(job.options.dtype)), m_written(written), m_control(control) {
        for (const auto& tensor : plan)
            m_total += tensorBytes(tensor.entry);
    }

    void shard(const std::string& name, std::span<const PlannedTensor> tensors) {
        std::vector<TensorToWrite> header;
        for (const auto& tensor : tensors)
            header.push_back(tensor.entry);
        SafetensorsWriter writer(m_job.folder / name, header, {{"format", "pt"}});
        for (const auto& tensor : tensors)
            tensor.make ? made(writer, tensor) : copied(writer, tensor.entry, tensor.from.empty() ? tensor.entry.name : tensor.from);
        writer.finish();
        m_written.files.push_back(name);
    }
    std::uint64_t total() const { return m_total; }

private:
    void made(SafetensorsWriter& writer, const PlannedTensor& tensor) {
        const auto& entry = tensor.entry;
        report(entry.name);
        const at::Tensor value = tensor.make().detach().to(at::kCPU), values = value.to(entry.dtype == "F32" ? at::kFloat : m_stored.scalar).contiguous();
        if (m_stored.type == DType::F16 && !at::isfinite(values).all().item<bool>())
            fail(ErrorCode::Unsupported, "export: tensor " + entry.name + " does not fit in f16; use bf16 or f32", {{"tensor", entry.name}});
        m_written.exact = m_written.exact && at::equal(values.to(at::kDouble), value.to(at::kDouble));
        write(writer, entry.name, static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes());
    }
    void copied(SafetensorsWriter& writer, const TensorToWrite& entry, const std::string& from) {
        report(entry.name);
        const auto& source = *m_job.model.files().weights;
        m_buffer.resize(tensorBytes(entry));
        source.read(from, m_stored.type, m_buffer.data());
        m_written.exact = m_written.exact && (m_stored.type == DType::F32 || source.find(from)->storedType == entry.dtype);
        write(writer, entry.name, m_buffer.data(), m_buffer.size());
    }
    void write(SafetensorsWriter& writer, const std::string& name, const std::byte* bytes, std::size_t count) {
        for (std::size_t at = 0; at == 0 || at < count; at += kPiece) {
            const auto piece = std::min(kPiece, count - at);
            writer.write(name, bytes + at, piece);
            m_done += piece;
            report(name);
        }
    }
    void report(const std::string& name) const {
        m_control.report("export", static_cast<double>(m_done), static_cast<double>(m_total), name + ", " + std::to_string(m_done >> 20) + " of " + std::to_string(m_total >> 20) + " MiB");
    }

    const WriteJob& m_job;
    const Stored& m_stored;
    WrittenFolder& m_written;
    const Control& m_control;
    std::uint64_t m_done = 0, m_total = 0;
    std::vector<std::byte> m_buffer;
};

} // namespace

void planConvertedLayers(const Model& model, const std::string& type, std::vector<PlannedTensor>& plan) {
    for (const auto& [layer, mixer] : model.mixers()) {
        const auto prefix = "model.layers." + std::to_string(layer) + ".";
        if (mixer.kind == Mixer::Kind::SlidingWindow) {
            plan.push_back({{prefix + "sliding_window", "F32", {2}}, [&mixer = mixer] { return at::tensor({static_cast<double>(mixer.window), static_cast<double>(mixer.sinks)}, at::kFloat); }});
            continue;
        }
        mixer.linear.forEach([&](const std::string& name, const at::Tensor& tensor) {
            auto shape = tensor.sizes().vec();
            if (name.find("_conv1d.") != name.npos)
                shape.insert(shape.begin() + 1, 1);
            plan.push_back({{prefix + kLinearModule + "." + name, type, shape}, [tensor] { return tensor; }});
        });
    }
}

std::uint64_t tensorBytes(const TensorToWrite& entry) {
    std::uint64_t bytes = entry.dtype == "F32" ? 4 : 2;
    for (const auto size : entry.shape)
        bytes *= static_cast<std::uint64_t>(size);
    return bytes;
}

void writeTensors(const WriteJob& job, const std::vector<PlannedTensor>& plan, WrittenFolder& written, const Control& control, const std::string& name) {
    Writing writing(job, plan, written, control);
    const auto shards = shardOf(plan, job.options.shardBytes);
    const std::size_t count = shards.empty() ? 0 : shards.back() + 1;
    nlohmann::json map = nlohmann::json::object(); // in order of name, as transformers writes it
    for (std::size_t shard = 0, from = 0; shard < count; ++shard) {
        const auto file = shardName(name, shard, count);
        std::size_t to = from;
        for (; to < plan.size() && shards[to] == shard; ++to)
            map[plan[to].entry.name] = file;
        writing.shard(file, std::span(plan).subspan(from, to - from));
        from = to;
    }
    if (count > 1) {
        const auto index = name + ".safetensors.index.json";
        writeFileAtomically(job.folder / index, nlohmann::json{{"metadata", {{"total_size", writing.total()}}}, {"weight_map", map}}.dump(2) + "\n");
        written.files.push_back(index);
    }
}

} // namespace linnet::core
