// Layer statistics and whole profiles on a GPU against the CPU's.
#include "core/torch_pch.h"

#include "core/model/device.h"
#include "core/profile/layer_statistics.h"
#include "core/profile/profile.h"
#include "tests/support/model_fixtures.h"
#include "tests/support/random_model.h"

#include "linnet/kernels/launch.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

namespace {
const at::Device kGpu(at::kCUDA, 0);
}

class TestProfileGpu : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() {
        if (!cudaAvailable())
            QSKIP("no GPU here");
    }

    void layerStatistics_data() {
        QTest::addColumn<int>("dtype");
        QTest::addColumn<int>("headDim");
        QTest::addColumn<int>("tokens");
        QTest::addColumn<int>("bins");
        QTest::addColumn<bool>("onGpu");
        QTest::newRow("bf16") << int(at::kBFloat16) << 64 << 300 << 2 << true;
        QTest::newRow("f16, D 128") << int(at::kHalf) << 128 << 129 << 4 << true;
        QTest::newRow("f32, D 96") << int(at::kFloat) << 96 << 200 << 2 << true;
        QTest::newRow("exact histogram") << int(at::kBFloat16) << 64 << 100 << 0 << true;
        QTest::newRow("one token") << int(at::kBFloat16) << 64 << 1 << 2 << true;
        QTest::newRow("refused: D 20") << int(at::kBFloat16) << 20 << 100 << 2 << false;
    }
    void layerStatistics() {
        QFETCH(int, dtype);
        QFETCH(int, headDim);
        QFETCH(int, tokens);
        QFETCH(int, bins);
        QFETCH(bool, onGpu);
        const auto type = at::ScalarType(dtype);
        const ModelConfig config = smallConfig([&](ModelConfig& c) { c.headDim = headDim; });
        const auto model = randomModel(config, kGpu, type);
        const auto layer = model->layer(1);
        const at::NoGradGuard noGrad;
        const at::Tensor hidden = model->embed(someIds(3, tokens, config.vocabSize));
        const QueryKeyValue there = queryKeyValue(*model, *layer, attentionInput(*model, *layer, hidden));
        const QueryKeyValue here{there.q.cpu(), there.k.cpu(), there.v.cpu()};
        LayerWeights hostLayer = *layer;
        hostLayer.attention.o = layer->attention.o.cpu();
        const LayerStatistics expected = linnet::core::layerStatistics(config, hostLayer, here, bins);
        const LayerStatistics found = linnet::core::layerStatistics(config, *layer, there, bins);
        QCOMPARE(found.values.is_cuda(), onGpu && linnet::kernels::cudaKernelsBuilt());
        // In 16 bits the weights are rounded before they meet V.
        const double tolerance = 1e-3, outputTolerance = type == at::kFloat ? 1e-3 : 1e-2;
        for (std::int64_t row = 0; row < kStatisticCount; ++row) {
            const at::Tensor a = found.values[row].cpu(), b = expected.values[row];
            QVERIFY(a.isnan().equal(b.isnan()));
            // what is 0 (distance and entropy of one token) is 1e-7 in float32: compared from 1e-3 upwards
            LINNET_NEAR(a.nan_to_num(0) + 1e-3, b.nan_to_num(0) + 1e-3, row >= kPreSquare ? outputTolerance : tolerance);
        }
        LINNET_NEAR(found.histogram.cpu(), expected.histogram, tolerance);
        LINNET_NEAR(found.histogramNoSink.cpu().nan_to_num(0) + 1e-6, expected.histogramNoSink.nan_to_num(0) + 1e-6, tolerance);
        LINNET_NEAR(found.heads.cpu(), expected.heads, outputTolerance);
    }

    void wholeProfile() {
        const ModelConfig config = smallConfig();
        TokenWindows windows;
        windows.sequences = 5, windows.seqLen = 200;
        const at::Tensor ids = someIds(1, 1000, config.vocabSize).to(at::kInt).contiguous();
        windows.ids.assign(ids.const_data_ptr<int>(), ids.const_data_ptr<int>() + 1000);
        const auto profile = [&](const at::Device& device) {
            return orFail(profileModel(*randomModel(config, device, at::kFloat), windows, {}));
        };
        const Profile found = profile(kGpu), expected = profile(at::kCPU);
        for (std::size_t l = 0; l < expected.layers.size(); ++l)
            for (std::size_t h = 0; h < expected.layers[l].size(); ++h) {
                const HeadProfile &a = found.layers[l][h], &b = expected.layers[l][h];
                const auto near = [](double x, double y) { return std::abs(x - y) <= 2e-3 * std::abs(y) + 1e-5; };
                QVERIFY(near(a.distance.mean, b.distance.mean) && near(a.entropy.mean, b.entropy.mean) && near(a.sinkMass, b.sinkMass));
                QVERIFY(near(a.rmsPreO, b.rmsPreO) && near(a.rmsPostO, b.rmsPostO) && near(a.p50, b.p50));
            }
    }

    void stopIsHeeded() {
        const ModelConfig config = smallConfig();
        const auto model = randomModel(config, kGpu, at::kBFloat16);
        TokenWindows windows;
        windows.sequences = 400, windows.seqLen = 512;
        windows.ids.assign(std::size_t(windows.sequences * windows.seqLen), 7);
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        control.onProgress = [&](const Progress& progress) {
            if (progress.done > 20)
                stop.request_stop();
        };
        const auto result = profileModel(*model, windows, {}, control);
        QVERIFY(!result && result.error().code == ErrorCode::Cancelled);
    }
};

QTEST_APPLESS_MAIN(TestProfileGpu)
#include "tst_profile_gpu.moc"
