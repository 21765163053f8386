// Drift's correction against a dense solve in float64 on streams of its own, and its effect on the last hidden states; the metric of the
// next layers against every draw of a tiny vocabulary; alignment in that metric; layers that stop early.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/drift.h"
#include "core/evaluate/evaluate_model.h"
#include "tests/support/model_fixtures.h"
#include "tests/support/random_model.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

ModelConfig tinyConfig() {
    return smallConfig([](ModelConfig& c) { c.layers = 4, c.hiddenSize = 48, c.heads = 4, c.kvHeads = 2, c.headDim = 16, c.intermediateSize = 80, c.vocabSize = 61; });
}

// Embeddings that a layer changes by a fraction, as in a trained model: in a stream of random layers alone a small error soon is all of it.
class StrongEmbeddings : public RandomWeights {
public:
    using RandomWeights::RandomWeights;
    void read(const std::string& name, DType dtype, void* out) const override {
        RandomWeights::read(name, dtype, out);
        if (name == "model.embed_tokens.weight") // float32 in these tests
            at::from_blob(out, find(name)->shape, at::kFloat).mul_(20);
    }
};

ModelPtr teacherOf(const ModelConfig& config, double spread) {
    ModelFiles files;
    files.path = "random";
    files.config = config;
    files.weights = std::make_shared<StrongEmbeddings>(config, spread);
    return std::make_shared<const Model>(std::move(files), at::kCPU, at::kFloat, false, Mixers(), Control());
}

TokenWindows windowsOf(std::int64_t sequences, std::int64_t tokens, std::int64_t vocabulary, std::uint64_t seed = 1) {
    auto generator = at::detail::createCPUGenerator(seed);
    const at::Tensor ids = at::randint(vocabulary, {sequences * tokens}, generator, at::kInt);
    return {{ids.const_data_ptr<std::int32_t>(), ids.const_data_ptr<std::int32_t>() + ids.numel()}, sequences, tokens};
}

double relative(const at::Tensor& found, const at::Tensor& expected) { // Frobenius norms
    return ((found.to(at::kDouble) - expected.to(at::kDouble)).norm() / expected.to(at::kDouble).norm()).item<double>();
}

std::vector<at::Tensor> tensorsOf(const LinearLayer& layer) {
    std::vector<at::Tensor> tensors;
    layer.forEach([&](const std::string&, const at::Tensor& t) { tensors.push_back(t); });
    return tensors;
}
bool same(const LinearLayer& a, const LinearLayer& b) {
    return std::ranges::equal(tensorsOf(a), tensorsOf(b), [](const at::Tensor& x, const at::Tensor& y) { return at::equal(x, y); });
}

} // namespace

class TestConvertDrift : public QObject {
    Q_OBJECT

    ModelPtr m_teacher;
    Recipe m_recipe;
    TokenWindows m_windows;

    LinearLayer start(std::int64_t layer) const {
        const LayerCapture none;
        const InputMoments moments;
        return initialLayer({*m_teacher, *m_teacher->layer(layer), layer, m_recipe, none, moments, nullptr}, "naive");
    }
    Mixers student(const std::vector<std::int64_t>& layers) const {
        Mixers mixers;
        for (const auto l : layers)
            mixers[l] = Mixer{Mixer::Kind::Linear, &mixerSpec("gated_delta_net"), start(l)};
        return mixers;
    }
    std::vector<MetricRow> correct(Mixers& mixers, const Recipe& recipe, const TokenWindows& windows, double ridge = 1e-2, std::vector<std::string>* lines = nullptr) const {
        std::vector<MetricRow> rows;
        DriftJob job{*m_teacher, recipe, windows, {}, ridge, [&](const MetricRow& row) { rows.push_back(row); },
                     [&](const std::string& line) {
                         if (lines)
                             lines->push_back(line);
                     }};
        correctDrift(job, mixers);
        return rows;
    }
    // |student's last hidden states - teacher's|^2 / |teacher's|^2 on windows that nobody saw.
    double finalError(const Mixers& mixers) const {
        const at::NoGradGuard noGradients;
        const at::Tensor ids = windowTensor(windowsOf(16, 24, m_teacher->config().vocabSize, 99), at::kCPU);
        return std::pow(relative(forwardHidden(*m_teacher, mixers, ids), forwardHidden(*m_teacher, {}, ids)), 2);
    }
    Recipe driftRecipe(const std::string& drift) const {
        Recipe recipe = m_recipe;
        recipe.align.drift = drift;
        return recipe;
    }

