// Layer selection on a GPU in bf16: near whole evaluations there, the same bits each time.
#include "core/torch_pch.h"

#include "core/convert/select_scorer.h"
#include "core/evaluate/evaluate_model.h"
#include "core/model/device.h"
#include "tests/support/oracle_process.h"
#include "tests/support/random_model.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

class TestConvertSelectGpu : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void scorer() { // two batches
        if (!cudaAvailable())
            QSKIP("no GPU here");
        const at::Device device = deviceFromName("cuda");
        const auto config = smallConfig([](ModelConfig& c) { c.layers = 4, c.heads = 4, c.hiddenSize = 128; });
        const auto teacher = randomModel(config, device, at::kBFloat16);
        TokenWindows windows;
        windows.seqLen = 512, windows.sequences = 20;
        for (std::int64_t i = 0; i < windows.tokens(); ++i)
            windows.ids.push_back(static_cast<TokenId>((i * i * 31 + i * 7 + 11) % config.vocabSize));
        const auto reference = orFail(teacherReference(*teacher, windows));
        std::vector<Mixer> bypass(4);
        for (auto& mixer : bypass) // no weights to draw: attention removed, or a short window of it
            mixer.kind = Mixer::Kind::Bypass;
        Mixer window;
        window.kind = Mixer::Kind::SlidingWindow, window.window = 8, window.sinks = 1;
        const Control control;
        SelectionScorer scorer(*teacher, windows, control), again(*teacher, windows, control, 1);
        const SelectionScorer::Choice base = {nullptr, nullptr, &window, nullptr};
        for (std::size_t l = 0; l < 4; ++l) {
            auto choice = base;
            choice[l] = &bypass[l];
            Mixers mixers;
            for (std::size_t i = 0; i < 4; ++i)
                if (choice[i])
                    mixers[static_cast<std::int64_t>(i)] = *choice[i];
            const auto expected = evaluateMixers(*teacher, mixers, windows, reference.get(), {});
            const auto found = scorer.score(choice, base);
            LINNET_CLOSE(found.loss, expected.loss, 1e-3, 0, "loss");
            LINNET_CLOSE(found.kl, *expected.klToTeacher, 1e-2, 1e-4, "KL");
            const auto second = again.score(choice, choice); // another way to the same number
            QCOMPARE(second.loss, found.loss);
            QCOMPARE(second.kl, found.kl);
        }
    }
};

QTEST_APPLESS_MAIN(TestConvertSelectGpu)
#include "tst_convert_select_gpu.moc"
