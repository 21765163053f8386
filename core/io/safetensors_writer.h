// Writes a safetensors file tensor by tensor, atomically (beside the target, sync, rename on close).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace linnet::core {

struct TensorToWrite {
    std::string name;
    std::string dtype; // "F32", "F16", "BF16", "I32", "I64"
    std::vector<std::int64_t> shape;
};

// The header is fixed first (names, shapes), then the data follows in that order, so no second copy of a model is made.
class SafetensorsWriter {
public:
    SafetensorsWriter(const std::filesystem::path& file, std::vector<TensorToWrite> tensors,
                      std::map<std::string, std::string> metadata = {});
    ~SafetensorsWriter();                                                      // removes the partial file unless finished
    void write(const std::string& name, const void* bytes, std::size_t count); // in the order given above; the whole tensor or its next piece
    void finish();                                                             // sync + rename; throws if a tensor is missing
private:
    struct State;
    std::unique_ptr<State> m_state;
};

} // namespace linnet::core
