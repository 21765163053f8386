// Safetensors files as a model's weights: one file, or the shards that an index names; FP8 with block scales decoded.
#pragma once

#include "core/io/safetensors_reader.h"
#include "core/io/weight_source.h"

#include <optional>
#include <unordered_map>

namespace linnet::core {

struct BlockSize {
    std::int64_t rows = 128, columns = 128;
};

class SafetensorsSource final : public WeightSource {
public:
    // No tensor name may appear in two files. F8_E4M3 tensors need "<name>_scale_inv", one scale for each block.
    SafetensorsSource(std::vector<SafetensorsFile> files, BlockSize block);

    const std::vector<TensorInfo>& tensors() const override { return m_tensors; }
    const TensorInfo* find(const std::string& name) const override;
    void read(const std::string& name, DType dtype, void* out) const override;
    DType nativeDType() const override { return m_native; }
    std::string hash() const override { return m_hash; }

    bool sameBytes(const std::string& first, const std::string& second) const; // two tensors, both present

private:
    struct Stored {
        const SafetensorsFile* file;
        const SafetensorsEntry* entry;
        const Stored* scales = nullptr; // of F8_E4M3
    };
    const Stored& stored(const std::string& name) const;
    void attachScales();
    void chooseNativeDType();
    std::vector<float> readScales(const Stored& tensor) const;

    std::vector<SafetensorsFile> m_files;
    BlockSize m_block;
    std::vector<TensorInfo> m_tensors; // block scales are not listed
    std::unordered_map<std::string, Stored> m_byName;
    std::unordered_map<std::string, std::size_t> m_listed; // position in m_tensors
    DType m_native = DType::F32;
    std::string m_hash;
};

// As openSafetensorsFolder, with the concrete type.
std::unique_ptr<SafetensorsSource> openSafetensorsShards(const std::filesystem::path& folder);

} // namespace linnet::core
