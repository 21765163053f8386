// A hybrid as MODEL: its kept layers are profiled inside it, further layers are converted of it, and its own converted layers stay as they are, bit
// for bit, through run, report and export. Folders of every kind serve: our export, Qwen3.5's class, a run, a bundle.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/align.h"
#include "core/convert/recipe_checks.h"
#include "core/evaluate/evaluate_model.h"
#include "core/export/export.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

const RunOptions kOnCpu{"cpu", "f32", 1, false};
const std::vector<TokenId> kPrompt{5, 17, 200, 31, 8, 99, 140, 3, 61, 254};

at::Tensor logitsOf(const Model& model, const std::vector<TokenId>& ids) {
    auto values = orFail(sequenceLogits(model, ids));
    return at::tensor(values).view({static_cast<std::int64_t>(ids.size()), -1});
}

bool sameLayer(const LinearLayer& a, const LinearLayer& b) {
    std::map<std::string, at::Tensor> other;
    b.forEach([&](const std::string& name, const at::Tensor& tensor) { other[name] = tensor; });
    bool same = true;
    a.forEach([&](const std::string& name, const at::Tensor& tensor) { same = same && at::equal(tensor, other.at(name)); });
    return same;
}

std::vector<std::int64_t> layersOf(const Mixers& mixers) {
    std::vector<std::int64_t> layers;
    for (const auto& [layer, mixer] : mixers)
        layers.push_back(layer);
    return layers;
}

} // namespace

