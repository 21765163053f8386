// The last stage against plain autograd in float64 and AdamW by hand; what must not change a step: micro-batches, blocks made
// again, a stop; what must not change at all: the teacher, kept layers, locked rows.
#include "core/torch_pch.h"

#include "core/distill/plan.h"
#include "tests/support/distill_fixtures.h"
#include "tests/support/model_fixtures.h"

#include <ATen/Parallel.h>

#include <QTest>

#include <set>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

LayerWeights inDouble(const LayerWeights& layer) {
    LayerWeights w = layer;
    for (at::Tensor* t : {&w.inputNorm, &w.postNorm, &w.attention.qkv, &w.attention.qkvBias, &w.attention.o, &w.attention.oBias,
                          &w.attention.qNorm, &w.attention.kNorm, &w.gateUp, &w.gateUpBias, &w.down, &w.downBias})
        *t = t->defined() ? t->to(at::kDouble) : *t;
    return w;
}

// The whole model in float64 and in one graph, the loss in one go.
struct Plain {
    std::map<std::int64_t, LinearLayer> masters;
    double loss = 0, kl = 0, crossEntropy = 0;

    Plain(const Model& teacher, const Mixers& student) {
        for (const auto& [layer, mixer] : student)
            masters[layer] =
                mapped(mixer.linear, [](const at::Tensor& t) { return t.detach().to(at::kDouble).requires_grad_(); });
        m_student = student;
        for (auto& [layer, mixer] : m_student)
            mixer.linear = masters[layer];
        for (std::int64_t layer = 0; layer < teacher.config().layers; ++layer)
            m_layers.push_back(inDouble(*teacher.layer(layer)));
    }
    void addGradients(const Model& teacher, const at::Tensor& ids, const DistillSettings& settings) {
        const at::Tensor expected = logProbabilities(teacher, {}, ids, 1),
                         student = logProbabilities(teacher, m_student, ids, 1);
        const double T = settings.temperature;
        const at::Tensor logTeacher = logProbabilities(teacher, {}, ids, T),
                         logStudent = logProbabilities(teacher, m_student, ids, T);
        const at::Tensor divergence = (logTeacher.exp() * (logTeacher - logStudent)).sum(-1).mean() * T * T;
        const auto tokens = ids.size(1);
        const at::Tensor next = ids.narrow(1, 1, tokens - 1).unsqueeze(-1);
        const at::Tensor entropy = -student.narrow(1, 0, tokens - 1).gather(2, next).mean();
        const at::Tensor total = divergence * settings.klWeight + entropy * settings.crossEntropyWeight;
        total.backward();
        loss = total.item<double>(), kl = divergence.item<double>(), crossEntropy = entropy.item<double>();
    }
    at::Tensor gradients() const {
        std::vector<at::Tensor> all;
        for (const auto& [layer, parameters] : masters)
            for (const at::Tensor& t : tensorsOf(parameters))
                all.push_back((t.grad().defined() ? t.grad() : at::zeros_like(t.detach())).flatten());
        return at::cat(all);
    }

private:
    at::Tensor logProbabilities(const Model& teacher, const Mixers& mixers, const at::Tensor& ids, double temperature) const {
        at::Tensor hidden = teacher.embed(ids).to(at::kDouble);
        for (std::int64_t layer = 0; layer < teacher.config().layers; ++layer)
            hidden = runBlock(teacher, m_layers[std::size_t(layer)], mixerAt(mixers, layer), hidden);
        return (at::linear(teacher.finalNorm(hidden), teacher.head().to(at::kDouble)) / temperature).log_softmax(-1);
    }
    Mixers m_student;
    std::vector<LayerWeights> m_layers;
};

double relativeNorm(const at::Tensor& found, const at::Tensor& expected) {
    return ((found.to(at::kDouble) - expected.to(at::kDouble)).norm() / expected.to(at::kDouble).norm()).item<double>();
}

at::Tensor windowIds(const TokenWindows& windows) {
    return at::tensor(std::vector<std::int64_t>(windows.ids.begin(), windows.ids.end()), at::kLong)
        .view({windows.sequences, windows.seqLen});
}

