// The forward on a GPU against the CPU's in float32: every kind of teacher, dtype and path. Without a GPU only the pieces it is made
// of are tested, on the CPU.
#include "core/torch_pch.h"

#include "core/model/attention.h"
#include "core/model/cache.h"
#include "core/model/device.h"
#include "core/model/gpu_rows.h"
#include "core/model/rope.h"
#include "tests/support/model_fixtures.h"
#include "tests/support/random_model.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

const at::Device kGpu(at::kCUDA, 0);

ModelConfig configOf(const QString& name) {
    return smallConfig([&](ModelConfig& c) {
        if (name == "many heads")
            c.kvHeads = c.heads;
        if (name == "QK-norm")
            c.modelType = "qwen3", c.qkNorm = true, c.headDim = 128;
        if (name == "biases")
            c.qkvBias = c.outputBias = c.mlpBias = true, c.headDim = 80;
        if (name == "D 96, tied")
            c.headDim = 96, c.tiedEmbeddings = true;
        if (name == "D 20") // no fused kernel takes it
            c.headDim = 20;
    });
}
const QStringList kConfigs = {"grouped", "many heads", "QK-norm", "biases", "D 96, tied", "D 20"};

at::Tensor logitsOf(const Model& model, const at::Tensor& ids, const Mixers& mixers = {}) {
    const c10::InferenceMode inference;
    return model.logits(forwardHidden(model, mixers, ids)).to(at::kCPU, at::kFloat);
}

// The plain form's error in the same dtype, on the CPU; a GPU may have twice that.
double allowed(const ModelConfig& config, at::ScalarType dtype, const at::Tensor& ids, const at::Tensor& exact, const Mixers& mixers = {}) {
    if (dtype == at::kFloat)
        return 2e-5;
    return 2 * relativeError(logitsOf(*randomModel(config, at::kCPU, dtype), ids, mixers), exact);
}

} // namespace

#define LINNET_NEEDS_GPU()                                                                                                               \
    if (!cudaAvailable())                                                                                                                \
    QSKIP("no GPU here")

