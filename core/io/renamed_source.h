// What sources have in common that present another source's tensors under other names: where each is found.
#pragma once

#include "core/base/result.h"
#include "core/io/weight_source.h"

#include <unordered_map>

namespace linnet::core {

// Given: `info`, a TensorInfo as it is presented, and whatever reading it takes.
template <class Given> class RenamedSource : public WeightSource {
public:
    const std::vector<TensorInfo>& tensors() const override { return m_tensors; }
    const TensorInfo* find(const std::string& name) const override {
        const auto found = m_index.find(name);
        return found == m_index.end() ? nullptr : &m_tensors[found->second];
    }
    DType nativeDType() const override { return m_stored->nativeDType(); }
    std::string hash() const override { return m_stored->hash(); }

protected:
    explicit RenamedSource(std::shared_ptr<const WeightSource> stored) : m_stored(std::move(stored)) {}

    const WeightSource& stored() const { return *m_stored; }
    void add(Given given, const std::string& name) {
        given.info.name = name;
        m_index[name] = m_given.size();
        m_tensors.push_back(given.info);
        m_given.push_back(std::move(given));
    }
    const Given& given(const std::string& name) const {
        const auto found = m_index.find(name);
        if (found == m_index.end())
            fail(ErrorCode::Internal, "tensor " + name + " is not there", {{"tensor", name}});
        return m_given[found->second];
    }

private:
    std::shared_ptr<const WeightSource> m_stored;
    std::vector<Given> m_given;
    std::vector<TensorInfo> m_tensors;
    std::unordered_map<std::string, std::size_t> m_index;
};

} // namespace linnet::core
