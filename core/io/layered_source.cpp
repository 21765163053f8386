#include "core/io/layered_source.h"

#include "core/base/files.h"

namespace linnet::core {
namespace {

class LayeredSource : public WeightSource {
public:
    LayeredSource(std::shared_ptr<const WeightSource> upper, std::shared_ptr<const WeightSource> lower)
        : m_upper(std::move(upper)), m_lower(std::move(lower)), m_tensors(m_upper->tensors()), m_hash(hashBytes(m_lower->hash() + m_upper->hash())) {
        for (const auto& info : m_lower->tensors())
            if (!m_upper->find(info.name))
                m_tensors.push_back(info);
    }

    const std::vector<TensorInfo>& tensors() const override { return m_tensors; }
    const TensorInfo* find(const std::string& name) const override {
        const auto* const above = m_upper->find(name);
        return above ? above : m_lower->find(name);
    }
    void read(const std::string& name, DType dtype, void* out) const override { (m_upper->find(name) ? m_upper : m_lower)->read(name, dtype, out); }
    DType nativeDType() const override { return m_lower->nativeDType(); }
    std::string hash() const override { return m_hash; }

private:
    std::shared_ptr<const WeightSource> m_upper, m_lower;
    std::vector<TensorInfo> m_tensors;
    std::string m_hash;
};

} // namespace

std::shared_ptr<const WeightSource> layeredSource(std::shared_ptr<const WeightSource> upper, std::shared_ptr<const WeightSource> lower) {
    return std::make_shared<LayeredSource>(std::move(upper), std::move(lower));
}

} // namespace linnet::core
