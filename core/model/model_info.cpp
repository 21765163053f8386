#include "core/torch_pch.h"

#include "core/model/model_api.h"

#include "core/model/device.h"
#include "core/model/model.h"
#include "core/model/opened_model.h"

#include <functional>
#include <numeric>

namespace linnet::core {
namespace {

std::vector<std::string> modelWarnings(const ModelFiles& files) {
    std::vector<std::string> warnings = files.warnings;
    const TensorInfo* matrix = files.weights->find("model.layers.0.mlp.down_proj.weight");
    if (matrix && matrix->storedType.rfind("F", 0) != 0 && matrix->storedType != "BF16")
        warnings.push_back("the file is quantised (" + files.config.storedDType + "): its decoded weights are the teacher, not the original's");
    return warnings;
}

void fillMemory(ModelInfo& info, std::uint64_t elementBytes) {
    const ModelConfig& c = info.config;
    std::uint64_t attending = 0, linear = 0;
    for (const auto& kind : info.layerKinds) {
        attending += kind == "softmax";
        linear += kind != "softmax" && kind != "sliding_window" && kind != "bypass";
    }
    const auto width = static_cast<std::uint64_t>(c.heads * c.headDim), dim = static_cast<std::uint64_t>(c.headDim);
    info.weightBytes = static_cast<std::uint64_t>(info.parameters) * elementBytes;
    info.cacheBytesPerToken = attending * 2 * static_cast<std::uint64_t>(c.kvHeads) * dim * elementBytes;
    info.stateBytes = linear * (width * dim + 3 * 3 * width) * sizeof(float); // recurrent state and the convolutions' last inputs
}

ModelInfo commonInfo(const ModelFiles& files) {
    ModelInfo info;
    info.path = files.path;
    info.config = files.config;
    info.hash = files.hash();
    info.parameters = static_cast<std::int64_t>(parameterCount(files.config));
    info.tokenizerType = files.tokenizer->type();
    info.tokenizerVocabSize = files.tokenizer->vocabSize();
    info.layerKinds.assign(static_cast<std::size_t>(files.config.layers), "softmax");
    info.warnings = modelWarnings(files);
    return info;
}

std::int64_t attentionParameters(const ModelConfig& c) { // that a linear layer takes the place of
    const std::int64_t query = c.heads * c.headDim, key = c.kvHeads * c.headDim;
    return c.hiddenSize * (2 * query + 2 * key) + (c.qkvBias ? query + 2 * key : 0) + (c.outputBias ? c.hiddenSize : 0) + (c.qkNorm ? 2 * c.headDim : 0);
}

std::int64_t linearParameters(const WeightSource& student, std::int64_t layer) { // of the layer's tensors
    const auto prefix = "model.layers." + std::to_string(layer) + "." + kLinearModule + ".";
    std::int64_t count = 0;
    for (const auto& tensor : student.tensors())
        if (tensor.name.starts_with(prefix))
            count += std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
    return count;
}

std::vector<ExportChoice> choicesOf(const ModelInfo& info, const std::set<std::int64_t>& sinkless) {
    auto kinds = info.layerKinds;
    for (const auto layer : sinkless)
        kinds[static_cast<std::size_t>(layer)] = kWindowWithoutSinks;
    return exportChoices(info.config, kinds);
}

float sinksOf(const WeightSource& student, std::int64_t layer) {
    const auto name = "model.layers." + std::to_string(layer) + "." + kSlidingWindow;
    float numbers[2] = {0, 1};
    if (const auto* info = student.find(name); info && info->shape == std::vector<std::int64_t>{2})
        student.read(name, DType::F32, numbers);
    return numbers[1];
}

const char* kindName(const Mixer& mixer) {
    switch (mixer.kind) {
    case Mixer::Kind::Linear: return mixer.spec->name.c_str();
    case Mixer::Kind::SlidingWindow: return "sliding_window";
    case Mixer::Kind::Bypass: break;
    }
    return "bypass";
}

} // namespace

std::set<std::int64_t> OpenedModel::convertedLayers() const {
    if (!student)
        return {};
    std::set<std::int64_t> layers = layersWith(*student, kLinearModule);
    layers.merge(layersWith(*student, kSlidingWindow));
    return layers;
}

std::uint64_t parameterCount(const ModelConfig& c) {
    const std::int64_t query = c.heads * c.headDim, key = c.kvHeads * c.headDim, hidden = c.hiddenSize, inner = c.intermediateSize;
    std::int64_t layer = 2 * hidden + hidden * (2 * query + 2 * key) + 3 * hidden * inner;
    layer += c.qkvBias ? query + 2 * key : 0;
    layer += c.outputBias ? hidden : 0;
    layer += c.mlpBias ? 2 * inner + hidden : 0;
    layer += c.qkNorm ? 2 * c.headDim : 0;
    return static_cast<std::uint64_t>(c.layers * layer + hidden + c.vocabSize * hidden * (c.tiedEmbeddings ? 1 : 2));
}

Result<ModelInfo> readModelInfo(const std::filesystem::path& path) {
    return guarded([&] {
        const OpenedModel opened = openFiles(path);
        ModelInfo info = commonInfo(opened.files);
        info.path = path;
        std::set<std::int64_t> sinkless;
        if (opened.student) {
            for (const std::int64_t layer : layersWith(*opened.student, kLinearModule)) {
                info.layerKinds[static_cast<std::size_t>(layer)] = opened.mixer;
                info.parameters += linearParameters(*opened.student, layer) - attentionParameters(info.config);
            }
            for (const std::int64_t layer : layersWith(*opened.student, kSlidingWindow)) {
                info.layerKinds[static_cast<std::size_t>(layer)] = "sliding_window";
                if (sinksOf(*opened.student, layer) == 0)
                    sinkless.insert(layer);
            }
        }
        info.exports = choicesOf(info, sinkless);
        fillMemory(info, sizeof(float)); // what it runs in on the CPU
        return info;
    });
}

ModelInfo modelInfo(const Model& model) {
    ModelInfo info = commonInfo(model.files());
    std::set<std::int64_t> sinkless;
    for (const auto& [layer, mixer] : model.mixers()) {
        info.layerKinds[static_cast<std::size_t>(layer)] = kindName(mixer);
        if (mixer.kind == Mixer::Kind::Linear) {
            info.parameters -= attentionParameters(info.config);
            mixer.linear.forEach([&](const std::string&, const at::Tensor& tensor) { info.parameters += tensor.defined() ? tensor.numel() : 0; });
        }
        if (mixer.kind == Mixer::Kind::SlidingWindow && mixer.sinks == 0)
            sinkless.insert(layer);
    }
    info.exports = choicesOf(info, sinkless);
    fillMemory(info, c10::elementSize(model.dtype()));
    info.device = deviceDescription(model.device());
    info.dtype = model.dtype() == at::kHalf ? "f16" : model.dtype() == at::kBFloat16 ? "bf16" : "f32";
    return info;
}

} // namespace linnet::core
