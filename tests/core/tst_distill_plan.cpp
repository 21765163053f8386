// The plan of a distillation step: what fits, against what the allocator counts; and the attention whose gradient is
// repeatable.
#include "core/torch_pch.h"

#include "core/distill/plan.h"
#include "core/distill/repeatable_attention.h"
#include "core/model/attention.h"
#include "tests/support/distill_fixtures.h"
#include "tests/support/model_fixtures.h"

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

// What this thread takes from the CPU's allocator.
class Memory : public c10::MemoryReportingInfoBase {
public:
    std::int64_t now = 0, peak = 0;
    void reportMemoryUsage(void*, int64_t bytes, std::size_t, std::size_t, c10::Device) override {
        peak = std::max(peak, now += bytes);
    }
    bool memoryProfilingEnabled() const override { return true; }
};

} // namespace

class TestDistillPlan : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { at::set_num_threads(1); }

    void attentionIsTorchs() {
        at::manual_seed(2);
        for (const std::int64_t kvHeads : {1, 2, 6}) {
            const auto draw = [](std::int64_t heads) { return at::randn({3, heads, 19, 24}, at::kDouble); };
            const at::Tensor q = draw(6), k = draw(kvHeads), v = draw(kvHeads), along = at::randn({3, 19, 6 * 24}, at::kDouble);
            const auto gradients = [&](const auto& attention) {
                std::vector<at::Tensor> leaves;
                for (const at::Tensor& t : {q, k, v})
                    leaves.push_back(t.clone().requires_grad_());
                const at::Tensor out = attention(leaves[0], leaves[1], leaves[2]);
                auto all = torch::autograd::grad({out}, leaves, {along});
                all.push_back(out.detach());
                return all;
            };
            const auto found = gradients([](const auto&... t) { return repeatableAttention(t...); });
            const auto expected = gradients([](const auto&... t) { return attend(t..., {}); });
            for (std::size_t i = 0; i < 4; ++i)
                LINNET_NEAR(found[i], expected[i], 1e-12);
        }
    }

    void plans() {
        DistillBytes bytes;
        bytes.fixed = 1000, bytes.between = 50, bytes.graphs = {40, 30, 60}, bytes.backward = 20;
        const auto plan = [&](std::uint64_t memory, std::int64_t batch = 16, std::int64_t seqLen = 64) {
            const auto p = distillPlan(bytes, batch, seqLen, memory, at::kCPU);
            return std::array<std::int64_t, 3>{p.sequences, p.storedBlocks, std::int64_t(p.bytes)};
        };
        using Expected = std::array<std::int64_t, 3>;
        QCOMPARE(plan(0), (Expected{8, 3, 1000 + 8 * 200})); // 512 tokens are enough for a CPU
        QCOMPARE(plan(0, 3), (Expected{3, 3, 1600}));        // the batch has no more
        QCOMPARE(plan(0, 9), (Expected{5, 3, 2000}));        // 5 + 4, not 8 + 1
        QCOMPARE(plan(0, 16, 1024), (Expected{1, 3, 1200}));
        QCOMPARE(plan(2000), (Expected{4, 3, 1800})); // 5 fit, 4 are as few micro-batches
        QCOMPARE(plan(1199), (Expected{1, 2, 1160}));
        QCOMPARE(plan(1159), (Expected{1, 1, 1130})); // the last block's graph is as large as any
        QCOMPARE(plan(1), (Expected{1, 0, 1130}));    // the least there is
        bytes.enoughTokens = 2048;
        const auto gpu =
            distillPlan(bytes, 64, 512, 1000 + 4 * 165, at::Device(at::kCUDA, 0)); // 3 x 512 with all stored are too few
        QCOMPARE(gpu.sequences, std::int64_t(4));
        QCOMPARE(gpu.storedBlocks, std::int64_t(2));
        bytes.loss = std::uint64_t(1) << 30;
        QCOMPARE(distillPlan(bytes, 16, 64, std::uint64_t(1) << 30, at::kCPU).pieceBytes, std::int64_t(128) << 20);
        QCOMPARE(distillPlan(bytes, 16, 64, 0, at::kCPU).pieceBytes, std::int64_t(256) << 20);
    }

    void keepsItsBound_data() {
        QTest::addColumn<int>("sequences"); // of a micro-batch
        QTest::addColumn<int>("stored");
        QTest::addColumn<QString>("converted");
        QTest::addColumn<bool>("wide");
        for (const bool wide : {false, true})
            for (const char* converted : {"all", "one", "half"})
                for (const auto& [sequences, stored] :
                     {std::pair(1, 0), std::pair(1, 6), std::pair(4, 6), std::pair(4, 0), std::pair(4, 2)})
                    QTest::newRow(qPrintable(QString("%1 converted, %2 sequences, %3 stored%4")
                                                 .arg(converted)
                                                 .arg(sequences)
                                                 .arg(stored)
                                                 .arg(wide ? ", wide heads" : "")))
                        << sequences << stored << converted << wide;
    }
    // What a step takes by the allocator, against what the plan says.
    void keepsItsBound() {
        QFETCH(int, sequences);
        QFETCH(int, stored);
        QFETCH(QString, converted);
        QFETCH(bool, wide);
        const auto config = tinyStudentConfig([&](ModelConfig& c) {
            c.layers = 6, c.hiddenSize = 96, c.heads = 4, c.kvHeads = 2, c.headDim = 32, c.intermediateSize = 256,
            c.vocabSize = 211;
            if (wide)
                c.heads = 2, c.headDim = 128, c.vocabSize = 3000;
        });
        constexpr std::int64_t kTokens = 128;
        std::vector<std::int64_t> layers{0};
        if (converted == "all")
            layers = {0, 1, 2, 3, 4, 5};
        if (converted == "half")
            layers = {0, 2, 4};
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        const auto bytes = distillBytes(config, {layers.begin(), layers.end()}, kTokens, at::kFloat, at::kCPU);
        std::uint64_t graphs = 0;
        for (int i = 0; i < stored; ++i)
            graphs += bytes.graphs[bytes.graphs.size() - 1 - std::size_t(i)];
        graphs = std::max(graphs, *std::max_element(bytes.graphs.begin(), bytes.graphs.end()));
        const auto n = std::uint64_t(sequences);
        const auto planned = double(n * (bytes.between + graphs) +
                                    std::max(std::min<std::uint64_t>(4 << 20, n * bytes.loss), n * bytes.backward));
        const auto student = trainable(*teacher, randomStudent(*teacher, layers));
        const at::Tensor ids = someIds(sequences, kTokens, config.vocabSize);
        addDistillGradients(student, ids, {1, 1, 0, 4 << 20}, 1, stored, {}); // gradients exist from now on
        const auto memory = std::make_shared<Memory>();
        {
            const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, memory);
            addDistillGradients(student, ids, {1, 1, 0, 4 << 20}, 1, stored, {});
        }
        const double share = double(memory->peak) / planned;
        QVERIFY2(share < 1.0 && share > 0.45,
                 qPrintable(QString("%1 bytes of %2, %3").arg(memory->peak).arg(planned).arg(share)));
    }
};

QTEST_APPLESS_MAIN(TestDistillPlan)
#include "tst_distill_plan.moc"
