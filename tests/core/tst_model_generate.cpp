// Generation: greedy ids against transformers' generate; what sampling promises; how it ends; how text streams.
#include "core/torch_pch.h"

#include "core/model/sampling.h"
#include "tests/support/model_fixtures.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

class TestModelGenerate : public QObject {
    Q_OBJECT

    TinyModels m_models;
    ModelPtr m_model; // qwen3

private Q_SLOTS:
    void initTestCase() {
        LINNET_MAKE_MODELS(m_models, {"llama", "llama_bias", "qwen2_tied", "qwen3"});
        m_model = m_models.open("qwen3");
    }

    void greedyAsTransformers_data() {
        QTest::addColumn<QString>("name");
        for (const char* name : {"llama", "llama_bias", "qwen2_tied", "qwen3"})
            QTest::newRow(name) << name;
    }
    void greedyAsTransformers() {
        QFETCH(QString, name);
        const ModelPtr model = m_models.open(name);
        const auto expected = m_models.numbers(name)["greedy"].get<std::vector<TokenId>>();
        std::string streamed;
        GenerateOptions options;
        options.tokens = 24;
        const auto found = orFail(generate(*model, m_models.ids(name, 7), options, [&](const std::string& piece) { streamed += piece; }));
        QCOMPARE(found.ids, expected);
        QCOMPARE(found.endOfText, expected.back() == 1);
        QVERIFY(found.ids.size() == 24 || found.endOfText);
        QCOMPARE(QByteArray::fromStdString(streamed).isValidUtf8(), true);
        QVERIFY(!found.text.empty());
    }

    void topOneIsGreedy() {
        GenerateOptions greedy, one;
        one.greedy = false;
        one.topK = 1;
        one.temperature = 3;
        greedy.tokens = one.tokens = 20;
        const auto prompt = m_models.ids("qwen3", 9);
        QCOMPARE(orFail(generate(*m_model, prompt, one)).ids, orFail(generate(*m_model, prompt, greedy)).ids);
    }

    void seedDecides() {
        GenerateOptions options;
        options.greedy = false;
        options.tokens = 20;
        options.temperature = 2;
        options.seed = 11;
        const auto prompt = m_models.ids("qwen3", 9);
        const auto first = orFail(generate(*m_model, prompt, options)).ids;
        QCOMPARE(orFail(generate(*m_model, prompt, options)).ids, first);
        options.seed = 12;
        QVERIFY(orFail(generate(*m_model, prompt, options)).ids != first);
    }

    // Frequencies of many draws against the probabilities worked out by hand.
    void frequencies_data() {
        QTest::addColumn<double>("temperature");
        QTest::addColumn<double>("topP");
        QTest::addColumn<int>("topK");
        QTest::addColumn<QList<double>>("expected"); // logits log(1, 2, 3, 4)
        QTest::newRow("all") << 1.0 << 1.0 << 0 << QList<double>{.1, .2, .3, .4};
        QTest::newRow("temperature 1/2 squares") << 0.5 << 1.0 << 0 << QList<double>{1 / 30., 4 / 30., 9 / 30., 16 / 30.};
        QTest::newRow("top 2") << 1.0 << 1.0 << 2 << QList<double>{0, 0, 3 / 7., 4 / 7.};
        QTest::newRow("top-p .65") << 1.0 << 0.65 << 0 << QList<double>{0, 0, 3 / 7., 4 / 7.};
        QTest::newRow("top-p .75") << 1.0 << 0.75 << 0 << QList<double>{0, 2 / 9., 3 / 9., 4 / 9.};
        QTest::newRow("top-p tiny keeps one") << 1.0 << 1e-6 << 0 << QList<double>{0, 0, 0, 1};
        QTest::newRow("top-p after top-k") << 1.0 << 0.5 << 2 << QList<double>{0, 0, 0, 1};
    }
    void frequencies() {
        QFETCH(double, temperature);
        QFETCH(double, topP);
        QFETCH(int, topK);
        QFETCH(QList<double>, expected);
        GenerateOptions options;
        options.greedy = false;
        options.temperature = temperature;
        options.topP = topP;
        options.topK = topK;
        options.seed = 3;
        Sampler sampler(options);
        const float logits[] = {0, std::log(2.f), std::log(3.f), std::log(4.f)};
        constexpr int kDraws = 20000;
        std::vector<int> counts(4);
        for (int i = 0; i < kDraws; ++i)
            ++counts[std::size_t(sampler.pick(logits, 4))];
        for (int i = 0; i < 4; ++i) {
            const double p = expected[i], sigma = std::sqrt(p * (1 - p) / kDraws);
            QVERIFY2(std::abs(counts[std::size_t(i)] / double(kDraws) - p) <= 4.5 * sigma, qPrintable(QString("%1: %2").arg(i).arg(counts[std::size_t(i)])));
        }
    }

    void refusals_data() {
        QTest::addColumn<double>("temperature");
        QTest::addColumn<double>("topP");
        QTest::addColumn<int>("topK");
        QTest::newRow("temperature 0") << 0.0 << 1.0 << 0;
        QTest::newRow("temperature nan") << double(NAN) << 1.0 << 0;
        QTest::newRow("top-p 0") << 1.0 << 0.0 << 0;
        QTest::newRow("top-p 1.5") << 1.0 << 1.5 << 0;
        QTest::newRow("top-k -1") << 1.0 << 1.0 << -1;
    }
    void refusals() {
        QFETCH(double, temperature);
        QFETCH(double, topP);
        QFETCH(int, topK);
        GenerateOptions options;
        options.temperature = temperature;
        options.topP = topP;
        options.topK = topK;
        QCOMPARE(generate(*m_model, {5}, options).error().code, ErrorCode::Usage);
    }

    void stopsBetweenTokens() {
        std::stop_source source;
        Control control;
        control.stop = source.get_token();
        GenerateOptions options;
        options.tokens = 100000;
        options.greedy = false; // wanders, so that an end-of-text token is unlikely before the third piece
        options.temperature = 4;
        int pieces = 0;
        const auto result = generate(*m_model, m_models.ids("qwen3", 7), options, [&](const std::string&) {
            if (++pieces == 3)
                source.request_stop();
        }, control);
        QVERIFY(!result);
        QCOMPARE(result.error().code, ErrorCode::Cancelled);
        QVERIFY(pieces <= 4);
    }

    void sampledSequences() {
        const auto ids = orFail(sampleSequences(*m_model, 10, 6, 4));
        QCOMPARE(ids.size(), std::size_t(60));
        QVERIFY(std::all_of(ids.begin(), ids.end(), [](TokenId id) { return id >= 0 && id < 320; }));
        QCOMPARE(orFail(sampleSequences(*m_model, 10, 6, 4)), ids);
        const auto fewer = orFail(sampleSequences(*m_model, 8, 6, 4)); // a sequence does not depend on how many there are
        QVERIFY(std::equal(fewer.begin(), fewer.end(), ids.begin()));
        QVERIFY(orFail(sampleSequences(*m_model, 10, 6, 5)) != ids);
    }
};

QTEST_APPLESS_MAIN(TestModelGenerate)
#include "tst_model_generate.moc"
