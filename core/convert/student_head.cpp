#include "core/torch_pch.h"

#include "core/convert/student_head.h"

namespace linnet::core {
namespace {

class OneLayer : public WeightSource { // of a run's file: the others need not be read
public:
    OneLayer(std::shared_ptr<const WeightSource> all, std::int64_t layer) : m_all(std::move(all)) {
        const auto prefix = "model.layers." + std::to_string(layer) + ".";
        std::ranges::copy_if(m_all->tensors(), std::back_inserter(m_tensors), [&](const TensorInfo& info) { return info.name.starts_with(prefix); });
    }
    const std::vector<TensorInfo>& tensors() const override { return m_tensors; }
    const TensorInfo* find(const std::string& name) const override { return m_all->find(name); }
    void read(const std::string& name, DType dtype, void* out) const override { m_all->read(name, dtype, out); }
    DType nativeDType() const override { return m_all->nativeDType(); }
    std::string hash() const override { return m_all->hash(); }

private:
    std::shared_ptr<const WeightSource> m_all;
    std::vector<TensorInfo> m_tensors;
};

const MixerSpec& drawableSpec(const std::string& mixer) {
    const auto& spec = mixerSpec(mixer);
    if (spec.decay == Decay::ChannelPerToken || spec.normaliser != Normaliser::None || spec.write == WriteGate::ExponentialInput)
        fail(ErrorCode::Unsupported, "mixer " + mixer + ": a decay by channel or a normaliser leaves no one weight for a pair of tokens", {{"mixer", mixer}});
    return spec;
}

LinearLayer headOf(const LinearLayer& layer, std::int64_t head, std::int64_t D) {
    return mapped(layer, [&](const std::string& name, const at::Tensor& t) {
        if (name == "o_proj.weight")
            return t.narrow(1, head * D, D).contiguous();
        if (name == "o_norm.weight")
            return t;
        const bool perHead = name == "a_proj.weight" || name == "b_proj.weight" || name == "A_log" || name == "dt_bias";
        return (perHead ? t.narrow(0, head, 1) : t.narrow(0, head * D, D)).contiguous();
    });
}

LinearLayer trainedLayer(const Model& teacher, const std::filesystem::path& run, std::int64_t layer, const MixerSpec*& spec) {
    const auto recipe = orFail(readRecipe(run / "recipe.json"));
    if (!recipe.teacherHash.empty() && recipe.teacherHash != teacher.hash())
        fail(ErrorCode::Usage, run.string() + " is a run of another teacher", {{"file", run.string()}, {"expected", teacher.hash()}, {"found", recipe.teacherHash}});
    spec = &drawableSpec(recipe.mixer);
    for (const char* name : {"student", "aligned"}) { // the furthest first
        const auto file = run / "checkpoints" / (std::string(name) + ".safetensors");
        if (!std::filesystem::exists(file))
            continue;
        if (auto found = linearLayerOf(file, layer, teacher, recipe.mixer))
            return std::move(*found);
    }
    fail(ErrorCode::Unsupported, "layer " + std::to_string(layer) + " has no aligned layer in " + run.string() + ": it stays softmax there, or the run has not come to it",
         {{"layer", std::to_string(layer)}, {"file", run.string()}});
}

void chooseStart(StudentHead& student, TargetProbe::State& state, const LayerContext& context, std::int64_t head) {
    const auto& recipe = context.recipe;
    const auto target = targetOf(context, head);
    student.halfLife = target.halfLife, student.beta = target.beta, student.outputGate = target.outputGate;
    student.valueScale = target.valueScale.value_or(1);
    LinearLayer layer;
    if (recipe.preset == "linnet") {
        HeadSearch search(state, context, head);
        const auto fit = search.best(target);
        layer = search.rows().layer(std::vector<HeadOption>(static_cast<std::size_t>(student.shape.heads), fit.chosen)); // of which one head is taken
        student.halfLife = fit.chosen.halfLife, student.beta = fit.chosen.beta, student.outputGate = search.rows().gateLevel(head);
    } else {
        layer = initialLayer(context, recipe.preset);
        student.ownGate = true;
    }
    student.layer = headOf(layer, head, student.shape.headDim);
}

} // namespace

std::optional<LinearLayer> linearLayerOf(const std::filesystem::path& file, std::int64_t layer, const Model& teacher, const std::string& mixer) {
    const OneLayer source(openSafetensorsFile(file), layer);
    auto mixers = loadLinearLayers(source, teacher.linearShape(), teacher.device(), at::kFloat, mixer);
    const auto found = mixers.find(layer);
    return found != mixers.end() && found->second.kind == Mixer::Kind::Linear ? std::optional(std::move(found->second.linear)) : std::nullopt;
}

OpenedHead openHead(TargetProbe::State& state, const Recipe& recipe, const HeadRequest& request, const Control& control) {
    state.prepare(recipe, request.layer, request.head, control);
    auto context = state.context(recipe, control);
    context.profile = request.profile.get();
    auto student = studentHead(state, context, request);
    return {context, std::move(student)};
}

StudentHead studentHead(TargetProbe::State& state, const LayerContext& context, const HeadRequest& request) {
    StudentHead student;
    student.shape = context.teacher.linearShape();
    if (request.run.empty()) {
        if (context.recipe.preset == "sliding-window")
            fail(ErrorCode::Unsupported, "preset sliding-window keeps softmax attention: there is no recurrence to draw", {{"key", "preset"}});
        student.spec = &drawableSpec(context.recipe.mixer);
        chooseStart(student, state, context, request.head);
    } else {
        student.trained = student.ownGate = true;
        student.layer = headOf(trainedLayer(context.teacher, request.run, request.layer, student.spec), request.head, student.shape.headDim);
    }
    student.shape.heads = 1;
    return student;
}

at::Tensor teacherAttention(const Model& teacher, const LayerWeights& weights, const at::Tensor& x, std::int64_t head) {
    const auto& config = teacher.config();
    const auto qkv = queryKeyValue(teacher, weights, x);
    const at::Tensor q = qkv.q[0][head].to(at::kFloat), k = qkv.k[0][head / config.groupSize()].to(at::kFloat);
    const at::Tensor future = at::ones({x.size(1), x.size(1)}, q.options().dtype(at::kBool)).triu_(1);
    return (q.matmul(k.t()) / std::sqrt(static_cast<double>(config.headDim))).masked_fill_(future, -INFINITY).softmax(-1);
}

std::vector<std::string> tokenPieces(const Model& model, const std::vector<TokenId>& ids) {
    const auto& tokenizer = modelTokenizer(model);
    std::vector<std::string> pieces;
    for (const auto id : ids) // padded vocabularies have ids without a text
        pieces.push_back(id < tokenizer.vocabSize() ? tokenizer.decode({id}) : std::string("<").append(std::to_string(id)).append(">"));
    return pieces;
}

} // namespace linnet::core
