#include "core/io/qwen35_source.h"

#include "core/base/result.h"
#include "core/io/dtype_convert.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace linnet::core {
namespace {

const std::string kAttention = ".self_attn.";

enum class Change { None, PlusOne, Heads, Rows };

struct Given {
    TensorInfo info;
    std::string stored;
    Change change = Change::None;
    std::int64_t part = 0;                // Rows: which third
    std::int64_t stride = 0, columns = 1; // Heads: a head is `stride` rows of `columns`, the first headDim of them are given
    float factor = 1;                     // Heads
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

class Qwen35Source : public WeightSource {
public:
    Qwen35Source(std::shared_ptr<const WeightSource> stored, const ModelConfig& config, NormsStored norms, std::int64_t storedHeadDim)
        : m_stored(std::move(stored)), m_config(config), m_headDim(config.headDim), m_storedDim(storedHeadDim ? storedHeadDim : config.headDim),
          m_lifted(!config.qkNorm), m_norms(norms) {
        for (const auto& info : m_stored->tensors())
            take(info);
        for (std::size_t i = 0; i < m_given.size(); ++i) {
            m_tensors.push_back(m_given[i].info);
            m_index[m_given[i].info.name] = i;
        }
    }

    const std::vector<TensorInfo>& tensors() const override { return m_tensors; }
    const TensorInfo* find(const std::string& name) const override {
        const auto found = m_index.find(name);
        return found == m_index.end() ? nullptr : &m_tensors[found->second];
    }
    DType nativeDType() const override { return m_stored->nativeDType(); }
    std::string hash() const override { return m_stored->hash(); }

    void read(const std::string& name, DType dtype, void* out) const override {
        const auto found = m_index.find(name);
        if (found == m_index.end())
            fail(ErrorCode::Internal, "tensor " + name + " is not there", {{"tensor", name}});
        const Given& given = m_given[found->second];
        if (given.change == Change::None)
            return m_stored->read(given.stored, dtype, out);
        auto values = floats(given.stored);
        changed(given, values);
        convertFloats(values.data(), values.size(), dtype, out);
    }

private:
    std::vector<float> floats(const std::string& name) const {
        const TensorInfo* info = m_stored->find(name);
        if (!info)
            fail(ErrorCode::Malformed, "tensor " + name + " is missing", {{"tensor", name}});
        std::vector<float> values(countOf(*info));
        m_stored->read(name, DType::F32, values.data());
        return values;
    }

    void add(const TensorInfo& info, const std::string& name, Change change, std::int64_t part = 0) {
        Given given{info, info.name, change, part};
        given.info.name = name;
        if (change == Change::Rows) {
            requireMultiple(info, 0, 3);
            given.info.shape[0] /= 3;
            given.info.storedBytes /= 3;
        }
        m_given.push_back(std::move(given));
    }

    // Heads along dimension `along`; those of q_proj have their gate's rows after them.
    void addHeads(const TensorInfo& info, std::size_t along, bool gated) {
        Given given{info, info.name, Change::Heads};
        given.stride = gated ? 2 * m_storedDim : m_storedDim;
        requireMultiple(info, along, given.stride);
        if (along == 0)
            for (std::size_t i = 1; i < info.shape.size(); ++i)
                given.columns *= info.shape[i];
        given.factor = along == 0 ? 1.0f : 0.5f;
        given.info.shape[along] = info.shape[along] / given.stride * m_headDim;
        given.info.storedBytes = info.storedBytes / static_cast<std::uint64_t>(given.stride) * static_cast<std::uint64_t>(m_headDim);
        m_given.push_back(std::move(given));
    }

    static void requireMultiple(const TensorInfo& info, std::size_t along, std::int64_t of) {
        if (info.shape.size() <= along || info.shape[along] % of != 0)
            fail(ErrorCode::Malformed, "tensor " + info.name + " has " + (info.shape.size() <= along ? "no" : std::to_string(info.shape[along])) +
                     (along == 0 ? " rows" : " columns") + ", a multiple of " + std::to_string(of) + " was expected", {{"tensor", info.name}});
    }

    void take(const TensorInfo& info) {
        const auto& name = info.name;
        static const std::vector<std::pair<std::string, std::string>> renamed{
            {"in_proj_z.weight", "g_proj.weight"}, {"in_proj_a.weight", "a_proj.weight"}, {"in_proj_b.weight", "b_proj.weight"},
            {"norm.weight", "o_norm.weight"}, {"out_proj.weight", "o_proj.weight"}, {"A_log", "A_log"}, {"dt_bias", "dt_bias"}};
        if (const auto at = name.find(".linear_attn."); at != name.npos) {
            const auto prefix = name.substr(0, at + 13), tail = name.substr(at + 13);
            for (const char* const whole : {"in_proj_qkv.weight", "conv1d.weight"})
                if (tail == whole)
                    for (std::int64_t part = 0; part < 3; ++part)
                        add(info, prefix + "qkv"[part] + (tail[0] == 'i' ? "_proj.weight" : "_conv1d.weight"), Change::Rows, part);
            for (const auto& [theirs, ours] : renamed)
                if (tail == theirs)
                    add(info, prefix + ours, Change::None);
            return;
        }
        if (const auto at = name.find(kAttention); at != name.npos)
            return takeSoftmax(info, name.substr(at + kAttention.size()));
        add(info, name, name.ends_with("norm.weight") ? normChange() : Change::None);
    }
    Change normChange() const { return m_norms == NormsStored::LessOne ? Change::PlusOne : Change::None; }

