// Loss, KL, agreement and word perplexity against transformers in float64; the real teacher against transformers' own GGUF
// reader.
#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/evaluate/evaluate_model.h"
#include "tests/support/oracle_process.h"

#include <QTemporaryDir>
#include <numeric>

using namespace linnet::core;

namespace {

ModelPtr open(const std::filesystem::path& path) {
    RunOptions options;
    options.device = "cpu";
    options.dtype = "f32";
    return orFail(openModel(path, options));
}

} // namespace

class TestEvaluatePerplexity : public QObject {
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void chunkedMatchesTransformers();
    void comparisonMatchesTransformers();
    void teacherAgreesWithItself();
    void wordMatchesRollingWindows();
    void oneWindowHasNoError();
    void jsonKeepsEverything();
    void stopsOnRequest();
    void badInputIsRefused();
    void realTeacherMatchesTransformers();

private:
    QTemporaryDir m_folder;
    Json m_expected;
    ModelPtr m_teacher, m_student;
    TokenWindows m_windows;
};

void TestEvaluatePerplexity::initTestCase() {
    if (linnet::tests::oraclePython().isEmpty())
        QSKIP("LINNET_ORACLE_PYTHON is not set: nothing to compare with");
    const auto out = m_folder.filePath("expected.json");
    const auto error = linnet::tests::runOracle("evaluate_oracle.py", {"tiny", m_folder.path(), out});
    QVERIFY2(error.isEmpty(), qPrintable(error));
    m_expected = readJsonFile(out.toStdString());
    try {
        m_teacher = open(m_folder.filePath("teacher").toStdString());
        m_student = open(m_folder.filePath("student").toStdString());
    } catch (const Failure& failure) {
        QFAIL(failure.error.message.c_str());
    }
    m_windows.ids = m_expected["ids"].get<std::vector<TokenId>>();
    m_windows.sequences = 5, m_windows.seqLen = 40;
}

void TestEvaluatePerplexity::chunkedMatchesTransformers() {
    double last = 0;
    Control control;
    control.onProgress = [&](const Progress& progress) {
        if (progress.stage == "evaluate")
            last = progress.done / progress.total;
    };
    const auto result = evaluateChunked(*m_student, m_windows, nullptr, control);
    QVERIFY2(result, result ? "" : result.error().message.c_str());
    LINNET_CLOSE(result->loss, m_expected["loss"].get<double>(), 1e-5, 0, "loss");
    LINNET_CLOSE(result->lossSe, m_expected["loss_se"].get<double>(), 1e-4, 0, "its error");
    LINNET_CLOSE(result->perplexity, std::exp(m_expected["loss"].get<double>()), 1e-4, 0, "perplexity");
    QCOMPARE(result->tokens, 5 * 39);
    QCOMPARE(result->convention, "chunked");
    QVERIFY(!result->klToTeacher && !result->top1Agreement);
    QCOMPARE(last, 1.0);
}

void TestEvaluatePerplexity::comparisonMatchesTransformers() {
    const auto reference = teacherReference(*m_teacher, m_windows);
    QVERIFY(reference);
    const auto result = evaluateChunked(*m_student, m_windows, *reference);
    QVERIFY2(result, result ? "" : result.error().message.c_str());
    LINNET_CLOSE(*result->klToTeacher, m_expected["kl"].get<double>(), 1e-4, 0, "KL");
    LINNET_CLOSE(*result->klSe, m_expected["kl_se"].get<double>(), 1e-3, 0, "its error");
    LINNET_CLOSE(*result->top1Agreement, m_expected["top1"].get<double>(), 1e-9, 0, "agreement");
    LINNET_CLOSE(*result->top1Se, m_expected["top1_se"].get<double>(), 1e-6, 0, "its error");
    LINNET_CLOSE(result->loss, m_expected["loss"].get<double>(), 1e-5, 0, "loss");
    QVERIFY(*result->top1Agreement > 0.05 && *result->top1Agreement < 0.95); // the comparison says something
}

void TestEvaluatePerplexity::teacherAgreesWithItself() {
    const auto reference = teacherReference(*m_teacher, m_windows);
    QVERIFY(reference);
    const auto result = evaluateChunked(*m_teacher, m_windows, *reference);
    QVERIFY(result);
    QCOMPARE(*result->klToTeacher, 0.0);
    QCOMPARE(*result->top1Agreement, 1.0);
    auto own = **reference;
    auto kept = evaluationToJson(evaluateReference(*m_teacher, m_windows, own, {})), forward = evaluationToJson(*result); // without a second forward
    kept.erase("seconds"), forward.erase("seconds");
    QCOMPARE(kept.dump(), forward.dump()); // to the last bit
    std::vector<double> differences; // of the student's loss and the teacher's, one window at a time
    for (std::int64_t window = 0; window < m_windows.sequences; ++window)
        differences.push_back(orFail(evaluateChunked(*m_student, m_windows.rows({window}))).loss - orFail(evaluateChunked(*m_teacher, m_windows.rows({window}))).loss);
    const double mean = std::accumulate(differences.begin(), differences.end(), 0.0) / 5;
    double squares = 0;
    for (const double difference : differences)
        squares += (difference - mean) * (difference - mean);
    const auto student = evaluateMixers(*m_student, m_student->mixers(), m_windows, &own, {});
    LINNET_CLOSE(*student.lossDifferenceSe, std::sqrt(squares / 4 / 5), 1e-5, 0, "paired error");
    QVERIFY(!result->lossDifferenceSe); // its windows were not scored
}

