// On a GPU: groups whose inputs lie in host memory give the bits of those that fit; drift's correction and the metric of the next layers
// are near the CPU's and the same bits each time.
#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/convert/drift.h"
#include "core/convert/group_alignment.h"
#include "core/model/device.h"
#include "tests/support/model_fixtures.h"
#include "tests/support/random_model.h"

#include <QTemporaryDir>
#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

#define LINNET_NEEDS_GPU()                                                                                                               \
    if (!cudaAvailable())                                                                                                                \
    QSKIP("no GPU here")

class TestConvertDriftGpu : public QObject {
    Q_OBJECT

    QTemporaryDir m_runs;

    static ModelConfig config() {
        return smallConfig([](ModelConfig& c) { c.layers = 4, c.headDim = 64, c.heads = 4, c.hiddenSize = 128, c.qkvBias = true; });
    }
    static ModelPtr onGpu() { return randomModel(config(), at::Device(at::kCUDA, 0), at::kBFloat16); }
    static ModelPtr onCpu() { return randomModel(config(), at::kCPU, at::kFloat); }
    static TokenWindows windows(std::int64_t count) {
        const at::Tensor ids = someIds(count, 96, config().vocabSize).to(at::kInt).contiguous();
        return {{ids.const_data_ptr<std::int32_t>(), ids.const_data_ptr<std::int32_t>() + ids.numel()}, count, 96};
    }
    static Recipe recipe() {
        Recipe recipe = defaultRecipe("cuda", "naive");
        recipe.seqLen = 96;
        recipe.align.batch = 3;
        recipe.align.steps = 40;
        recipe.align.lr = recipe.align.lrNew = 3e-3;
        recipe.align.driftSteps = 20;
        return recipe;
    }
    struct Outcome {
        std::string student;
        std::vector<std::string> curve;
    };
    Outcome align(const std::string& name, const Model& model, const Recipe& recipe, bool spill, std::int64_t stopAt = -1) const {
        const fs::path folder = fs::path(m_runs.path().toStdString()) / name;
        RunFolder run = fs::exists(folder) ? RunFolder::open(folder) : RunFolder::create(folder, recipe);
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        ConvertOptions options;
        options.onMetric = [&](const MetricRow& row) {
            if (row.step == stopAt)
                stop.request_stop();
        };
        const std::vector<std::int64_t> converted{1, 2, 3};
        try {
            GroupAlignment({run, options, control, recipe, model, windows(14), nullptr, converted, false, spill}, 1)
                .run(run.file("checkpoints/student.safetensors"), run.file("checkpoints/naive.safetensors"));
        } catch (const Failure& failure) {
            if (failure.error.code != ErrorCode::Cancelled)
                throw;
        }
        Outcome outcome;
        if (stopAt < 0)
            outcome.student = readTextFile(folder / "checkpoints/student.safetensors");
        for (const auto& row : orFail(readMetrics(folder))) {
            Json json = metricToJson(row);
            json.erase("time"), json.erase("tokens_per_second");
            outcome.curve.push_back(json.dump());
        }
        return outcome;
    }
    static Mixers student(const Model& model, const Recipe& recipe) {
        Mixers mixers;
        const at::NoGradGuard noGradients;
        for (const std::int64_t l : {1, 2}) {
            LayerCapture capture;
            capture.x = at::randn({1, 8, 128}, at::detail::createCPUGenerator(3)).to(model.device(), model.dtype());
            const auto moments = inputMoments(capture.x);
            mixers[l] = Mixer{Mixer::Kind::Linear, &mixerSpec(recipe.mixer), initialLayer({model, *model.layer(l), l, recipe, capture, moments, nullptr}, "naive")};
        }
        return mixers;
    }

private Q_SLOTS:
    void spilled_data() {
        QTest::addColumn<QString>("loss");
        QTest::newRow("mse") << "mse";
        QTest::newRow("kl_metric") << "kl_metric";
    }
    void spilled() {
        LINNET_NEEDS_GPU();
        QFETCH(QString, loss);
        Recipe wanted = recipe();
        wanted.align.loss = loss.toStdString();
        const auto model = onGpu();
        const std::string name = loss.toStdString();
        const auto resident = align(name + " resident", *model, wanted, false), host = align(name + " host", *model, wanted, true);
        QVERIFY(!resident.student.empty() && resident.student == host.student);
        QVERIFY(!resident.curve.empty() && resident.curve == host.curve);
        align(name + " stopped", *model, wanted, true, 17);
        const auto resumed = align(name + " stopped", *model, wanted, true);
        QVERIFY(resumed.student == host.student && resumed.curve == host.curve);
    }

