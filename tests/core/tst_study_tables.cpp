// A whole study of a tiny teacher: every row that the plan asks for, tables that follow from the rows, stops anywhere.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/evaluate/evaluate_model.h"
#include "core/study/study.h"
#include "core/study/study_data.h"
#include "core/study/study_plan.h"
#include "tests/support/convert_fixtures.h"

#include <QRegularExpression>
#include <QTest>

#include <sstream>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

const StudyScale kScale = StudyScale::quick();

std::string keyOf(const Json& row) {
    return row["method"].get<std::string>() + " " + row["seed"].dump() + " " + row["layers"].get<std::string>() + " " + row["share"].dump();
}

std::map<std::string, Json> rowsOf(const Json& results) {
    std::map<std::string, Json> rows;
    for (const auto& row : results["rows"])
        rows[keyOf(row)] = row;
    return rows;
}

std::map<std::string, Json> numbersOf(const Json& results) { // less what differs from run to run
    auto rows = rowsOf(results);
    for (auto& [key, row] : rows)
        row.erase("seconds"), row.erase("student_seconds");
    return rows;
}

// Cells of the table below a title: by row label, without the label.
std::map<QString, QStringList> tableOf(const std::string& text, const std::string& title) {
    std::map<QString, QStringList> rows;
    bool inside = false;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("## "))
            inside = line == "## " + title;
        if (!inside || !line.starts_with("| "))
            continue;
        auto cells = QString::fromStdString(line).split('|');
        for (auto& cell : cells)
            cell = cell.trimmed();
        rows[cells[1]] = cells.mid(2, cells.size() - 3);
    }
    return rows;
}

struct Shown { // "1.234 ± 0.005 [0.006]; 0.210"
    double ratio = NAN, error = NAN, deviation = NAN, kl = NAN;
};
Shown shownIn(const QString& cell) {
    static const QRegularExpression form("^([0-9.]+) ± ([0-9.]+)(?: \\[([0-9.]+)\\])?; (-?[0-9.]+)$");
    const auto match = form.match(cell);
    const auto number = [&](int i) { return match.captured(i).isEmpty() ? NAN : match.captured(i).toDouble(); };
    return match.hasMatch() ? Shown{number(1), number(2), number(3), number(4)} : Shown{};
}

bool near(double shown, double exact) { // as far as three decimals, or one above 10, tell
    return std::abs(shown - exact) <= (std::abs(exact) < 10 ? 5.1e-4 : std::abs(exact) < 1000 ? 5.1e-2 : 0.51);
}

} // namespace

