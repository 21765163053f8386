#include "core/torch_pch.h"

#include "core/convert/student_numbers.h"

#include "core/base/files.h"
#include "core/convert/student_head.h"
#include "core/evaluate/evaluate_model.h"

#include <numbers>

namespace linnet::core {
namespace {

constexpr std::int64_t kLeastWindows = 4, kTokens = 2048; // measured on: at least so many, then up to so many tokens
constexpr std::int64_t kPieceWindows = 2;                 // of a forward
constexpr double kRidge = 1e-4, kLeastPower = 1e-30;      // as headEvidence() has them
constexpr int kSchema = 1;

// Sums over tokens, float64: [H] and [H, D, D].
struct HeadSums {
    std::int64_t rows = 0;
    at::Tensor write, rate, gate; // gate: squares, mean over channels
    at::Tensor zz, zy, yy;        // gated readouts z and the teacher's A V

    void add(const MixerSpec& spec, const LinearShape& shape, const LinearLayer& layer, const at::Tensor& x, const at::Tensor& heads) {
        const auto H = shape.heads, D = shape.headDim, N = x.size(0) * x.size(1);
        const auto sum = [](at::Tensor& into, const at::Tensor& more) { into = into.defined() ? into + more : more; };
        at::Tensor z = linearReadout(spec, shape, layer, x).normed.reshape({N, H, D}).to(at::kDouble);
        if (spec.outputGate) {
            const at::Tensor g = outputGate(layer, x).reshape({N, H, D}).to(at::kDouble);
            sum(gate, g.square().mean(-1).sum(0));
            z = z * g;
        }
        if (spec.write != WriteGate::One)
            sum(write, at::linear(x, layer.bProj).to(at::kDouble).sigmoid().reshape({N, H}).sum(0));
        if (spec.decay != Decay::None) {
            const at::Tensor input = spec.decay == Decay::ConstantPerHead ? at::zeros({N, H}, x.options()) : at::linear(x, layer.aProj).reshape({N, H});
            sum(rate, (layer.aLog.exp() * at::softplus(input + layer.dtBias)).to(at::kDouble).sum(0));
        }
        const at::Tensor Z = z.transpose(0, 1), Y = heads.reshape({N, H, D}).to(at::kDouble).transpose(0, 1); // [H, N, D]
        sum(zz, Z.transpose(1, 2).matmul(Z));
        sum(zy, Z.transpose(1, 2).matmul(Y));
        sum(yy, Y.transpose(1, 2).matmul(Y));
        rows += N;
    }
};

double trace(const at::Tensor& a, const at::Tensor& b) { // of a b', both symmetric
    return (a * b).sum().item<double>();
}

StudentHeadNumbers numbersOf(const HeadSums& sums, const at::Tensor& studentO, const at::Tensor& teacherO, std::int64_t head) {
    const auto n = static_cast<double>(sums.rows), hidden = static_cast<double>(teacherO.size(0));
    const at::Tensor G = sums.zz[head], X = sums.zy[head], S = sums.yy[head];
    const at::Tensor ours = studentO.t().matmul(studentO), M = teacherO.t().matmul(teacherO);
    at::Tensor ridged = G.clone();
    ridged.diagonal().add_((G.diagonal().mean() * kRidge).clamp_min(kLeastPower));
    const at::Tensor B = at::cholesky_solve(X, at::linalg_cholesky(ridged));
    const at::Tensor cross = X.t().matmul(B); // y' z B
    const double power = trace(S, M), error = trace(S - cross - cross.t() + B.t().matmul(G).matmul(B), M);
    StudentHeadNumbers numbers;
    if (sums.rate.defined()) {
        const double rate = sums.rate[head].item<double>() / n;
        numbers.halfLife = rate > 0 ? std::numbers::ln2 / rate : INFINITY;
    } else {
        numbers.halfLife = INFINITY;
    }
    if (sums.write.defined())
        numbers.beta = sums.write[head].item<double>() / n;
    if (sums.gate.defined())
        numbers.outputGate = std::sqrt(sums.gate[head].item<double>() / n);
    numbers.valueScale = studentO.norm().item<double>() / std::max(teacherO.norm().item<double>(), kLeastPower);
    numbers.rmsPostO = std::sqrt(std::max(0.0, trace(G, ours)) / n / hidden);
    numbers.teacherRmsPostO = std::sqrt(std::max(0.0, power) / n / hidden);
    numbers.relativeError = std::max(0.0, error) / std::max(power, kLeastPower);
    return numbers;
}

constexpr std::pair<const char*, double StudentHeadNumbers::*> kKeys[] = {
    {"half_life", &StudentHeadNumbers::halfLife}, {"beta", &StudentHeadNumbers::beta}, {"output_gate", &StudentHeadNumbers::outputGate},
    {"value_scale", &StudentHeadNumbers::valueScale}, {"rms_post_o", &StudentHeadNumbers::rmsPostO},
    {"teacher_rms_post_o", &StudentHeadNumbers::teacherRmsPostO}, {"relative_error", &StudentHeadNumbers::relativeError}};

} // namespace

Json studentNumbersToJson(const StudentNumbers& numbers) {
    const auto written = [](double value) { return std::isinf(value) ? Json("none") : std::isnan(value) ? Json(nullptr) : Json(value); };
    Json layers = Json::object();
    for (const auto& [layer, heads] : numbers.layers) {
        Json list = Json::array();
        for (const auto& head : heads) {
            Json one;
            for (const auto& [key, member] : kKeys)
                one[key] = written(head.*member);
            list.push_back(one);
        }
        layers[std::to_string(layer)] = list;
    }
    return {{"schema", kSchema}, {"windows", numbers.windows}, {"window_tokens", numbers.windowTokens}, {"layers", layers}};
}

StudentNumbers studentNumbersFromJson(const Json& json, const std::string& origin) {
    try {
        if (json.at("schema") != kSchema)
            fail(ErrorCode::Malformed, origin + ": schema is " + json.at("schema").dump() + ", expected " + std::to_string(kSchema), {{"file", origin}, {"key", "schema"}});
        StudentNumbers numbers;
        numbers.windows = json.at("windows"), numbers.windowTokens = json.at("window_tokens");
        for (const auto& [layer, heads] : json.at("layers").items())
            for (const auto& head : heads) {
                auto& one = numbers.layers[std::stoll(layer)].emplace_back();
                for (const auto& [key, member] : kKeys) {
                    const auto& value = head.at(key);
                    one.*member = value.is_null() ? StudentHeadNumbers::kNone : value.is_string() ? INFINITY : value.get<double>();
                }
            }
        return numbers;
    } catch (const nlohmann::json::exception& error) {
        fail(ErrorCode::Malformed, origin + ": not the numbers of a student: " + error.what(), {{"file", origin}});
    }
}

struct StudentMeter::State {
    ModelPtr teacher;
    std::filesystem::path run, cacheFolder;
    std::string key; // of what was measured so far
    TokenWindows windows;
    at::Tensor hidden; // the stream that enters `layer`
    std::int64_t layer = 0;
    StudentNumbers numbers;