    struct Inputs {
        at::Tensor x, target;
    };
    Inputs inputsOf(std::int64_t layer) const {
        const at::NoGradGuard noGradients;
        at::Tensor hidden = m_teacher->embed(windowTensor(m_windows, at::kCPU));
        for (std::int64_t l = 0; l < layer; ++l)
            hidden = runBlock(*m_teacher, *m_teacher->layer(l), nullptr, hidden);
        Inputs in;
        in.x = attentionInput(*m_teacher, *m_teacher->layer(layer), hidden);
        in.target = mixerOutput(*m_teacher, *m_teacher->layer(layer), nullptr, in.x);
        return in;
    }
    LinearLayer alignOne(std::int64_t layer, const Recipe& recipe, const Inputs& in, const OutputMetric* metric, AlignState& state, std::vector<MetricRow>& rows,
                         std::int64_t stopAt = -1, AlignState* saved = nullptr) const {
        AlignJob job{*m_teacher, layer, recipe, in.x, in.target, [&](const MetricRow& row) { rows.push_back(row); },
                     [&](const AlignState& s) {
                         if (!saved)
                             return;
                         const auto copy = [](const at::Tensor& t) { return t.detach().clone(); };
                         *saved = s;
                         saved->parameters = mapped(s.parameters, copy), saved->best = mapped(s.best, copy);
                         for (auto* moments : {&saved->first, &saved->second})
                             for (at::Tensor& t : *moments)
                                 t = t.clone();
                     },
                     [&](std::int64_t step, double) {
                         if (step == stopAt)
                             throw Failure{Error{ErrorCode::Cancelled, "stop", {}}};
                     },
                     metric};
        return alignLayer(job, state);
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        m_teacher = teacherOf(tinyConfig(), 0.07);
        m_recipe = defaultRecipe("cpu", "naive");
        m_recipe.seed = 3;
        m_recipe.align.lr = m_recipe.align.lrNew = 3e-3;
        m_recipe.align.batch = 4;
        m_recipe.align.driftSteps = 24;
        m_recipe.align.drift = "refit";
        m_windows = windowsOf(60, 24, m_teacher->config().vocabSize);
    }

    // ---- drift ----------------------------------------------------------------------------------------------------------------

