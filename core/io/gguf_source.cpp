// A GGUF file as weights with Hugging Face's names and row order: a teacher's, or those of a qwen35 hybrid as Qwen3_5ForCausalLM has them,
// but for norms, which stay as they are (not less one).
#include "core/base/files.h"
#include "core/base/result.h"
#include "core/io/gguf_config.h"
#include "core/io/dtype_convert.h"
#include "core/io/gguf_dequant.h"
#include "core/io/gguf_names.h"
#include "core/io/model_files.h"
#include "core/io/text_checks.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace linnet::core {
namespace {

class GgufSource final : public WeightSource {
public:
    explicit GgufSource(const std::filesystem::path& path)
        : m_file(path), m_config(ggufConfig(m_file)), m_hybrid(isGgufHybrid(m_file)), m_hash(hashFileSampled(path)) {
        std::uint64_t plainBytes[3] = {};
        for (const auto& tensor : m_file.tensors()) {
            if (tensor.name == "rope_freqs.weight")
                continue; // part of the configuration: RopeConfig::frequencyDivisors
            const auto name = huggingFaceName(tensor.name, m_config.layers, m_hybrid ? GgufNames::Qwen35 : GgufNames::Teacher);
            if (!name)
                refuse(tensor, "belongs to no " + std::string(m_hybrid ? "qwen35" : "Llama, Qwen2 or Qwen3") + " model with " + std::to_string(m_config.layers) + " layers");
            if (!tensor.type.decodable)
                refuse(tensor, std::string("is stored as ") + tensor.type.name +
                                   ", which is not decoded; use a file in F16, BF16, Q8_0, Q4_0 to Q5_1 or Q2_K to Q6_K");
            m_byName.emplace(*name, m_tensors.size());
            m_tensors.push_back({*name, {tensor.dims.rbegin(), tensor.dims.rend()}, tensor.type.name, tensor.bytes});
            if (auto& shape = m_tensors.back().shape; name->ends_with(".conv1d.weight") && shape.size() == 2)
                shape.insert(shape.begin() + 1, 1);
            m_stored.push_back(&tensor);
            if (const auto plain = plainDType(tensor.type.type))
                plainBytes[static_cast<int>(*plain)] += tensor.dims.size() > 1 ? tensor.bytes : 0;
            else
                m_quantised = true;
        }
        m_native = m_quantised ? DType::F32 : static_cast<DType>(std::max_element(plainBytes, plainBytes + 3) - plainBytes);
    }

    const std::vector<TensorInfo>& tensors() const override { return m_tensors; }

    const TensorInfo* find(const std::string& name) const override {
        const auto entry = m_byName.find(name);
        return entry == m_byName.end() ? nullptr : &m_tensors[entry->second];
    }

    void read(const std::string& name, DType dtype, void* out) const override {
        const auto entry = m_byName.find(name);
        if (entry == m_byName.end())
            fail(ErrorCode::NotFound, m_file.path().string() + ": there is no tensor " + printable(name),
                 {{"file", m_file.path().string()}, {"tensor", name}});
        const auto& tensor = *m_stored[entry->second];
        if (name.ends_with(".A_log"))
            return readDecay(tensor, dtype, out);
        auto asRows = tensor;
        if (isPermutedBias(tensor))
            asRows.dims = {1, tensor.rowElements()};
        readGgufTensor(m_file, asRows, dtype, out, rowPlacement(asRows));
    }

    DType nativeDType() const override { return m_native; }
    std::string hash() const override { return m_hash; }

private:
    [[noreturn]] void refuse(const GgufTensor& tensor, const std::string& why) const {
        fail(ErrorCode::Unsupported, m_file.path().string() + ": tensor " + printable(tensor.name) + " " + why,
             {{"file", m_file.path().string()}, {"tensor", tensor.name}, {"found", tensor.type.name}});
    }

    // Stored is what the decay is made of there, -exp(A_log).
    void readDecay(const GgufTensor& tensor, DType dtype, void* out) const {
        std::vector<float> values(static_cast<std::size_t>(tensor.rows() * tensor.rowElements()));
        readGgufTensor(m_file, tensor, DType::F32, values.data());
        for (auto& value : values) {
            if (!(value < 0) || std::isinf(value))
                fail(ErrorCode::Malformed, m_file.path().string() + ": tensor " + printable(tensor.name) + " holds " + std::to_string(value) + ", -exp(A_log) is below 0",
                     {{"file", m_file.path().string()}, {"tensor", tensor.name}, {"found", std::to_string(value)}});
            value = static_cast<float>(std::log(-static_cast<double>(value)));
        }
        convertFloats(values.data(), values.size(), dtype, out);
    }

    bool isPermutedBias(const GgufTensor& tensor) const { // of llama; blocks of a quantised type can't be taken apart; none exist
        return (tensor.name.ends_with(".attn_q.bias") || tensor.name.ends_with(".attn_k.bias")) && tensor.dims.size() == 1 &&
               plainDType(tensor.type.type);
    }

    // The converter for llama stores the rows of a head as pairs (2j, 2j + 1) = (j, j + D/2), as interleaved rotary positions
    // want them, and biases likewise; Hugging Face's rotate_half wants the halves back.
    std::function<std::int64_t(std::int64_t)> rowPlacement(const GgufTensor& tensor) const {
        const bool permuted =
            tensor.name.find(".attn_q.") != std::string::npos || tensor.name.find(".attn_k.") != std::string::npos;
        const auto headDim = m_config.headDim;
        if (m_hybrid || m_config.modelType != "llama" || !permuted || tensor.rows() % headDim != 0)
            return {};
        return [headDim](std::int64_t row) {
            const auto inHead = row % headDim;
            return row - inHead + inHead % 2 * (headDim / 2) + inHead / 2;
        };
    }

    GgufFile m_file;
    ModelConfig m_config;
    bool m_hybrid;
    std::string m_hash;
    std::vector<TensorInfo> m_tensors;
    std::vector<const GgufTensor*> m_stored; // beside m_tensors
    std::unordered_map<std::string, std::size_t> m_byName;
    bool m_quantised = false;
    DType m_native = DType::F32;
};

} // namespace

std::unique_ptr<WeightSource> openGguf(const std::filesystem::path& file) {
    return std::make_unique<GgufSource>(file);
}

} // namespace linnet::core
