// Alignment in groups on a GPU: near the CPU's float32 curves, as one graph or launch by launch, the same bits each time, exact after a
// stop. Head dimensions with and without kernels of the rule.
#include "core/torch_pch.h"

#include "core/base/files.h"
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

class TestConvertGpu : public QObject {
    Q_OBJECT

    QTemporaryDir m_runs;

    struct Outcome {
        std::string student, naive, log;
        std::vector<MetricRow> rows;
        bool stopped = false;
    };
    static ModelConfig config(int headDim) {
        return smallConfig([&](ModelConfig& c) { c.layers = 4, c.headDim = headDim, c.heads = 4, c.hiddenSize = 128, c.qkvBias = true; });
    }
    static Recipe recipe(const std::string& device) {
        Recipe recipe = defaultRecipe(device, "naive"); // the linnet start chooses, and what is nearly equal is chosen otherwise in 16 bits
        recipe.seqLen = 96;
        recipe.align.batch = 3;
        recipe.align.steps = 40;
        recipe.targets[2][1] = HeadTarget{12.0, 0.3, 1.5, 0.7, {"half_life", "beta", "value_scale", "output_gate"}};
        return recipe;
    }
    // Layers 1 to 3. A folder that exists is gone on with.
    Outcome align(const std::string& name, const Model& model, const Recipe& recipe, std::int64_t stopAt = -1, std::uint64_t budget = std::uint64_t(4) << 30) const {
        const fs::path folder = fs::path(m_runs.path().toStdString()) / name;
        TokenWindows windows;
        windows.seqLen = recipe.seqLen, windows.sequences = 14;
        for (std::int64_t i = 0; i < windows.seqLen * windows.sequences; ++i)
            windows.ids.push_back(static_cast<TokenId>((i * i * 31 + i * 7 + 11) % model.config().vocabSize));
        Outcome outcome;
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
            GroupAlignment({run, options, control, recipe, model, windows, nullptr, converted, true}, budget)
                .run(run.file("checkpoints/student.safetensors"), run.file("checkpoints/naive.safetensors"));
        } catch (const Failure& failure) {
            if (failure.error.code != ErrorCode::Cancelled)
                throw;
            outcome.stopped = true;
            return outcome;
        }
        outcome.student = readTextFile(folder / "checkpoints/student.safetensors");
        outcome.naive = readTextFile(folder / "checkpoints/naive.safetensors");
        outcome.log = readTextFile(folder / "log.txt");
        outcome.rows = orFail(readMetrics(folder));
        return outcome;
    }
    static void near(const Outcome& found, const Outcome& expected, double allowed) {
        QCOMPARE(found.rows.size(), expected.rows.size());
        for (std::size_t i = 0; i < found.rows.size(); ++i) {
            LINNET_CLOSE(found.rows[i].loss, expected.rows[i].loss, allowed, 0, "loss");
            QCOMPARE(found.rows[i].heldOutLoss.has_value(), expected.rows[i].heldOutLoss.has_value());
            if (found.rows[i].heldOutLoss)
                LINNET_CLOSE(*found.rows[i].heldOutLoss, *expected.rows[i].heldOutLoss, allowed, 0, "held-out loss");
        }
    }

private Q_SLOTS:
    void nearTheCpu_data() {
        QTest::addColumn<int>("headDim");
        for (const int headDim : {64, 80, 96, 128})
            QTest::newRow(qPrintable(QString("D %1").arg(headDim))) << headDim;
    }
    void nearTheCpu() {
        LINNET_NEEDS_GPU();
        QFETCH(int, headDim);
        const auto gpu = randomModel(config(headDim), at::Device(at::kCUDA, 0), at::kBFloat16), cpu = randomModel(config(headDim), at::kCPU, at::kFloat);
        const std::string name = "D" + std::to_string(headDim);
        const auto grouped = align(name + " gpu", *gpu, recipe("cuda")), plain = align(name + " cpu", *cpu, recipe("cuda"));
        near(grouped, plain, 0.05);
        QVERIFY2(grouped.log.find("without a graph") == std::string::npos, grouped.log.c_str());
        const auto again = align(name + " again", *gpu, recipe("cuda"));
        QVERIFY(again.student == grouped.student && again.naive == grouped.naive);
    }

    void exactAfterAStop_data() {
        QTest::addColumn<int>("step");
        for (const int step : {0, 1, 2, 17, 39})
            QTest::newRow(qPrintable(QString::number(step))) << step;
    }
    void exactAfterAStop() {
        LINNET_NEEDS_GPU();
        QFETCH(int, step);
        const auto model = randomModel(config(64), at::Device(at::kCUDA, 0), at::kBFloat16);
        const auto undisturbed = align("undisturbed " + std::to_string(step), *model, recipe("cuda"));
        const std::string name = "stopped " + std::to_string(step);
        QVERIFY(align(name, *model, recipe("cuda"), step).stopped);
        const auto finished = align(name, *model, recipe("cuda"));
        QVERIFY(finished.student == undisturbed.student);
        QCOMPARE(finished.rows.size(), undisturbed.rows.size());
        for (std::size_t i = 0; i < finished.rows.size(); ++i)
            QVERIFY(finished.rows[i].loss == undisturbed.rows[i].loss && finished.rows[i].heldOutLoss == undisturbed.rows[i].heldOutLoss);
    }

    // The kernels against LibTorch's operators, launch by launch against the graph, on one device.
    void backends() {
        LINNET_NEEDS_GPU();
        const auto device = at::Device(at::kCUDA, 0);
        const auto model = randomModel(config(64), device, at::kBFloat16);
        const Recipe wanted = recipe("cuda");
        const AlignGroupShape shape{2, wanted.align.batch, 70, 9, model->linearShape()}; // T no multiple of 64
        std::vector<std::vector<double>> curves;
        for (const auto backend : {AlignStep::Backend::Kernels, AlignStep::Backend::Kernels, AlignStep::Backend::Tensors}) {
            AlignGroup group({wanted, {1, 2}, shape, device, at::kBFloat16, backend});
            at::manual_seed(5);
            for (std::size_t i = 0; i < 2; ++i) {
                group.inputs(i).copy_(at::randn({9, 70, 128}));
                group.targets(i).copy_(0.5 * at::randn({9, 70, 128}));
                LinearLayer start;
                const auto width = shape.linear.heads * shape.linear.headDim;
                for (auto* projection : {&start.qProj, &start.kProj, &start.vProj, &start.gProj})
                    *projection = at::randn({width, 128}) * 0.05;
                for (auto* taps : {&start.qConv, &start.kConv, &start.vConv})
                    *taps = at::randn({width, kConvTaps}) * 0.5;
                start.aProj = at::randn({shape.linear.heads, 128}) * 0.05, start.bProj = at::randn({shape.linear.heads, 128}) * 0.05;
                start.aLog = at::randn({shape.linear.heads}), start.dtBias = at::randn({shape.linear.heads}), start.oNorm = at::ones({shape.linear.headDim});
                start.oProj = at::randn({128, width}) * 0.05;
                group.start(i, start);
            }
            std::vector<double>& curve = curves.emplace_back();
            group.run({[&](const MetricRow& row) { curve.push_back(row.loss); }, [] {}, [](std::int64_t) {}, {}});
        }
        QVERIFY(curves[0] == curves[1]);
        for (std::size_t i = 0; i < curves[0].size(); ++i)
            LINNET_CLOSE(curves[0][i], curves[2][i], 0.02, 0, "loss");
    }
};

QTEST_APPLESS_MAIN(TestConvertGpu)
#include "tst_convert_gpu.moc"
