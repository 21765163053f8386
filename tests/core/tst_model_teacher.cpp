// The real teacher: memory while it loads, and its logits against transformers' own reading of the GGUF file. This is a program
// of its own so that the peak of resident memory is the load's.
#include "core/torch_pch.h"

#include "core/base/files.h"
#include "tests/support/model_fixtures.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

class TestModelTeacher : public QObject {
    Q_OBJECT

    ModelPtr m_model;

private Q_SLOTS:
    void initTestCase() {
        const std::string teacher = qgetenv("LINNET_TEACHER").toStdString();
        if (teacher.empty())
            QSKIP("LINNET_TEACHER is not set: no real teacher");
        at::rand({64, 64}).matmul(at::rand({64, 64})); // torch's own buffers are there before the measurement
        const auto before = residentMemoryBytes();
        m_model = orFail(openModel(teacher, {.device = "cpu", .dtype = "f32", .threads = 2}));
        const auto weights = double(modelInfo(*m_model).weightBytes);
        const double peak = double(peakResidentMemoryBytes() - before) / weights, stays = double(residentMemoryBytes() - before) / weights;
        qInfo("resident growth %.3f, peak %.3f of the weights' bytes", stays, peak);
        QVERIFY2(peak <= 1.15, qPrintable(QString::number(peak)));
    }

    void logitsOfAParagraph() {
        if (oraclePython().isEmpty())
            QSKIP("LINNET_ORACLE_PYTHON is not set: no transformers to compare with");
        const std::string text = "A hacker is a person who enjoys exploring the details of programmable systems and how to stretch "
                                 "their capabilities, as opposed to most users, who prefer to learn only the minimum necessary.";
        const auto ids = modelTokenizer(*m_model).encode(text, false);
        QTemporaryDir folder;
        const QString idFile = folder.filePath("ids.json"), out = folder.filePath("logits.safetensors");
        writeFileAtomically(idFile.toStdString(), Json(ids).dump());
        const QString said = runOracle("make_models.py", {"real", qEnvironmentVariable("LINNET_TEACHER"), idFile, out});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        at::Tensor expected = at::empty({std::int64_t(ids.size()), m_model->config().vocabSize}, at::kFloat);
        const auto source = openSafetensorsFile(out.toStdString());
        QCOMPARE(source->find("logits")->shape, expected.sizes().vec());
        source->read("logits", DType::F32, expected.mutable_data_ptr());
        const auto found = orFail(sequenceLogits(*m_model, ids));
        LINNET_NEAR(at::tensor(found).view(expected.sizes()), expected, 1e-4);
    }

    void generatesEnglish() {
        const auto& tokenizer = modelTokenizer(*m_model);
        const auto prompt = tokenizer.encode("The capital of France is", false);
        std::string streamed;
        const auto result = orFail(generate(*m_model, prompt, {.tokens = 12}, [&](const std::string& piece) { streamed += piece; }));
        QVERIFY2(result.text.find("Paris") != std::string::npos, result.text.c_str());
        QCOMPARE(streamed, result.text);
        QVERIFY(result.tokensPerSecond > 0);
    }
};

QTEST_APPLESS_MAIN(TestModelTeacher)
#include "tst_model_teacher.moc"
