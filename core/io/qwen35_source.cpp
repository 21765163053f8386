#include "core/io/qwen35_source.h"

#include "core/base/result.h"
#include "core/io/dtype_convert.h"

#include <algorithm>
#include <unordered_map>

namespace linnet::core {
namespace {

enum class Change { None, PlusOne, Queries, Half, Rows };

struct Given {
    TensorInfo info;
    std::string stored;
    Change change = Change::None;
    std::int64_t part = 0; // Rows: which third
};

class Qwen35Source : public WeightSource {
public:
    Qwen35Source(std::shared_ptr<const WeightSource> stored, const ModelConfig& config) : m_stored(std::move(stored)), m_headDim(config.headDim) {
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
        std::size_t count = 1;
        for (const auto size : m_stored->find(given.stored)->shape)
            count *= static_cast<std::size_t>(size);
        std::vector<float> values(count);
        m_stored->read(given.stored, DType::F32, values.data());
        changed(given, values);
        convertFloats(values.data(), values.size(), dtype, out);
    }

private:
    void add(const TensorInfo& info, const std::string& name, Change change, std::int64_t part = 0) {
        Given given{info, info.name, change, part};
        given.info.name = name;
        const std::int64_t share = change == Change::Queries ? 2 : change == Change::Rows ? 3 : 1;
        if (info.shape.empty() || info.shape[0] % (share == 2 ? 2 * m_headDim : share) != 0)
            fail(ErrorCode::Malformed, "tensor " + info.name + " has " + (info.shape.empty() ? "no" : std::to_string(info.shape[0])) + " rows, a multiple of " +
                     std::to_string(share == 2 ? 2 * m_headDim : share) + " was expected", {{"tensor", info.name}});
        given.info.shape[0] /= share;
        given.info.storedBytes /= static_cast<std::uint64_t>(share);
        m_given.push_back(std::move(given));
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
        add(info, name,
            name.ends_with("norm.weight")                  ? Change::PlusOne
            : name.ends_with(".self_attn.q_proj.weight")   ? Change::Queries
            : name.ends_with(".self_attn.o_proj.weight")   ? Change::Half
                                                           : Change::None);
    }

    void changed(const Given& given, std::vector<float>& values) const {
        if (given.change == Change::PlusOne)
            std::ranges::for_each(values, [](float& v) { v += 1; });
        if (given.change == Change::Half)
            std::ranges::for_each(values, [](float& v) { v *= 0.5f; });
        if (given.change == Change::Rows) {
            const auto third = values.size() / 3, from = third * static_cast<std::size_t>(given.part);
            std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(from), third, values.begin());
            values.resize(third);
        }
        if (given.change != Change::Queries)
            return;
        const auto block = static_cast<std::size_t>(m_headDim * m_stored->find(given.stored)->shape[1]), heads = values.size() / (2 * block);
        for (std::size_t h = 0; h < heads; ++h) {
            const auto queries = values.begin() + static_cast<std::ptrdiff_t>(2 * h * block), gate = queries + static_cast<std::ptrdiff_t>(block);
            if (std::any_of(gate, gate + static_cast<std::ptrdiff_t>(block), [](float v) { return v != 0; }))
                fail(ErrorCode::Unsupported, "tensor " + given.stored + " has an output gate in head " + std::to_string(h) + "; softmax layers with one are not supported",
                     {{"tensor", given.stored}});
            std::copy_n(queries, block, values.begin() + static_cast<std::ptrdiff_t>(h * block));
        }
        values.resize(heads * block);
    }

    std::shared_ptr<const WeightSource> m_stored;
    std::int64_t m_headDim;
    std::vector<Given> m_given;
    std::vector<TensorInfo> m_tensors;
    std::unordered_map<std::string, std::size_t> m_index;
};

} // namespace

std::shared_ptr<const WeightSource> qwen35Source(std::shared_ptr<const WeightSource> stored, const ModelConfig& config) {
    return std::make_shared<Qwen35Source>(std::move(stored), config);
}

} // namespace linnet::core