    void refitIsADenseSolve_data() {
        QTest::addColumn<QList<int>>("layers");
        QTest::addColumn<int>("window"); // a layer with a sliding window, -1: none
        QTest::newRow("one: the teacher's own inputs") << QList<int>{2} << -1;
        QTest::newRow("first and last") << QList<int>{0, 3} << -1;
        QTest::newRow("all") << QList<int>{0, 1, 2, 3} << -1;
        QTest::newRow("above a sliding window") << QList<int>{2, 3} << 1;
    }
    void refitIsADenseSolve() {
        QFETCH(QList<int>, layers);
        QFETCH(int, window);
        Mixers mixers = student({layers.begin(), layers.end()});
        if (window >= 0)
            mixers[window] = Mixer{Mixer::Kind::SlidingWindow, nullptr, {}, 4, 1};
        const Mixers before = mixers;
        const auto rows = correct(mixers, m_recipe, m_windows);
        QCOMPARE(rows.size(), std::size_t(layers.size()));

        const at::NoGradGuard noGradients;
        const auto& teacher = *m_teacher;
        at::Tensor hT = teacher.embed(windowTensor(m_windows, at::kCPU)), hS = hT;
        const auto heldOut = heldOutWindows(m_recipe.align, m_windows.sequences), fit = (m_windows.sequences - heldOut) * m_windows.seqLen;
        std::size_t index = 0;
        for (std::int64_t l = 0; l <= layers.back(); ++l) {
            const auto weights = teacher.layer(l);
            const auto found = before.find(l);
            if (found == before.end() || found->second.kind != Mixer::Kind::Linear) {
                hS = runBlock(teacher, *weights, mixerAt(before, l), hS);
                hT = runBlock(teacher, *weights, nullptr, hT);
                continue;
            }
            const LinearLayer& layer = found->second.linear;
            const at::Tensor x = attentionInput(teacher, *weights, hS), yT = mixerOutput(teacher, *weights, nullptr, attentionInput(teacher, *weights, hT));
            if (layers.size() == 1)
                QVERIFY(at::equal(hS, hT));
            const at::Tensor z = (linearReadout(mixerSpec("gated_delta_net"), teacher.linearShape(), layer, x).normed.flatten(2) * outputGate(layer, x)).flatten(0, 1).to(at::kDouble);
            const at::Tensor y = (yT + 0.5 * (hT - hS)).flatten(0, 1).to(at::kDouble), O = layer.oProj.to(at::kDouble);
            at::Tensor w = (hT + yT).square().mean(-1).reciprocal().view({-1, 1}).to(at::kDouble);
            w = w / w.narrow(0, 0, fit).mean();
            const at::Tensor zf = z.narrow(0, 0, fit), wf = w.narrow(0, 0, fit), G = (zf * wf).t().matmul(zf);
            const at::Tensor C = (zf * wf).t().matmul(y.narrow(0, 0, fit) - zf.matmul(O.t()));
            const at::Tensor dW = at::linalg_solve(G + 1e-2 * G.diagonal().mean() * at::eye(G.size(0), at::kDouble), C).t();
            QVERIFY(dW.norm().item<double>() > 0.1 * O.norm().item<double>());
            const LinearLayer& got = mixers.at(l).linear;
            LINNET_NEAR(got.oProj, O + dW, 2e-5);
            QVERIFY(at::equal(got.qProj, layer.qProj) && at::equal(got.gProj, layer.gProj) && at::equal(got.oNorm, layer.oNorm));
            const auto mse = [&](const at::Tensor& o) { return (y - z.matmul(o.t())).narrow(0, fit, y.size(0) - fit).square().mean().item<double>(); };
            const MetricRow& row = rows[index++];
            QVERIFY(row.stage == "drift" && row.layer == l && row.step == 0 && row.tokens == fit);
            LINNET_CLOSE(row.loss, mse(O), 1e-5, 0, "error before");
            LINNET_CLOSE(*row.heldOutLoss, mse(O + dW), 1e-4, 0, "error after");
            LINNET_CLOSE(*row.relativeLoss, mse(O + dW) / y.narrow(0, fit, y.size(0) - fit).square().mean().item<double>(), 1e-4, 0, "relative error");
            QVERIFY(*row.heldOutLoss < row.loss);
            hS = runBlock(teacher, *weights, &mixers.at(l), hS);
            hT = runBlock(teacher, *weights, nullptr, hT);
        }
        if (window >= 0)
            QVERIFY(mixers.at(window).kind == Mixer::Kind::SlidingWindow);
    }

    void finalStatesComeCloser() {
        Mixers refitted = student({0, 2, 3}), aligned = refitted;
        const double before = finalError(refitted);
        correct(refitted, driftRecipe("refit"), m_windows);
        const auto rows = correct(aligned, driftRecipe("align"), m_windows);
        const double refit = finalError(refitted), align = finalError(aligned);
        QVERIFY2(refit < 0.85 * before && align < 0.95 * refit, qPrintable(QString("%1, refit %2, align %3").arg(before).arg(refit).arg(align)));
        QCOMPARE(rows.size(), std::size_t(3 * (1 + 24)));
        std::int64_t step = 0;
        for (const auto& row : rows) {
            QVERIFY(row.stage == "drift" && row.step == step % 25);
            ++step;
        }
        // A group that lies in host memory gives the same bits; here as there it is all one memory.
        Mixers again = student({0, 2, 3});
        correct(again, driftRecipe("align"), m_windows);
        for (const auto& [layer, mixer] : again)
            QVERIFY(same(mixer.linear, aligned.at(layer).linear));
        QVERIFY(!same(aligned.at(2).linear, refitted.at(2).linear));
    }

