// A teacher's tensors, wherever they come from, under Hugging Face names and in Hugging Face layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace linnet::core {

enum class DType { F32, F16, BF16 }; // what tensors can be decoded to
const char* dtypeName(DType dtype);  // "f32", "f16", "bf16"
std::size_t dtypeBytes(DType dtype);

struct TensorInfo {
    std::string name;                // Hugging Face name: model.layers.3.self_attn.q_proj.weight
    std::vector<std::int64_t> shape; // outermost first, as torch has it
    std::string storedType;          // "F32", "BF16", "Q4_K", "F8_E4M3", ...
    std::uint64_t storedBytes = 0;
};

// Files are mapped read-only and checked whole when opened (every rule of the format); values are decoded when read.
// All members may be called from several threads. Throws Failure (core-internal interface).
class WeightSource {
public:
    virtual ~WeightSource() = default;
    virtual const std::vector<TensorInfo>& tensors() const = 0; // file order
    virtual const TensorInfo* find(const std::string& name) const = 0;
    // Decodes the whole tensor, row-major, into `out` (room for the shape's product in `dtype`). Llama GGUF q/k rows come back
    // un-permuted, block scales and quantisation applied (in float32, then rounded to `dtype`). Pages read are given back to
    // the kernel afterwards, so that reading a model leaves one copy of it in memory. A file that has shrunk since it was
    // opened is an error, not a crash.
    virtual void read(const std::string& name, DType dtype, void* out) const = 0;
    // The type a model in this source runs in unless told otherwise: the stored float type, F32 for quantised files.
    virtual DType nativeDType() const = 0;
    virtual std::string hash() const = 0; // identifies the content (hashFileSampled of the files)
};

} // namespace linnet::core
