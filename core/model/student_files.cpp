#include "core/torch_pch.h"

#include "core/model/model.h"

#include "core/io/safetensors_writer.h"
#include "core/model/opened_model.h"

#include <charconv>
#include <set>

namespace linnet::core {
namespace {

const std::string kLayers = "model.layers.";

std::string linearName(std::int64_t layer, const std::string& name) {
    return kLayers + std::to_string(layer) + "." + kLinearModule + "." + name;
}

std::string windowName(std::int64_t layer) {
    return kLayers + std::to_string(layer) + "." + kSlidingWindow;
}

bool isConvolution(const std::string& name) {
    return name.find("_conv1d.") != name.npos;
}

// Shape of a tensor as the file holds it.
std::vector<std::int64_t> storedShape(const std::string& name, const LinearShape& s) {
    const std::int64_t width = s.heads * s.headDim;
    if (isConvolution(name))
        return {width, 1, kConvTaps};
    if (name == "o_proj.weight")
        return {s.hidden, width};
    if (name == "a_proj.weight" || name == "b_proj.weight")
        return {s.heads, s.hidden};
    if (name == "A_log" || name == "dt_bias")
        return {s.heads};
    if (name == "o_norm.weight")
        return {s.headDim};
    return {width, s.hidden};
}

std::string shapeText(const std::vector<std::int64_t>& shape) {
    std::string text;
    for (const std::int64_t size : shape)
        text += (text.empty() ? "" : ", ") + std::to_string(size);
    return "[" + text + "]";
}

at::Tensor readFloat(const WeightSource& source, const std::string& name, const std::vector<std::int64_t>& shape) {
    const TensorInfo* info = source.find(name);
    if (!info)
        fail(ErrorCode::Malformed, "student: tensor " + name + " is missing", {{"tensor", name}});
    if (info->shape != shape)
        fail(ErrorCode::Malformed, "student: tensor " + name + " has shape " + shapeText(info->shape) + ", expected " + shapeText(shape),
             {{"tensor", name}, {"found", shapeText(info->shape)}, {"expected", shapeText(shape)}});
    at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(at::kFloat));
    source.read(name, DType::F32, tensor.mutable_data_ptr());
    return tensor;
}

} // namespace

std::set<std::int64_t> layersWith(const WeightSource& source, const std::string& module) {
    std::set<std::int64_t> layers;
    for (const TensorInfo& info : source.tensors()) {
        if (info.name.rfind(kLayers, 0) != 0)
            continue;
        std::int64_t layer = -1;
        const char* const end = info.name.data() + info.name.size();
        const auto parsed = std::from_chars(info.name.data() + kLayers.size(), end, layer);
        const std::string_view rest(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
        if (parsed.ec == std::errc() && (rest == "." + module || rest.rfind("." + module + ".", 0) == 0))
            layers.insert(layer);
    }
    return layers;
}

void saveLinearLayers(const std::filesystem::path& file, const Mixers& mixers) {
    std::vector<std::pair<std::string, at::Tensor>> values;
    std::map<std::string, std::string> metadata = {{"format", "pt"}};
    for (const auto& [layer, mixer] : mixers) {
        if (mixer.kind == Mixer::Kind::SlidingWindow) {
            const double numbers[] = {static_cast<double>(mixer.window), static_cast<double>(mixer.sinks)};
            values.emplace_back(windowName(layer), at::tensor(at::ArrayRef<double>(numbers), at::kFloat));
        } else if (mixer.kind == Mixer::Kind::Linear) {
            metadata["mixer"] = mixer.spec->name;
            mixer.linear.forEach([&, number = layer](const std::string& name, const at::Tensor& tensor) {
                const at::Tensor host = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
                values.emplace_back(linearName(number, name), isConvolution(name) ? host.unsqueeze(1) : host);
            });
        }
    }
    std::vector<TensorToWrite> header;
    for (const auto& [name, tensor] : values)
        header.push_back({name, "F32", tensor.sizes().vec()});
    SafetensorsWriter writer(file, header, metadata);
    for (const auto& [name, tensor] : values)
        writer.write(name, tensor.const_data_ptr(), tensor.nbytes());
    writer.finish();
}

Mixers loadLinearLayers(const WeightSource& source, const LinearShape& shape, at::Device device, at::ScalarType dtype,
                        const std::string& mixerName) {
    Mixers mixers;
    for (const std::int64_t layer : layersWith(source, kLinearModule)) {
        LinearLayer linear;
        linear.forEach([&](const std::string& name, at::Tensor& tensor) {
            const at::Tensor host = readFloat(source, linearName(layer, name), storedShape(name, shape));
            // Gates, taps and norms work in float32 at any dtype; only the large projections are rounded.
            const bool projection = name.find("_proj.") != name.npos;
            tensor = (isConvolution(name) ? host.squeeze(1) : host).to(device, projection ? dtype : at::kFloat);
        });
        mixers[layer] = Mixer{Mixer::Kind::Linear, &mixerSpec(mixerName), std::move(linear)};
    }
    for (const std::int64_t layer : layersWith(source, kSlidingWindow)) {
        const at::Tensor numbers = readFloat(source, windowName(layer), {2});
        Mixer mixer;
        mixer.kind = Mixer::Kind::SlidingWindow;
        mixer.window = std::max<std::int64_t>(1, static_cast<std::int64_t>(numbers[0].item<float>()));
        mixer.sinks = std::max<std::int64_t>(0, static_cast<std::int64_t>(numbers[1].item<float>()));
        mixers[layer] = std::move(mixer);
    }
    return mixers;
}

Mixers mixersOf(const OpenedModel& opened, at::Device device, at::ScalarType dtype) {
    if (!opened.student)
        return {};
    const auto& c = opened.files.config;
    Mixers mixers;
    try {
        mixers = loadLinearLayers(*opened.student, {c.heads, c.headDim, c.hiddenSize, c.rmsNormEps}, device, dtype, opened.mixer);
    } catch (Failure& failure) { // the source has no name
        if (const auto path = opened.path.string(); failure.error.context.emplace("file", path).second)
            failure.error.message = path + ": " + failure.error.message;
        throw;
    }
    for (const auto& [layer, eps] : opened.headNormEps)
        if (const auto found = mixers.find(layer); found != mixers.end())
            found->second.headNormEps = eps;
    for (const auto& [layer, eps] : opened.qkNormEps)
        if (const auto found = mixers.find(layer); found != mixers.end())
            found->second.qkNormEps = eps;
    return mixers;
}

} // namespace linnet::core
