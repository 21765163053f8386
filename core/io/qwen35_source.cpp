#include "core/io/qwen35_source.h"

#include "core/io/dtype_convert.h"
#include "core/io/eps_lift.h"
#include "core/io/renamed_source.h"

#include <algorithm>
#include <cmath>

namespace linnet::core {
namespace {

const std::string kAttention = ".self_attn.";

enum class Change {
    None,
    PlusOne,
    Rows,    // one third of them
    Queries, // less the rows of the output gate; lifted ones unscaled
    Keys,    // lifted: unscaled
    Halved,
};

struct Given {
    TensorInfo info;
    std::string stored;
    Change change = Change::None;
    std::int64_t part = 0; // Rows: which third
    std::string zeros;     // a stored tensor that must be all zeros, as it is not given
};

std::size_t countOf(const TensorInfo& info) {
    std::size_t count = 1;
    for (const auto size : info.shape)
        count *= static_cast<std::size_t>(size);
    return count;
}

[[noreturn]] void refuse(const std::string& tensor, const std::string& why) {
    fail(ErrorCode::Unsupported, "tensor " + tensor + " " + why, {{"tensor", tensor}});
}

class Qwen35Source : public RenamedSource<Given> {
public:
    Qwen35Source(std::shared_ptr<const WeightSource> stored, const ModelConfig& config, NormsStored norms)
        : RenamedSource(std::move(stored)), m_config(config), m_headDim(config.headDim), m_lifted(!config.qkNorm), m_norms(norms) {
        for (const auto& info : this->stored().tensors())
            take(info);
    }

    void read(const std::string& name, DType dtype, void* out) const override {
        const Given& wanted = given(name);
        if (!wanted.zeros.empty())
            requireZeros(wanted.zeros);
        if (wanted.change == Change::None)
            return stored().read(wanted.stored, dtype, out);
        const auto values = valuesOf(wanted);
        convertFloats(values.data(), values.size(), dtype, out);
    }

private:
    std::vector<float> floats(const std::string& name) const {
        const TensorInfo* info = stored().find(name);
        if (!info)
            fail(ErrorCode::Malformed, "tensor " + name + " is missing", {{"tensor", name}});
        std::vector<float> values(countOf(*info));
        stored().read(name, DType::F32, values.data());
        return values;
    }
    std::vector<float> norm(const std::string& name) const { // as w
        auto values = floats(name);
        if (m_norms == NormsStored::LessOne)
            std::ranges::for_each(values, [](float& v) { v += 1; });
        return values;
    }

    static void requireMultiple(const TensorInfo& info, std::int64_t of) {
        if (info.shape.empty() || info.shape[0] % of != 0)
            fail(ErrorCode::Malformed, "tensor " + info.name + " has " + (info.shape.empty() ? "no" : std::to_string(info.shape[0])) + " rows, a multiple of " +
                     std::to_string(of) + " was expected", {{"tensor", info.name}});
    }

    // The first of `divisor` parts of the rows is what is given, or the part-th.
    void addPart(const TensorInfo& info, const std::string& name, Change change, std::int64_t divisor, std::int64_t part = 0) {
        Given made{info, info.name, change, part, {}};
        made.info.shape[0] /= divisor;
        made.info.storedBytes /= static_cast<std::uint64_t>(divisor);
        add(std::move(made), name);
    }

    void take(const TensorInfo& info) {
        const auto& name = info.name;
        static const std::vector<std::pair<std::string, std::string>> renamed{
            {"in_proj_z.weight", "g_proj.weight"}, {"in_proj_a.weight", "a_proj.weight"}, {"in_proj_b.weight", "b_proj.weight"},
            {"norm.weight", "o_norm.weight"}, {"out_proj.weight", "o_proj.weight"}, {"A_log", "A_log"}, {"dt_bias", "dt_bias"}};
        if (const auto at = name.find(".linear_attn."); at != name.npos) {
            const auto prefix = name.substr(0, at + 13), tail = name.substr(at + 13);
            for (const char* const whole : {"in_proj_qkv.weight", "conv1d.weight"})
                if (tail == whole) {
                    requireMultiple(info, 3);
                    for (std::int64_t part = 0; part < 3; ++part)
                        addPart(info, prefix + "qkv"[part] + (tail[0] == 'i' ? "_proj.weight" : "_conv1d.weight"), Change::Rows, 3, part);
                }
            for (const auto& [theirs, ours] : renamed)
                if (tail == theirs)
                    return add({info, name, Change::None, 0, {}}, prefix + ours);
            if (tail != "in_proj_qkv.weight" && tail != "conv1d.weight")
                refuse(name, "has no place in a linear layer of this architecture");
            return;
        }
        if (const auto at = name.find(kAttention); at != name.npos)
            return takeSoftmax(info, name.substr(0, at + kAttention.size()), name.substr(at + kAttention.size()));
        add({info, name, name.ends_with("norm.weight") ? normChange() : Change::None, 0, {}}, name);
    }
    Change normChange() const { return m_norms == NormsStored::LessOne ? Change::PlusOne : Change::None; }