    void alignKeepsTheStateBefore() {
        Mixers refitted = student({1}), aligned = refitted;
        correct(refitted, driftRecipe("refit"), m_windows);
        Recipe wild = driftRecipe("align");
        wild.align.lr = wild.align.lrNew = 0.9;
        wild.align.schedule = "constant";
        wild.align.warmup = 0;
        correct(aligned, wild, m_windows);
        QVERIFY(same(aligned.at(1).linear, refitted.at(1).linear));
        Recipe none = driftRecipe("align");
        none.align.driftSteps = 0;
        Mixers unaligned = student({1});
        correct(unaligned, none, m_windows);
        QVERIFY(same(unaligned.at(1).linear, refitted.at(1).linear));
    }

    void whatHelpsNobodyIsDropped() { // fitted on 3 windows with next to no ridge: worse on those held out
        Mixers mixers = student({2});
        correct(mixers, m_recipe, m_windows);
        const LinearLayer good = mixers.at(2).linear;
        std::vector<std::string> lines;
        const auto rows = correct(mixers, m_recipe, windowsOf(4, 24, m_teacher->config().vocabSize, 5), 1e-9, &lines);
        QVERIFY(same(mixers.at(2).linear, good));
        QCOMPARE(rows.size(), std::size_t(1));
        QCOMPARE(*rows[0].heldOutLoss, rows[0].loss);
        QVERIFY2(lines.size() == 1 && lines[0].find("layer 2") != std::string::npos && lines[0].find("stays") != std::string::npos, lines.at(0).c_str());
        // One window: nothing held out, judged by what it was fitted on.
        Mixers alone = student({2});
        QVERIFY(*correct(alone, m_recipe, windowsOf(1, 24, m_teacher->config().vocabSize))[0].heldOutLoss < rows[0].loss);
    }

    void locks_data() {
        QTest::addColumn<QString>("drift");
        QTest::newRow("refit") << "refit";
        QTest::newRow("align") << "align";
    }
    void locks() {
        QFETCH(QString, drift);
        Recipe recipe = driftRecipe(drift.toStdString());
        recipe.targets[1][2] = HeadTarget{{}, {}, {}, {}, {"half_life", "beta", "value_scale", "output_gate"}};
        Mixers mixers = student({0, 1});
        const LinearLayer before = mixers.at(1).linear;
        correct(mixers, recipe, m_windows);
        const LinearLayer& after = mixers.at(1).linear;
        const auto columns = [](const LinearLayer& layer, std::int64_t head) { return layer.oProj.narrow(1, 16 * head, 16); };
        LINNET_CLOSE(columns(after, 2).norm().item<double>(), columns(before, 2).norm().item<double>(), 1e-5, 0, "norm of locked columns");
        QVERIFY(relative(columns(after, 2), columns(before, 2)) > 0.05);
        QVERIFY(std::abs(columns(after, 1).norm().item<double>() / columns(before, 1).norm().item<double>() - 1) > 1e-3);
        QVERIFY(at::equal(after.aProj[2], before.aProj[2]) && at::equal(after.bProj[2], before.bProj[2]) && at::equal(after.dtBias[2], before.dtBias[2]) &&
                at::equal(after.gProj.narrow(0, 32, 16), before.gProj.narrow(0, 32, 16)));
        QCOMPARE(at::equal(after.bProj[1], before.bProj[1]), drift == "refit");
    }

