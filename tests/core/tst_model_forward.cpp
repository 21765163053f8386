// Logits of tiny random teachers of every kind against Hugging Face transformers, by the inference path and by the one that
// training differentiates; caches against whole forwards.
#include "core/torch_pch.h"

#include "core/model/cache.h"
#include "tests/support/model_fixtures.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

namespace {
const QStringList kNames = {"llama",      "llama_llama3",  "llama_linear", "llama_bias", "llama_mha_odd", "llama_old_keys",
                            "qwen2_tied", "qwen2_sharded", "qwen3",        "qwen3_bf16", "qwen3_old_keys"};

at::Tensor logitsOf(const Model& model, const at::Tensor& ids, Cache* cache = nullptr) {
    const at::NoGradGuard noGrad;
    return model.logits(forwardHidden(model, model.mixers(), ids, {}, cache));
}
} // namespace

class TestModelForward : public QObject {
    Q_OBJECT

    TinyModels m_models;

    void nameRows() {
        QTest::addColumn<QString>("name");
        for (const QString& name : kNames)
            QTest::newRow(qPrintable(name)) << name;
    }

private Q_SLOTS:
    void initTestCase() { LINNET_MAKE_MODELS(m_models); }

    void logits_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<int>("tokens");
        for (const QString& name : kNames)
            for (const int tokens : {1, 7, 33})
                QTest::addRow("%s T=%d", qPrintable(name), tokens) << name << tokens;
    }
    void logits() {
        QFETCH(QString, name);
        QFETCH(int, tokens);
        const ModelPtr model = m_models.open(name);
        auto found = orFail(sequenceLogits(*model, m_models.ids(name, std::size_t(tokens))));
        const at::Tensor logits = at::tensor(found).view({tokens, model->config().vocabSize});
        LINNET_NEAR(logits, m_models.answer(name, qPrintable("logits_" + QString::number(tokens))), 1e-4);
    }

    void batch_data() { nameRows(); }
    void batch() {
        QFETCH(QString, name);
        const ModelPtr model = m_models.open(name);
        LINNET_NEAR(logitsOf(*model, m_models.idBatch(name)), m_models.answer(name, "batch"), 1e-4);
    }

    // With a gradient wanted, other code runs: autograd's operators instead of fused passes.
    void differentiablePath_data() { nameRows(); }
    void differentiablePath() {
        QFETCH(QString, name);
        const ModelPtr model = m_models.open(name);
        at::Tensor embedded = model->embed(m_models.idBatch(name)).requires_grad_(), hidden = embedded;
        for (std::int64_t l = 0; l < model->config().layers; ++l)
            hidden = runBlock(*model, *model->layer(l), nullptr, hidden);
        const at::Tensor logits = model->logits(model->finalNorm(hidden));
        LINNET_NEAR(logits.detach(), m_models.answer(name, "batch"), 1e-4);
        // The derivative along a random direction, against a central difference of the inference path.
        at::manual_seed(5);
        const at::Tensor weight = at::randn_like(logits), direction = at::randn_like(embedded);
        (logits * weight).sum().backward();
        const double slope = (embedded.grad() * direction).sum(at::kDouble).item<double>(), step = 1e-3;
        const auto value = [&](double shift) {
            const at::NoGradGuard noGrad;
            at::Tensor h = embedded.detach() + shift * direction;
            for (std::int64_t l = 0; l < model->config().layers; ++l)
                h = runBlock(*model, *model->layer(l), nullptr, h);
            return (model->logits(model->finalNorm(h)) * weight).sum(at::kDouble).item<double>();
        };
        const double difference = (value(step) - value(-step)) / (2 * step);
        QVERIFY2(std::abs(slope - difference) <= 0.02 * std::abs(difference) + 0.5, qPrintable(QString("%1 %2").arg(slope).arg(difference)));
    }

    void pieces_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QList<int>>("lengths");
        for (const QString& name : {QString("llama_llama3"), QString("qwen3"), QString("llama_mha_odd")}) {
            QTest::addRow("%s two pieces", qPrintable(name)) << name << QList<int>{20, 13};
            QTest::addRow("%s prefill, steps", qPrintable(name)) << name << QList<int>{30, 1, 1, 1};
            QTest::addRow("%s steps only", qPrintable(name)) << name << QList<int>(33, 1);
            QTest::addRow("%s mixed", qPrintable(name)) << name << QList<int>{1, 5, 1, 2, 24};
        }
    }
    void pieces() {
        QFETCH(QString, name);
        QFETCH(QList<int>, lengths);
        const ModelPtr model = m_models.open(name);
        const at::Tensor ids = m_models.idBatch(name), whole = logitsOf(*model, ids);
        Cache cache(*model);
        std::vector<at::Tensor> pieces;
        for (const int length : lengths)
            pieces.push_back(logitsOf(*model, ids.narrow(1, cache.length(), length), &cache));
        QCOMPARE(cache.length(), std::int64_t(33));
        LINNET_NEAR(at::cat(pieces, 1), whole, 1e-5);
    }

    void streamedIsResident_data() { nameRows(); }
    void streamedIsResident() {
        QFETCH(QString, name);
        const ModelPtr resident = m_models.open(name), streamed = m_models.open(name, true);
        QVERIFY(streamed->streamed());
        const at::Tensor ids = m_models.idBatch(name);
        QVERIFY(at::equal(logitsOf(*resident, ids), logitsOf(*streamed, ids)));
    }

    void sameBitsTwice() {
        const ModelPtr model = m_models.open("qwen3");
        const at::Tensor ids = m_models.idBatch("qwen3");
        QVERIFY(at::equal(logitsOf(*model, ids), logitsOf(*model, ids)));
    }

    void stops() {
        const ModelPtr model = m_models.open("llama");
        std::stop_source source;
        Control control;
        control.stop = source.get_token();
        source.request_stop();
        const auto result = sequenceLogits(*model, m_models.ids("llama", 7), control);
        QVERIFY(!result);
        QCOMPARE(result.error().code, ErrorCode::Cancelled);
        QCOMPARE(openModel(m_models.folder("llama"), {}, control).error().code, ErrorCode::Cancelled);
    }

    void wrongInputs() {
        const ModelPtr model = m_models.open("llama");
        QCOMPARE(sequenceLogits(*model, {}).error().code, ErrorCode::Usage);
        const auto outside = sequenceLogits(*model, {5, 320});
        QCOMPARE(outside.error().code, ErrorCode::Usage);
        QVERIFY(outside.error().message.find("320") != std::string::npos);
        RunOptions options;
        options.device = "abacus";
        QCOMPARE(openModel(m_models.folder("llama"), options).error().code, ErrorCode::Usage);
        options.device = "cuda:99";
        QCOMPARE(openModel(m_models.folder("llama"), options).error().code, ErrorCode::Unsupported);
        options = {};
        options.dtype = "f64";
        QCOMPARE(openModel(m_models.folder("llama"), options).error().code, ErrorCode::Usage);
    }

    // bf16 and f16 round, but must stay near the float32 answer.
    void halfPrecision_data() {
        QTest::addColumn<QString>("dtype");
        QTest::newRow("bf16") << "bf16";
        QTest::newRow("f16") << "f16";
    }
    void halfPrecision() {
        QFETCH(QString, dtype);
        RunOptions options;
        options.device = "cpu";
        options.dtype = dtype.toStdString();
        const ModelPtr model = orFail(openModel(m_models.folder("qwen3"), options));
        const at::Tensor ids = m_models.idBatch("qwen3");
        LINNET_NEAR(logitsOf(*model, ids), m_models.answer("qwen3", "batch"), dtype == "bf16" ? 0.1 : 0.02);
        Cache cache(*model);
        for (std::int64_t t = 0; t < 32; ++t)
            logitsOf(*model, ids.narrow(1, t, 1), &cache);
        LINNET_NEAR(logitsOf(*model, ids.narrow(1, 32, 1), &cache), m_models.answer("qwen3", "batch").narrow(1, 32, 1), dtype == "bf16" ? 0.1 : 0.02);
    }
};

QTEST_APPLESS_MAIN(TestModelForward)
#include "tst_model_forward.moc"