    void earlyStop() {
        LINNET_NEEDS_GPU();
        Recipe wanted = recipe();
        wanted.align.earlyStop = 2;
        wanted.align.lr = wanted.align.lrNew = 0; // measured each 5 steps, best at once
        const auto outcome = align("early stop", *onGpu(), wanted, false);
        QCOMPARE(outcome.curve.size(), std::size_t(3 * 11));
    }

    void metrics() {
        LINNET_NEEDS_GPU();
        const auto model = onGpu();
        const auto found = outputMetrics(*model, windows(64), 5, {}), again = outputMetrics(*model, windows(64), 5, {}), cpu = outputMetrics(*onCpu(), windows(64), 5, {});
        for (std::size_t l = 0; l < found.size(); ++l) {
            QVERIFY(at::equal(found[l].root, again[l].root) && at::equal(found[l].inverse, again[l].inverse));
            const at::Tensor a = found[l].root.to(at::kCPU, at::kDouble), b = cpu[l].root.to(at::kDouble); // other draws
            const double error = ((a - b).norm() / b.norm()).item<double>();
            QVERIFY2(error < 0.15, qPrintable(QString("layer %1: %2").arg(l).arg(error)));
        }
    }

    void drift_data() {
        QTest::addColumn<QString>("drift");
        QTest::addColumn<std::uint64_t>("budget");
        QTest::newRow("refit") << "refit" << std::uint64_t(0);
        QTest::newRow("refit, in host memory") << "refit" << std::uint64_t(1);
        QTest::newRow("align") << "align" << std::uint64_t(0);
        QTest::newRow("align, in host memory") << "align" << std::uint64_t(1);
    }
    void drift() {
        LINNET_NEEDS_GPU();
        QFETCH(QString, drift);
        QFETCH(std::uint64_t, budget);
        Recipe wanted = recipe();
        wanted.align.drift = drift.toStdString();
        const auto calibration = windows(30);
        const auto correct = [&](const Model& model, std::uint64_t bytes) {
            Mixers mixers = student(model, wanted);
            std::vector<MetricRow> rows;
            DriftJob job{model, wanted, calibration, {}, 1e-2, [&](const MetricRow& row) { rows.push_back(row); }, {}, bytes};
            correctDrift(job, mixers);
            return std::pair(mixers, rows);
        };
        const auto gpu = onGpu();
        const auto [found, rows] = correct(*gpu, budget);
        const auto [again, rowsAgain] = correct(*gpu, 0);
        const auto [cpu, cpuRows] = correct(*onCpu(), 0);
        QCOMPARE(rows.size(), cpuRows.size());
        for (std::size_t i = 0; i < rows.size(); ++i) {
            LINNET_CLOSE(rows[i].loss, cpuRows[i].loss, 0.05, 0, "loss");
            QVERIFY(rows[i].loss == rowsAgain[i].loss && rows[i].heldOutLoss == rowsAgain[i].heldOutLoss);
        }
        for (const auto& [layer, mixer] : found)
            QVERIFY(at::equal(mixer.linear.oProj, again.at(layer).linear.oProj) && at::equal(mixer.linear.qProj, again.at(layer).linear.qProj));
    }
};

QTEST_APPLESS_MAIN(TestConvertDriftGpu)
#include "tst_convert_drift_gpu.moc"