std::vector<at::Tensor> weightsOf(const Model& model) { // every tensor of a teacher
    std::vector<at::Tensor> all{model.head(), model.embed(at::arange(model.config().vocabSize, at::kLong))};
    for (std::int64_t layer = 0; layer < model.config().layers; ++layer) {
        const auto w = model.layer(layer);
        for (const at::Tensor& t : {w->inputNorm, w->postNorm, w->attention.qkv, w->attention.o, w->gateUp, w->down})
            all.push_back(t);
    }
    return all;
}

} // namespace

class TestDistillTrain : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { at::set_num_threads(1); }

    void gradientIsAutograds_data() {
        QTest::addColumn<QString>("what");
        for (const char* what : {"plain", "first and last", "all", "temperature", "cross entropy too", "cross entropy alone",
                                 "biases and norms", "tied head", "two chunks", "one token", "delta net"})
            QTest::newRow(what) << what;
    }
    void gradientIsAutograds() {
        QFETCH(QString, what);
        const auto config = tinyStudentConfig([&](ModelConfig& c) {
            c.qkvBias = c.outputBias = c.mlpBias = c.qkNorm = what == "biases and norms";
            c.tiedEmbeddings = what == "tied head";
        });
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        std::vector<std::int64_t> converted{1, 2};
        if (what == "first and last")
            converted = {0, 3};
        if (what == "all")
            converted = {0, 1, 2, 3};
        DistillSettings settings;
        settings.temperature = what == "temperature" ? 2.5 : 1;
        settings.crossEntropyWeight = what.startsWith("cross") ? 0.7 : 0;
        settings.klWeight = what == "cross entropy alone" ? 0 : 0.9;
        const auto student = randomStudent(*teacher, converted, what == "delta net" ? "delta_net" : "gated_delta_net");
        const at::Tensor ids = someIds(3, what == "two chunks" ? 70 : what == "one token" ? 1 : 17, config.vocabSize);
        Plain plain(*teacher, student);
        if (what != "one token") { // no next token: the reference's mean would be of nothing
            plain.addGradients(*teacher, ids, settings);
            const auto found = trainable(*teacher, student);
            const DistillOptions options{settings.temperature, settings.klWeight, settings.crossEntropyWeight, 40000};
            const DistillLoss loss = addDistillGradients(found, ids, options, 1, 4, {});
            QVERIFY2(relativeNorm(gradientsOf(found), plain.gradients()) < 2e-5,
                     qPrintable(QString::number(relativeNorm(gradientsOf(found), plain.gradients()))));
            LINNET_NEAR(gradientsOf(found), plain.gradients(), 5e-5);
            for (const auto& [value, expected] : {std::pair(loss.loss, plain.loss), std::pair(loss.kl, plain.kl),
                                                  std::pair(loss.crossEntropy, plain.crossEntropy)})
                QVERIFY2(std::abs(value.item<double>() - expected) < 1e-5 * std::abs(expected),
                         qPrintable(QString("%1, not %2").arg(value.item<double>()).arg(expected)));
        } else {
            const auto found = trainable(*teacher, student);
            const DistillLoss loss = addDistillGradients(found, ids, {1, 1, 1, 40000}, 1, 4, {});
            QCOMPARE(loss.crossEntropy.item<double>(), 0.0);
            QVERIFY(gradientsOf(found).isfinite().all().item<bool>());
        }
    }

    // Three steps of AdamW (0.9, 0.95) with its clip over all layers, written out in float64.
    void stepsAreAdamW() {
        const auto config = tinyStudentConfig();
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        const auto student = randomStudent(*teacher, {0, 2});
        DistillRun run = shortRun(config, 3);
        run.settings.clip = 0.05;
        run.settings.weightDecay = 0.3;
        run.settings.crossEntropyWeight = 0.2;
        DistillState state = freshDistillState(student);
        run(*teacher, state);

        Plain plain(*teacher, student);
        const at::Tensor all = windowIds(run.windows);
        std::vector<at::Tensor> parameters, first, second;
        for (const auto& [layer, masters] : plain.masters)
            for (const at::Tensor& t : tensorsOf(masters)) {
                parameters.push_back(t);
                first.push_back(at::zeros_like(t.detach())), second.push_back(at::zeros_like(t.detach()));
            }
        for (std::int64_t step = 0; step < 3; ++step) {
            plain.addGradients(*teacher, all.index_select(0, at::tensor(distillRows(run.seed, step, 5, 13), at::kLong)),
                               run.settings);
            const at::NoGradGuard noGradients;
            const DistillRow& row = run.rows[std::size_t(step)];
            const double norm = plain.gradients().norm().item<double>(), lr = 3e-3 * distillScheduleFactor(run.settings, step);
            QCOMPARE(row.step, step);
            QCOMPARE(row.tokens, (step + 1) * 100);
            QCOMPARE(row.lr, lr);
            for (const auto& [found, expected] : {std::pair(row.gradNorm, norm), std::pair(row.loss, plain.loss),
                                                  std::pair(row.kl, plain.kl), std::pair(row.crossEntropy, plain.crossEntropy)})
                QVERIFY2(std::abs(found - expected) < 1e-4 * expected,
                         qPrintable(QString("step %1: %2, not %3").arg(step).arg(found).arg(expected)));
            QVERIFY(norm > run.settings.clip && row.tokensPerSecond > 0);
            for (std::size_t i = 0; i < parameters.size(); ++i) {
                const at::Tensor g = parameters[i].grad() * (run.settings.clip / (norm + 1e-6));
                first[i].mul_(0.9).add_(g, 0.1);
                second[i].mul_(0.95).addcmul_(g, g, 0.05);
                const at::Tensor m = first[i] / (1 - std::pow(0.9, step + 1)), v = second[i] / (1 - std::pow(0.95, step + 1));
                parameters[i].mul_(1 - lr * 0.3).sub_(lr * m / (v.sqrt() + 1e-8));
                parameters[i].mutable_grad().reset();
            }
        }
        QCOMPARE(state.step, std::int64_t(3));
        QCOMPARE(state.lossFirst, run.rows.front().loss);
        QCOMPARE(state.lossLast, run.rows.back().loss);
        std::size_t i = 0;
        for (const auto& [layer, masters] : state.parameters)
            for (std::size_t t = 0; t < LinearLayer::names().size(); ++t, ++i) {
                const QString name = QString::fromStdString(LinearLayer::names()[t]);
                const double error = relativeNorm(tensorsOf(masters)[t], parameters[i].detach());
                QVERIFY2(error < 1e-4, qPrintable(QString("%1: %2").arg(name).arg(error)));
                QVERIFY2(relativeNorm(state.first.at(layer)[t], first[i]) < 1e-3 &&
                             relativeNorm(state.second.at(layer)[t], second[i]) < 1e-3,
                         qPrintable(name));
            }
    }

    void blocksMadeAgainGiveTheSameBits() {
        const auto config = tinyStudentConfig([](ModelConfig& c) { c.qkNorm = true; });
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        for (const auto& converted : {std::vector<std::int64_t>{0, 2}, {1, 2, 3}, {3}}) {
            const auto student = randomStudent(*teacher, converted);
            const auto blocks = config.layers - converted.front();
            at::Tensor expected;
            for (std::int64_t stored = blocks; stored >= 0; --stored) {
                const auto found = trainable(*teacher, student);
                addDistillGradients(found, someIds(3, 70, config.vocabSize), {1, 1, 0.5, 40000}, 1, stored, {});
                if (expected.defined())
                    QVERIFY2(gradientsOf(found).equal(expected),
                             qPrintable(QString("%1 of %2 blocks stored").arg(stored).arg(blocks)));
                else
                    expected = gradientsOf(found);
            }
        }
    }

    void microBatchesAddUp() {
        const auto config = tinyStudentConfig();
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        const auto student = randomStudent(*teacher, {1, 2});
        const at::Tensor ids = someIds(5, 20, config.vocabSize);
        const auto whole = trainable(*teacher, student);
        const DistillOptions options{1, 1, 0.5, 40000};
        const double loss = addDistillGradients(whole, ids, options, 1, 3, {}).loss.item<double>();
        for (const std::int64_t size : {1, 2, 3, 4}) {
            const auto parts = trainable(*teacher, student);
            double sum = 0;
            for (std::int64_t from = 0; from < 5; from += size) {
                const auto count = std::min<std::int64_t>(size, 5 - from);
                const double share = double(count) / 5;
                sum +=
                    share * addDistillGradients(parts, ids.narrow(0, from, count), options, share, 3, {}).loss.item<double>();
            }
            QVERIFY(std::abs(sum - loss) < 1e-5 * loss);
            QVERIFY(relativeNorm(gradientsOf(parts), gradientsOf(whole)) < 1e-5);
        }
    }

    // The same through the plan: plenty of memory, less, and next to none.
    void memoryChangesNoStep() {
        const auto config = tinyStudentConfig();
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        const auto student = randomStudent(*teacher, {1, 2});
        const auto bytes = distillBytes(config, {1, 2}, 20, at::kFloat, at::kCPU);
        const auto takes = [&](std::uint64_t sequences, std::uint64_t graphs) {
            return bytes.fixed + sequences * (bytes.between + graphs + std::max(bytes.loss, bytes.backward));
        };
        std::vector<DistillRow> expected;
        std::vector<std::pair<std::int64_t, std::int64_t>> plans;
        for (const std::uint64_t memory : {std::uint64_t(0), takes(3, bytes.graphs[0] + bytes.graphs[1] + bytes.graphs[2]),
                                           takes(1, bytes.graphs[1] + bytes.graphs[2]), std::uint64_t(1)}) {
            const auto plan = distillPlan(bytes, 5, 20, memory, at::kCPU);
            plans.emplace_back(plan.sequences, plan.storedBlocks);
            DistillRun run = shortRun(config);
            run.memoryBytes = memory;
            DistillState state = freshDistillState(student);
            run(*teacher, state);
            if (expected.empty())
                expected = run.rows;
            for (std::size_t i = 0; i < expected.size(); ++i) {
                QVERIFY(std::abs(run.rows[i].loss - expected[i].loss) < 1e-5 * expected[i].loss);
                QVERIFY(std::abs(run.rows[i].gradNorm - expected[i].gradNorm) < 1e-4 * expected[i].gradNorm);
            }
        }
        QCOMPARE(plans,
                 (std::vector<std::pair<std::int64_t, std::int64_t>>{{5, 3}, {3, 3}, {1, 2}, {1, 0}})); // 3 + 2: no multiple
    }

    void schedules_data() {
        QTest::addColumn<QString>("schedule");
        QTest::addColumn<double>("warmup");
        QTest::addColumn<int>("step");
        QTest::addColumn<double>("factor");
        const auto row = [](const char* schedule, double warmup, int step, double factor) {
            QTest::addRow("%s, warm-up %g, step %d", schedule, warmup, step) << schedule << warmup << step << factor;
        };
        row("constant", 0.1, 0, 0.5), row("constant", 0.1, 1, 1), row("constant", 0.1, 19, 1), row("constant", 0, 0, 1);
        row("cosine", 0, 0, 1), row("cosine", 0, 10, 0.55),
            row("cosine", 0.2, 1, 0.5 * (0.1 + 0.45 * (1 + 0.98768834059513777))), row("cosine", 0, 20, 0.1);
        row("linear", 0, 0, 1), row("linear", 0, 15, 0.25), row("linear", 0.2, 1, 0.475), row("linear", 0, 20, 0);
        row("wsd", 0, 0, 1), row("wsd", 0, 16, 1), row("wsd", 0, 17, 0.75), row("wsd", 0, 19, 0.25), row("wsd", 0, 20, 0),
            row("wsd", 0.1, 0, 0.5);
    }
    void schedules() {
        QFETCH(QString, schedule);
        QFETCH(double, warmup);
        QFETCH(int, step);
        QFETCH(double, factor);
        DistillSettings settings;
        settings.steps = 20;
        settings.schedule = schedule.toStdString();
        settings.warmup = warmup;
        const double found = distillScheduleFactor(settings, step);
        QVERIFY2(std::abs(found - factor) < 1e-12, qPrintable(QString::number(found, 'g', 15)));
    }

    void eachRowComesOnceAPass() {
        std::vector<std::int64_t> all;
        for (std::int64_t step = 0; step < 13; ++step)
            for (const auto row : distillRows(3, step, 5, 13))
                all.push_back(row);
        for (std::size_t pass = 0; pass < 5; ++pass) {
            const auto from = all.begin() + std::ptrdiff_t(pass * 13);
            QCOMPARE(std::set<std::int64_t>(from, from + 13).size(), std::size_t(13));
            QVERIFY(*std::min_element(from, from + 13) == 0 && *std::max_element(from, from + 13) == 12);
            QVERIFY(pass == 0 || !std::equal(from, from + 13, all.begin()));
        }
        QCOMPARE(distillRows(3, 4, 5, 13), distillRows(3, 4, 5, 13));
        QVERIFY(distillRows(3, 0, 5, 13) != distillRows(4, 0, 5, 13));
        QCOMPARE(distillRows(3, 0, 4, 1), (std::vector<std::int64_t>{0, 0, 0, 0})); // fewer windows than a batch has
    }

    void stopAndResume_data() {
        QTest::addColumn<int>("step");
        for (const int step : {0, 2, 5})
            QTest::newRow(qPrintable(QString("after step %1").arg(step))) << step;
        QTest::newRow("within a step") << -1;
    }
    void stopAndResume() {
        QFETCH(int, step);
        const auto config = tinyStudentConfig();
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        const auto student = randomStudent(*teacher, {1, 3});
        DistillState undisturbed = freshDistillState(student);
        DistillRun whole = shortRun(config, 6);
        whole(*teacher, undisturbed);
        QCOMPARE(whole.rows.size(), std::size_t(6));
        QVERIFY(whole.saved.empty());

        std::stop_source stop;
        DistillRun run = shortRun(config, 6);
        run.control.stop = stop.get_token();
        if (step >= 0)
            run.onRow = [&](const DistillRow& row) {
                if (row.step == step)
                    stop.request_stop();
            };
        else // the third step reads its blocks from a teacher that asks for the stop
            run.control.onProgress = [&](const Progress& p) {
                if (p.done == 2)
                    m_stopInBlock = &stop;
            };
        DistillState state = freshDistillState(student);
        try {
            if (step >= 0) {
                run(*teacher, state);
            } else {
                const auto streamed = streamedTeacher(config);
                run(*streamed, state);
            }
            QFAIL("went on");
        } catch (const Failure& failure) {
            QCOMPARE(failure.error.code, ErrorCode::Cancelled);
        }
        m_stopInBlock = nullptr;
        QCOMPARE(run.saved.size(), std::size_t(1));
        QCOMPARE(run.saved.front().step, std::int64_t(step < 0 ? 2 : step + 1));
        QVERIFY(sameBits(run.saved.front(), state));
        DistillRun rest = shortRun(config, 6);
        DistillState resumed = run.saved.front();
        rest(*teacher, resumed);
        QVERIFY(sameBits(resumed, undisturbed));
        for (std::size_t i = 0; i < rest.rows.size(); ++i) {
            const DistillRow &found = rest.rows[i], &expected = whole.rows[whole.rows.size() - rest.rows.size() + i];
            QVERIFY(found.step == expected.step && found.tokens == expected.tokens && found.loss == expected.loss &&
                    found.kl == expected.kl && found.crossEntropy == expected.crossEntropy && found.lr == expected.lr &&
                    found.gradNorm == expected.gradNorm);
        }
    }

    void teacherAndStartStay() {
        const auto config = tinyStudentConfig();
        const auto teacher = randomModel(config, at::kCPU, at::kFloat), untouched = randomModel(config, at::kCPU, at::kFloat);
        const auto student = randomStudent(*teacher, {0, 2}), start = randomStudent(*teacher, {0, 2});
        DistillState state = freshDistillState(student);
        DistillRun run = shortRun(config);
        run(*teacher, state);
        const auto found = weightsOf(*teacher), expected = weightsOf(*untouched);
        for (std::size_t i = 0; i < found.size(); ++i)
            QVERIFY(found[i].equal(expected[i]) && !found[i].requires_grad() && !found[i].grad().defined());
        for (const auto layer : {0, 2})
            for (std::size_t i = 0; i < LinearLayer::names().size(); ++i) {
                QVERIFY(tensorsOf(student.at(layer).linear)[i].equal(tensorsOf(start.at(layer).linear)[i]));
                const at::Tensor trained = tensorsOf(state.parameters.at(layer))[i];
                QVERIFY2(!trained.equal(tensorsOf(start.at(layer).linear)[i]), LinearLayer::names()[i].c_str()); // all learn
                QVERIFY(!trained.requires_grad());
            }
        const auto mixers = distilledMixers(state, mixerSpec("gated_delta_net"));
        QVERIFY(mixers.size() == 2 && mixers.at(2).linear.oProj.is_alias_of(state.parameters.at(2).oProj));
    }

    void divergenceFalls() {
        const auto config = tinyStudentConfig([](ModelConfig& c) { c.layers = 3; });
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        DistillState state = freshDistillState(randomStudent(*teacher, {1, 2}));
        DistillRun run = shortRun(config, 60, 4, 16);
        run.settings.lr = 1e-2;
        run(*teacher, state);
        QVERIFY2(run.rows.back().kl < 0.5 * run.rows.front().kl,
                 qPrintable(QString("%1 to %2").arg(run.rows.front().kl).arg(run.rows.back().kl)));
    }

    void lostIsSaid() {
        const auto config = tinyStudentConfig();
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        DistillState state = freshDistillState(randomStudent(*teacher, {1, 2}));
        DistillRun run = shortRun(config);
        run.settings.lr = 1e30;
        try {
            run(*teacher, state);
            QFAIL("went on");
        } catch (const Failure& failure) {
            const QString said = QString::fromStdString(failure.error.message);
            QCOMPARE(failure.error.code, ErrorCode::Internal);
            QVERIFY2(said.contains("step 1") && said.contains("distill.lr"), qPrintable(said));
            QCOMPARE(failure.error.context.at("key"), std::string("distill.lr"));
        }
        QCOMPARE(state.step, std::int64_t(1));
        QVERIFY(run.rows.size() == 1 && run.saved.empty());
    }

    void lockedRowsStay() {
        const auto config = tinyStudentConfig();
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        DistillState state = freshDistillState(randomStudent(*teacher, {1, 2}));
        const at::Tensor live = state.parameters.at(2).bProj[1], value = live.clone(),
                         other = state.parameters.at(2).bProj[0].clone();
        DistillRun run = shortRun(config);
        int calls = 0;
        run.afterStep[2] = [&](LinearLayer& layer) {
            QVERIFY(layer.bProj.is_alias_of(live)); // trained in place: the view is of what learns
            live.copy_(value);
            ++calls;
        };
        run(*teacher, state);
        QCOMPARE(calls, 4);
        QVERIFY(state.parameters.at(2).bProj[1].equal(value) && !state.parameters.at(2).bProj[0].equal(other));
    }

    void inferenceModeAround() {
        const auto config = tinyStudentConfig();
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        DistillState expected = freshDistillState(randomStudent(*teacher, {1, 2}));
        DistillRun(shortRun(config))(*teacher, expected);
        const c10::InferenceMode inference;
        DistillState state = freshDistillState(randomStudent(*teacher, {1, 2}));
        DistillRun(shortRun(config))(*teacher, state);
        QVERIFY(sameBits(state, expected));
    }

    void badJobsAreRefused() {
        const auto config = tinyStudentConfig();
        const auto teacher = randomModel(config, at::kCPU, at::kFloat);
        const auto message = [&](const auto& change) {
            DistillState state = freshDistillState(randomStudent(*teacher, {1, 2}));
            DistillRun run = shortRun(config);
            change(run, state);
            try {
                run(*teacher, state);
            } catch (const Failure& failure) {
                return failure.error.code == ErrorCode::Usage ? QString::fromStdString(failure.error.message) : QString();
            }
            return QString();
        };
        QVERIFY(message([](DistillRun&, DistillState& state) { state = {}; }).contains("no layer is converted"));
        QVERIFY(message([](DistillRun& run, DistillState&) { run.windows.sequences = 0; }).contains("no window"));
        QVERIFY(message([](DistillRun& run, DistillState&) { run.settings.batch = 0; }).contains("distill.batch"));
        QVERIFY(message([](DistillRun&, DistillState& state) { state.first.at(2).pop_back(); }).contains("layer 2"));
        QVERIFY(message([](DistillRun&, DistillState& state) {
                    state.parameters[9] = state.parameters.at(1);
                }).contains("layer 9"));
    }

private:
    // A teacher whose weights are read block by block, and that can ask for a stop there.
    class StoppingWeights : public RandomWeights {
    public:
        StoppingWeights(const ModelConfig& config, std::stop_source** stop) : RandomWeights(config), m_stop(stop) {}
        void read(const std::string& name, DType dtype, void* out) const override {
            if (*m_stop && name.starts_with("model.layers.2."))
                (*m_stop)->request_stop();
            RandomWeights::read(name, dtype, out);
        }

    private:
        std::stop_source** m_stop;
    };
    std::stop_source* m_stopInBlock = nullptr;
    ModelPtr streamedTeacher(const ModelConfig& config) {
        ModelFiles files;
        files.path = "random";
        files.config = config;
        files.weights = std::make_shared<StoppingWeights>(config, &m_stopInBlock);
        return std::make_shared<const Model>(std::move(files), at::kCPU, at::kFloat, true, Mixers(), Control());
    }
};

QTEST_APPLESS_MAIN(TestDistillTrain)
#include "tst_distill_train.moc"