    void stops() {
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        Mixers mixers = student({1, 2});
        const Recipe recipe = driftRecipe("align");
        DriftJob job{*m_teacher, recipe, m_windows, control, 1e-2, [&](const MetricRow& row) {
                         if (row.step == 3)
                             stop.request_stop();
                     }, {}};
        try {
            correctDrift(job, mixers);
            QFAIL("went on");
        } catch (const Failure& failure) {
            QVERIFY(failure.error.code == ErrorCode::Cancelled);
        }
    }

    void nothingToDo() {
        Mixers none, sliding{{1, Mixer{Mixer::Kind::SlidingWindow, nullptr, {}, 4, 1}}};
        QVERIFY(correct(none, m_recipe, m_windows).empty() && none.empty());
        QVERIFY(correct(sliding, m_recipe, m_windows).empty());
        Mixers silent = student({1}); // no readout at all: nothing to fit
        silent.at(1).linear.gProj.zero_();
        const auto before = silent.at(1).linear;
        correct(silent, m_recipe, m_windows);
        QVERIFY(same(silent.at(1).linear, before));
    }

    // ---- the metric -----------------------------------------------------------------------------------------------------------

    void fisherOfEveryDraw() {
        const auto config = smallConfig([](ModelConfig& c) { c.layers = 2, c.hiddenSize = 8, c.heads = 2, c.kvHeads = 1, c.headDim = 4, c.intermediateSize = 12, c.vocabSize = 5; });
        const auto opened = teacherOf(config, 0.5);
        const Model& teacher = *opened;
        constexpr std::int64_t N = 3, T = 4, repeats = 4000;
        const TokenWindows windows = windowsOf(N, T, 5, 8);
        // E[g g'] exactly: tokens' draws are independent and their scores have mean 0, so each token's p-weighted squares add up.
        const at::Tensor ids = windowTensor(windows, at::kCPU);
        std::vector<at::Tensor> exact(2);
        for (std::int64_t n = 0; n < N; ++n) {
            at::Tensor hidden = teacher.embed(ids.narrow(0, n, 1));
            std::vector<at::Tensor> added;
            for (std::int64_t l = 0; l < 2; ++l) {
                const auto weights = teacher.layer(l);
                added.push_back(at::zeros_like(hidden).requires_grad_());
                hidden = hidden + mixerOutput(teacher, *weights, nullptr, attentionInput(teacher, *weights, hidden)) + added.back();
                hidden = hidden + feedForward(teacher, *weights, hidden);
            }
            const at::Tensor logP = teacher.logits(teacher.finalNorm(hidden)).log_softmax(-1);
            for (std::int64_t t = 0; t < T; ++t)
                for (std::int64_t y = 0; y < 5; ++y) {
                    const auto g = torch::autograd::grad({-logP[0][t][y]}, added, {}, true);
                    for (std::size_t l = 0; l < 2; ++l) {
                        const at::Tensor rows = g[l][0].to(at::kDouble), part = rows.t().matmul(rows) * logP[0][t][y].exp().item<double>();
                        exact[l] = exact[l].defined() ? exact[l] + part : part;
                    }
                }
        }
        std::vector<std::int64_t> order;
        for (std::int64_t i = 0; i < N * repeats; ++i)
            order.push_back(i % N);
        const auto metrics = outputMetrics(teacher, windows.rows(order), 1, {});
        QCOMPARE(metrics.size(), std::size_t(2));
        const at::Tensor one = at::eye(8, at::kDouble);
        for (std::size_t l = 0; l < 2; ++l) {
            const at::Tensor M = metrics[l].root.to(at::kDouble), expected = 0.9 * exact[l] / exact[l].diagonal().mean() + 0.1 * one;
            QVERIFY(relative(M.matmul(metrics[l].inverse.to(at::kDouble)), one) < 1e-5);
            QVERIFY(relative(M.t(), M) < 1e-6 && relative(metrics[l].inverse.t(), metrics[l].inverse) < 1e-6);
            QVERIFY(metrics[l].root.scalar_type() == at::kFloat && at::linalg_eigvalsh(M).min().item<double>() > 0.3);
            const double error = relative(M.matmul(M), expected), plain = relative(one, expected);
            QVERIFY2(error < 0.03 && plain > 0.3, qPrintable(QString("layer %1: %2, identity %3").arg(l).arg(error).arg(plain)));
            LINNET_CLOSE(M.matmul(M).diagonal().mean().item<double>(), 1, 1e-5, 0, "mean diagonal");
        }
    }

