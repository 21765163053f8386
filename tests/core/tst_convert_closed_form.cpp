// The closed form of a layer: against float64 PyTorch (closed_form_oracle.py), against the prototype on the real teacher, by its own
// definitions; the joint choice against every combination; targets, odd shapes, the probe.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/closed_form_joint.h"
#include "core/convert/closed_form_output.h"
#include "core/convert/target_probe.h"
#include "core/evaluate/evaluate_model.h"
#include "core/model/device.h"
#include "tests/support/closed_form_cases.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

class TestConvertClosedForm : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;
    std::map<std::string, AskedCase> m_asked; // with the oracle's answers

    static void compareTrials(const ClosedFormFit& found, const ClosedFormFit& expected, double relative) {
        for (std::size_t h = 0; h < expected.heads.size(); ++h) {
            QCOMPARE(found.heads[h].tried.size(), expected.heads[h].tried.size());
            for (std::size_t i = 0; i < expected.heads[h].tried.size(); ++i)
                LINNET_CLOSE(found.heads[h].tried[i].residual, expected.heads[h].tried[i].residual, relative, 0, QString("own residual %1 of head %2").arg(i).arg(h));
        }
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        if (oraclePython().isEmpty())
            return;
        m_asked = closedFormCases(m_folder.path().toStdString());
        Json questions = Json::array();
        for (const auto& [name, asked] : m_asked)
            questions.push_back(asked.question);
        const auto file = m_folder.filePath("cases.json");
        writeFileAtomically(file.toStdString(), questions.dump());
        const QString said = runOracle("closed_form_oracle.py", {file});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        for (auto& [name, asked] : m_asked) {
            const auto path = asked.question.at("file").get<std::string>();
            asked.answer = readJsonFile(path + ".json");
            asked.layer = tensorsOf(path + ".layer");
        }
    }

    void againstFloat64_data() {
        QTest::addColumn<QString>("name");
        for (const char* name : {"llama, 9 heads of 3", "qwen3, own choice, gate regression", "qwen2, grid only", "qwen2, all parts", "one head", "folded, one window"})
            QTest::newRow(name) << name;
    }
    void againstFloat64() {
        QFETCH(QString, name);
        if (m_asked.empty())
            QSKIP("LINNET_ORACLE_PYTHON is not set: no PyTorch to compare with");
        const auto& asked = m_asked.at(name.toStdString());
        const Json& residuals = asked.answer.at("residuals");
        for (std::size_t h = 0; h < asked.fit.heads.size(); ++h) {
            const auto& tried = asked.fit.heads[h].tried;
            for (std::size_t i = 0; i < tried.size(); ++i)
                LINNET_CLOSE(tried[i].residual, residuals[h][i].get<double>(), 1e-4, 1e-6,
                             QString("own residual of head %1, %2").arg(h).arg(QString::fromStdString(asked.question.at("options")[h][i].dump())));
        }
        LINNET_CLOSE(asked.fit.residual, asked.answer.at("residual").get<double>(), 1e-4, 1e-6, "residual of the layer");
        asked.fit.layer.forEach(std::function<void(const std::string&, const at::Tensor&)>([&](const std::string& tensor, const at::Tensor& found) {
            if (const auto expected = asked.layer.find(tensor); expected != asked.layer.end()) {
                const double size = expected->second.abs().max().item<double>(), error = size == 0 ? found.abs().max().item<double>() : relativeError(found, expected->second);
                QVERIFY2(error < 3e-4, qPrintable(QString("%1: relative error %2").arg(QString::fromStdString(tensor)).arg(error)));
            }
        }));
    }

    void ownChoiceIsTheBest() {
        ClosedFormCase one(llama());
        const auto fit = one.fit([](Recipe& r) { r.closedForm.joint = false; });
        for (const auto& head : fit.heads) { // 5 half-lives, 5 betas, 2 taps; sign, RoPE, centring, 3 scales, 2 priors, and some of these again
            QVERIFY(head.tried.size() >= 50 + kTurns && head.tried.size() <= 50 + 2 * kTurns);
            for (auto trial = head.tried.begin(); trial != head.tried.end(); ++trial)
                QVERIFY(std::find_if(head.tried.begin(), trial, [&](const HeadTrial& other) { return other.option == trial->option; }) == trial);
            const auto best = *std::ranges::min_element(head.tried, {}, &HeadTrial::residual);
            QVERIFY(head.chosen == best.option && head.residual == best.residual);
        }
        const auto grid = one.fit([](Recipe& r) { r.closedForm.joint = r.closedForm.refine = false; });
        for (std::size_t h = 0; h < 9; ++h)
            QVERIFY(grid.heads[h].tried.size() == 50 && grid.heads[h].residual >= fit.heads[h].residual);
        QCOMPARE(fit.treatments.size(), std::size_t(1)); // a Llama has RoPE only
        QCOMPARE(fit.treatments[0].part, std::string("rope"));
        double folded = 0, dropped = 0;
        for (const auto& head : fit.heads) {
            folded += head.chosen.foldRope ? head.residual / 9 : 0;
            dropped += head.chosen.foldRope ? 0 : head.residual / 9;
        }
        QVERIFY(fit.treatments[0].folded >= folded && fit.treatments[0].dropped >= dropped);
    }

    // The joint choice of 3 heads of 3 candidates: no single head could do better, and by brute force over its 27 combinations no more
    // than a little is left.
    void jointAgainstAllCombinations_data() {
        QTest::addColumn<double>("shared"); // a direction that all readouts have, times their spread: it must not hide what they differ in
        QTest::addColumn<bool>("gpu");      // products of 16-bit readouts on tensor cores
        for (const bool gpu : {false, true})
            for (const double shared : {0.0, 6.0})
                QTest::addRow("%s, shared %g", gpu ? "gpu" : "cpu", shared) << shared << gpu;
    }
    void jointAgainstAllCombinations() {
        QFETCH(double, shared);
        QFETCH(bool, gpu);
        if (gpu && !cudaAvailable())
            QSKIP("no GPU here");
        const at::Device device = gpu ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
        constexpr std::int64_t kTokens = 19001, kDim = 4, kHidden = 5; // more tokens than one sum takes
        auto generator = at::detail::createCPUGenerator(3);
        const at::Tensor z = (at::randn({3, 3, kTokens, kDim}, generator) + shared).to(at::kHalf).to(at::kFloat), target = at::randn({kTokens, kHidden}, generator) + z.sum(at::IntArrayRef{0, 1}).matmul(at::randn({kDim, kHidden}, generator));
        const at::Tensor factors = at::rand({3, kTokens}, generator) + 0.5;
        const Control control;
        JointChoice joint({factors[0].to(device), factors[1].to(device), factors[2].to(device)}, target.to(device), 1e-3, control);
        for (std::int64_t h = 0; h < 3; ++h)
            for (std::int64_t k = 0; k < 2; ++k)
                joint.offer(static_cast<std::size_t>(h), {{.halfLife = double(k)}, k == 0 ? 0.1 : 0.2}, z[h][k].to(device));
        joint.choose();
        for (std::int64_t h = 0; h < 3; ++h) // a second stage, with what the first left
            for (std::int64_t k = 0; k < 3; ++k)
                joint.offer(static_cast<std::size_t>(h), {{.halfLife = double(k)}, 0.3}, z[h][k].to(device));
        const auto taken = joint.choose();
        const auto objective = [&](const std::vector<std::int64_t>& picks) {
            std::vector<at::Tensor> parts;
            for (std::int64_t h = 0; h < 3; ++h)
                parts.push_back((z[h][picks[static_cast<std::size_t>(h)]] * factors[h].unsqueeze(-1)).to(at::kDouble));
            const at::Tensor Z = at::cat(parts, 1), y = target.to(at::kDouble);
            at::Tensor G = Z.t().matmul(Z);
            G.diagonal().add_(1e-3 * G.diagonal().mean());
            const at::Tensor C = Z.t().matmul(y);
            return (y.square().sum() - (at::linalg_solve(G, C) * C).sum()).item<double>();
        };
        std::vector<std::int64_t> picks;
        for (const auto& trial : taken)
            picks.push_back(static_cast<std::int64_t>(trial.option.halfLife));
        const double found = objective(picks);
        const double rounding = gpu ? 1e-3 : 1e-6; // a readout times its factor has 11 bits there
        QVERIFY(found <= objective({0, 0, 0}) * (1 + rounding));
        for (std::size_t h = 0; h < 3; ++h)
            for (std::int64_t k = 0; k < 3; ++k) {
                auto moved = picks;
                moved[h] = k;
                QVERIFY(objective(moved) >= found * (1 - rounding));
            }
    }

    void jointIsNeverWorse() {
        if (m_asked.empty())
            QSKIP("LINNET_ORACLE_PYTHON is not set: no PyTorch to compare with");
        const auto objectives = [&](const char* name) { return m_asked.at(name).answer.at("objectives").get<std::vector<double>>(); };
        const auto refined = objectives("llama, 9 heads of 3"); // grid only, all
        QVERIFY2(refined[1] <= refined[0] * (1 + 1e-5), "the parts after the grid made it worse");
        const auto moves = objectives("qwen2, grid only");
        QVERIFY2(moves[1] <= moves[0] * (1 + 1e-6), "the joint choice is worse than the heads' own");
        QVERIFY2(moves[1] < moves[0], "the joint choice is the heads' own: nothing was tested");
        for (std::size_t i = 2; i < moves.size(); ++i)
            QVERIFY2(moves[i] >= moves[1] * (1 - 1e-5), qPrintable(QString("move %1: %2 is less than %3").arg(i).arg(moves[i]).arg(moves[1])));
    }

    void streamedIsOnePiece() {
        auto generator = at::detail::createCPUGenerator(4);
        const at::Tensor z = at::randn({700, 12}, generator), y = at::randn({700, 7}, generator), toward = at::randn({7, 12}, generator);
        OutputRegression whole, pieces;
        whole.add(z, y);
        for (std::int64_t t = 0; t < 700; t += 93)
            pieces.add(z.narrow(0, t, std::min<std::int64_t>(93, 700 - t)), y.narrow(0, t, std::min<std::int64_t>(93, 700 - t)));
        for (const at::Tensor& to : {at::Tensor(), toward})
            for (const double ridge : {1e-3, 1.0}) {
                LINNET_NEAR(pieces.solve(ridge, to), whole.solve(ridge, to), 1e-6);
                LINNET_CLOSE(pieces.residual(pieces.solve(ridge, to)), whole.residual(whole.solve(ridge, to)), 1e-6, 0, "residual");
            }
        LINNET_NEAR(whole.solve(1e7, toward), toward, 1e-4); // a penalty that leaves nothing else
        LINNET_CLOSE(whole.residual(toward), ((y - z.matmul(toward.t())).square().sum() / y.square().sum()).item<double>(), 1e-5, 0, "residual of any weight");
    }

    void targetsAreExact_data() {
        QTest::addColumn<QString>("gate");
        QTest::newRow("constant") << "constant";
        QTest::newRow("regression") << "regression";
    }
    void targetsAreExact() {
        QFETCH(QString, gate);
        ClosedFormCase one(llama());
        one.recipe.closedForm.gate = gate.toStdString();
        auto& targets = one.recipe.targets[ClosedFormCase::kLayer];
        targets[0].halfLife = 17;
        targets[2] = {3.5, 0.4, {}, 0.7, {}};
        targets[4].halfLife = INFINITY;
        targets[5].beta = 0.9;
        targets[7].outputGate = 0;
        one.recipe.targets[0][1].beta = 0.5; // of another layer
        const auto fit = one.fit();
        const at::Tensor logits = meanWriteLogits(one, fit.layer);
        for (std::int64_t h = 0; h < 9; ++h) {
            const auto& head = fit.heads[static_cast<std::size_t>(h)];
            LINNET_CLOSE(logits[h].item<double>(), std::log(head.chosen.beta / (1 - head.chosen.beta)), 0, 2e-4, QString("mean write logit of head %1").arg(h));
            LINNET_CLOSE(rate(fit.layer, h), std::max(std::log(2.0) / head.chosen.halfLife, 1e-4), 1e-4, 0, QString("decay rate of head %1").arg(h));
            QVERIFY(fit.layer.aProj[h].abs().max().item<float>() == 0);
        }
        QVERIFY(fit.heads[0].chosen.halfLife == 17 && fit.heads[2].chosen.halfLife == 3.5 && fit.heads[2].chosen.beta == 0.4);
        QVERIFY(std::isinf(fit.heads[4].chosen.halfLife) && fit.heads[5].chosen.beta == 0.9);
        for (const auto& [head, grid] : {std::pair(0, 5 * 2), std::pair(2, 2)}) {
            const auto tried = fit.heads[static_cast<std::size_t>(head)].tried.size(), least = grid + kTurns;
            QVERIFY(tried >= least && tried <= least + kTurns);
        }
        const at::Tensor u = one.capture.x.to(at::kDouble).matmul(fit.layer.gProj.to(at::kDouble).t()).mean(at::IntArrayRef{0, 1}).view({9, 8});
        LINNET_NEAR(u[2], at::full({8}, inverseSiLU(0.7)), 2e-4);
        QVERIFY(fit.layer.gProj.narrow(0, 7 * 8, 8).abs().max().item<float>() == 0);
        if (gate == "constant")
            LINNET_NEAR(u[1], at::full({8}, inverseSiLU(1)), 2e-4);

        targets[3].valueScale = 2.5;
        const auto scaled = one.fit();
        for (std::int64_t h = 0; h < 9; ++h)
            QVERIFY(at::allclose(scaled.layer.oProj.narrow(1, 8 * h, 8), fit.layer.oProj.narrow(1, 8 * h, 8) * (h == 3 ? 2.5 : 1.0)));
    }

    void shortWindows() { // nothing lies beyond the sink's rows: no distances
        ClosedFormCase one(llama(), 3, 7);
        const auto fit = one.fit();
        for (const auto& head : fit.heads)
            QVERIFY(head.tried.size() >= 25 + kTurns - 1 && !head.chosen.histogramTaps && !head.chosen.foldRope && std::isfinite(head.residual));
        QVERIFY(fit.treatments.empty());
        const auto refused = guarded([&] { return one.fit([](Recipe& r) { r.ropeTreatment = "fold"; }); });
        QVERIFY(!refused && messageOf(refused).contains("treatment.rope") && messageOf(refused).contains("found 7"));
    }

    void sixteenBitTeachers() { // the same captures in float32 give the same, but for the distances
        for (const auto dtype : {at::kBFloat16, at::kHalf}) {
            const ClosedFormCase narrow(llama(), 5, 24, dtype);
            ClosedFormCase wide(llama());
            wide.capture = {narrow.capture.x.to(at::kFloat), narrow.capture.heads.to(at::kFloat), narrow.capture.target.to(at::kFloat)};
            wide.moments = narrow.moments;
            const auto gridOnly = [](Recipe& r) { r.closedForm.joint = r.closedForm.refine = false; };
            const auto found = narrow.fit(gridOnly), expected = wide.fit(gridOnly);
            QVERIFY(found.layer.qProj.scalar_type() == at::kFloat && found.layer.oProj.scalar_type() == at::kFloat);
            compareTrials(found, expected, 0.01);
        }
    }

    void onGpu_data() {
        QTest::addColumn<int>("headDim");
        QTest::newRow("kernels of the rule") << 64;
        QTest::newRow("none for this head dimension") << 24;
    }
    void onGpu() {
        QFETCH(int, headDim);
        if (!cudaAvailable())
            QSKIP("no GPU here");
        const auto config = shape(6, 3, headDim, 80);
        const auto gridOnly = [](Recipe& r) { r.closedForm.joint = r.closedForm.refine = false; };
        const ClosedFormCase host(config, 5, 150), device(config, 5, 150, at::kFloat, at::Device(at::kCUDA, 0));
        const auto found = device.fit(gridOnly), expected = host.fit(gridOnly);
        compareTrials(found, expected, 5e-3);
        LINNET_CLOSE(found.residual, expected.residual, 1e-2, 0, "residual of the layer");
        const auto whole = [](Recipe& r) { r.closedForm.gate = "regression"; };
        const auto all = device.fit(whole);
        QVERIFY(all.layer.oProj.is_cuda() && all.layer.gProj.is_cuda() && all.layer.dtBias.is_cuda());
        LINNET_CLOSE(all.residual, host.fit(whole).residual, 5e-2, 0, "residual of the layer with everything");
        QVERIFY(sameBits(all, device.fit(whole)));
        for (const auto dtype : {at::kBFloat16, at::kHalf})
            QVERIFY(std::isfinite(ClosedFormCase(config, 5, 150, dtype, at::Device(at::kCUDA, 0)).fit(whole).residual));
    }

    void otherMixers() {
        ClosedFormCase one(llama());
        const auto deltaNet = one.fit([](Recipe& r) { r.mixer = "delta_net"; });
        for (const auto& head : deltaNet.heads) // no decay to choose
            QVERIFY(head.tried.size() >= 5 * 2 + kTurns && head.tried.size() <= 5 * 2 + 2 * kTurns);
        const auto refused = guarded([&] { return one.fit([](Recipe& r) { r.mixer = "kda"; }); });
        QVERIFY(!refused && refused.error().code == ErrorCode::Unsupported);
    }

    void againAndStopped() {
        ClosedFormCase one(llama());
        one.recipe.closedForm.gate = "regression";
        QVERIFY(sameBits(one.fit(), one.fit()));
        auto context = one.context();
        ClosedFormFit fit;
        context.fit = &fit;
        const auto layer = initialLayer(context, "linnet");
        QVERIFY(at::equal(layer.oProj, fit.layer.oProj) && fit.heads.size() == 9 && fit.gateResiduals.size() == 5);
        std::stop_source stop;
        stop.request_stop();
        Control control;
        control.stop = stop.get_token();
        const auto stopped = guarded([&] { return closedForm(one.context(), control); });
        QVERIFY(!stopped && stopped.error().code == ErrorCode::Cancelled);
    }

    void notFinite() {
        ClosedFormCase one(llama());
        one.capture.x = one.capture.x.clone();
        one.capture.x[1][3][5] = INFINITY;
        const auto refused = guarded([&] { return one.fit(); });
        QVERIFY(!refused && messageOf(refused).contains("layer 1"));
    }

    void probe() {
        ClosedFormCase one(llama());
        one.recipe.closedForm.joint = false;
        TargetProbe probe(one.model, one.windows);
        const auto compare = [&](const HeadFit& head, const ProbedHead& found) {
            LINNET_CLOSE(found.chosen.residual, head.residual, 1e-5, 0, "residual");
            QVERIFY(found.chosen.halfLife == head.chosen.halfLife && found.chosen.beta == head.chosen.beta && found.chosen.histogramTaps == head.chosen.histogramTaps);
            QCOMPARE(found.tried.size(), head.tried.size());
            for (std::size_t i = 0; i < head.tried.size(); ++i)
                LINNET_CLOSE(found.tried[i].residual, head.tried[i].residual, 1e-5, 0, "tried residual");
        };
        const auto automatic = one.fit();
        for (const std::int64_t h : {3, 8})
            compare(automatic.heads[static_cast<std::size_t>(h)], orFail(probe.probe(one.recipe, ClosedFormCase::kLayer, h)));
        one.recipe.targets[ClosedFormCase::kLayer][3].halfLife = 5; // not of the grid
        const auto probed = orFail(probe.probe(one.recipe, ClosedFormCase::kLayer, 3));
        compare(one.fit().heads[3], probed);
        QVERIFY(probed.chosen.halfLife == 5 && probed.automatic.halfLife == automatic.heads[3].chosen.halfLife);
        LINNET_CLOSE(probed.automatic.residual, automatic.heads[3].residual, 1e-5, 0, "automatic residual");
        one.recipe.closedForm.valueRms = 1.5;
        compare(one.fit().heads[3], orFail(probe.probe(one.recipe, ClosedFormCase::kLayer, 3)));
        QVERIFY(probe.probe(one.recipe, 0, 0).has_value());
        QVERIFY(!probe.probe(one.recipe, 2, 0) && !probe.probe(one.recipe, 0, 9));
    }

    void distancesOfTheProfile() { // its exact bins say what the windows say
        ClosedFormCase one(llama());
        ProfileOptions exact;
        exact.binsPerOctave = 0;
        for (const bool bins : {true, false}) {
            const auto profile = orFail(profileModel(*one.model, one.windows, bins ? exact : ProfileOptions()));
            auto context = one.context();
            const at::Tensor expected = attentionDistances(context);
            context.profile = &profile;
            LINNET_NEAR(attentionDistances(context), expected, 1e-5);
        }
    }

    void json() {
        const auto fit = ClosedFormCase(llama()).fit();
        const Json json = parseJson(closedFormToJson(4, fit).dump(), "closed form");
        QVERIFY(json.at("layer") == 4 && json.at("heads").size() == 9 && json.at("treatments")[0].at("part") == "rope");
        QVERIFY(json.at("heads")[0].at("tried")[48].at("half_life").is_null()); // no decay
        QCOMPARE(json.at("residual").get<double>(), fit.residual);
    }

    void prototype() { // its numbers on the real teacher
        const auto teacher = qgetenv("LINNET_TEACHER"), text = qgetenv("LINNET_TEXT");
        if (!QFileInfo::exists(teacher) || !QFileInfo::exists(text))
            QSKIP("LINNET_TEACHER and LINNET_TEXT are needed");
        at::set_num_threads(2);
        const at::NoGradGuard noGradients;
        const Json golden = readJsonFile(std::string(qgetenv("LINNET_SOURCE")) + "/tests/golden/closed_form_prototype.json");
        RunOptions options;
        options.device = "cpu";
        const auto model = orFail(openModel(teacher.toStdString(), options));
        const std::int64_t sequences = golden.at("sequences"), tokens = golden.at("seq_len");
        const auto windows = windowsOf(*model, {text.toStdString()}, tokens, sequences * tokens, 0, {});
        if (windows.hash() != golden.at("window_hash").get<std::string>())
            QSKIP("the text is another than the prototype read");
        Recipe recipe = defaultRecipe("cpu", "linnet");
        recipe.closedForm.sequences = sequences;
        recipe.closedForm.joint = recipe.closedForm.refine = false;
        recipe.closedForm.valueRms = 1;
        recipe.closedForm.gate = "constant";
        at::Tensor hidden = model->embed(windowTensor(windows, at::kCPU));
        for (std::int64_t l = 0; l <= 17; ++l) {
            const auto weights = model->layer(l);
            if (const auto expected = golden.at("layers").find(std::to_string(l)); expected != golden.at("layers").end()) {
                const auto capture = captureOf(*model, *weights, hidden);
                const auto moments = inputMoments(capture.x);
                const auto fit = closedForm({*model, *weights, l, recipe, capture, moments, nullptr}, {});
                for (std::size_t h = 0; h < fit.heads.size(); ++h)
                    LINNET_CLOSE(fit.heads[h].residual, expected->at("residuals")[h].get<double>(), 1e-3, 0, QString("layer %1, head %2").arg(l).arg(h));
                const at::Tensor found = linearForward(mixerSpec(recipe.mixer), model->linearShape(), fit.layer, capture.x);
                const double error = ((found - capture.target).square().sum() / capture.target.square().sum()).item<double>();
                LINNET_CLOSE(error, expected->at("relative_error").get<double>(), 1e-3, 0, QString("output of layer %1").arg(l));
                LINNET_CLOSE(fit.residual, error, 1e-3, 0, QString("residual of layer %1").arg(l));
            }
            hidden = runBlock(*model, *weights, nullptr, hidden);
        }
        at::set_num_threads(1);
    }
};

QTEST_APPLESS_MAIN(TestConvertClosedForm)
#include "tst_convert_closed_form.moc"