    void takeSoftmax(const TensorInfo& info, const std::string& prefix, const std::string& tail) {
        const auto& name = info.name;
        const bool queries = tail.starts_with("q_proj."), keys = tail.starts_with("k_proj."), bias = tail.ends_with(".bias");
        const bool biased = tail.starts_with("o_proj.") ? m_config.outputBias : m_config.qkvBias;
        if (m_lifted && (tail.ends_with("_norm.weight") || (bias && !biased)))
            return; // the lift's own and the zeros beside it, looked at when weights are read
        if (tail.ends_with("_norm.weight"))
            return add({info, name, normChange(), 0, {}}, name);
        std::string zeros;
        if (const auto beside = prefix + tail.substr(0, 7) + "bias"; m_lifted && !biased && !bias && stored().find(beside))
            zeros = beside;
        if (queries || keys)
            requireMultiple(info, queries ? 2 * m_headDim : m_headDim);
        Given made{info, name, queries ? Change::Queries : keys && m_lifted ? Change::Keys : tail == "o_proj.weight" ? Change::Halved : Change::None, 0, zeros};
        if (queries) {
            made.info.shape[0] /= 2;
            made.info.storedBytes /= 2;
        }
        add(std::move(made), name);
    }

    std::vector<float> valuesOf(const Given& wanted) const {
        auto values = floats(wanted.stored);
        if (wanted.change == Change::PlusOne)
            std::ranges::for_each(values, [](float& v) { v += 1; });
        if (wanted.change == Change::Halved)
            std::ranges::for_each(values, [](float& v) { v *= 0.5f; });
        if (wanted.change == Change::Rows) {
            const auto third = values.size() / 3, from = third * static_cast<std::size_t>(wanted.part);
            std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(from), third, values.begin());
            values.resize(third);
        }
        if (wanted.change == Change::Queries)
            leaveGate(wanted, values);
        if (m_lifted && (wanted.change == Change::Queries || wanted.change == Change::Keys))
            unscale(wanted, values);
        return values;
    }

    void requireZeros(const std::string& name) const {
        for (const float value : floats(name))
            if (value != 0)
                refuse(name, "holds " + std::to_string(value) + ": this teacher has no such bias, zeros were expected");
    }

    // Each head's queries without the rows of its gate, which must be zero.
    void leaveGate(const Given& wanted, std::vector<float>& values) const {
        const auto heads = static_cast<std::size_t>(wanted.info.shape[0] / m_headDim), block = values.size() / (2 * std::max<std::size_t>(heads, 1));
        for (std::size_t head = 0; head < heads; ++head) {
            const auto from = values.begin() + static_cast<std::ptrdiff_t>(2 * head * block), gate = from + static_cast<std::ptrdiff_t>(block);
            if (std::any_of(gate, gate + static_cast<std::ptrdiff_t>(block), [](float v) { return v != 0; }))
                refuse(wanted.stored, "has an output gate in head " + std::to_string(head) + "; softmax layers with one are not supported");
            std::copy(from, gate, values.begin() + static_cast<std::ptrdiff_t>(head * block));
        }
        values.resize(heads * block);
    }

    // core/io/eps_lift.h. That the norm is a constant is looked at, too: of heads that another trainer has changed it may be none.
    void unscale(const Given& wanted, std::vector<float>& values) const {
        const auto tail = wanted.stored.find(kAttention) + kAttention.size();
        const auto layer = wanted.stored.substr(0, tail - kAttention.size() + 1), self = wanted.stored.substr(0, tail + 1); // "model.layers.3.", "..self_attn.q"
        const auto w = norm(self + "_norm.weight");
        const auto shift = epsLiftShiftOf(w, m_config.rmsNormEps);
        if (!shift || std::ssize(w) != m_headDim)
            refuse(self + "_norm.weight", "is not of lifted heads: a " + m_config.modelType + " teacher has no norm of q and k, only sqrt(eps) times a power of two, once for each of " +
                                              std::to_string(m_headDim) + " dims, was expected");
        const float factor = std::ldexp(1.0f, *shift);
        std::ranges::for_each(values, [factor](float& value) { value *= factor; });
        if (!wanted.stored.ends_with(".weight"))
            return;
        const auto inputNorm = norm(layer + "input_layernorm.weight");
        const auto bias = find(self + "_proj.bias") ? valuesOf(given(self + "_proj.bias")) : std::vector<float>();
        const auto rows = static_cast<std::size_t>(wanted.info.shape[0]);
        if (values.size() != rows * inputNorm.size() || (!bias.empty() && bias.size() != rows))
            fail(ErrorCode::Malformed, "tensor " + wanted.stored + " does not fit its bias and " + layer + "input_layernorm.weight", {{"tensor", wanted.stored}});
        if (epsLiftShift(largestMeanSquare({values, bias, inputNorm, static_cast<std::size_t>(m_headDim)}), m_config.rmsNormEps) > *shift + 1)
            refuse(wanted.stored, "is not of lifted heads: beside eps it is not small enough for its norm to be a constant");
    }

    const ModelConfig m_config;
    const std::int64_t m_headDim;
    const bool m_lifted;
    const NormsStored m_norms;
};

} // namespace

std::shared_ptr<const WeightSource> qwen35Source(std::shared_ptr<const WeightSource> stored, const ModelConfig& config, NormsStored norms) {
    return std::make_shared<Qwen35Source>(std::move(stored), config, norms);
}

} // namespace linnet::core