void TestEvaluatePerplexity::wordMatchesRollingWindows() {
    const auto documents = m_expected["documents"].get<std::vector<std::string>>();
    const auto result = evaluateWord(*m_student, documents, 16);
    QVERIFY2(result, result ? "" : result.error().message.c_str());
    const auto& word = m_expected["word"];
    QCOMPARE(result->words, word["words"].get<std::int64_t>());
    QCOMPARE(result->tokens, word["tokens"].get<std::int64_t>());
    LINNET_CLOSE(result->loss, word["loss"].get<double>(), 1e-5, 0, "loss");
    LINNET_CLOSE(result->perplexity, word["perplexity"].get<double>(), 1e-4, 0, "word perplexity");
    QVERIFY(result->lossSe > 0);
    QCOMPARE(evaluationToJson(*result)["convention"].get<std::string>(), "word");
}

void TestEvaluatePerplexity::oneWindowHasNoError() {
    const auto result = evaluateChunked(*m_student, m_windows.rows({0}));
    QVERIFY(result);
    const auto json = evaluationToJson(*result);
    QVERIFY(json["loss_se"].is_null());
    QVERIFY(json["kl_to_teacher"].is_null() && json["top1_agreement"].is_null());
    QVERIFY(json["loss"].is_number());
}

void TestEvaluatePerplexity::jsonKeepsEverything() {
    const auto reference = teacherReference(*m_teacher, m_windows);
    const auto result = evaluateChunked(*m_student, m_windows, *reference);
    QVERIFY(result);
    const auto json = evaluationToJson(*result);
    for (const char* key :
         {"loss", "loss_se", "perplexity", "convention", "seq_len", "tokens", "kl_to_teacher", "top1_agreement"})
        QVERIFY2(json.contains(key), key);
    QCOMPARE(evaluationToJson(evaluationFromJson(json)).dump(), json.dump());
}

void TestEvaluatePerplexity::stopsOnRequest() {
    std::stop_source stop;
    stop.request_stop();
    Control control;
    control.stop = stop.get_token();
    const auto result = evaluateChunked(*m_student, m_windows, nullptr, control);
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::Cancelled);
    const auto words = evaluateWord(*m_student, {"some text"}, 16, control);
    QVERIFY(!words && words.error().code == ErrorCode::Cancelled);
}

void TestEvaluatePerplexity::badInputIsRefused() {
    const auto reference = teacherReference(*m_teacher, m_windows);
    const auto other = evaluateChunked(*m_student, m_windows.rows({0, 1}), *reference);
    QVERIFY(!other);
    QVERIFY(other.error().message.find("5 windows of 40 tokens") != std::string::npos);
    auto outside = m_windows;
    outside.ids[7] = -1;
    QVERIFY(!evaluateChunked(*m_student, outside));
    QVERIFY(!evaluateChunked(*m_student, {}));
    QVERIFY(!evaluateWord(*m_student, {"", ""}, 16));
}

void TestEvaluatePerplexity::realTeacherMatchesTransformers() {
    const auto file = qEnvironmentVariable("LINNET_TEACHER"), text = qEnvironmentVariable("LINNET_TEXT");
    if (file.isEmpty() || text.isEmpty())
        QSKIP("LINNET_TEACHER or LINNET_TEXT is not set");
    ModelPtr model;
    TokenWindows windows;
    try {
        model = open(file.toStdString());
        windows = tokenWindows(modelTokenizer(*model), readDocuments({text.toStdString()}), 96, 4 * 96);
    } catch (const Failure& failure) {
        QFAIL(failure.error.message.c_str());
    }
    const auto ids = m_folder.filePath("ids.json"), out = m_folder.filePath("teacher.json");
    writeFileAtomically(ids.toStdString(), Json{{"sequences", windows.sequences}, {"ids", windows.ids}}.dump());
    const auto error = linnet::tests::runOracle("evaluate_oracle.py", {"gguf", file, ids, out});
    QVERIFY2(error.isEmpty(), qPrintable(error));
    const auto expected = readJsonFile(out.toStdString());
    const auto result = evaluateChunked(*model, windows);
    QVERIFY2(result, result ? "" : result.error().message.c_str());
    LINNET_CLOSE(result->loss, expected["loss"].get<double>(), 1e-3, 0, "loss");
    LINNET_CLOSE(result->perplexity, std::exp(expected["loss"].get<double>()), 1e-3, 0, "perplexity");
    LINNET_CLOSE(result->lossSe, expected["loss_se"].get<double>(), 1e-2, 0, "its error");
}

QTEST_APPLESS_MAIN(TestEvaluatePerplexity)
#include "tst_evaluate_perplexity.moc"