    void takeSoftmax(const TensorInfo& info, const std::string& tail) {
        const bool bias = tail.ends_with(".bias"), norm = tail.ends_with("_norm.weight");
        if (m_lifted && (norm || (bias && !(tail == "o_proj.bias" ? m_config.outputBias : m_config.qkvBias))))
            return; // the lift's own, checked when weights are read
        if (norm || tail == "o_proj.bias")
            return add(info, info.name, norm ? normChange() : Change::None);
        addHeads(info, tail == "o_proj.weight" ? 1 : 0, tail.starts_with("q_proj."));
    }

    void changed(const Given& given, std::vector<float>& values) const {
        if (given.change == Change::PlusOne)
            std::ranges::for_each(values, [](float& v) { v += 1; });
        if (given.change == Change::Rows) {
            const auto third = values.size() / 3, from = third * static_cast<std::size_t>(given.part);
            std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(from), third, values.begin());
            values.resize(third);
        }
        if (given.change == Change::Heads)
            keepHeads(given, values);
    }

    // Keeps the first headDim rows of each head; what is left out must add nothing.
    void keepHeads(const Given& given, std::vector<float>& values) const {
        const auto end = given.stored.find(kAttention) + kAttention.size();
        const auto prefix = given.stored.substr(0, end), tail = given.stored.substr(end);
        const bool pads = m_lifted && (tail == "q_proj.bias" || tail == "k_proj.bias");
        requireZeros(given.stored, values, pads ? m_storedDim : m_headDim, given.stride, given.columns);
        if (m_lifted && m_headDim != m_storedDim && (tail == "q_proj.weight" || tail == "k_proj.weight"))
            checkPads(prefix, tail[0], given.stride);
        const bool unbiased = m_lifted && ((tail == "v_proj.weight" && !m_config.qkvBias) || (tail == "o_proj.weight" && !m_config.outputBias));
        if (const auto bias = prefix + tail.substr(0, 7) + "bias"; unbiased && m_stored->find(bias))
            requireZeros(bias, floats(bias), 0, 1, 1);
        const auto block = static_cast<std::size_t>(given.stride * given.columns), kept = static_cast<std::size_t>(m_headDim * given.columns), heads = values.size() / std::max<std::size_t>(block, 1);
        for (std::size_t h = 0; h < heads; ++h)
            for (std::size_t i = 0; i < kept; ++i)
                values[h * kept + i] = given.factor * values[h * block + i];
        values.resize(heads * kept);
    }

    // Of each `stride` rows those from `first` on.
    void requireZeros(const std::string& name, const std::vector<float>& values, std::int64_t first, std::int64_t stride, std::int64_t columns) const {
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto row = static_cast<std::int64_t>(i) / columns, inHead = row % stride;
            if (inHead < first || values[i] == 0)
                continue;
            const auto head = std::to_string(row / stride);
            if (inHead >= m_storedDim)
                refuse(name, "has an output gate in head " + head + "; softmax layers with one are not supported");
            refuse(name, "is not of lifted heads: row " + std::to_string(inHead) + " of head " + head + " holds " + std::to_string(values[i]) + ", 0 was expected");
        }
    }

    // That the norm of q or k divides by a constant and multiplies by it again (core/io/head_lift.h).
    void checkPads(const std::string& prefix, char which, std::int64_t stride) const {
        const std::string name = prefix + which + "_proj.bias", normName = prefix + which + "_norm.weight";
        const auto bias = floats(name);
        auto norm = floats(normName); // as 1 + w
        if (m_norms == NormsStored::LessOne)
            std::ranges::for_each(norm, [](float& v) { v += 1; });
        const auto d = static_cast<std::size_t>(m_headDim), padded = static_cast<std::size_t>(m_storedDim), step = static_cast<std::size_t>(stride);
        if (norm.size() != padded || bias.size() % step != 0)
            fail(ErrorCode::Malformed, "tensors " + name + " and " + normName + " do not fit heads of " + std::to_string(padded), {{"tensor", name}});
        const auto expect = [&](std::size_t i, double value) {
            if (!(std::abs(static_cast<double>(norm[i]) - value) <= 1e-4 * value)) // 16 bits round w
                refuse(normName, "is not of lifted heads: 1 + w is " + std::to_string(norm[i]) + " at " + std::to_string(i) + ", " + std::to_string(value) + " was expected");
        };
        requireZeros(name, bias, m_storedDim, stride, 1);
        for (std::size_t i = d; i < padded; ++i)
            expect(i, 0);
        for (std::size_t at = 0; at < bias.size(); at += step) {
            double sum = 0;
            for (std::size_t i = d; i < padded; ++i)
                sum += static_cast<double>(bias[at + i]) * bias[at + i];
            const double scale = std::sqrt(sum / static_cast<double>(which == 'q' ? d : padded));
            if (!(scale >= 256)) // q and k would not be small beside the constants
                refuse(name, "is not of lifted heads: its constants in head " + std::to_string(at / step) + " are missing or small");
            for (std::size_t i = 0; i < d; ++i) {
                expect(i, scale);
                if (!m_config.qkvBias && bias[at + i] != 0)
                    refuse(name, "has a bias in head " + std::to_string(at / step) + ", its teacher has none");
            }
        }
    }

    std::shared_ptr<const WeightSource> m_stored;
    const ModelConfig m_config;
    const std::int64_t m_headDim, m_storedDim; // as given, as stored
    const bool m_lifted;
    const NormsStored m_norms;
    std::vector<Given> m_given;
    std::vector<TensorInfo> m_tensors;
    std::unordered_map<std::string, std::size_t> m_index;
};

} // namespace

std::shared_ptr<const WeightSource> qwen35Source(std::shared_ptr<const WeightSource> stored, const ModelConfig& config, NormsStored norms,
                                                 std::int64_t storedHeadDim) {
    return std::make_shared<Qwen35Source>(std::move(stored), config, norms, storedHeadDim);
}

} // namespace linnet::core
