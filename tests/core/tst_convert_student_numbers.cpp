// Numbers of a student's heads against loops in float64 over every token: what the gates do, what each head adds to the stream, and how much of
// the teacher's the best linear map of it gives; a stop, the cache, and what is refused.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/base/files.h"
#include "core/convert/student_numbers.h"
#include "core/data/text_data.h"
#include "tests/support/closed_form_fixtures.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

ModelConfig threeLayers() { // heads that share keys, and whose channels are not the stream's
    return smallConfig([](ModelConfig& c) { c.layers = 3, c.heads = 6, c.kvHeads = 2, c.headDim = 8, c.hiddenSize = 40, c.intermediateSize = 56; });
}

LinearLayer randomLayer(const ModelConfig& c, std::uint64_t seed) {
    auto generator = at::detail::createCPUGenerator(seed);
    const auto H = c.heads, D = c.headDim;
    const auto normal = [&](at::IntArrayRef sizes, double scale) { return at::randn(sizes, generator) * scale; };
    LinearLayer layer;
    for (at::Tensor* proj : {&layer.qProj, &layer.kProj, &layer.vProj, &layer.gProj})
        *proj = normal({H * D, c.hiddenSize}, 0.4);
    for (at::Tensor* conv : {&layer.qConv, &layer.kConv, &layer.vConv})
        *conv = normal({H * D, kConvTaps}, 0.5);
    layer.aProj = normal({H, c.hiddenSize}, 0.3), layer.bProj = normal({H, c.hiddenSize}, 0.3);
    layer.aLog = normal({H}, 0.5) - 2, layer.dtBias = normal({H}, 0.5);
    layer.oNorm = normal({D}, 0.2) + 1, layer.oProj = normal({c.hiddenSize, H * D}, 0.3);
    return layer;
}

struct RunOnDisk {
    QTemporaryDir folder;
    ModelConfig config = threeLayers();
    ModelPtr model;
    Slices slices;
    Mixers mixers;

    explicit RunOnDisk(std::int64_t sequences = 5, std::int64_t length = 27, at::ScalarType dtype = at::kFloat) : model(randomModel(config, at::kCPU, dtype)) {
        const at::NoGradGuard noGradients;
        const at::Tensor ids = someIds(sequences, length, config.vocabSize).flatten();
        slices.calibration = {{ids.const_data_ptr<std::int64_t>(), ids.const_data_ptr<std::int64_t>() + ids.numel()}, sequences, length};
        for (const std::int64_t layer : {0, 2})
            mixers[layer] = Mixer{Mixer::Kind::Linear, &mixerSpec("gated_delta_net"), randomLayer(config, static_cast<std::uint64_t>(layer) + 5)};
        std::filesystem::create_directories(path() / "checkpoints");
        saveLinearLayers(studentFile(), mixers);
        saveSlices(path() / "samples.safetensors", slices);
        Recipe recipe = defaultRecipe("cpu", "linnet");
        recipe.teacherHash = "random";
        orFail(writeRecipe(path() / "recipe.json", recipe));
    }
    std::filesystem::path path() const { return folder.path().toStdString(); }
    std::filesystem::path studentFile() const { return path() / "checkpoints" / "student.safetensors"; }
    StudentMeter meter(const std::filesystem::path& cache = {}) const { return {model, path(), cache}; }
};

