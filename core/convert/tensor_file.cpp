#include "core/torch_pch.h"

#include "core/convert/tensor_file.h"

#include "core/io/model_files.h"
#include "core/io/safetensors_writer.h"

namespace linnet::core {

void saveTensors(const std::filesystem::path& file, const NamedTensors& tensors) {
    std::vector<TensorToWrite> header;
    for (const auto& [name, tensor] : tensors)
        header.push_back({name, "F32", tensor.sizes().vec()});
    SafetensorsWriter writer(file, header);
    for (const auto& [name, tensor] : tensors) {
        const at::Tensor values = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
        writer.write(name, values.data_ptr<float>(), static_cast<std::size_t>(values.numel()) * sizeof(float));
    }
    writer.finish();
}

NamedTensors loadTensors(const std::filesystem::path& file, at::Device device) {
    const auto source = openSafetensorsFile(file);
    NamedTensors result;
    for (const auto& info : source->tensors()) {
        at::Tensor values = at::empty(info.shape, at::kFloat);
        source->read(info.name, DType::F32, values.data_ptr<float>());
        result.emplace_back(info.name, values.to(device));
    }
    return result;
}

} // namespace linnet::core
