#include "core/torch_pch.h"

#include "core/export/tensor_plan.h"

namespace linnet::core {
namespace {

struct Stored {
    const char *dtype, *name;
    DType type;
    at::ScalarType scalar;
};

const Stored& storedAs(const std::string& dtype) {
    static const Stored kTypes[] = {{"f32", "F32", DType::F32, at::kFloat}, {"bf16", "BF16", DType::BF16, at::kBFloat16}, {"f16", "F16", DType::F16, at::kHalf}};
    for (const auto& type : kTypes)
        if (dtype == type.dtype)
            return type;
    fail(ErrorCode::Usage, "export: dtype \"" + dtype + "\" is none of f32, bf16, f16", {{"option", "--dtype"}, {"value", dtype}});
}

} // namespace

const char* storedTypeName(const std::string& dtype) {
    return storedAs(dtype).name;
}

bool writeTensors(const Model& model, const std::filesystem::path& file, const std::string& dtype, const std::vector<PlannedTensor>& plan, const Control& control) {
    const Stored& stored = storedAs(dtype);
    std::vector<TensorToWrite> header;
    for (const auto& tensor : plan)
        header.push_back(tensor.entry);
    SafetensorsWriter writer(file, header, {{"format", "pt"}});
    bool exact = true;
    double done = 0;
    std::vector<std::byte> buffer;
    for (const auto& [entry, make] : plan) {
        control.report("export", done++, static_cast<double>(plan.size()), entry.name);
        if (make) {
            const at::Tensor made = make().detach().to(at::kCPU), values = made.to(entry.dtype == "F32" ? at::kFloat : stored.scalar).contiguous();
            if (stored.type == DType::F16 && !at::isfinite(values).all().item<bool>())
                fail(ErrorCode::Unsupported, "export: tensor " + entry.name + " does not fit in f16; use bf16 or f32", {{"tensor", entry.name}});
            exact = exact && at::equal(values.to(at::kDouble), made.to(at::kDouble));
            writer.write(entry.name, values.data_ptr(), values.nbytes());
            continue;
        }
        const auto& source = *model.files().weights;
        std::size_t count = 1;
        for (const auto size : entry.shape)
            count *= static_cast<std::size_t>(size);
        buffer.resize(count * dtypeBytes(stored.type));
        source.read(entry.name, stored.type, buffer.data());
        const auto& type = source.find(entry.name)->storedType;
        exact = exact && (stored.type == DType::F32 || type == entry.dtype);
        writer.write(entry.name, buffer.data(), buffer.size());
    }
    writer.finish();
    return exact;
}

} // namespace linnet::core