    void metricsAreDrawnBySeed() {
        const auto windows = windowsOf(6, 12, m_teacher->config().vocabSize);
        const auto a = outputMetrics(*m_teacher, windows, 7, {}), b = outputMetrics(*m_teacher, windows, 7, {}), c = outputMetrics(*m_teacher, windows, 8, {});
        QCOMPARE(a.size(), std::size_t(4));
        for (std::size_t l = 0; l < 4; ++l)
            QVERIFY(at::equal(a[l].root, b[l].root) && at::equal(a[l].inverse, b[l].inverse) && !at::equal(a[l].root, c[l].root));
        const auto some = metricWindows(windowsOf(600, 24, 61), at::kCPU);
        QCOMPARE(some.sequences, std::int64_t(24 * 256 / 24));
        QVERIFY(some.rows({0}).ids == m_windows.rows({0}).ids);
        QCOMPARE(metricWindows(m_windows, at::kCPU).sequences, m_windows.sequences);
        std::stop_source stop;
        stop.request_stop();
        Control control;
        control.stop = stop.get_token();
        QVERIFY_THROWS_EXCEPTION(Failure, outputMetrics(*m_teacher, windows, 7, control));
    }

    // ---- alignment ------------------------------------------------------------------------------------------------------------

    void identityIsMse() {
        Recipe plain = m_recipe, metric = m_recipe;
        plain.align.steps = metric.align.steps = 16;
        metric.align.loss = "kl_metric";
        const auto in = inputsOf(1);
        const OutputMetric identity{at::eye(48), at::eye(48)};
        std::vector<MetricRow> a, b;
        auto stateA = freshAlignState(start(1)), stateB = freshAlignState(start(1));
        const auto layerA = alignOne(1, plain, in, nullptr, stateA, a), layerB = alignOne(1, metric, in, &identity, stateB, b);
        for (std::size_t i = 0; i < a.size(); ++i)
            QVERIFY(a[i].loss == b[i].loss && a[i].heldOutLoss == b[i].heldOutLoss);
        QVERIFY(same(layerA, layerB));
    }

