// Conversions with every stage: a bank of all layers, the choice among its students, the drift pass, KL steps; stopped in each of them,
// and banks that one run leaves to the next.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/evaluate/evaluate_model.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

class TestConvertStages : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    QTemporaryDir m_runs;
    fs::path m_plain;
    Report m_report;

    fs::path run(const std::string& name) const { return fs::path(m_runs.path().toStdString()) / name; }
    Recipe recipe(const std::string& keep = "kl:2") const {
        Recipe recipe = m_teachers.recipe("llama", keep, "linnet");
        recipe.align.steps = 6;
        recipe.align.drift = "refit";
        recipe.closedForm.halfLives = {4, 32};
        recipe.closedForm.betas = {.1, .5};
        recipe.closedForm.sequences = 6;
        recipe.distill.steps = 4;
        recipe.distill.batch = 2;
        return recipe;
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
        m_plain = run("plain");
        const auto report = convert(recipe(), m_plain, {}, {});
        QVERIFY2(report, qPrintable(messageOf(report)));
        m_report = *report;
    }

    void reportNamesEveryStage() {
        std::vector<std::string> stages;
        for (const auto& stage : m_report.stages)
            stages.push_back(stage.name);
        QCOMPARE(stages, (std::vector<std::string>{"data", "align", "select", "drift", "distill", "evaluate"}));
        QVERIFY(m_report.selection);
        QCOMPARE(m_report.selection->kept, m_report.keptLayers);
        QCOMPARE(m_report.selection->curve.size(), std::size_t(5)); // 4 to 0 layers kept
        QCOMPARE(m_report.treatments.size(), std::size_t(1));
        QCOMPARE(m_report.treatments[0].part, std::string("rope"));
        QVERIFY(m_report.treatments[0].folded > 0 && m_report.treatments[0].dropped > 0);
        const Json fits = readJsonFile(m_plain / "closed_form.json");
        QCOMPARE(fits.size(), std::size_t(4)); // of the whole bank
        for (const auto& fit : fits)
            for (const auto& head : fit["heads"])
                QVERIFY(head["tried"].size() > 4 && head.contains("half_life") && head.contains("residual"));
        int drift = 0, distilled = 0;
        for (const auto& row : orFail(readMetrics(m_plain))) {
            drift += row.stage == "drift";
            distilled += row.stage == "distill" && row.layer == -1;
        }
        QCOMPARE(drift, 2);
        QCOMPARE(distilled, 4);
    }

    void studentIsTheChosenPartOfTheBank() {
        const auto student = tensorsOf(m_plain / "checkpoints/student.safetensors"), bank = tensorsOf(m_plain / "checkpoints/aligned.safetensors");
        std::set<std::int64_t> layers;
        for (const auto& [name, tensor] : student)
            layers.insert(std::stoll(name.substr(13)));
        QVERIFY(layers == std::set<std::int64_t>(m_report.convertedLayers.begin(), m_report.convertedLayers.end()));
        QVERIFY(bank.size() == 2 * student.size());
        for (const auto& [name, tensor] : student)
            if (name.ends_with("q_proj.weight"))
                QVERIFY(!at::equal(tensor, bank.at(name))); // the KL steps moved it
    }

    void stopAndResume_data() {
        QTest::addColumn<QString>("stage");
        QTest::addColumn<int>("reports");
        for (const auto& [stage, reports] : {std::pair("align", 3), {"align", 14}, {"select", 4}, {"drift", 1}, {"distill", 2}, {"evaluate", 2}})
            QTest::newRow(qPrintable(QString("%1 %2").arg(stage).arg(reports))) << stage << reports;
    }
    void stopAndResume() {
        QFETCH(QString, stage);
        QFETCH(int, reports);
        const auto folder = run(QTest::currentDataTag());
        std::stop_source stop;
        int seen = 0;
        Control control;
        control.stop = stop.get_token();
        control.onProgress = [&](const Progress& progress) {
            if (progress.stage == stage.toStdString() && ++seen == reports)
                stop.request_stop();
        };
        const auto stopped = convert(recipe(), folder, {}, control);
        QVERIFY2(!stopped && stopped.error().code == ErrorCode::Cancelled, qPrintable("not stopped: " + messageOf(stopped)));
        const auto finished = resumeRun(folder, {}, {});
        QVERIFY2(finished, qPrintable(messageOf(finished)));
        QCOMPARE(numbersOf(*finished).dump(), numbersOf(m_report).dump());
        QVERIFY(studentBytes(folder) == studentBytes(m_plain));
        QVERIFY(curveOf(folder) == curveOf(m_plain));
    }

    void aBankServesOtherRules() {
        ConvertOptions options;
        options.bankFolder = run("banks");
        const auto first = convert(recipe(), run("first"), options, {});
        QVERIFY2(first, qPrintable(messageOf(first)));
        QCOMPARE(numbersOf(*first).dump(), numbersOf(m_report).dump());
        const auto again = convert(recipe(), run("again"), options, {}); // from the cache, to the same bits
        QVERIFY2(again, qPrintable(messageOf(again)));
        QCOMPARE(numbersOf(*again).dump(), numbersOf(m_report).dump());
        QVERIFY(studentBytes(run("again")) == studentBytes(m_plain));
        QVERIFY(readTextFile(run("again") / "log.txt").find("taken from") != std::string::npos);
        for (const bool cut : {true, false}) { // a damaged bank is made again, and no run suffers
            for (const auto& entry : fs::directory_iterator(run("banks")))
                if (fs::exists(entry.path() / "bank.json")) {
                    auto bytes = readTextFile(entry.path() / "aligned.safetensors");
                    cut ? bytes.resize(bytes.size() / 2) : void(bytes[bytes.size() - 100] ^= 64);
                    writeFileAtomically(entry.path() / "aligned.safetensors", bytes);
                }
            const auto name = std::string(cut ? "cut" : "flipped");
            const auto remade = convert(recipe(), run(name), options, {});
            QVERIFY2(remade, qPrintable(messageOf(remade)));
            QCOMPARE(numbersOf(*remade).dump(), numbersOf(m_report).dump());
            QVERIFY(studentBytes(run(name)) == studentBytes(m_plain));
            QVERIFY(readTextFile(run(name) / "log.txt").find("damaged") != std::string::npos);
        }
        const auto chosen = selectLayers(recipe("greedy:2"), options, {});
        QVERIFY2(chosen, qPrintable(messageOf(chosen)));
        QCOMPARE(chosen->kept.size(), std::size_t(2));
        const auto fewer = selectLayers(recipe("greedy:1"), options, {});
        QVERIFY2(fewer, qPrintable(messageOf(fewer)));
        QVERIFY(std::ranges::includes(chosen->kept, fewer->kept)); // nested
        const auto other = recipe("layers:0,1");
        ConvertOptions whole = options;
        whole.wholeBank = true; // a rule that needs no bank finds one too
        const auto fixed = convert(other, run("fixed"), whole, {});
        QVERIFY2(fixed, qPrintable(messageOf(fixed)));
        QCOMPARE(fixed->keptLayers, (std::vector<std::int64_t>{0, 1}));
        QVERIFY(readTextFile(run("fixed") / "log.txt").find("taken from") != std::string::npos);
    }

    void everyMethodConverts_data() {
        QTest::addColumn<QString>("rule");
        for (const char* rule : {"greedy:2", "restore:2", "ga-s2:2", "score:2", "kl:ppl=1000", "bypass:ppl=1000", "kl:cache=100000@64"})
            QTest::newRow(rule) << rule;
    }
    void everyMethodConverts() {
        QFETCH(QString, rule);
        Recipe wanted = recipe(rule.toStdString());
        wanted.align.steps = 2;
        wanted.align.drift = "none";
        wanted.distill.steps = 0;
        const auto report = convert(wanted, run("by " + rule.toStdString()), {}, {});
        QVERIFY2(report, qPrintable(messageOf(report)));
        QCOMPARE(report->keptLayers.size() + report->convertedLayers.size(), std::size_t(4));
        QVERIFY(std::isfinite(report->evaluation.at("student").loss));
    }

    void alignsInTheMetricOfTheNextLayers() {
        Recipe wanted = recipe("layers:0,1");
        wanted.align.loss = "kl_metric";
        wanted.align.drift = "align";
        wanted.align.driftSteps = 2;
        wanted.distill.steps = 0;
        const auto report = convert(wanted, run("metric"), {}, {});
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(*report->evaluation.at("student").klToTeacher < *report->evaluation.at("naive").klToTeacher);
    }

    void closedFormBeatsTheNaiveCopy() { // by far, before any step
        Recipe wanted = recipe("first:0");
        wanted.align.steps = 0;
        wanted.align.drift = "none";
        wanted.distill.steps = 0;
        const auto report = convert(wanted, run("closed form"), {}, {});
        QVERIFY2(report, qPrintable(messageOf(report)));
        QVERIFY(*report->evaluation.at("student").klToTeacher < 0.7 * *report->evaluation.at("naive").klToTeacher);
    }
};

QTEST_APPLESS_MAIN(TestConvertStages)
#include "tst_convert_stages.moc"
