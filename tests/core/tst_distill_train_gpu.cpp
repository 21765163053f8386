// The last stage on a GPU: steps near the CPU's float32 ones, the same bits each time, in micro-batches with blocks made again,
// after a stop; and no more memory than the plan says.
#include "core/torch_pch.h"

#include "core/distill/plan.h"
#include "core/distill/trained_block.h"
#include "core/model/device.h"
#include "tests/support/distill_fixtures.h"
#include "tests/support/model_fixtures.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

const at::Device kGpu(at::kCUDA, 0);

ModelConfig config(int headDim) {
    return smallConfig(
        [&](ModelConfig& c) { c.layers = 5, c.headDim = headDim, c.heads = 4, c.hiddenSize = 128, c.qkNorm = headDim == 128; });
}

double relativeNorm(const at::Tensor& found, const at::Tensor& expected) {
    return ((found - expected).norm() / expected.norm()).item<double>();
}

} // namespace

class TestDistillTrainGpu : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        if (!cudaAvailable())
            QSKIP("no GPU here");
    }

    void gradientIsNearTheCpus_data() {
        QTest::addColumn<int>("dtype");
        QTest::addColumn<int>("headDim"); // 80 has no kernels of the rule
        QTest::addColumn<double>("tolerance");
        for (const int headDim : {64, 80, 128}) {
            QTest::addRow("bf16, D %d", headDim)
                << int(at::kBFloat16) << headDim << 0.08; // f16, with three bits more, is eight times as near
            QTest::addRow("f16, D %d", headDim) << int(at::kHalf) << headDim << 0.01;
            QTest::addRow("f32, D %d", headDim) << int(at::kFloat) << headDim << 2e-5;
        }
    }
    void gradientIsNearTheCpus() {
        QFETCH(int, dtype);
        QFETCH(int, headDim);
        QFETCH(double, tolerance);
        const auto cpu = randomModel(config(headDim), at::kCPU, at::kFloat),
                   gpu = randomModel(config(headDim), kGpu, at::ScalarType(dtype));
        const std::vector<std::int64_t> converted{1, 3};
        const auto here = trainable(*cpu, randomStudent(*cpu, converted)),
                   there = trainable(*gpu, randomStudent(*gpu, converted));
        const at::Tensor ids = someIds(3, 150, cpu->config().vocabSize);
        const DistillOptions options{1.5, 1, 0.3, 4 << 20};
        const DistillLoss expected = addDistillGradients(here, ids, options, 64, 4, {}),
                          found = addDistillGradients(there, ids.to(kGpu), options, 64, 4, {});
        const double loss = std::abs(found.loss.item<double>() / expected.loss.item<double>() - 1),
                     error = relativeNorm(gradientsOf(there), gradientsOf(here));
        QVERIFY2(loss < tolerance, qPrintable(QString("loss: relative error %1").arg(loss)));
        QVERIFY2(error < tolerance, qPrintable(QString("gradient: relative error %1").arg(error)));
        for (const std::int64_t stored : {4, 2, 0}) { // the same bits, also where blocks are made again
            const auto again = trainable(*gpu, randomStudent(*gpu, converted));
            addDistillGradients(again, ids.to(kGpu), options, 64, stored, {});
            QVERIFY2(gradientsOf(again).equal(gradientsOf(there)), qPrintable(QString("%1 blocks stored").arg(stored)));
        }
    }

    void curvesAreNearTheCpus() {
        const auto cpu = randomModel(config(64), at::kCPU, at::kFloat), gpu = randomModel(config(64), kGpu, at::kBFloat16);
        std::vector<DistillRow> rows[2];
        for (const bool onGpu : {false, true}) {
            const Model& teacher = onGpu ? *gpu : *cpu;
            DistillState state = freshDistillState(randomStudent(teacher, {1, 3}));
            DistillRun run = shortRun(teacher.config(), 25, 6, 96);
            run(teacher, state);
            rows[onGpu] = run.rows;
        }
        for (std::size_t i = 0; i < rows[0].size(); ++i)
            QVERIFY2(std::abs(rows[1][i].kl / rows[0][i].kl - 1) < 0.05,
                     qPrintable(QString("step %1: %2, not %3").arg(i).arg(rows[1][i].kl).arg(rows[0][i].kl)));
        QVERIFY(rows[1].back().kl < 0.8 * rows[1].front().kl);
    }

    void exactAfterAStop() {
        const auto teacher = randomModel(config(64), kGpu, at::kBFloat16);
        const auto student = randomStudent(*teacher, {1, 3});
        DistillState undisturbed = freshDistillState(student), state = freshDistillState(student);
        DistillRun whole = shortRun(teacher->config(), 6, 5, 96), run = whole, rest = whole;
        whole(*teacher, undisturbed);
        std::stop_source stop;
        run.control.stop = stop.get_token();
        run.onRow = [&](const DistillRow& row) {
            if (row.step == 2)
                stop.request_stop();
        };
        QVERIFY_THROWS_EXCEPTION(Failure, run(*teacher, state));
        QCOMPARE(run.saved.size(), std::size_t(1));
        DistillState resumed = run.saved.front();
        for (auto& [layer, parameters] : resumed.parameters) // as a file gives them
            parameters = mapped(parameters, [](const at::Tensor& t) { return t.cpu(); });
        rest(*teacher, resumed);
        QVERIFY(sameBits(resumed, undisturbed));
    }

    void keepsItsBound_data() {
        QTest::addColumn<int>("headDim");
        QTest::addColumn<int>("stored");
        for (const int headDim : {64, 80, 128})
            for (const int stored : {0, 3, 8})
                QTest::addRow("D %d, %d stored", headDim, stored) << headDim << stored;
    }
    void keepsItsBound() {
        QFETCH(int, headDim);
        QFETCH(int, stored);
        const auto teacher = randomModel(smallConfig([&](ModelConfig& c) {
                                             c.layers = 8, c.headDim = headDim, c.heads = 8, c.hiddenSize = 512,
                                             c.intermediateSize = 1536, c.vocabSize = 32000;
                                         }),
                                         kGpu, at::kBFloat16);
        constexpr std::int64_t kTokens = 512, kSequences = 16, kPiece = 64 << 20;
        const std::vector<std::int64_t> converted{0, 2, 3, 5, 7};
        const auto bytes =
            distillBytes(teacher->config(), {converted.begin(), converted.end()}, kTokens, distillType(*teacher), kGpu);
        std::uint64_t graphs = 0;
        for (int i = 0; i < stored; ++i)
            graphs += bytes.graphs[bytes.graphs.size() - 1 - std::size_t(i)];
        graphs = std::max(graphs, *std::max_element(bytes.graphs.begin(), bytes.graphs.end()));
        const double planned =
            double(kSequences * (bytes.between + graphs) + std::max<std::uint64_t>(kPiece, kSequences * bytes.backward));
        const auto student = trainable(*teacher, randomStudent(*teacher, converted));
        const at::Tensor ids = someIds(kSequences, kTokens, teacher->config().vocabSize).to(kGpu);
        const DistillOptions options{1, 1, 0, kPiece};
        addDistillGradients(student, ids, options, 1, stored, {}); // gradients and libraries' workspaces exist from now on
        auto* allocator = c10::getDeviceAllocator(at::kCUDA);
        const auto before = allocator->getDeviceStats(0).allocated_bytes[0].current;
        allocator->resetPeakStats(0);
        addDistillGradients(student, ids, options, 1, stored, {});
        const double share = double(allocator->getDeviceStats(0).allocated_bytes[0].peak - before) / planned;
        QVERIFY2(share < 1.0 && share > 0.4, qPrintable(QString("%1 of %2 MiB").arg(share).arg(planned / (1 << 20))));
    }
};

QTEST_APPLESS_MAIN(TestDistillTrainGpu)
#include "tst_distill_train_gpu.moc"
