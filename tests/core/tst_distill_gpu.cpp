// The distillation loss on a GPU: against the CPU's in float64, the same bits each run, and no more memory than it promises.
#include "core/torch_pch.h"

#include "core/distill/chunked_kl.h"
#include "core/model/device.h"
#include "tests/support/model_fixtures.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

const at::Device kGpu(at::kCUDA, 0);

DistillInput inputs(std::int64_t rows, std::int64_t vocabulary, std::int64_t width, at::ScalarType dtype) { // on the CPU
    at::manual_seed(11);
    DistillInput in;
    in.hidden = at::randn({rows, width}).to(dtype);
    in.head = (at::randn({vocabulary, width}) * 0.3).to(dtype);
    in.teacherHidden = at::randn({rows, width}).to(dtype);
    in.teacherHead = (at::randn({vocabulary, width}) * 0.3).to(dtype);
    in.targets = at::randint(vocabulary, {rows}, at::kLong);
    in.targets.narrow(0, 0, rows / 4).fill_(-100);
    return in;
}

DistillInput moved(const DistillInput& in, const at::Device& device, at::ScalarType dtype) {
    const auto leaf = [&](const at::Tensor& t) { return t.to(device, dtype).detach().requires_grad_(true); };
    return {leaf(in.hidden),        leaf(in.head), in.teacherHidden.to(device, dtype), in.teacherHead.to(device, dtype),
            in.targets.to(device), {}};
}

} // namespace

class TestDistillGpu : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        if (!cudaAvailable())
            QSKIP("no GPU here");
    }

    void keepsItsBound() { // first: torch tells the peak since the program began
        constexpr std::int64_t kRows = 4096, kVocabulary = 151936, kWidth = 256;
        const auto onGpu = at::TensorOptions(kGpu).dtype(at::kBFloat16);
        DistillInput in;
        in.hidden = at::randn({kRows, kWidth}, onGpu).requires_grad_(true), in.head = at::randn({kVocabulary, kWidth}, onGpu);
        in.teacherHidden = at::randn({kRows, kWidth}, onGpu), in.teacherHead = in.head;
        in.targets = at::zeros({kRows}, onGpu.dtype(at::kLong));
        const DistillOptions options{1, 1, 1, std::int64_t{256} << 20};
        const auto before = peakDeviceBytes(kGpu);
        distillLoss(in, options).loss.backward();
        const double grown = double(peakDeviceBytes(kGpu) - before), gradients = 3.0 * kRows * kWidth * 4;
        constexpr double kLibraries = 96 << 20; // cuBLAS takes its workspaces from the same allocator
        QVERIFY2(grown <= double(options.pieceBytes) * 1.05 + gradients + kLibraries, qPrintable(QString::number(grown / (1 << 20)) + " MiB"));
    }

    void matchesTheCpu_data() {
        QTest::addColumn<int>("dtype");
        QTest::addColumn<double>("temperature");
        QTest::addColumn<double>("tolerance");
        QTest::newRow("f32") << int(at::kFloat) << 1.0 << 2e-5;
        QTest::newRow("bf16") << int(at::kBFloat16) << 1.0 << 0.02;
        QTest::newRow("bf16, temperature 2") << int(at::kBFloat16) << 2.0 << 0.02;
        QTest::newRow("f16") << int(at::kHalf) << 1.0 << 0.003;
    }
    void matchesTheCpu() {
        QFETCH(int, dtype);
        QFETCH(double, temperature);
        QFETCH(double, tolerance);
        const DistillInput rounded = inputs(333, 5003, 64, at::ScalarType(dtype));
        const DistillOptions options{temperature, 0.8, 0.5, 4000000};
        const DistillInput here = moved(rounded, at::kCPU, at::kDouble), there = moved(rounded, kGpu, at::ScalarType(dtype));
        const DistillLoss expected = distillLoss(here, options), found = distillLoss(there, options);
        expected.loss.backward(), found.loss.backward();
        LINNET_NEAR(found.kl.cpu(), expected.kl, tolerance);
        LINNET_NEAR(found.crossEntropy.cpu(), expected.crossEntropy, tolerance);
        LINNET_NEAR(there.hidden.grad().cpu(), here.hidden.grad(), tolerance);
        LINNET_NEAR(there.head.grad().cpu(), here.head.grad(), tolerance);
        const DistillInput again = moved(rounded, kGpu, at::ScalarType(dtype));
        distillLoss(again, options).loss.backward();
        QVERIFY(again.hidden.grad().equal(there.hidden.grad()) && again.head.grad().equal(there.head.grad()));
    }
};

QTEST_APPLESS_MAIN(TestDistillGpu)
#include "tst_distill_gpu.moc"