    std::filesystem::path studentFile() const { return run / "checkpoints" / "student.safetensors"; }
    std::filesystem::path cacheFile() const { return cacheFolder.empty() ? std::filesystem::path() : cacheFolder / (key + ".json"); }

    Recipe checkedRecipe() const {
        if (!std::filesystem::exists(studentFile()))
            fail(ErrorCode::NotFound, run.string() + " has no student yet: there is no " + studentFile().string(), {{"file", studentFile().string()}});
        const auto recipe = orFail(readRecipe(run / "recipe.json"));
        if (!recipe.teacherHash.empty() && recipe.teacherHash != teacher->hash())
            fail(ErrorCode::Usage, run.string() + " is a run of another teacher", {{"file", run.string()}, {"expected", teacher->hash()}, {"found", recipe.teacherHash}});
        return recipe;
    }

    bool takeCached() {
        const auto file = cacheFile();
        if (file.empty() || !std::filesystem::exists(file))
            return false;
        const auto read = guarded([&] { return studentNumbersFromJson(readJsonFile(file), file.string()); });
        if (read) // a damaged one is made again
            numbers = *read;
        return read.has_value();
    }

    void begin() {
        const auto all = loadSlices(run / "samples.safetensors").calibration;
        if (all.sequences < 1)
            fail(ErrorCode::NotFound, (run / "samples.safetensors").string() + ": tensor calibration is missing: there is nothing to measure on",
                 {{"file", (run / "samples.safetensors").string()}, {"tensor", "calibration"}});
        const auto count = std::min(all.sequences, std::max(kLeastWindows, kTokens / all.seqLen));
        windows = {{all.ids.begin(), all.ids.begin() + count * all.seqLen}, count, all.seqLen};
        if (const auto most = *std::ranges::max_element(windows.ids); most >= teacher->config().vocabSize)
            fail(ErrorCode::Malformed, (run / "samples.safetensors").string() + ": tensor calibration has token " + std::to_string(most) + ", the teacher has " +
                     std::to_string(teacher->config().vocabSize), {{"file", (run / "samples.safetensors").string()}, {"tensor", "calibration"}});
        hidden = teacher->embed(windowTensor(windows, teacher->device()));
        numbers = {count, all.seqLen, {}};
        layer = 0;
    }

