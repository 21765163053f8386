// Teacher and student side by side: each says what it says alone; scores against softmax of sequenceLogits worked out here in float64.
#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/model/side_by_side.h"
#include "tests/support/model_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

std::vector<double> softmax(const std::vector<float>& logits, std::size_t row, std::size_t vocab) {
    const float* z = logits.data() + row * vocab;
    const double largest = *std::max_element(z, z + vocab);
    std::vector<double> p(vocab);
    double sum = 0;
    for (std::size_t i = 0; i < vocab; ++i)
        sum += p[i] = std::exp(double(z[i]) - largest);
    for (double& value : p)
        value /= sum;
    return p;
}

} // namespace

class TestModelSideBySide : public QObject {
    Q_OBJECT

    TinyModels m_models;
    QTemporaryDir m_folder;
    ModelPtr m_teacher;
    fs::path m_run;

    SpeakerPtr student() const { return orFail(openSpeaker(m_run, m_teacher)); }

private Q_SLOTS:
    void initTestCase() {
        LINNET_MAKE_MODELS(m_models, {"llama_bias", "qwen3"});
        m_teacher = m_models.open("llama_bias");
        m_run = fs::path(m_folder.path().toStdString()) / "run";
        fs::create_directories(m_run / "checkpoints");
        Json recipe;
        recipe["teacher"] = {{"source", fs::absolute(m_models.folder("llama_bias")).string()}, {"hash", m_teacher->hash()}};
        recipe["mixer"] = "gated_delta_net";
        writeFileAtomically(m_run / "recipe.json", recipe.dump());
        Mixer window;
        window.kind = Mixer::Kind::SlidingWindow;
        window.window = 3, window.sinks = 1;
        saveLinearLayers(m_run / "checkpoints" / "student.safetensors", {{0, window}, {2, window}});
    }

    void theStudentOfARunSharesTheTeachersWeights() {
        QVERIFY(sharesWeights(*student(), *m_teacher));
        QVERIFY(sharesWeights(*orFail(openSpeaker(m_models.folder("llama_bias"), m_teacher)), *m_teacher)); // the teacher itself
        const auto other = openSpeaker(m_models.folder("qwen3"), m_teacher);
        if (other)
            QVERIFY(!sharesWeights(**other, *m_teacher));
        else
            QCOMPARE(int(other.error().code), int(ErrorCode::Usage));
    }

    void eachSaysWhatItSaysAlone_data() {
        QTest::addColumn<bool>("greedy");
        QTest::addColumn<int>("tokens");
        QTest::newRow("greedy") << true << 24;
        QTest::newRow("sampled") << false << 24;
        QTest::newRow("one token") << true << 1;
    }
    void eachSaysWhatItSaysAlone() {
        QFETCH(bool, greedy);
        QFETCH(int, tokens);
        GenerateOptions options;
        options.greedy = greedy;
        options.tokens = tokens;
        options.temperature = 0.8;
        options.topK = 40;
        options.seed = 5;
        const auto prompt = m_models.ids("llama_bias", 9);
        std::vector<SpokenToken> heard;
        const auto both = orFail(continueSideBySide({speaker(m_teacher), student()}, prompt, options, [&](const SpokenToken& token) { heard.push_back(token); }));
        const auto alone = orFail(openModel(m_run, cpuRun()));
        const ModelPtr models[] = {m_teacher, alone};
        for (std::size_t i = 0; i < 2; ++i) {
            std::string streamed;
            const auto expected = orFail(generate(*models[i], prompt, options, [&](const std::string& piece) { streamed += piece; }));
            QCOMPARE(both[i].ids, expected.ids);
            QCOMPARE(both[i].text, expected.text);
            QCOMPARE(both[i].endOfText, expected.endOfText);
            std::vector<TokenId> ids;
            std::string text;
            for (const auto& token : heard)
                if (token.speaker == i) {
                    ids.push_back(token.id);
                    text += token.text;
                    QVERIFY(token.probability > 0 && token.probability <= 1 && token.prefillSeconds > 0);
                    QCOMPARE(token.tokensPerSecond > 0, ids.size() > 1);
                }
            QCOMPARE(ids, expected.ids);
            QCOMPARE(text, streamed);
        }
        if (tokens > 1) { // in turn: neither waits for the other's end
            QCOMPARE(heard[0].speaker, std::size_t(0));
            QCOMPARE(heard[1].speaker, std::size_t(1));
            QCOMPARE(heard[2].speaker, std::size_t(0));
        }
    }