class TestExportHybrid : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers; // 4 layers each
    QTemporaryDir m_folder;

    fs::path at(const std::string& name) const { return fs::path(m_folder.path().toStdString()) / name; }
    Recipe further(const fs::path& teacher, const std::string& keep, const std::string& preset = "naive") const {
        Recipe recipe = m_teachers.recipe("qwen3", keep, preset);
        recipe.teacherSource = teacher.string();
        return recipe;
    }
    fs::path run(const std::string& name, const Recipe& recipe, std::uint64_t groupBytes = 0) const {
        ConvertOptions options;
        options.baselines = false;
        options.groupBytes = groupBytes;
        if (!fs::exists(at(name)))
            orFail(convert(recipe, at(name), options, {}));
        return at(name);
    }
    // A qwen3 teacher's layer 1 converted, as a folder of each kind.
    fs::path hybrid(const std::string& kind = "hf") const {
        const auto first = run("first", further(m_teachers.path("qwen3"), "layers:0,2,3"));
        if (kind != "run" && !fs::exists(at(kind)))
            orFail(exportModel(first, at(kind), {kind, "f32", true}, kOnCpu));
        return kind == "run" ? first : at(kind);
    }
    // Layer `layer` of `teacher` started and aligned by hand, on what the layers before it give: the hybrid's own where it has them.
    static LinearLayer byHand(const Model& teacher, const Recipe& recipe, std::int64_t layer, const TokenWindows& calibration) {
        const at::NoGradGuard noGradients;
        LayerCapture capture;
        at::Tensor hidden = teacher.embed(windowTensor(calibration, at::kCPU));
        std::vector<at::Tensor> x, heads, target;
        for (std::int64_t n = 0; n < hidden.size(0); n += 4) { // as the pipeline cuts them: the same bits
            at::Tensor rows = hidden.narrow(0, n, std::min<std::int64_t>(4, hidden.size(0) - n)).clone();
            for (std::int64_t l = 0; l < layer; ++l) {
                const auto own = teacher.mixers().find(l);
                const auto weights = teacher.layer(l);
                const at::Tensor in = attentionInput(teacher, *weights, rows);
                rows = rows + (own == teacher.mixers().end() ? outputProjection(*weights, headOutputs(teacher, *weights, in))
                                                             : linearForward(*own->second.spec, teacher.linearShape(), own->second.linear, in));
                rows = rows + feedForward(teacher, *weights, rows);
            }
            const auto weights = teacher.layer(layer);
            x.push_back(attentionInput(teacher, *weights, rows));
            heads.push_back(headOutputs(teacher, *weights, x.back()));
            target.push_back(outputProjection(*weights, heads.back()));
        }
        capture.x = at::cat(x), capture.heads = at::cat(heads), capture.target = at::cat(target);
        const auto moments = inputMoments(capture.x);
        auto state = freshAlignState(initialLayer({teacher, *teacher.layer(layer), layer, recipe, capture, moments, nullptr}, recipe.preset));
        const AlignJob job{teacher, layer, recipe, capture.x, capture.target, [](const MetricRow&) {}, [](const AlignState&) {}, [](std::int64_t, double) {}};
        const at::AutoGradMode gradients(true);
        return alignLayer(job, state);
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }

    void furtherLayers_data() {
        QTest::addColumn<QString>("kind");
        for (const char* kind : {"hf", "qwen3.5", "run", "bundle"})
            QTest::newRow(kind) << kind;
    }
    void furtherLayers() {
        QFETCH(QString, kind);
        const auto teacherFolder = hybrid(kind.toStdString());
        const auto teacher = orFail(openModel(teacherFolder, kOnCpu));
        QCOMPARE(layersOf(teacher->mixers()), std::vector<std::int64_t>{1});
        const Recipe recipe = further(teacherFolder, "layers:0,2");
        const auto second = run("second " + kind.toStdString(), recipe);
        const auto report = orFail(readReport(second));
        QCOMPARE(report.keptLayers, (std::vector<std::int64_t>{0, 2}));
        QCOMPARE(report.convertedLayers, (std::vector<std::int64_t>{1, 3}));
        QVERIFY(std::ranges::any_of(report.notes, [](const std::string& note) { return note.find("already") != note.npos && note.find("[1]") != note.npos; }));

        const auto slices = loadSlices(second / "samples.safetensors");
        const auto student = orFail(openModel(second, kOnCpu));
        QCOMPARE(layersOf(student->mixers()), (std::vector<std::int64_t>{1, 3}));
        QVERIFY(sameLayer(student->mixers().at(1).linear, teacher->mixers().at(1).linear));
        QVERIFY(sameLayer(student->mixers().at(3).linear, byHand(*teacher, recipe, 3, slices.calibration)));
        for (const auto& [name, tensor] : tensorsOf(second / "checkpoints" / "student.safetensors")) // the run holds what it made
            QVERIFY2(name.starts_with("model.layers.3."), name.c_str());
        const auto original = orFail(openModel(m_teachers.path("qwen3"), kOnCpu)); // converted there, layer 3 would be another
        QVERIFY(!sameLayer(student->mixers().at(3).linear, byHand(*original, recipe, 3, slices.calibration)));

        // What the run measured is what its folder gives, opened on its own; its teacher is the hybrid.
        const auto measured = orFail(evaluateChunked(*student, slices.evaluation)), before = orFail(evaluateChunked(*teacher, slices.evaluation));
        QCOMPARE(measured.loss, report.evaluation.at("student").loss);
        QCOMPARE(before.loss, report.evaluation.at("teacher").loss);
        QVERIFY(measured.loss != before.loss);
        const auto out = at("export of " + kind.toStdString());
        const auto exported = exportModel(second, out, {}, kOnCpu);
        QVERIFY2(exported, qPrintable(messageOf(exported)));
        QVERIFY(readJsonFile(out / "config.json")["linnet"]["converted_layers"] == Json({1, 3}));
        const auto request = at("request"), answer = at("answer");
        writeFileAtomically(request, Json{{"ids", {kPrompt}}, {"text", "a state"}}.dump());
        const auto said = runOracle("export_oracle.py", {out.c_str(), request.c_str(), answer.c_str()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        LINNET_NEAR(tensorsOf(answer.string() + ".safetensors").at("logits_0"), logitsOf(*student, kPrompt), 1e-4);
    }

    void everyStage_data() {
        QTest::addColumn<QString>("keep");
        QTest::addColumn<QString>("preset");
        QTest::addColumn<QString>("what");
        QTest::newRow("distilled") << "layers:0,2" << "naive" << "distill";
        QTest::newRow("drift, its converted layer between") << "layers:2" << "naive" << "drift";
        QTest::newRow("closed form, metric of the hybrid") << "layers:0" << "linnet" << "metric";
        QTest::newRow("in groups") << "layers:0,2" << "naive" << "group";
        QTest::newRow("by KL") << "kl:2" << "naive" << "";
        QTest::newRow("by bypass") << "bypass:1" << "naive" << "";
        QTest::newRow("from starts") << "ga-s2:2" << "naive" << "";
        QTest::newRow("by profile") << "score:2" << "naive" << "";
        QTest::newRow("restored") << "restore:2" << "naive" << "";
        QTest::newRow("windows over it") << "layers:0" << "sliding-window" << "";
    }
    void everyStage() {
        QFETCH(QString, keep);
        QFETCH(QString, preset);
        QFETCH(QString, what);
        Recipe recipe = further(hybrid(), keep.toStdString(), preset.toStdString());
        if (what == "distill")
            recipe.distill.steps = 2, recipe.distill.batch = 2, recipe.distill.tokens = 8 * 32;
        if (what == "drift")
            recipe.align.drift = "refit";
        if (what == "metric")
            recipe.align.loss = "kl_metric", recipe.align.steps = 4;
        const auto folder = run(QTest::currentDataTag(), recipe, what == "group" ? std::uint64_t{1} << 26 : 0);
        const auto report = orFail(readReport(folder));
        const auto student = orFail(openModel(folder, kOnCpu)), teacher = orFail(openModel(hybrid(), kOnCpu));
        QVERIFY(sameLayer(student->mixers().at(1).linear, teacher->mixers().at(1).linear));
        QCOMPARE(layersOf(student->mixers()), report.convertedLayers);
        QVERIFY(std::ranges::find(report.keptLayers, 1) == report.keptLayers.end());
        QCOMPARE(report.keptLayers.size() + report.convertedLayers.size(), std::size_t{4});
        const bool ranked = recipe.keep.kind == KeepRule::Kind::Method;
        if (ranked) {
            QCOMPARE(std::ssize(report.keptLayers), recipe.keep.count);
            QVERIFY(report.selection && std::ranges::find(report.selection->ranking, 1, &LayerScore::layer) == report.selection->ranking.end());
            for (const auto& point : report.selection->curve)
                QVERIFY(point.kept <= 3);
        } else {
            QCOMPARE(report.keptLayers, recipe.keep.layers);
        }
        const auto slices = loadSlices(folder / "samples.safetensors");
        const auto measured = orFail(evaluateChunked(*student, slices.evaluation));
        QCOMPARE(measured.loss, report.evaluation.at("student").loss);
        if (what == "group") { // against one layer after the other: sums in another order
            const auto one = orFail(openModel(run("second hf", further(hybrid(), "layers:0,2")), kOnCpu));
            LINNET_NEAR(student->mixers().at(3).linear.qProj, one->mixers().at(3).linear.qProj, 1e-3);
        }
        if (what == "distill" || what == "drift") { // the stage did something, to the new layers
            Recipe plain = recipe;
            plain.distill.steps = 0, plain.align.drift = "none";
            const auto without = orFail(openModel(run(std::string(QTest::currentDataTag()) + " less it", plain), kOnCpu));
            QVERIFY(std::ranges::any_of(report.convertedLayers, [&](std::int64_t l) { return !sameLayer(student->mixers().at(l).linear, without->mixers().at(l).linear); }));
        }
    }

    void runAfterRun() { // each made of the one before; none can be taken for another
        const auto second = run("second run", further(hybrid("run"), "layers:0,2"));
        const auto third = run("third", further(second, "layers:0"));
        const auto model = orFail(openModel(third, kOnCpu)), before = orFail(openModel(second, kOnCpu));
        QCOMPARE(layersOf(model->mixers()), (std::vector<std::int64_t>{1, 2, 3}));
        for (const std::int64_t layer : {1, 3})
            QVERIFY(sameLayer(model->mixers().at(layer).linear, before->mixers().at(layer).linear));
        QVERIFY(model->hash() != before->hash() && orFail(readModelInfo(third)).hash == model->hash());
        QCOMPARE(orFail(readModelInfo(third)).layerKinds, (std::vector<std::string>{"softmax", "gated_delta_net", "gated_delta_net", "gated_delta_net"}));
        const auto nothing = run("nothing more", further(second, "layers:0,2")); // every softmax layer kept
        QCOMPARE(orFail(readReport(nothing)).convertedLayers, (std::vector<std::int64_t>{1, 3}));
        QVERIFY(at::equal(logitsOf(*orFail(openModel(nothing, kOnCpu)), kPrompt), logitsOf(*before, kPrompt)));
        auto tensors = loadTensors(second / "checkpoints" / "student.safetensors", at::kCPU);
        const auto saved = readTextFile(second / "checkpoints" / "student.safetensors");
        tensors.front().second.view(-1)[0] += 1;
        saveTensors(second / "checkpoints" / "student.safetensors", tensors);
        const auto changed = openModel(third, kOnCpu);
        writeFileAtomically(second / "checkpoints" / "student.safetensors", saved);
        QVERIFY(!changed && messageOf(changed).contains("hash"));
        Json recipe = readJsonFile(third / "recipe.json"); // a run of itself
        recipe["teacher"]["source"] = third.string();
        fs::create_directories(at("loop/checkpoints"));
        fs::copy_file(third / "checkpoints" / "student.safetensors", at("loop/checkpoints/student.safetensors"));
        recipe["teacher"]["source"] = at("loop").string();
        writeFileAtomically(at("loop/recipe.json"), recipe.dump());
        const auto loop = openModel(at("loop"), kOnCpu);
        QVERIFY(!loop && messageOf(loop).contains("without an end") && messageOf(loop).contains(QString::fromStdString(at("loop").string())));
    }

    void profileOfKeptLayers() {
        const auto teacher = orFail(openModel(m_teachers.path("qwen3"), kOnCpu)), model = orFail(openModel(hybrid(), kOnCpu));
        const auto windows = loadSlices(run("second hf", further(hybrid(), "layers:0,2")) / "samples.safetensors").selection;
        ProfileOptions options;
        options.binsPerOctave = 0;
        const auto whole = orFail(profileModel(*teacher, windows, options)), kept = orFail(profileModel(*model, windows, options));
        const Json before = profileToJson(whole), now = profileToJson(kept);
        QVERIFY(now["layers"][0] == before["layers"][0]); // below the first converted one: the same bits
        QVERIFY2(now["layers"][1] == Json({{"layer", 1}, {"heads", Json::array()}, {"converted", true}}), now["layers"][1].dump().c_str());
        QVERIFY(now["layers"][3] != before["layers"][3] && now["layers"][3]["heads"].size() == 6);
        QVERIFY(profileToJson(profileFromJson(now, "profile")) == now);
        const auto ids = at("profile.json"), out = at("profile.out");
        Json rows = Json::array();
        for (std::int64_t n = 0; n < windows.sequences; ++n)
            rows.push_back(std::vector<TokenId>(windows.ids.begin() + n * windows.seqLen, windows.ids.begin() + (n + 1) * windows.seqLen));
        writeFileAtomically(ids, rows.dump());
        for (const int layer : {2, 3}) {
            const auto said = runOracle("hybrid_oracle.py", {hybrid().c_str(), m_teachers.path("qwen3").c_str(), QString::number(layer), ids.c_str(), out.c_str()});
            QVERIFY2(said.isEmpty(), qPrintable(said));
            const Json expected = readJsonFile(out);
            for (std::size_t h = 0; h < 6; ++h) {
                const auto& head = kept.layers[static_cast<std::size_t>(layer)][h];
                const auto of = [&](const char* key) { return expected[key][h].get<double>(); };
                LINNET_CLOSE(head.distance.mean, of("distance"), 1e-4, 1e-5, "distance");
                LINNET_CLOSE(head.distanceNoSink.mean, of("distance_no_sink"), 1e-4, 1e-5, "distance without sinks");
                LINNET_CLOSE(head.entropy.mean, of("entropy"), 1e-4, 1e-5, "entropy");
                LINNET_CLOSE(head.sinkMass, of("sink"), 1e-4, 1e-5, "sink mass");
                LINNET_CLOSE(head.previousMass, of("previous"), 1e-4, 1e-5, "previous");
                LINNET_CLOSE(head.rmsPreO, std::sqrt(of("pre")), 1e-4, 1e-6, "RMS before W_O");
                LINNET_CLOSE(head.rmsPostO, std::sqrt(of("post")), 1e-4, 1e-6, "RMS after W_O");
            }
        }
        Recipe none = further(m_teachers.path("qwen3"), "first:0");
        none.align.steps = 0;
        const auto all = orFail(openModel(run("none kept", none), kOnCpu));
        const auto refused = profileModel(*all, windows, options);
        QVERIFY(!refused && refused.error().code == ErrorCode::Unsupported);
    }

    void rulesOnAHybrid_data() {
        QTest::addColumn<QString>("keep");
        QTest::addColumn<QList<int>>("kept");
        QTest::newRow("evenly among the softmax layers") << "uniform:2" << QList<int>{0, 3};
        QTest::newRow("the first of them") << "first:2" << QList<int>{0, 3};
        QTest::newRow("the last of them") << "last:2" << QList<int>{3, 5};
        QTest::newRow("by name") << "layers:0,1,5" << QList<int>{0, 5};
        QTest::newRow("none") << "first:0" << QList<int>{};
    }
    void rulesOnAHybrid() {
        QFETCH(QString, keep);
        QFETCH(QList<int>, kept);
        const std::string gdn = "gated_delta_net", soft = "softmax";
        Recipe recipe;
        recipe.keep = parseKeepRule(keep.toStdString());
        const auto on = recipeOn(recipe, {soft, gdn, gdn, soft, "sliding_window", soft});
        QCOMPARE(*keptLayers(on, 6), std::vector<std::int64_t>(kept.begin(), kept.end()));
        QVERIFY(recipeOn(recipe, std::vector<std::string>(6, soft)) == recipe);
    }

    void refusals() {
        const auto refused = [&](const std::function<void(Recipe&)>& change, const char* key, const char* word) {
            Recipe recipe = further(hybrid(), "layers:0,2");
            change(recipe);
            const auto errors = checkRecipe(recipe, orFail(readModelInfo(hybrid())));
            QVERIFY(errors.size() == 1);
            QVERIFY2(QString::fromStdString(errors[0].message).contains(word) && errors[0].context.at("key") == key, errors[0].message.c_str());
            const auto converted = convert(recipe, at("refused"), {}, {});
            QVERIFY(!converted && messageOf(converted) == QString::fromStdString(errors[0].message) && !fs::exists(at("refused") / "report.json"));
        };
        refused([](Recipe& r) { r.never = {1}; }, "pins.never", "layer 1");
        refused([](Recipe& r) { r.targets[1][0].beta = 0.5; }, "targets.1", "layer 1");
        refused([](Recipe& r) { r.keep = parseKeepRule("uniform:4"); }, "keep", "3 softmax layers");
        refused([](Recipe& r) { r.keep = parseKeepRule("kl:4"); }, "keep", "3 softmax layers");
    }

    void estimateOfTheRest() { // one of three softmax layers is converted, none twice
        const auto info = orFail(readModelInfo(hybrid()));
        const auto estimate = estimateRun(further(hybrid(), "layers:0,2"), info);
        QVERIFY2(estimate, qPrintable(messageOf(estimate)));
        QCOMPARE(estimate->convertedLayers, std::int64_t{1});
        QCOMPARE(estimate->keptLayers, std::int64_t{2});
        const auto plain = orFail(estimateRun(further(m_teachers.path("qwen3"), "layers:0,2"), orFail(readModelInfo(m_teachers.path("qwen3")))));
        QCOMPARE(estimate->cacheBytesAt32k, plain.cacheBytesAt32k); // two layers' keys and values, two states
        QVERIFY(estimate->seconds < plain.seconds);
    }
};

QTEST_APPLESS_MAIN(TestExportHybrid)
#include "tst_export_hybrid.moc"