// One head, token by token in float64.
StudentHeadNumbers byLoops(const RunOnDisk& run, std::int64_t layer, std::int64_t head) {
    const at::NoGradGuard noGradients;
    const auto& c = run.config;
    const auto N = run.slices.calibration.sequences, T = run.slices.calibration.seqLen, D = c.headDim;
    const auto weights = run.model->layer(layer);
    at::Tensor hidden = run.model->embed(someIds(N, T, c.vocabSize));
    for (std::int64_t l = 0; l < layer; ++l)
        hidden = runBlock(*run.model, *run.model->layer(l), nullptr, hidden);
    const at::Tensor x = attentionInput(*run.model, *weights, hidden);
    const auto student = mapped(run.mixers.at(layer).linear, [](const at::Tensor& t) { return t.to(at::kDouble); });
    const at::Tensor wide = x.to(at::kDouble), y = headOutputs(*run.model, *weights, x).narrow(2, head * D, D).to(at::kDouble);
    const at::Tensor gates = outputGate(student, wide).narrow(2, head * D, D), z = linearReadout(mixerSpec("gated_delta_net"), run.model->linearShape(), student, wide).normed.select(2, head) * gates;
    const at::Tensor ours = student.oProj.narrow(1, head * D, D), theirs = weights->attention.o.narrow(1, head * D, D).to(at::kDouble);
    double beta = 0, rate = 0, gate = 0, made = 0, target = 0;
    std::vector<at::Tensor> zs, ys;
    for (std::int64_t n = 0; n < N; ++n)
        for (std::int64_t t = 0; t < T; ++t) {
            beta += 1 / (1 + std::exp(-student.bProj[head].dot(wide[n][t]).item<double>()));
            rate += std::exp(student.aLog[head].item<double>()) * std::log1p(std::exp(student.aProj[head].dot(wide[n][t]).item<double>() + student.dtBias[head].item<double>()));
            gate += gates[n][t].square().mean().item<double>();
            made += ours.mv(z[n][t]).square().mean().item<double>();
            target += theirs.mv(y[n][t]).square().mean().item<double>();
            zs.push_back(z[n][t]), ys.push_back(y[n][t]);
        }
    const auto tokens = static_cast<double>(N * T);
    const at::Tensor Z = at::stack(zs), Y = at::stack(ys), G = Z.t().matmul(Z);
    const at::Tensor B = at::linalg_inv(G + at::eye(D, at::kDouble) * (G.diagonal().mean() * 1e-4)).matmul(Z.t()).matmul(Y);
    const at::Tensor left = (Z.matmul(B) - Y).matmul(theirs.t());
    return {std::log(2.0) / (rate / tokens), beta / tokens, std::sqrt(gate / tokens), ours.norm().item<double>() / theirs.norm().item<double>(),
            std::sqrt(made / tokens), std::sqrt(target / tokens), left.square().sum().item<double>() / Y.matmul(theirs.t()).square().sum().item<double>()};
}

bool close(double found, double expected, double relative) {
    return std::abs(found - expected) <= relative * std::abs(expected);
}

} // namespace

