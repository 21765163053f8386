// Which state of an alignment is kept, and that it is said; the warm-up of short runs.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/align_parts.h"
#include "core/convert/recipe_checks.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

class TestConvertKept : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    QTemporaryDir m_runs;

    Report converted(const std::string& name, const Recipe& recipe, std::uint64_t groupBytes, std::vector<std::string>* log = nullptr) {
        ConvertOptions options;
        options.baselines = false;
        options.groupBytes = groupBytes;
        Control control;
        if (log)
            control.onLog = [log](const std::string& line) { log->push_back(line); };
        return orFail(convert(recipe, fs::path(m_runs.path().toStdString()) / name, options, control));
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }

    void trainingInVainIsSaid_data() {
        QTest::addColumn<bool>("group");
        QTest::newRow("layer by layer") << false;
        QTest::newRow("in groups") << true;
    }
    void trainingInVainIsSaid() {
        QFETCH(bool, group);
        auto recipe = m_teachers.recipe("llama", "layers:0,2");
        recipe.align.lr = recipe.align.lrNew = 1; // no state of it is better than the start
        std::vector<std::string> log;
        const auto report = converted(group ? "vain-group" : "vain", recipe, group ? std::uint64_t(64) << 20 : 0, &log);
        QCOMPARE(report.aligned.size(), std::size_t(2));
        const auto rows = orFail(readMetrics(report.run));
        for (const auto& layer : report.aligned) {
            QCOMPARE(layer.keptStep, std::int64_t(0));
            QCOMPARE(layer.steps, std::int64_t(16));
            const auto start = std::ranges::find_if(rows, [&](const MetricRow& row) { return row.layer == layer.layer && row.step == 0; });
            QVERIFY(start != rows.end() && start->heldOutLoss && layer.heldOutLoss);
            QCOMPARE(*layer.heldOutLoss, *start->heldOutLoss);
            QVERIFY(std::ranges::find(log, "layer " + std::to_string(layer.layer) + ": best at step 0 of 16, training not kept") != log.end());
        }
        QVERIFY(std::ranges::any_of(report.notes, [](const std::string& note) { return note.starts_with("layers 1, 3 keep their starts"); }));
        const auto again = orFail(readReport(report.run));
        QCOMPARE(again.aligned.size(), std::size_t(2));
        QCOMPARE(reportToJson(again).dump(), reportToJson(report).dump());
    }

    void theKeptStateIsTheBestMeasured() {
        std::vector<std::string> log;
        const auto report = converted("plain", m_teachers.recipe("llama", "layers:0,2"), 0, &log);
        const auto rows = orFail(readMetrics(report.run));
        QCOMPARE(report.aligned.size(), std::size_t(2));
        for (const auto& layer : report.aligned) {
            double best = std::numeric_limits<double>::infinity();
            std::int64_t at = -1;
            for (const auto& row : rows)
                if (row.layer == layer.layer && row.heldOutLoss && *row.heldOutLoss < best)
                    best = *row.heldOutLoss, at = row.step;
            QVERIFY(layer.keptStep == 16 ? *layer.heldOutLoss < best : layer.keptStep == at); // the state after the last step has no row
            QVERIFY(layer.keptStep > 0);
        }
        QVERIFY(std::ranges::none_of(log, [](const std::string& line) { return line.find("not kept") != line.npos; }));
        QVERIFY(std::ranges::none_of(report.notes, [](const std::string& note) { return note.find("keep their starts") != note.npos; }));
    }

    void noStepsNothingToKeep() {
        auto recipe = m_teachers.recipe("llama", "layers:0,2");
        recipe.align.steps = 0;
        const auto report = converted("none", recipe, 0);
        QVERIFY(report.aligned.empty());
        QVERIFY(!reportToJson(report).contains("alignment"));
    }

    void aHighRateForFewStepsIsNoted() {
        auto recipe = defaultRecipe("cpu");
        recipe.keep = parseKeepRule("layers:0,2");
        const auto noted = [&] { return std::ranges::any_of(recipeNotes(recipe, 4), [](const RecipeNote& note) { return note.key == "align.lr"; }); };
        QVERIFY(!noted()); // the defaults
        recipe.align.steps = 30;
        QVERIFY(noted());
        recipe.align.lr = recipe.align.lrNew = 1e-3;
        QVERIFY(!noted());
        recipe.align.lr = 6e-3;
        recipe.align.steps = 0; // the closed form alone
        QVERIFY(!noted());
    }

    void warmUp_data() {
        QTest::addColumn<double>("share");
        QTest::addColumn<int>("steps");
        QTest::addColumn<int>("expected");
        QTest::newRow("the default of a GPU") << 0.05 << 300 << 15;
        QTest::newRow("the default of a CPU") << 0.05 << 100 << 5;
        QTest::newRow("30 steps") << 0.05 << 30 << 5;
        QTest::newRow("10 steps: half of them") << 0.05 << 10 << 5;
        QTest::newRow("7 steps: half of them") << 0.05 << 7 << 3;
        QTest::newRow("1 step") << 0.05 << 1 << 0;
        QTest::newRow("asked for longer") << 0.5 << 30 << 15;
        QTest::newRow("asked for none") << 0.0 << 30 << 0;
    }
    void warmUp() {
        QFETCH(double, share);
        QFETCH(int, steps);
        QFETCH(int, expected);
        AlignSettings settings;
        settings.warmup = share;
        settings.steps = steps;
        settings.schedule = "constant";
        QCOMPARE(warmupSteps(settings), std::int64_t(expected));
        for (int step = 0; step < steps; ++step)
            QCOMPARE(scheduleFactor(settings, step), step < expected ? (step + 1.0) / expected : 1.0);
    }
};

QTEST_APPLESS_MAIN(TestConvertKept)
#include "tst_convert_kept.moc"