    void scoresAreThoseOfTheLogits() {
        const auto prompt = m_models.ids("llama_bias", 7);
        auto ids = m_models.ids("llama_bias", 30, 1); // any text, not the models' own
        ids.erase(ids.begin(), ids.begin() + 4);
        std::vector<TokenId> all = prompt;
        all.insert(all.end(), ids.begin(), ids.end());
        const auto alone = orFail(openModel(m_run, cpuRun()));
        const auto teacher = orFail(sequenceLogits(*m_teacher, all)), other = orFail(sequenceLogits(*alone, all));
        const auto vocab = std::size_t(m_teacher->config().vocabSize);
        const auto scores = orFail(scoreContinuation(*speaker(m_teacher), *student(), prompt, ids));
        QCOMPARE(scores.size(), ids.size());
        double largest = 0;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const auto p = softmax(teacher, prompt.size() - 1 + i, vocab), q = softmax(other, prompt.size() - 1 + i, vocab);
            double kl = 0;
            for (std::size_t v = 0; v < vocab; ++v)
                kl += p[v] * (std::log(p[v]) - std::log(q[v]));
            LINNET_CLOSE(scores[i].teacher, p[std::size_t(ids[i])], 1e-4, 1e-9, "teacher");
            LINNET_CLOSE(scores[i].student, q[std::size_t(ids[i])], 1e-4, 1e-9, "student");
            LINNET_CLOSE(scores[i].kl, kl, 1e-4, 1e-8, "KL");
            QCOMPARE(scores[i].teacherTop.size(), std::size_t(kScoreTop));
            QCOMPARE(std::int64_t(scores[i].teacherTop[0].id), std::int64_t(std::max_element(p.begin(), p.end()) - p.begin()));
            QCOMPARE(std::int64_t(scores[i].studentTop[0].id), std::int64_t(std::max_element(q.begin(), q.end()) - q.begin()));
            LINNET_CLOSE(scores[i].studentTop[0].probability, *std::max_element(q.begin(), q.end()), 1e-4, 0, "top");
            QVERIFY(scores[i].teacherTop[0].probability >= scores[i].teacherTop[1].probability);
            largest = std::max(largest, kl);
        }
        QVERIFY(largest > 1e-3); // the window did change something: else the test compares a model with itself
    }

    void theOwnProbabilityIsTheScores() {
        GenerateOptions options;
        options.tokens = 12;
        const auto prompt = m_models.ids("llama_bias", 9);
        std::vector<SpokenToken> heard;
        const auto made = orFail(continueSideBySide({speaker(m_teacher), student()}, prompt, options, [&](const SpokenToken& token) { heard.push_back(token); }));
        for (const std::size_t i : {0, 1}) {
            const auto scores = orFail(scoreContinuation(*speaker(m_teacher), *student(), prompt, made[i].ids));
            std::size_t at = 0;
            for (const auto& token : heard)
                if (token.speaker == i) {
                    LINNET_CLOSE(token.probability, i == 0 ? scores[at].teacher : scores[at].student, 2e-3, 1e-6, "step by step and at once");
                    ++at;
                }
            QCOMPARE(at, scores.size());
        }
        const auto same = orFail(scoreContinuation(*speaker(m_teacher), *speaker(m_teacher), prompt, made[0].ids));
        for (const auto& score : same)
            QCOMPARE(score.kl, 0.0);
    }

    void aStopKeepsWhatWasSaid() {
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        GenerateOptions options;
        options.tokens = 1000;
        options.greedy = false; // sampled: no end of text in the way for long
        int heard = 0;
        const auto made = continueSideBySide({speaker(m_teacher), student()}, m_models.ids("llama_bias", 9), options,
                                             [&](const SpokenToken&) {
                                                 if (++heard == 5)
                                                     stop.request_stop();
                                             },
                                             control);
        QVERIFY(!made);
        QCOMPARE(int(made.error().code), int(ErrorCode::Cancelled));
        QCOMPARE(heard, 5);
    }

    void refused() {
        GenerateOptions options;
        options.temperature = 0;
        QCOMPARE(int(continueSideBySide({speaker(m_teacher)}, {1}, options).error().code), int(ErrorCode::Usage));
        QCOMPARE(int(continueSideBySide({speaker(m_teacher)}, {}, {}).error().code), int(ErrorCode::Usage));
        QCOMPARE(int(scoreContinuation(*speaker(m_teacher), *student(), {1}, {TokenId(m_teacher->config().vocabSize)}).error().code), int(ErrorCode::Usage));
        QVERIFY(orFail(scoreContinuation(*speaker(m_teacher), *student(), {1}, {})).empty());
        QCOMPARE(int(openSpeaker("/no/such/folder", m_teacher).error().code), int(ErrorCode::NotFound));
    }
};

QTEST_GUILESS_MAIN(TestModelSideBySide)
#include "tst_model_side_by_side.moc"
