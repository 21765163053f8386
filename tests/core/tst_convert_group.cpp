// Layers aligned as one batch: the same curves as one after the other, in every setting and with either backend; whole runs in groups:
// the same bits again, stopping anywhere, going on exactly.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/group_alignment.h"
#include "core/evaluate/evaluate_model.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

constexpr std::uint64_t kBudget = std::uint64_t(4) << 30;

struct Curve {
    std::vector<double> loss, norm, heldOut;
    void add(const MetricRow& row) {
        loss.push_back(row.loss), norm.push_back(row.gradNorm);
        if (row.heldOutLoss)
            heldOut.push_back(*row.heldOutLoss), heldOut.push_back(*row.relativeLoss);
    }
};

} // namespace

class TestConvertGroup : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    QTemporaryDir m_runs;
    ModelPtr m_llama;
    std::vector<at::Tensor> m_x, m_target; // of three layers
    std::vector<LinearLayer> m_start;
    std::vector<OutputMetric> m_metrics;

    fs::path run(const std::string& name) const { return fs::path(m_runs.path().toStdString()) / name; }
    Result<Report> convertInGroups(const fs::path& folder, const Recipe& recipe, std::uint64_t bytes = kBudget, const Control& control = {},
                                   const std::function<void(const MetricRow&)>& onMetric = {}) const {
        ConvertOptions options;
        options.groupBytes = bytes;
        options.onMetric = onMetric;
        return convert(recipe, folder, options, control);
    }
    AlignGroupShape shape(const Recipe& recipe, std::int64_t layers) const {
        return {layers, recipe.align.batch, m_x[0].size(1), m_x[0].size(0), m_llama->linearShape()};
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
        m_llama = m_teachers.open("llama");
        const auto recipe = m_teachers.recipe("llama", "first:0");
        const at::NoGradGuard noGradients;
        const at::Tensor ids = (at::arange(20 * 24, at::kLong) * 37 + 11).remainder(m_llama->config().vocabSize).view({20, 24});
        at::Tensor hidden = m_llama->embed(ids);
        for (std::int64_t l = 0; l < 3; ++l) {
            const auto weights = m_llama->layer(l);
            LayerCapture capture;
            capture.x = attentionInput(*m_llama, *weights, hidden);
            capture.heads = headOutputs(*m_llama, *weights, capture.x);
            capture.target = outputProjection(*weights, capture.heads);
            const auto moments = inputMoments(capture.x);
            m_start.push_back(initialLayer({*m_llama, *weights, l, recipe, capture, moments, nullptr}, "naive"));
            m_x.push_back(capture.x), m_target.push_back(capture.target);
            hidden = runBlock(*m_llama, *weights, nullptr, hidden);
        }
        TokenWindows windows{{}, 20, 24};
        for (std::int64_t i = 0; i < 20 * 24; ++i)
            windows.ids.push_back(static_cast<TokenId>((i * 37 + 11) % m_llama->config().vocabSize));
        m_metrics = outputMetrics(*m_llama, windows, 5, {});
        m_metrics.resize(3);
    }

    void curvesAreThoseOfSingleLayers_data() {
        QTest::addColumn<bool>("kernels");
        QTest::addColumn<QString>("setting");
        for (const bool kernels : {false, true})
            for (const char* setting : {"plain", "relative loss", "output frozen", "clipped", "locked", "nothing held out", "rates apart", "metric", "metric, locked", "metric, output frozen",
                                        "early stop"})
                QTest::newRow(qPrintable(QString("%1, %2").arg(kernels ? "kernels" : "tensors", setting))) << kernels << setting;
    }
    void curvesAreThoseOfSingleLayers() {
        QFETCH(bool, kernels);
        QFETCH(QString, setting);
        Recipe recipe = m_teachers.recipe("llama", "first:0");
        recipe.align.steps = 20;
        recipe.align.lr = recipe.align.lrNew = 3e-3; // rounding grows with it
        if (setting == "relative loss")
            recipe.align.loss = "relative_mse";
        if (setting.startsWith("metric"))
            recipe.align.loss = "kl_metric";
        if (setting == "early stop")
            recipe.align.earlyStop = 2, recipe.align.lr = recipe.align.lrNew = 0;
        if (setting.endsWith("output frozen"))
            recipe.align.trainOutput = false;
        if (setting == "clipped")
            recipe.align.clip = 1e-4;
        if (setting == "rates apart")
            recipe.align.lr = 1e-4, recipe.align.schedule = "constant";
        if (setting.endsWith("locked"))
            recipe.targets[1][2] = HeadTarget{12.0, 0.3, 1.5, 0.7, {"half_life", "beta", "value_scale", "output_gate"}};
        const std::int64_t windows = setting == "nothing held out" ? 1 : 20;
        std::vector<Curve> one(3), together(3);
        std::vector<LinearLayer> best;
        for (std::size_t l = 0; l < 3; ++l) {
            const at::Tensor x = m_x[l].narrow(0, 0, windows), target = m_target[l].narrow(0, 0, windows);
            AlignJob job{*m_llama, static_cast<std::int64_t>(l), recipe, x, target, [&](const MetricRow& row) { one[l].add(row); }, [](const AlignState&) {}, [](std::int64_t, double) {},
                         recipe.align.loss == "kl_metric" ? &m_metrics[l] : nullptr};
            auto state = freshAlignState(m_start[l]);
            best.push_back(alignLayer(job, state));
        }
        auto groupShape = shape(recipe, 3);
        groupShape.windows = windows;
        AlignGroup group({recipe, {0, 1, 2}, groupShape, at::kCPU, at::kFloat, kernels ? AlignStep::Backend::Kernels : AlignStep::Backend::Tensors,
                          recipe.align.loss == "kl_metric" ? m_metrics : std::vector<OutputMetric>{}});
        for (std::size_t l = 0; l < 3; ++l) {
            group.inputs(l).copy_(m_x[l].narrow(0, 0, windows));
            group.targets(l).copy_(m_target[l].narrow(0, 0, windows));
            group.start(l, m_start[l]);
        }
        std::vector<std::int64_t> steps;
        group.run({[&](const MetricRow& row) { together[static_cast<std::size_t>(row.layer)].add(row); }, [] {}, [&](std::int64_t step) { steps.push_back(step); }, {}});
        QVERIFY(steps.back() == recipe.align.steps || setting == "early stop");
        // Rounding grows under Adam, which divides a gradient by its own size; larger gradients (relative loss) drown in eps less often.
        const double late = setting == "relative loss" ? 5e-4 : 5e-5;
        for (std::size_t l = 0; l < 3; ++l) {
            QCOMPARE(together[l].loss.size(), one[l].loss.size());
            QCOMPARE(together[l].heldOut.size(), one[l].heldOut.size());
            for (std::size_t i = 0; i < one[l].loss.size(); ++i) {
                LINNET_CLOSE(together[l].loss[i], one[l].loss[i], i < 4 && setting != "relative loss" ? 1e-5 : late, 0, "loss");
                LINNET_CLOSE(together[l].norm[i], one[l].norm[i], i < 8 ? 2e-4 : 2e-3, 0, "gradient norm");
            }
            for (std::size_t i = 0; i < one[l].heldOut.size(); ++i)
                LINNET_CLOSE(together[l].heldOut[i], one[l].heldOut[i], late, 0, "held-out loss");
            std::vector<at::Tensor> expected;
            best[l].forEach([&](const std::string&, at::Tensor& t) { expected.push_back(t); });
            std::size_t index = 0;
            group.best(l).forEach([&](const std::string& name, at::Tensor& t) {
                const at::Tensor& e = expected[index++];
                // Adam divides by a gradient's own size: where that is all rounding, signs may differ. Most of a tensor must agree.
                const double error = ((t - e).norm() / e.norm().clamp_min(1e-6)).item<double>();
                QVERIFY2(error < 2e-3, qPrintable(QString("layer %1, %2: %3").arg(l).arg(QString::fromStdString(name)).arg(error)));
            });
            LINNET_CLOSE(group.losses(l).first, one[l].loss.front(), 1e-5, 0, "first loss");
            LINNET_CLOSE(group.losses(l).second, one[l].loss.back(), late, 0, "last loss");
        }
        if (!setting.endsWith("locked"))
            return;
        const auto locked = group.best(1);
        const auto columns = [D = m_llama->config().headDim](const LinearLayer& layer) { return layer.oProj.narrow(1, 2 * D, D).norm().item<double>(); };
        LINNET_CLOSE(columns(locked), columns(m_start[1]), 1e-5, 0, "norm of locked columns");
        QVERIFY(at::equal(locked.aProj[2], m_start[1].aProj[2]) && at::equal(locked.bProj[2], m_start[1].bProj[2]));
        QVERIFY(!at::equal(locked.aProj[1], m_start[1].aProj[1]));
    }

    void bfloat16() { // what a GPU computes in: the curve stays within a few percent, and the masters stay float32
        Recipe recipe = m_teachers.recipe("llama", "first:0");
        recipe.align.steps = 30;
        recipe.targets[0][1] = HeadTarget{{}, {}, {}, {}, {"beta"}};
        std::map<at::ScalarType, Curve> curves;
        for (const auto compute : {at::kFloat, at::kBFloat16})
            for (const auto backend : {AlignStep::Backend::Kernels, AlignStep::Backend::Tensors}) {
                AlignGroup group({recipe, {0, 1, 2}, shape(recipe, 3), at::kCPU, compute, backend});
                for (std::size_t l = 0; l < 3; ++l) {
                    group.inputs(l).copy_(m_x[l]);
                    group.targets(l).copy_(m_target[l]);
                    group.start(l, m_start[l]);
                }
                Curve curve;
                group.run({[&](const MetricRow& row) { curve.add(row); }, [] {}, [](std::int64_t) {}, {}});
                QVERIFY(at::equal(group.best(0).bProj[1], m_start[0].bProj[1]));
                if (backend == AlignStep::Backend::Tensors)
                    for (std::size_t i = 0; i < curve.loss.size(); ++i)
                        LINNET_CLOSE(curve.loss[i], curves[compute].loss[i], compute == at::kFloat ? 5e-5 : 0.02, 0, "backends");
                curves[compute] = curve;
            }
        for (std::size_t i = 0; i < curves[at::kFloat].loss.size(); ++i)
            LINNET_CLOSE(curves[at::kBFloat16].loss[i], curves[at::kFloat].loss[i], 0.04, 0, "loss in bfloat16");
    }

    void statesGoRound() { // state -> restore -> state, and the steps after it, bit for bit
        Recipe recipe = m_teachers.recipe("llama", "first:0");
        const auto make = [&](AlignStep::Backend backend) {
            auto group = std::make_unique<AlignGroup>(AlignGroupJob{recipe, {0, 1, 2}, shape(recipe, 3), at::kCPU, at::kFloat, backend});
            for (std::size_t l = 0; l < 3; ++l) {
                group->inputs(l).copy_(m_x[l]);
                group->targets(l).copy_(m_target[l]);
            }
            return group;
        };
        for (const auto backend : {AlignStep::Backend::Kernels, AlignStep::Backend::Tensors}) {
            const auto whole = make(backend), halted = make(backend), resumed = make(backend);
            for (std::size_t l = 0; l < 3; ++l)
                whole->start(l, m_start[l]), halted->start(l, m_start[l]);
            whole->run({[](const MetricRow&) {}, [] {}, [](std::int64_t) {}, {}});
            std::vector<AlignState> saved;
            try {
                halted->run({[](const MetricRow&) {}, [&] {
                                 for (std::size_t l = 0; l < 3; ++l)
                                     saved.push_back(halted->state(l));
                             },
                             [](std::int64_t step) {
                                 if (step >= 5)
                                     throw Failure{Error{ErrorCode::Cancelled, "stop", {}}};
                             }, {}});
                QFAIL("not stopped");
            } catch (const Failure&) {
            }
            QCOMPARE(saved.size(), std::size_t(3));
            QVERIFY(saved[0].step >= 5 && saved[0].step <= 16);
            for (std::size_t l = 0; l < 3; ++l) {
                resumed->restore(l, saved[l]);
                const auto again = resumed->state(l);
                QVERIFY(at::equal(again.parameters.qProj, saved[l].parameters.qProj) && again.bestStep == saved[l].bestStep && again.step == saved[l].step);
                for (std::size_t i = 0; i < again.second.size(); ++i)
                    QVERIFY(at::equal(again.first[i], saved[l].first[i]) && at::equal(again.second[i], saved[l].second[i]));
            }
            resumed->run({[](const MetricRow&) {}, [] {}, [](std::int64_t) {}, {}});
            for (std::size_t l = 0; l < 3; ++l)
                resumed->best(l).forEach([&, expected = whole->best(l)](const std::string& name, at::Tensor& t) {
                    bool same = false;
                    expected.forEach([&](const std::string& other, const at::Tensor& e) { same = same || (other == name && at::equal(t, e)); });
                    QVERIFY2(same, name.c_str());
                });
        }
    }

    // A layer that cannot gain stops at once, the others go on: each as on its own, and all the same after a stop anywhere.
    void layersStopOnTheirOwn_data() {
        QTest::addColumn<bool>("kernels");
        QTest::newRow("kernels") << true;
        QTest::newRow("tensors") << false;
    }
    void layersStopOnTheirOwn() {
        QFETCH(bool, kernels);
        Recipe recipe = m_teachers.recipe("llama", "first:0");
        recipe.align.steps = 40; // measured each 5
        recipe.align.lr = recipe.align.lrNew = 3e-3;
        recipe.align.earlyStop = 2;
        recipe.align.weightDecay = 0;
        const auto make = [&] {
            auto group = std::make_unique<AlignGroup>(AlignGroupJob{recipe, {0, 1, 2}, shape(recipe, 3), at::kCPU, at::kFloat,
                                                                    kernels ? AlignStep::Backend::Kernels : AlignStep::Backend::Tensors});
            for (std::size_t l = 0; l < 3; ++l) {
                group->inputs(l).copy_(m_x[l]);
                group->targets(l).copy_(m_target[l]);
            }
            group->targets(1).narrow(0, 0, 18).fill_(5); // held out: its own outputs, so that no step gains
            group->targets(1).narrow(0, 18, 2).copy_(linearForward(mixerSpec(recipe.mixer), m_llama->linearShape(), m_start[1], m_x[1].narrow(0, 18, 2)));
            return group;
        };
        QCOMPARE(heldOutWindows(recipe.align, 20), std::int64_t(2));
        std::vector<MetricRow> whole;
        const auto group = make();
        for (std::size_t l = 0; l < 3; ++l)
            group->start(l, m_start[l]);
        group->run({[&](const MetricRow& row) { whole.push_back(row); }, [] {}, [](std::int64_t) {}, {}});
        std::vector<std::int64_t> last(3, -1);
        for (const auto& row : whole)
            last[static_cast<std::size_t>(row.layer)] = row.step;
        QVERIFY(last[0] > 10 && last[1] == 10 && last[2] > 10);
        QVERIFY(at::equal(group->best(1).qProj, m_start[1].qProj) && at::equal(group->best(1).oProj, m_start[1].oProj));
        QVERIFY(!at::equal(group->best(0).qProj, m_start[0].qProj));
        for (const std::int64_t at : {3, 10, 11, 30}) {
            const auto halted = make(), resumed = make();
            for (std::size_t l = 0; l < 3; ++l)
                halted->start(l, m_start[l]);
            std::vector<AlignState> saved;
            std::vector<MetricRow> rows;
            QVERIFY_THROWS_EXCEPTION(Failure, halted->run({[&](const MetricRow& row) { rows.push_back(row); },
                                                           [&] {
                                                               for (std::size_t l = 0; l < 3; ++l)
                                                                   saved.push_back(halted->state(l));
                                                           },
                                                           [&](std::int64_t step) {
                                                               if (step >= at)
                                                                   throw Failure{Error{ErrorCode::Cancelled, "stop", {}}};
                                                           }, {}}));
            QCOMPARE(saved.size(), std::size_t(3));
            std::erase_if(rows, [&](const MetricRow& row) { return row.step >= saved[0].step; }); // as a run folder does
            for (std::size_t l = 0; l < 3; ++l)
                resumed->restore(l, saved[l]);
            resumed->run({[&](const MetricRow& row) { rows.push_back(row); }, [] {}, [](std::int64_t) {}, {}});
            QCOMPARE(rows.size(), whole.size());
            for (std::size_t i = 0; i < rows.size(); ++i)
                QVERIFY(rows[i].step == whole[i].step && rows[i].layer == whole[i].layer && rows[i].loss == whole[i].loss && rows[i].heldOutLoss == whole[i].heldOutLoss);
            for (std::size_t l = 0; l < 3; ++l)
                QVERIFY(at::equal(resumed->best(l).oProj, group->best(l).oProj) && at::equal(resumed->best(l).qProj, group->best(l).qProj));
        }
        // All layers without hope: the group ends.
        recipe.align.lr = recipe.align.lrNew = 0;
        const auto idle = make();
        for (std::size_t l = 0; l < 3; ++l)
            idle->start(l, m_start[l]);
        std::int64_t rows = 0, steps = 0;
        idle->run({[&](const MetricRow&) { ++rows; }, [] {}, [&](std::int64_t step) { steps = step; }, {}});
        QCOMPARE(rows, std::int64_t(3 * 11));
        QVERIFY(steps >= 11 && steps < 40);
    }

    // Inputs and targets in host memory, copied a step ahead: the same bits.
    void spilled_data() {
        QTest::addColumn<QString>("setting");
        QTest::addColumn<bool>("kernels");
        for (const bool kernels : {true, false})
            for (const char* setting : {"plain", "metric", "bfloat16", "nothing held out"})
                QTest::newRow(qPrintable(QString("%1, %2").arg(kernels ? "kernels" : "tensors", setting))) << setting << kernels;
    }
    void spilled() {
        QFETCH(QString, setting);
        QFETCH(bool, kernels);
        Recipe recipe = m_teachers.recipe("llama", "first:0");
        recipe.align.loss = setting == "metric" ? "kl_metric" : "mse";
        const std::int64_t windows = setting == "nothing held out" ? 1 : 20;
        std::vector<Curve> curves;
        std::vector<std::unique_ptr<AlignGroup>> groups;
        for (const bool spill : {false, true}) {
            auto groupShape = shape(recipe, 3);
            groupShape.windows = windows;
            auto& group = groups.emplace_back(std::make_unique<AlignGroup>(
                AlignGroupJob{recipe, {0, 1, 2}, groupShape, at::kCPU, setting == "bfloat16" ? at::kBFloat16 : at::kFloat,
                              kernels ? AlignStep::Backend::Kernels : AlignStep::Backend::Tensors, setting == "metric" ? m_metrics : std::vector<OutputMetric>{}, spill}));
            for (std::size_t l = 0; l < 3; ++l) {
                group->inputs(l).copy_(m_x[l].narrow(0, 0, windows));
                group->targets(l).copy_(m_target[l].narrow(0, 0, windows));
                group->start(l, m_start[l]);
            }
            auto& curve = curves.emplace_back();
            group->run({[&](const MetricRow& row) { curve.add(row); }, [] {}, [](std::int64_t) {}, {}});
        }
        QVERIFY(!curves[0].loss.empty() && curves[0].loss == curves[1].loss && curves[0].norm == curves[1].norm && curves[0].heldOut == curves[1].heldOut);
        for (std::size_t l = 0; l < 3; ++l)
            QVERIFY(at::equal(groups[0]->best(l).oProj, groups[1]->best(l).oProj) && at::equal(groups[0]->best(l).bProj, groups[1]->best(l).bProj));
    }

    void spilledRun() { // hidden states in host memory too
        for (const char* preset : {"naive", "paper"}) {
            const Recipe recipe = m_teachers.recipe("llama", "layers:0,2", preset);
            TokenWindows windows{{}, 12, 32};
            for (std::int64_t i = 0; i < 12 * 32; ++i)
                windows.ids.push_back(static_cast<TokenId>((i * i * 31 + 7 * i) % m_llama->config().vocabSize));
            const auto profile = orFail(profileModel(*m_llama, windows, {}));
            const std::vector<std::int64_t> converted{1, 3};
            std::vector<fs::path> folders;
            for (const bool spill : {false, true}) {
                folders.push_back(run(std::string(preset) + (spill ? " spilled" : " resident")));
                RunFolder folder = RunFolder::create(folders.back(), recipe);
                GroupAlignment({folder, {}, {}, recipe, *m_llama, windows, &profile, converted, true, spill}, 1)
                    .run(folder.file("checkpoints/student.safetensors"), folder.file("checkpoints/naive.safetensors"));
            }
            QVERIFY(studentBytes(folders[0]) == studentBytes(folders[1]) && !studentBytes(folders[0]).empty());
            QVERIFY(curveOf(folders[0]) == curveOf(folders[1]) && !curveOf(folders[0]).empty());
        }
    }

    void groupSizes() {
        const auto recipe = m_teachers.recipe("llama", "first:0");
        const auto one = shape(recipe, 1);
        const auto each = AlignStep::bytesOfLayer(one, at::kFloat, at::kCPU);
        const auto sizes = [&](std::int64_t count, std::uint64_t budget) { return AlignGroup::groupSizes(count, one, at::kCPU, at::kFloat, budget); };
        QCOMPARE(sizes(21, 1), std::vector<std::int64_t>(21, 1));
        QCOMPARE(sizes(21, kBudget), std::vector<std::int64_t>{21});
        const std::uint64_t reserve = (std::uint64_t(512) << 20) + static_cast<std::uint64_t>(one.windows * one.tokens * one.linear.hidden) * 4;
        QCOMPARE(sizes(21, reserve + 8 * each), (std::vector<std::int64_t>{7, 7, 7}));
        QCOMPARE(sizes(21, reserve + 6 * each), (std::vector<std::int64_t>{5, 5, 5, 6}));
        // Qwen2.5-1.5B, 32k tokens, in 4 GiB: several layers at a time
        const AlignGroupShape qwen{1, 4, 256, 125, {12, 128, 1536, 1e-6}};
        const auto groups = AlignGroup::groupSizes(21, qwen, at::kCPU, at::kBFloat16, kBudget);
        QVERIFY(!AlignGroup::spills(qwen, at::kCPU, at::kBFloat16, 1)); // the same memory
        QVERIFY(groups.size() >= 3 && groups.size() <= 7); // 6 without the kernels of the rule, whose plain form keeps more
    }

    void wholeRun() {
        Recipe recipe = m_teachers.recipe("llama", "bypass:2");
        const auto grouped = convertInGroups(run("grouped"), recipe), again = convertInGroups(run("again"), recipe), single = convertInGroups(run("groups of one"), recipe, 1);
        QVERIFY2(grouped, qPrintable(messageOf(grouped)));
        QVERIFY2(single, qPrintable(messageOf(single)));
        QVERIFY(again && studentBytes(run("again")) == studentBytes(run("grouped")) && curveOf(run("again")) == curveOf(run("grouped")));
        const auto layered = convert(recipe, run("layered"), {}, {});
        QVERIFY2(layered, qPrintable(messageOf(layered)));
        QCOMPARE(curveOf(run("grouped")).size(), curveOf(run("layered")).size());
        for (const auto* report : {&*grouped, &*single})
            for (const char* name : {"teacher", "naive", "zero_gate", "student"})
                LINNET_CLOSE(report->evaluation.at(name).loss, layered->evaluation.at(name).loss, 1e-4, 0, name);
        for (const auto& entry : fs::directory_iterator(run("grouped") / "checkpoints"))
            QVERIFY2(!entry.path().filename().string().starts_with("align_"), entry.path().c_str());
    }

    void stopAndResume_data() {
        QTest::addColumn<QString>("preset");
        QTest::addColumn<int>("step"); // stop when this step's numbers come, -1: in the stage's first forward
        QTest::addColumn<std::uint64_t>("bytes");
        for (const char* preset : {"naive", "paper", "reference"})
            for (const int step : {-1, 0, 6, 15})
                QTest::newRow(qPrintable(QString("%1, step %2").arg(preset).arg(step))) << preset << step << kBudget;
        QTest::newRow("groups of one, second group") << "naive" << 9 << std::uint64_t(1);
        QTest::newRow("locked, in a group") << "locked" << 6 << kBudget;
        QTest::newRow("locked, by layer") << "locked" << 6 << std::uint64_t(0);
    }
    void stopAndResume() {
        QFETCH(QString, preset);
        QFETCH(int, step);
        QFETCH(std::uint64_t, bytes);
        Recipe recipe = m_teachers.recipe("llama", "layers:0,2", preset == "locked" ? "naive" : preset.toStdString());
        recipe.align.steps = 16;
        if (preset == "locked")
            recipe.targets[1][2] = recipe.targets[3][5] = HeadTarget{12.0, 0.3, 1.5, 0.7, {"half_life", "beta", "value_scale", "output_gate"}};
        const auto folder = run(QTest::currentDataTag()), undisturbed = run("undisturbed " + preset.toStdString() + std::to_string(bytes));
        if (!fs::exists(undisturbed)) {
            const auto made = convertInGroups(undisturbed, recipe, bytes);
            QVERIFY2(made, qPrintable(messageOf(made)));
        }
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        ConvertOptions options;
        options.groupBytes = bytes;
        options.onMetric = [&](const MetricRow& row) {
            if (row.step == step && (bytes > 1 || row.layer == 3))
                stop.request_stop();
        };
        options.onStage = [&](const std::string& name) {
            if (step < 0 && name == "align")
                stop.request_stop();
        };
        const auto stopped = convert(recipe, folder, options, control);
        QVERIFY2(!stopped && stopped.error().code == ErrorCode::Cancelled, qPrintable("not stopped: " + messageOf(stopped)));
        ConvertOptions plain;
        plain.groupBytes = bytes;
        const auto finished = resumeRun(folder, plain, {});
        QVERIFY2(finished, qPrintable(messageOf(finished)));
        QVERIFY(studentBytes(folder) == studentBytes(undisturbed));
        QVERIFY(curveOf(folder) == curveOf(undisturbed));
        QCOMPARE(finished->evaluation.at("student").loss, orFail(readReport(undisturbed)).evaluation.at("student").loss);
        for (const auto& entry : fs::directory_iterator(folder / "checkpoints"))
            QVERIFY2(!entry.path().filename().string().starts_with("align_"), entry.path().c_str());
    }

    void statesOfDifferentStepsStartAnew() { // a kill while the states of a group were being written
        Recipe recipe = m_teachers.recipe("llama", "layers:0,2");
        const auto folder = run("torn states");
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        QVERIFY(!convertInGroups(folder, recipe, kBudget, control, [&](const MetricRow& row) {
            if (row.step == 4)
                stop.request_stop();
        }));
        QVERIFY(fs::exists(folder / "checkpoints" / "align_3.json"));
        fs::remove(folder / "checkpoints" / "align_3.json");
        ConvertOptions options;
        options.groupBytes = kBudget;
        QVERIFY(resumeRun(folder, options, {}));
        QVERIFY(convertInGroups(run("whole states"), recipe));
        QVERIFY(studentBytes(folder) == studentBytes(run("whole states")) && curveOf(folder) == curveOf(run("whole states")));
    }

    void divergence() {
        const Recipe recipe = m_teachers.recipe("llama", "first:0");
        AlignGroup group({recipe, {4, 7}, shape(recipe, 2), at::kCPU, at::kFloat, AlignStep::Backend::Kernels});
        for (std::size_t l = 0; l < 2; ++l) {
            group.inputs(l).copy_(m_x[l]);
            group.targets(l).copy_(m_target[l]);
            group.start(l, m_start[l]);
        }
        group.targets(1).fill_(NAN);
        try {
            group.run({[](const MetricRow&) {}, [] {}, [](std::int64_t) {}, {}});
            QFAIL("went on");
        } catch (const Failure& failure) {
            const QString said = QString::fromStdString(failure.error.message);
            QVERIFY2(said.contains("layer 7") && said.contains("step 0") && said.contains("align.lr"), qPrintable(said));
        }
    }
};

QTEST_APPLESS_MAIN(TestConvertGroup)
#include "tst_convert_group.moc"