class TestConvertStudentNumbers : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { at::set_num_threads(1); }

    void againstLoops_data() {
        QTest::addColumn<int>("sequences");
        QTest::addColumn<int>("length");
        QTest::addColumn<bool>("narrow");
        QTest::newRow("five odd windows") << 5 << 27 << false;
        QTest::newRow("one window") << 1 << 64 << false;
        QTest::newRow("bf16 teacher") << 3 << 31 << true;
    }
    void againstLoops() {
        QFETCH(int, sequences);
        QFETCH(int, length);
        QFETCH(bool, narrow);
        const RunOnDisk run(sequences, length, narrow ? at::kBFloat16 : at::kFloat);
        const auto found = orFail(run.meter().measure());
        QVERIFY(found.windows == sequences && found.windowTokens == length);
        QCOMPARE(found.layers.size(), std::size_t(2));
        for (const std::int64_t layer : {0, 2})
            for (std::int64_t head = 0; head < run.config.heads; ++head) {
                const auto& one = found.layers.at(layer)[static_cast<std::size_t>(head)];
                const auto expected = byLoops(run, layer, head);
                const struct { const char* name; double found, expected; } rows[] = {
                    {"half-life", one.halfLife, expected.halfLife}, {"beta", one.beta, expected.beta}, {"gate", one.outputGate, expected.outputGate},
                    {"value scale", one.valueScale, expected.valueScale}, {"output", one.rmsPostO, expected.rmsPostO},
                    {"teacher's output", one.teacherRmsPostO, expected.teacherRmsPostO}, {"error", one.relativeError, expected.relativeError}};
                for (const auto& row : rows)
                    QVERIFY2(close(row.found, row.expected, 2e-4), qPrintable(QString("layer %1, head %2, %3: %4, expected %5").arg(layer).arg(head).arg(row.name).arg(row.found).arg(row.expected)));
            }
    }

    void longRunsAreMeasuredOnAPart() {
        const RunOnDisk run(11, 512);
        QCOMPARE(orFail(run.meter().measure()).windows, std::int64_t(4));
    }

    void aStopGoesOn() {
        const RunOnDisk run;
        const auto whole = orFail(run.meter().measure());
        auto meter = run.meter();
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        control.onProgress = [&](const Progress& progress) {
            if (progress.done == 2)
                stop.request_stop();
        };
        const auto stopped = meter.measure(control);
        QVERIFY(!stopped && stopped.error().code == ErrorCode::Cancelled);
        int reports = 0;
        Control again;
        again.onProgress = [&](const Progress&) { ++reports; };
        const auto rest = meter.measure(again);
        QVERIFY2(rest, qPrintable(messageOf(rest)));
        QCOMPARE(reports, 1); // the last layer only
        QCOMPARE(studentNumbersToJson(*rest).dump(), studentNumbersToJson(whole).dump());
        auto other = run.mixers; // another student in the same place is measured anew
        other.at(2).linear.bProj = other.at(2).linear.bProj + 1;
        saveLinearLayers(run.studentFile(), other);
        const auto changed = orFail(meter.measure());
        QVERIFY(changed.layers.at(2)[0].beta != whole.layers.at(2)[0].beta);
        QCOMPARE(changed.layers.at(0)[0].beta, whole.layers.at(0)[0].beta);
    }

    void theCacheAnswers() {
        const RunOnDisk run;
        const auto cache = run.path() / "cache";
        const auto first = orFail(run.meter(cache).measure());
        std::vector<std::filesystem::path> files;
        for (const auto& entry : std::filesystem::directory_iterator(cache))
            files.push_back(entry.path());
        QCOMPARE(files.size(), std::size_t(1));
        int reports = 0;
        Control control;
        control.onProgress = [&](const Progress&) { ++reports; };
        QCOMPARE(studentNumbersToJson(orFail(run.meter(cache).measure(control))).dump(), studentNumbersToJson(first).dump());
        QCOMPARE(reports, 0);
        writeFileAtomically(files.front(), "{\"schema\": 1}"); // damaged: made again
        QCOMPARE(studentNumbersToJson(orFail(run.meter(cache).measure(control))).dump(), studentNumbersToJson(first).dump());
        QVERIFY(reports > 0);
        StudentNumbers odd;
        odd.layers[3].push_back({INFINITY, 0.5, StudentHeadNumbers::kNone, 1, 2, 3, 4});
        const auto back = studentNumbersFromJson(studentNumbersToJson(odd), "here");
        QVERIFY(std::isinf(back.layers.at(3)[0].halfLife) && std::isnan(back.layers.at(3)[0].outputGate) && back.layers.at(3)[0].relativeError == 4);
    }

    void refusals() {
        RunOnDisk run;
        auto other = orFail(readRecipe(run.path() / "recipe.json"));
        other.teacherHash = "another";
        orFail(writeRecipe(run.path() / "recipe.json", other));
        QVERIFY(messageOf(run.meter().measure()).contains("another teacher"));
        other.teacherHash = "random";
        orFail(writeRecipe(run.path() / "recipe.json", other));
        run.slices.calibration.ids[3] = 517;
        saveSlices(run.path() / "samples.safetensors", run.slices);
        QVERIFY(messageOf(run.meter().measure()).contains("517"));
        std::filesystem::remove(run.path() / "samples.safetensors");
        QVERIFY(messageOf(run.meter().measure()).contains("samples.safetensors"));
        saveLinearLayers(run.studentFile(), {{1, Mixer{Mixer::Kind::SlidingWindow, nullptr, {}, 8, 2}}});
        run.slices.calibration.ids[3] = 7;
        saveSlices(run.path() / "samples.safetensors", run.slices);
        QVERIFY(orFail(run.meter().measure()).layers.empty()); // softmax with a mask has no gates
        std::filesystem::remove(run.studentFile());
        const auto none = run.meter().measure();
        QVERIFY(!none && none.error().code == ErrorCode::NotFound && messageOf(none).contains("student.safetensors"));
    }
};

QTEST_GUILESS_MAIN(TestConvertStudentNumbers)
#include "tst_convert_student_numbers.moc"
