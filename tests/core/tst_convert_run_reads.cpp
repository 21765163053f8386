// What is read from run folders beside their report: the points at which they were saved, and the measured choice of layers behind them.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/run_saves.h"
#include "core/convert/run_selection.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

class TestConvertRunReads : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    QTemporaryDir m_place;

    fs::path path(const char* name) const { return m_place.filePath(QString::fromLatin1(name)).toStdString(); }
    static ConvertOptions plain() {
        ConvertOptions options;
        options.baselines = false;
        return options;
    }
    Recipe keeping(const std::vector<std::int64_t>& layers) const {
        auto recipe = m_teachers.recipe("llama", "first:0");
        recipe.keep = KeepRule{KeepRule::Kind::Layers, 0, layers, "", ""};
        return recipe;
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }

    void theChoiceBehindARun() {
        ConvertOptions options = plain();
        options.bankFolder = path("banks");
        const auto measured = selectLayers(m_teachers.recipe("llama", "bypass:2"), options, {});
        QVERIFY2(measured, qPrintable(messageOf(measured)));
        QVERIFY(convert(keeping(measured->kept), path("chosen"), plain(), {})); // as the window writes it: a list
        const auto found = selectionOfRun(path("chosen"), path("banks"));
        QVERIFY(found);
        QCOMPARE(selectionToJson(found->selection).dump(), selectionToJson(*measured).dump());
        QVERIFY(found->never.empty() && found->always.empty());
        QVERIFY(!selectionOfRun(path("chosen"), path("no banks"))); // they were thrown away
        std::vector<std::int64_t> other;
        for (std::int64_t l = 0; l < 4; ++l)
            if (!std::ranges::count(measured->kept, l))
                other.push_back(l);
        QVERIFY(convert(keeping(other), path("by hand"), plain(), {}));
        QVERIFY(!selectionOfRun(path("by hand"), path("banks"))); // other layers: not that choice
        auto stranger = keeping(measured->kept);
        stranger.teacherSource = m_teachers.path("qwen2").string();
        QVERIFY(convert(stranger, path("stranger"), plain(), {}));
        QVERIFY(!selectionOfRun(path("stranger"), path("banks"))); // the same layers of another teacher
        QVERIFY(!selectionOfRun(path("nowhere"), path("banks")));
    }

    // What is measured depends on less than the recipe: what it does not depend on finds it again.
    void aMeasurementOutlivesOtherSettings() {
        ConvertOptions options = plain();
        options.bankFolder = path("kept");
        std::size_t reports = 0;
        Control counting;
        counting.onProgress = [&](const Progress& progress) { reports += progress.stage == "select" || progress.stage == "align"; };
        const auto folders = [&] { return std::distance(fs::directory_iterator(path("kept")), fs::directory_iterator()); };
        auto recipe = m_teachers.recipe("llama", "bypass:2");
        recipe.align.steps = 2;
        QVERIFY(!knownSelection(recipe, path("kept")));
        const auto measured = selectLayers(recipe, options, counting);
        QVERIFY2(measured, qPrintable(messageOf(measured)));
        QVERIFY(reports > 0);
        auto other = recipe;
        other.align.steps = 7, other.align.lr = 1e-4, other.align.drift = "refit", other.distill.steps = 3, other.preset = "naive", other.closedForm.ridge = .5;
        other.targets[1][0].halfLife = 3.0, other.memoryGib = 2;
        other.keep = parseKeepRule("bypass:1");
        reports = 0;
        const auto again = selectLayers(other, options, counting);
        QVERIFY2(again, qPrintable(messageOf(again)));
        QCOMPARE(reports, std::size_t(0)); // nothing was computed
        QCOMPARE(folders(), std::ptrdiff_t(1));
        QCOMPARE(selectionToJson(*again)["ranking"].dump(), selectionToJson(*measured)["ranking"].dump());
        const auto known = knownSelection(other, path("kept"));
        QVERIFY(known && known->whole && known->selection.method == "bypass");
        const auto layers = knownSelection(keeping(again->kept), path("kept")); // a recipe whose layers were chosen by it
        QVERIFY(layers && layers->selection.kept == again->kept);
        other.never = {0}; // the numbers serve it; the choice is to be made
        QVERIFY(knownSelection(other, path("kept")) && !knownSelection(other, path("kept"))->whole);
        QVERIFY(selectLayers(other, options, counting));
        QCOMPARE(reports, std::size_t(0));
        for (const auto& change : std::vector<std::function<void(Recipe&)>>{[](Recipe& r) { r.seed = 9; }, [](Recipe& r) { r.selectionTokens /= 2; }, [](Recipe& r) { r.keep = parseKeepRule("kl:2"); },
                                                                            [](Recipe& r) { r.keep = parseKeepRule("bypass:ppl=1.5"); }}) {
            auto changed = recipe;
            change(changed);
            QVERIFY(!knownSelection(changed, path("kept")));
        }
        // A student's numbers depend on how it is aligned, and on nothing that comes later; without its layers they would be made again.
        recipe.keep = parseKeepRule("kl:2");
        const auto byKl = selectLayers(recipe, options, {});
        QVERIFY2(byKl, qPrintable(messageOf(byKl)));
        other = recipe;
        other.align.drift = "refit", other.distill.steps = 3, other.distill.lr = 1;
        QVERIFY(knownSelection(other, path("kept")) && knownSelection(other, path("kept"))->whole);
        other.align.steps = 3;
        QVERIFY(!knownSelection(other, path("kept")));
        for (const auto& entry : fs::directory_iterator(path("kept")))
            if (fs::exists(entry.path() / "bank.json"))
                fs::remove(entry.path() / "bank.json");
        QVERIFY(knownSelection(recipe, path("kept")) && !knownSelection(recipe, path("kept"))->whole);
    }

    // Stopped: each layer that was measured has its cost, the others have none; measuring on gives the whole.
    void whatAStoppedMeasurementHas() {
        ConvertOptions options = plain();
        options.bankFolder = path("stopped banks");
        const auto recipe = m_teachers.recipe("llama", "bypass:2");
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        control.onProgress = [&](const Progress& progress) {
            if (progress.stage == "select" && progress.done >= 3) // the teacher, one layer, and near the end of the second
                stop.request_stop();
        };
        QVERIFY(!selectLayers(recipe, options, control));
        const auto some = knownSelection(recipe, path("stopped banks"));
        QVERIFY(some && some->partial && !some->whole);
        QVERIFY2(some->selection.ranking.size() >= 1 && some->selection.ranking.size() < 4, qPrintable(QString::number(some->selection.ranking.size())));
        const auto whole = selectLayers(recipe, options, {});
        QVERIFY2(whole, qPrintable(messageOf(whole)));
        for (const auto& each : some->selection.ranking) {
            const auto found = std::ranges::find(whole->ranking, each.layer, &LayerScore::layer);
            QVERIFY(found != whole->ranking.end());
            QCOMPARE(each.score, found->score);
        }
        const auto known = knownSelection(recipe, path("stopped banks"));
        QVERIFY(known && !known->partial && known->whole);
    }

    // A hybrid's parameters are its own: those of its files, a converted layer's attention not among them.
    void aHybridCountsItsOwnParameters() {
        QVERIFY(convert(keeping({0, 2}), path("counted"), plain(), {}));
        const auto teacher = openSafetensorsFile(m_teachers.path("llama") / "model.safetensors"), student = openSafetensorsFile(path("counted") / "checkpoints" / "student.safetensors");
        std::int64_t expected = 0;
        const auto add = [&](const TensorInfo& tensor) {
            std::int64_t count = 1;
            for (const auto size : tensor.shape)
                count *= size;
            expected += count;
        };
        for (const auto& tensor : teacher->tensors())
            if (!tensor.name.starts_with("model.layers.1.self_attn.") && !tensor.name.starts_with("model.layers.3.self_attn."))
                add(tensor);
        for (const auto& tensor : student->tensors())
            add(tensor);
        const auto info = readModelInfo(path("counted"));
        QVERIFY2(info, qPrintable(messageOf(info)));
        QCOMPARE(info->parameters, expected);
        const auto opened = openModel(path("counted"), {});
        QVERIFY2(opened, qPrintable(messageOf(opened)));
        QCOMPARE(modelInfo(**opened).parameters, expected);
        QVERIFY(readModelInfo(m_teachers.path("llama"))->parameters != expected);
    }

    void aRunsOwnRule() {
        auto recipe = m_teachers.recipe("llama", "bypass:2");
        recipe.never = {3};
        const auto report = convert(recipe, path("rule"), plain(), {});
        QVERIFY2(report, qPrintable(messageOf(report)));
        const auto expected = selectionToJson(*report->selection).dump();
        const auto ofReport = selectionOfRun(path("rule"), {});
        QVERIFY(ofReport && selectionToJson(ofReport->selection).dump() == expected && ofReport->never == recipe.never);
        fs::remove(path("rule") / "report.json"); // as of a run that was stopped after it
        const auto ofState = selectionOfRun(path("rule"), {});
        QVERIFY(ofState && selectionToJson(ofState->selection).dump() == expected);
        writeFileAtomically(path("rule") / "state.json", "{\"selection\": [");
        QVERIFY(!selectionOfRun(path("rule"), {}));
    }

    void savesAreNoted() {
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        ConvertOptions options = plain();
        auto recipe = keeping({0, 1});
        recipe.align.steps = 40;
        options.onMetric = [&](const MetricRow& row) {
            if (row.layer == 3 && row.step == 10)
                stop.request_stop();
        };
        const auto stopped = convert(recipe, path("stopped"), options, control);
        QVERIFY(!stopped && stopped.error().code == ErrorCode::Cancelled);
        auto saves = readSavePoints(path("stopped"));
        QCOMPARE(saves.size(), std::size_t(2)); // layer 2 whole, layer 3 at the stop
        QVERIFY(saves[0].stage == "align" && saves[0].layer == 2 && saves[0].step == -1);
        QVERIFY(saves[1].layer == 3 && saves[1].step >= 11 && saves[1].time >= saves[0].time && saves[0].time > 0);
        QVERIFY(fs::exists(path("stopped") / "checkpoints" / ("align_3_" + std::to_string(saves[1].step) + ".safetensors"))); // what it tells of
        QVERIFY(resumeRun(path("stopped"), plain(), {}));
        saves = readSavePoints(path("stopped"));
        QCOMPARE(saves.size(), std::size_t(3));
        QVERIFY(saves[2].layer == 3 && saves[2].step == -1);
        QVERIFY(readSavePoints(path("nowhere")).empty());
    }
};

QTEST_APPLESS_MAIN(TestConvertRunReads)
#include "tst_convert_run_reads.moc"