    void inTheMetric() { // what is reported is |M e|^2 of the layer that comes out
        Recipe recipe = m_recipe;
        recipe.align.steps = 24;
        recipe.align.loss = "kl_metric";
        recipe.targets[1][2] = HeadTarget{{}, {}, {}, {}, {"value_scale"}};
        const auto in = inputsOf(1);
        // A strong one: 6 of 48 directions count for nearly all.
        auto generator = at::detail::createCPUGenerator(4);
        const auto [directions, upper] = at::linalg_qr(at::randn({48, 48}, generator, at::kDouble));
        const at::Tensor sizes = at::cat({at::full({6}, 2.6, at::kDouble), at::full({42}, 0.35, at::kDouble)});
        const OutputMetric metric{(directions * sizes).matmul(directions.t()).to(at::kFloat), (directions / sizes).matmul(directions.t()).to(at::kFloat)};
        auto state = freshAlignState(start(1));
        std::vector<MetricRow> rows;
        const auto heldOut = heldOutWindows(recipe.align, m_windows.sequences);
        const auto loss = [&](const LinearLayer& layer) {
            const at::NoGradGuard noGradients;
            const auto last = [&](const at::Tensor& t) { return t.narrow(0, m_windows.sequences - heldOut, heldOut); };
            return (linearForward(mixerSpec("gated_delta_net"), m_teacher->linearShape(), layer, last(in.x)) - last(in.target)).matmul(metric.root.t()).square().mean().item<double>();
        };
        const auto layer = alignOne(1, recipe, in, &metric, state, rows);
        LINNET_CLOSE(*rows[0].heldOutLoss, loss(start(1)), 1e-5, 0, "loss of the start");
        LINNET_CLOSE(state.bestLoss, loss(layer), 1e-4, 0, "loss of the aligned layer");
        QVERIFY(state.bestLoss < *rows[0].heldOutLoss);
        const auto norm = [](const LinearLayer& of) { return of.oProj.narrow(1, 32, 16).norm().item<double>(); };
        LINNET_CLOSE(norm(layer), norm(start(1)), 1e-5, 0, "norm of locked columns");
        // It serves its own loss better than plain alignment does.
        Recipe plain = recipe;
        plain.align.loss = "mse";
        auto other = freshAlignState(start(1));
        std::vector<MetricRow> ignored;
        QVERIFY(loss(layer) < loss(alignOne(1, plain, in, nullptr, other, ignored)));
        try {
            auto fresh = freshAlignState(start(1));
            alignOne(1, recipe, in, nullptr, fresh, ignored);
            QFAIL("no metric, no failure");
        } catch (const Failure& failure) {
            QVERIFY(failure.error.code == ErrorCode::Internal);
        }
    }

    void stopsEarly() { // without a learning rate the first measurement stays best
        Recipe recipe = m_recipe;
        recipe.align.steps = 35; // measured each 4 steps
        recipe.align.lr = recipe.align.lrNew = 0;
        const auto in = inputsOf(1);
        for (const std::int64_t patience : {0, 1, 2, 8, 9, 100}) {
            recipe.align.earlyStop = patience;
            auto state = freshAlignState(start(1));
            std::vector<MetricRow> rows;
            alignOne(1, recipe, in, nullptr, state, rows);
            const auto expected = patience == 0 || patience > 8 ? 35 : 4 * patience + 1;
            QCOMPARE(std::ssize(rows), expected);
            QCOMPARE(state.step, expected);
            QCOMPARE(state.bestStep, std::int64_t(0));
            if (expected < 35)
                QVERIFY(rows.back().heldOutLoss.has_value());
        }
        QVERIFY(!hasStopped(recipe.align, 0, -1) && !hasStopped(recipe.align, 5, -1));
    }

    void stopsTheSameAfterAResume() {
        Recipe recipe = m_recipe;
        recipe.align.steps = 64;
        recipe.align.lr = recipe.align.lrNew = 0.02; // gains for a while, then no more
        recipe.align.schedule = "constant";
        recipe.align.earlyStop = 1;
        const auto in = inputsOf(1);
        auto state = freshAlignState(start(1));
        std::vector<MetricRow> whole;
        const auto layer = alignOne(1, recipe, in, nullptr, state, whole);
        QVERIFY2(whole.size() > 17 && whole.size() < 64, qPrintable(QString::number(whole.size())));
        for (const std::int64_t at : {std::int64_t(3), std::int64_t(8), std::int64_t(17), std::ssize(whole) - 1, std::ssize(whole)}) {
            auto begun = freshAlignState(start(1));
            AlignState saved;
            std::vector<MetricRow> rows;
            QVERIFY_THROWS_EXCEPTION(Failure, alignOne(1, recipe, in, nullptr, begun, rows, at, &saved));
            QVERIFY(same(alignOne(1, recipe, in, nullptr, saved, rows), layer));
            QCOMPARE(rows.size(), whole.size());
            for (std::size_t i = 0; i < rows.size(); ++i)
                QVERIFY(rows[i].step == whole[i].step && rows[i].loss == whole[i].loss && rows[i].heldOutLoss == whole[i].heldOutLoss);
        }
    }
};

QTEST_APPLESS_MAIN(TestConvertDrift)
#include "tst_convert_drift.moc"