    void measureLayer(const MixerSpec& spec, const LinearLayer& student, const LayerWeights& weights, const Control& control) {
        const auto shape = teacher->linearShape();
        HeadSums sums;
        for (std::int64_t n = 0; n < windows.sequences; n += kPieceWindows) {
            control.checkpoint();
            const at::Tensor x = attentionInput(*teacher, weights, hidden.narrow(0, n, std::min(kPieceWindows, windows.sequences - n)));
            sums.add(spec, shape, student, x.to(at::kFloat), headOutputs(*teacher, weights, x));
        }
        std::vector<StudentHeadNumbers> heads;
        for (std::int64_t h = 0; h < shape.heads; ++h) {
            const auto columns = [&](const at::Tensor& o) { return o.narrow(1, h * shape.headDim, shape.headDim).to(at::kDouble); };
            heads.push_back(numbersOf(sums, columns(student.oProj), columns(weights.attention.o), h));
        }
        numbers.layers[layer] = std::move(heads);
    }

    void goOn(const Recipe& recipe, const Control& control) {
        const auto converted = layersWith(*openSafetensorsFile(studentFile()), kLinearModule);
        const auto last = converted.empty() ? -1 : *converted.rbegin();
        if (last >= teacher->config().layers)
            fail(ErrorCode::Malformed, studentFile().string() + ": has layer " + std::to_string(last) + ", the teacher has " + std::to_string(teacher->config().layers),
                 {{"file", studentFile().string()}});
        for (; layer <= last; ++layer) {
            control.report("heads", static_cast<double>(layer), static_cast<double>(last + 1), "layer " + std::to_string(layer));
            const auto weights = teacher->layer(layer);
            if (converted.contains(layer) && weights->attention.qkv.defined())
                if (const auto student = linearLayerOf(studentFile(), layer, *teacher, recipe.mixer))
                    measureLayer(mixerSpec(recipe.mixer), *student, *weights, control);
            if (layer == last)
                break;
            at::Tensor next = at::empty_like(hidden);
            for (std::int64_t n = 0; n < windows.sequences; n += kPieceWindows) {
                control.checkpoint();
                const auto count = std::min(kPieceWindows, windows.sequences - n);
                next.narrow(0, n, count).copy_(runBlock(*teacher, *weights, mixerAt(teacher->mixers(), layer), hidden.narrow(0, n, count))); // a hybrid has its own
            }
            hidden = next;
        }
    }
};

StudentMeter::StudentMeter(ModelPtr teacher, std::filesystem::path run, std::filesystem::path cacheFolder) : m_state(std::make_unique<State>()) {
    m_state->teacher = std::move(teacher);
    m_state->run = std::move(run);
    m_state->cacheFolder = std::move(cacheFolder);
}

StudentMeter::~StudentMeter() = default;

const std::filesystem::path& StudentMeter::run() const {
    return m_state->run;
}

Result<StudentNumbers> StudentMeter::measure(const Control& control) {
    return guarded([&] {
        const at::NoGradGuard noGradients;
        auto& state = *m_state;
        const auto recipe = state.checkedRecipe();
        auto key = hashBytes(state.teacher->hash() + hashFileSampled(state.studentFile()) + hashFileSampled(state.run / "samples.safetensors") + std::to_string(kSchema));
        if (std::exchange(state.key, key) != key)
            state.hidden = at::Tensor(); // another student than the one that a stop left
        if (state.takeCached())
            return state.numbers;
        if (!state.hidden.defined())
            state.begin();
        state.goOn(recipe, control);
        state.hidden = at::Tensor();
        if (const auto file = state.cacheFile(); !file.empty())
            (void)guarded([&] { // a cache that can't be written costs time, not the answer
                std::filesystem::create_directories(state.cacheFolder);
                writeFileAtomically(file, studentNumbersToJson(state.numbers).dump() + "\n");
            });
        return state.numbers;
    });
}

} // namespace linnet::core