class TestModelGpu : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void normInOneLaunch() {
        const at::Tensor x = at::randn({3, 5, 64}, at::kDouble), weight = at::randn({64}, at::kDouble);
        LINNET_NEAR(rmsNormFused(x, weight, 1e-5), rmsNorm(x, weight, 1e-5), 1e-12);
    }

    void rotationInThreeLaunches() {
        const RopeTables tables = ropeTables(smallConfig(), 40);
        const at::Tensor cos = tables.cos.narrow(0, 7, 20), sin = tables.sin.narrow(0, 7, 20);
        const at::Tensor fused = at::randn({2, 20, 10, 64});
        const at::Tensor x = fused.narrow(2, 1, 8);
        const at::Tensor found = rotatedRows(x, cos, sin);
        LINNET_NEAR(found.transpose(1, 2), applyRope(x.transpose(1, 2), cos, sin), 1e-6);
        QVERIFY(found.is_contiguous());
    }

    void projectionOntoTheResidual() {
        const at::Tensor residual = at::randn({2, 5, 24}), x = at::randn({2, 5, 40}).narrow(2, 0, 16), weight = at::randn({24, 16});
        for (const at::Tensor& bias : {at::Tensor(), at::randn({24})}) {
            const at::Tensor expected = residual + at::linear(x, weight, bias), kept = residual.clone();
            LINNET_NEAR(projectedOnto(kept, x, weight, bias, false), expected, 1e-6);
            QVERIFY(kept.equal(residual));
            const at::Tensor found = projectedOnto(kept, x, weight, bias, true);
            LINNET_NEAR(found, expected, 1e-6);
            QCOMPARE(found.const_data_ptr(), kept.const_data_ptr());
        }
    }

    void forward_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<int>("dtype");
        for (const QString& name : kConfigs)
            for (const auto& [type, label] : {std::pair(at::kFloat, "f32"), std::pair(at::kBFloat16, "bf16"), std::pair(at::kHalf, "f16")})
                if (type != at::kHalf || name == kConfigs.front())
                    QTest::addRow("%s %s", qPrintable(name), label) << name << int(type);
    }
    void forward() {
        LINNET_NEEDS_GPU();
        QFETCH(QString, name);
        QFETCH(int, dtype);
        const ModelConfig config = configOf(name);
        const auto gpu = randomModel(config, kGpu, at::ScalarType(dtype)), exact = randomModel(config, at::kCPU, at::kFloat);
        for (const std::int64_t tokens : {1, 33, 300}) {
            const at::Tensor ids = someIds(2, tokens, config.vocabSize), expected = logitsOf(*exact, ids);
            LINNET_NEAR(logitsOf(*gpu, ids), expected, allowed(config, at::ScalarType(dtype), ids, expected));
        }
    }

    // Prefill in two pieces, then token by token.
    void cachedPieces_data() { forward_data(); }
    void cachedPieces() {
        LINNET_NEEDS_GPU();
        QFETCH(QString, name);
        QFETCH(int, dtype);
        const ModelConfig config = configOf(name);
        const auto gpu = randomModel(config, kGpu, at::ScalarType(dtype)), exact = randomModel(config, at::kCPU, at::kFloat);
        const at::Tensor ids = someIds(2, 75, config.vocabSize), expected = logitsOf(*exact, ids);
        const c10::InferenceMode inference;
        Cache cache(*gpu);
        std::vector<at::Tensor> pieces;
        for (const auto& [from, count] : {std::pair(0, 40), std::pair(40, 32), std::pair(72, 1), std::pair(73, 1), std::pair(74, 1)})
            pieces.push_back(gpu->logits(forwardHidden(*gpu, {}, ids.narrow(1, from, count), {}, &cache)));
        LINNET_NEAR(at::cat(pieces, 1).to(at::kCPU, at::kFloat), expected, allowed(config, at::ScalarType(dtype), ids, expected));
    }

    void slidingWindows_data() {
        QTest::addColumn<int>("window");
        QTest::addColumn<int>("sinks");
        QTest::newRow("short") << 16 << 4;
        QTest::newRow("no sinks") << 31 << 0;
        QTest::newRow("all but one key") << 295 << 4;
        QTest::newRow("whole through sinks") << 296 << 4;
        QTest::newRow("whole") << 512 << 4;
    }
    void slidingWindows() {
        LINNET_NEEDS_GPU();
        QFETCH(int, window);
        QFETCH(int, sinks);
        const ModelConfig config = smallConfig();
        Mixers mixers;
        mixers[1].kind = Mixer::Kind::SlidingWindow;
        mixers[1].window = window, mixers[1].sinks = sinks;
        const at::Tensor ids = someIds(2, 300, config.vocabSize);
        const at::Tensor expected = logitsOf(*randomModel(config, at::kCPU, at::kFloat), ids, mixers);
        for (const auto dtype : {at::kFloat, at::kBFloat16})
            LINNET_NEAR(logitsOf(*randomModel(config, kGpu, dtype), ids, mixers), expected, allowed(config, dtype, ids, expected, mixers));
    }

    void gradients_data() { forward_data(); }
    void gradients() {
        LINNET_NEEDS_GPU();
        QFETCH(QString, name);
        QFETCH(int, dtype);
        const ModelConfig config = configOf(name);
        const at::Tensor ids = someIds(2, 48, config.vocabSize), direction = at::randn({2, 48, config.hiddenSize});
        const auto gradient = [&](at::Device device, at::ScalarType type) {
            const auto model = randomModel(config, device, type);
            const at::Tensor embedded = model->embed(ids).requires_grad_();
            at::Tensor hidden = embedded;
            for (std::int64_t l = 0; l < config.layers; ++l)
                hidden = runBlock(*model, *model->layer(l), nullptr, hidden);
            (model->finalNorm(hidden) * direction.to(device, type)).sum().backward();
            return embedded.grad().to(at::kCPU, at::kFloat);
        };
        const at::Tensor expected = gradient(at::kCPU, at::kFloat);
        const auto type = at::ScalarType(dtype);
        const double tolerance = type == at::kFloat ? 1e-4 : 2 * relativeError(gradient(at::kCPU, type), expected);
        LINNET_NEAR(gradient(kGpu, type), expected, tolerance);
    }

    void sameBitsEachRun() {
        LINNET_NEEDS_GPU();
        const auto model = randomModel(configOf("QK-norm"), kGpu, at::kBFloat16);
        const at::Tensor ids = someIds(2, 300, model->config().vocabSize);
        QVERIFY(logitsOf(*model, ids).equal(logitsOf(*model, ids)));
    }
};

QTEST_APPLESS_MAIN(TestModelGpu)
#include "tst_model_gpu.moc"