class TestStudyTables : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    QTemporaryDir m_folder;
    ModelPtr m_llama;
    fs::path m_text;
    Json m_whole; // results of an undisturbed study
    std::string m_tables;

    fs::path path(const std::string& name) const { return fs::path(m_folder.path().toStdString()) / name; }
    Result<Json> study(const std::string& out, const Control& control = {}, std::int64_t seeds = 2, const fs::path& text = {}) const {
        StudyOptions options;
        options.teacher = m_llama;
        options.data = text.empty() ? m_text : text;
        options.out = path(out);
        options.quick = true;
        options.seeds = seeds;
        options.version = "0", options.command = "test";
        return runStudy(options, control);
    }
    StudyPlan plan() const { return studyPlan(kScale, m_llama->config(), "cpu", "f32"); }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
        m_llama = m_teachers.open("llama");
        std::istringstream words(readTextFile(m_teachers.path("text.txt")));
        std::string lines, document;
        std::int64_t count = 0, documents = 0;
        for (std::string word; words >> word;) {
            document += (document.empty() ? "" : " ") + word;
            if (++count % 40 == 0) {
                lines += Json{{"text", document}, {"genre", documents++ % 3 == 0 ? "prose" : "verse"}}.dump() + "\n";
                document.clear();
            }
        }
        m_text = path("text.jsonl");
        writeFileAtomically(m_text, lines);
        const auto results = study("whole");
        QVERIFY2(results, qPrintable(messageOf(results)));
        m_whole = *results;
        m_tables = readTextFile(path("whole/results.md"));
    }

    void regionsFollowEachOther() {
        const StudyText text(m_text, modelTokenizer(*m_llama), {96, 64, 160});
        QCOMPARE(text.regions().size(), std::size_t(4));
        std::int64_t next = 0;
        const auto documents = readDocuments({m_text.string()});
        for (const auto& region : text.regions()) {
            std::vector<std::string> own(documents.begin() + next, documents.begin() + next + region.documents);
            const auto expected = tokenWindows(modelTokenizer(*m_llama), own, 1).ids;
            QVERIFY(region.ids.size() <= expected.size() && std::equal(region.ids.begin(), region.ids.end(), expected.begin()));
            std::int64_t genres = 0;
            for (const auto& [name, number] : region.genres)
                genres += number;
            QCOMPARE(genres, region.documents);
            next += region.documents;
        }
        QCOMPARE(next, std::ssize(documents));
        QCOMPARE(std::ssize(text.regions()[0].ids), 96);
        QCOMPARE(std::ssize(text.regions()[2].ids), 160);
        const auto slices = text.slices(64);
        QCOMPARE(slices.evaluation.sequences, 1); // 96 tokens
        QCOMPARE(slices.selection.sequences, 1);
        QCOMPARE(slices.calibration.sequences, 2);
        QVERIFY(slices.training.sequences > 10);
    }

    void rowsAreAllThere() {
        const auto rows = rowsOf(m_whole);
        std::size_t expected = 2;
        for (const auto& method : plan().methods) {
            for (const auto& set : method.sets)
                QVERIFY2(rows.contains(method.id + " 0 " + set.text()), qPrintable(QString::fromStdString(method.id + " " + set.text())));
            for (const auto& set : method.seedSets)
                QVERIFY2(rows.contains(method.id + " 1 " + set.text()), qPrintable(QString::fromStdString(method.id + " seed 1")));
            expected += method.sets.size() + method.seedSets.size();
        }
        QCOMPARE(rows.size(), expected);
        QCOMPARE(m_whole["rows"].size(), expected);
        for (const auto& method : selectionMethods())
            QVERIFY(m_whole["selections"].contains(method) && m_whole["selections"][method]["seconds"].get<double>() > 0);
        QVERIFY(m_whole["timing"]["conversion"]["stages"].size() > 3);
        QVERIFY(!fs::exists(path("whole/banks")) && !fs::exists(path("whole/conversion")));
        QCOMPARE(readJsonFile(path("whole/results.json")).dump(), m_whole.dump());
    }

    void rowsAgreeWithAnEvaluation() {
        const StudyText text(m_text, modelTokenizer(*m_llama), {kScale.evaluation * kScale.seqLen, kScale.selection * kScale.seqLen, kScale.calibration * kScale.seqLen});
        const auto rows = rowsOf(m_whole);
        for (const auto& [length, id] : {std::pair(kScale.seqLen, std::string("")), std::pair(kScale.longSeqLen, "@" + std::to_string(kScale.longSeqLen))}) {
            const auto windows = text.slices(length).evaluation;
            const auto reference = orFail(teacherReference(*m_llama, windows));
            const auto teacher = evaluateMixers(*m_llama, {}, windows, reference.get(), {});
            const Json& row = rows.at("teacher" + id + " 0 all 100");
            QVERIFY(closeTo(row["loss"], teacher.loss, 1e-6) && row["predictions"] == teacher.tokens);
            QVERIFY(std::abs(row["log_ratio"].get<double>()) < 1e-9 && std::abs(row["kl"].get<double>()) < 1e-6);
            Mixers windowed;
            for (std::int64_t l = 0; l < m_llama->config().layers; ++l)
                windowed[l] = Mixer{Mixer::Kind::SlidingWindow, nullptr, {}, 8, 4};
            const auto student = evaluateMixers(*m_llama, windowed, windows, reference.get(), {});
            const Json& sliding = rows.at("window-8" + id + " 0 none 0");
            QVERIFY(closeTo(sliding["loss"], student.loss, 1e-6) && closeTo(sliding["kl"], *student.klToTeacher, 1e-5) && closeTo(sliding["top1"], *student.top1Agreement, 1e-9));
            for (const auto& [key, other] : rows)
                if (other["seq_len"] == length)
                    QVERIFY2(closeTo(other["ratio"], std::exp(other["loss"].get<double>() - teacher.loss), 1e-6) && closeTo(other["log_ratio"], std::log(other["ratio"].get<double>()), 1e-6) &&
                                 other["log_ratio_se"].get<double>() >= 0,
                             qPrintable(QString::fromStdString(key)));
        }
    }

    void layersAreThose() {
        const auto layers = m_llama->config().layers;
        for (const auto& row : m_whole["rows"]) {
            const auto kept = row["kept_layers"].get<std::vector<std::int64_t>>();
            QCOMPARE(std::ssize(kept), row["layers"] == "all" ? layers : keptOf(row["share"], layers));
            if (row["layers"] == "even" && !kept.empty())
                QCOMPARE(kept.front(), 0);
            if (row["layers"] == "chosen")
                QVERIFY(m_whole["selections"]["greedy"]["kept"][row["share"].dump()].get<std::vector<std::int64_t>>() == kept);
        }
    }

    // No method measures another's student. (Few steps on little text may gain nothing: then an alignment gives its start.)
    void methodsDiffer() {
        std::map<std::string, std::string> losses;
        std::size_t expected = 0;
        for (const auto& row : m_whole["rows"]) {
            const auto method = row["method"].get<std::string>();
            const bool gained = method.find('-') == method.npos || method.starts_with("window") || method.starts_with("fixed") || method.starts_with("closed-form") || method.ends_with("kl");
            if (row["seed"] != 0 || row["layers"] != "chosen" || row["seq_len"] != kScale.seqLen || !gained || method.ends_with("refit"))
                continue;
            const auto loss = row["loss"].dump() + " " + row["kl"].dump();
            QVERIFY2(!losses.contains(loss), qPrintable(QString::fromStdString(method + " measures as " + losses[loss])));
            losses[loss] = method;
            ++expected;
        }
        QVERIFY(expected > 9);
        const auto rows = rowsOf(m_whole);
        std::size_t seeded = 0;
        for (const auto& method : plan().methods)
            if (!method.seedSets.empty()) {
                const auto set = method.seedSets.front().text();
                const auto fewer = rows.find(method.id.substr(0, method.id.find('-')) + "-3 0 " + set);
                if (fewer != rows.end() && fewer->second["loss"] == rows.at(method.id + " 0 " + set)["loss"])
                    continue; // a few steps gained nothing: its best state is the start, which no seed changes
                ++seeded;
                QVERIFY2(rows.at(method.id + " 0 " + set)["loss"] != rows.at(method.id + " 1 " + set)["loss"], qPrintable(QString::fromStdString(method.id)));
            }
        QVERIFY(seeded > 0);
    }

    void tablesFollowFromRows() {
        std::map<std::string, std::vector<Json>> cells; // of all seeds
        for (const auto& row : m_whole["rows"])
            cells[row["method"].get<std::string>() + " " + row["layers"].get<std::string>() + " " + row["share"].dump()].push_back(row);
        std::size_t checked = 0, deviations = 0;
        for (const auto& table : m_whole["tables"]) {
            const auto shown = tableOf(m_tables, table["title"]);
            for (const auto& row : table["rows"]) {
                const auto label = QString::fromStdString(row["label"]);
                QVERIFY2(shown.contains(label), qPrintable(label));
                const auto& values = shown.at(label);
                for (std::size_t c = 0; c < table["columns"].size(); ++c) {
                    const auto& column = table["columns"][c];
                    const auto& value = values[static_cast<qsizetype>(c)];
                    if (column["layers"] == "all") {
                        QCOMPARE(value, QString("1"));
                        continue;
                    }
                    const auto layers = row.contains("layers") ? row["layers"].get<std::string>() : column["layers"].get<std::string>();
                    const auto found = cells.find(row["method"].get<std::string>() + " " + layers + " " + column["share"].dump());
                    if (found == cells.end()) {
                        QCOMPARE(value, QString("-"));
                        continue;
                    }
                    double ratio = 0, square = 0, error = 0, kl = 0;
                    const auto n = static_cast<double>(found->second.size());
                    for (const auto& seed : found->second) {
                        const double r = seed["ratio"];
                        ratio += r / n, square += r * r / n, error += seed["log_ratio_se"].get<double>() / n, kl += seed["kl"].get<double>() / n;
                    }
                    const auto [shownRatio, shownError, shownDeviation, shownKl] = shownIn(value);
                    QVERIFY2(near(shownRatio, ratio) && near(shownError, error) && near(shownKl, kl), qPrintable(label + ": " + value));
                    if (n > 1) {
                        const double deviation = std::sqrt(std::max(0.0, (square - ratio * ratio) * n / (n - 1)));
                        QVERIFY2(near(shownDeviation, deviation), qPrintable(label + ": " + value));
                        ++deviations;
                    } else {
                        QVERIFY(std::isnan(shownDeviation));
                    }
                    ++checked;
                }
            }
        }
        QVERIFY2(checked > 60 && deviations > 3, qPrintable(QString("%1 values, %2 with deviations").arg(checked).arg(deviations)));
        for (const char* said : {"| align |", "| select |", "| in all |", "linnet 0", "`test`", "prose", "verse"})
            QVERIFY2(m_tables.find(said) != std::string::npos, said);
        QCOMPARE(studyTables(m_whole), m_tables);
    }

    void whatIsThereIsNotMeasuredAgain() {
        fs::create_directories(path("part"));
        Json part = m_whole;
        std::set<std::string> removed;
        Json rows = Json::array();
        for (std::size_t i = 0; i < part["rows"].size(); ++i)
            if (i % 23 == 5)
                removed.insert(keyOf(part["rows"][i]));
            else
                rows.push_back(part["rows"][i]);
        part["rows"] = rows;
        for (auto& row : part["rows"])
            row["seconds"] = -1;
        writeFileAtomically(path("part/results.json"), part.dump());
        const auto results = study("part");
        QVERIFY2(results, qPrintable(messageOf(results)));
        QVERIFY(numbersOf(*results) == numbersOf(m_whole));
        for (const auto& row : (*results)["rows"])
            QCOMPARE(row["seconds"].get<double>() >= 0, removed.contains(keyOf(row)));
    }

    // A row of another recipe, or of other layers, is measured again; rows of before rows named their bank count where their bank is known.
    void whatHasChangedIsMeasuredAgain() {
        fs::create_directories(path("changed"));
        Json changed = m_whole;
        std::set<std::string> stale;
        const auto banks = changed["banks"];
        changed["banks"] = Json::object();
        for (const auto& [name, seconds] : banks.items())
            if (!name.starts_with("reference-"))
                changed["banks"][name] = seconds;
        for (auto& row : changed["rows"]) {
            const auto method = row["method"].get<std::string>();
            row["seconds"] = -1;
            if (method == "naive" && row["layers"] == "even")
                row["bank"] = "naive-of-another-recipe";
            else if (method == "zero-gate" && row["layers"] == "chosen")
                row["kept_layers"] = {3};
            else if (method != "published" && method != "closed-form")
                continue;
            else
                row.erase("bank");
            if (method != "closed-form")
                stale.insert(keyOf(row));
        }
        writeFileAtomically(path("changed/results.json"), changed.dump());
        const auto results = study("changed");
        QVERIFY2(results, qPrintable(messageOf(results)));
        QCOMPARE((*results)["rows"].size(), m_whole["rows"].size());
        for (const auto& row : (*results)["rows"])
            QVERIFY2((row["seconds"].get<double>() >= 0) == stale.contains(keyOf(row)), qPrintable(QString::fromStdString(keyOf(row))));
        QVERIFY(stale.size() > 4);
        auto found = numbersOf(*results), expected = numbersOf(m_whole);
        for (auto* rows : {&found, &expected})
            for (auto& [key, row] : *rows)
                row.erase("bank");
        QVERIFY(found == expected);
    }

    void stopsAndGoesOn() {
        for (const int reports : {3, 90, 400}) { // in a selection's bank, in rows, in a later bank
            std::stop_source source;
            Control control;
            control.stop = source.get_token();
            int seen = 0;
            control.onProgress = [&](const Progress& p) {
                QCOMPARE(p.stage, std::string("study"));
                QVERIFY(p.done <= p.total);
                if (++seen == reports)
                    source.request_stop();
            };
            const auto stopped = study("stopped", control, 1);
            QVERIFY(!stopped && stopped.error().code == ErrorCode::Cancelled);
        }
        const auto results = study("stopped");
        QVERIFY2(results, qPrintable(messageOf(results)));
        QVERIFY(numbersOf(*results) == numbersOf(m_whole));
    }

    void refusals() {
        auto other = readTextFile(m_text);
        writeFileAtomically(path("other.jsonl"), other.substr(other.find('\n') + 1));
        const auto refused = study("whole", {}, 2, path("other.jsonl"));
        QVERIFY(!refused && refused.error().code == ErrorCode::Usage);
        QVERIFY2(refused.error().message.find("--out") != std::string::npos && refused.error().context.at("key") == "corpus", refused.error().message.c_str());
        writeFileAtomically(path("short.jsonl"), other.substr(0, other.find('\n', 400) + 1));
        const auto tooShort = study("short", {}, 2, path("short.jsonl"));
        QVERIFY(!tooShort && tooShort.error().code == ErrorCode::Usage);
        QVERIFY2(tooShort.error().message.find("evaluation") != std::string::npos, tooShort.error().message.c_str());
    }
};

QTEST_APPLESS_MAIN(TestStudyTables)
#include "tst_study_tables.moc"
