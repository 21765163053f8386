// The closed-form start of a layer: against float64 PyTorch (convert_oracle.py), by its own definitions, and in hand cases.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/calibration.h"
#include "core/profile/profile.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

constexpr std::int64_t kSequences = 6, kTokens = 24, kLayer = 1;

TokenWindows calibrationWindows() {
    TokenWindows windows{{}, kSequences, kTokens};
    for (std::int64_t n = 0; n < kSequences; ++n)
        for (std::int64_t t = 0; t < kTokens; ++t)
            windows.ids.push_back(static_cast<TokenId>((t * 37 + 7 * n * n + n * t) % 251 + 2));
    return windows;
}

// What the pipeline hands to calibration, gathered by the teacher's own pieces.
struct Inputs {
    ModelPtr model;
    Recipe recipe;
    LayerCapture capture;
    InputMoments moments;
    Profile profile;

    Inputs(const TinyTeachers& teachers, const QString& kind) : model(teachers.open(kind)), recipe(teachers.recipe(kind, "first:0")) {
        const at::NoGradGuard noGradients;
        const auto windows = calibrationWindows();
        at::Tensor hidden = model->embed(at::tensor(std::vector<std::int64_t>(windows.ids.begin(), windows.ids.end())).view({kSequences, kTokens}));
        for (std::int64_t l = 0; l < kLayer; ++l)
            hidden = runBlock(*model, *model->layer(l), nullptr, hidden);
        const auto weights = model->layer(kLayer);
        capture.x = attentionInput(*model, *weights, hidden);
        capture.heads = headOutputs(*model, *weights, capture.x);
        capture.target = outputProjection(*weights, capture.heads);
        moments = inputMoments(capture.x);
        profile = orFail(profileModel(*model, windows, {}));
    }
    LinearLayer start(const std::string& preset) const {
        return initialLayer({*model, *model->layer(kLayer), kLayer, recipe, capture, moments, &profile}, preset);
    }
    at::Tensor logits(const LinearLayer& layer) const { return capture.x.to(at::kDouble).matmul(layer.bProj.to(at::kDouble).t()); } // [N, T, H]
};

double softplus(double x) {
    return std::log1p(std::exp(x));
}

} // namespace

class TestConvertCalibration : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    std::map<QString, std::map<std::string, at::Tensor>> m_answers; // of the oracle, by kind of teacher

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
    }

    void keyValueRows() { // 2 heads of 2 rows, each read by 3 query heads
        const at::Tensor w = at::arange(4, at::kFloat).unsqueeze(-1) * at::ones({1, 3});
        const auto rows = [&](bool scrambled) {
            const at::Tensor column = expandKeyValueRows(w, 2, 3, scrambled).select(1, 2).contiguous();
            return std::vector<float>(column.data_ptr<float>(), column.data_ptr<float>() + column.numel());
        };
        QCOMPARE(rows(false), (std::vector<float>{0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3}));
        QCOMPARE(rows(true), (std::vector<float>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
        QVERIFY(at::equal(expandKeyValueRows(w, 2, 1, false), w));
    }

    void scalars() {
        for (const double y : {1e-12, 1e-4, 0.02, 0.7, 5.0, 80.0})
            LINNET_CLOSE(softplus(inverseSoftplus(y)), y, 1e-9, 0, "softplus of its inverse");
        for (const double y : {0.0, 1e-6, 0.01, 0.5, 1.0, 3.0, 200.0}) {
            const double u = inverseSiLU(y);
            QVERIFY(u >= 0);
            LINNET_CLOSE(u / (1 + std::exp(-u)), y, 1e-9, 1e-12, "SiLU of its inverse");
        }
        LINNET_CLOSE(inverseSiLU(1), 1.2784645, 1e-6, 0, "SiLU(u) = 1"); // method.md section 9
        LINNET_CLOSE(logit(0.3), std::log(3.0 / 7), 1e-12, 0, "logit");
        LINNET_CLOSE(decayRate(10), 0.0693147181, 1e-8, 0, "rate of half-life 10");
        LINNET_CLOSE(decayRate(INFINITY), 1e-4, 1e-12, 0, "no decay");
        LINNET_CLOSE(std::pow(std::exp(-decayRate(25)), 25), 0.5, 1e-12, 0, "25 steps of half-life 25");
    }

    void moments() { // rows (1, 0), (1, 2): mean (1, 1), second [[1, 1], [1, 2]], mean diagonal 1.5
        const auto found = inputMoments(at::tensor({1.0f, 0.0f, 1.0f, 2.0f}).view({1, 2, 2}));
        LINNET_NEAR(found.mean, at::tensor({1.0, 1.0}), 1e-12);
        LINNET_NEAR(found.second, at::tensor({1 + 1.5e-5, 1.0, 1.0, 2 + 1.5e-5}).view({2, 2}), 1e-12);
        // second^-1 mean = (1, 0) but for the ridge, mean' of it = 1: the row that is 1 on both
        LINNET_NEAR(found.unitRow(), at::tensor({1.0, 0.0}), 1e-4);
        LINNET_CLOSE(found.unitRow().dot(found.mean).item<double>(), 1, 1e-12, 0, "mean of the unit row");
    }

    void against_data() {
        QTest::addColumn<QString>("kind");
        QTest::addColumn<QString>("preset");
        for (const char* kind : {"llama", "qwen2", "qwen3"}) // plain, q/k/v biases, QK-norm
            for (const char* preset : {"naive", "paper", "reference"})
                QTest::newRow(qPrintable(QString("%1 %2").arg(kind, preset))) << kind << preset;
    }
    void against() {
        QFETCH(QString, kind);
        QFETCH(QString, preset);
        const Inputs inputs(m_teachers, kind);
        if (!m_answers.contains(kind)) {
            const QTemporaryDir folder;
            const auto windows = calibrationWindows();
            Json ids = Json::array();
            for (std::int64_t n = 0; n < kSequences; ++n)
                ids.push_back(std::vector<TokenId>(windows.ids.begin() + n * kTokens, windows.ids.begin() + (n + 1) * kTokens));
            const auto idFile = folder.filePath("ids.json"), answers = folder.filePath("start.safetensors");
            writeFileAtomically(idFile.toStdString(), ids.dump());
            const QString said = runOracle("convert_oracle.py", {"start", QString::fromStdString(m_teachers.path(kind).string()), QString::number(kLayer),
                                                                 QString::number(inputs.recipe.seed), idFile, answers});
            QVERIFY2(said.isEmpty(), qPrintable(said));
            m_answers[kind] = tensorsOf(answers.toStdString());
        }
        const auto& expected = m_answers.at(kind);
        LINNET_NEAR(inputs.capture.x, expected.at("x"), 1e-5);
        LINNET_NEAR(inputs.capture.heads, expected.at("heads"), 1e-5);
        LINNET_NEAR(inputs.capture.target, expected.at("target"), 1e-5);
        const auto layer = inputs.start(preset.toStdString());
        std::as_const(layer).forEach(std::function<void(const std::string&, const at::Tensor&)>([&](const std::string& name, const at::Tensor& found) {
            const at::Tensor& right = expected.at(preset.toStdString() + "." + name);
            const double error = right.abs().max().item<double>() == 0 ? found.abs().max().item<double>() : relativeError(found, right);
            QVERIFY2(error < 2e-4, qPrintable(QString("%1: relative error %2").arg(QString::fromStdString(name)).arg(error)));
        }));
    }

    void paperByDefinition() { // Eq. 9 over the very inputs; the decay from the profile's distance
        const Inputs inputs(m_teachers, "llama");
        const auto layer = inputs.start("paper");
        const at::Tensor mean = inputs.logits(layer).mean(at::IntArrayRef{0, 1});
        QVERIFY(layer.aProj.abs().max().item<float>() == 0 && layer.aLog.abs().max().item<float>() == 0);
        for (std::int64_t h = 0; h < 6; ++h) {
            const auto& head = inputs.profile.layers[kLayer][static_cast<std::size_t>(h)];
            LINNET_CLOSE(mean[h].item<double>(), std::log((0.3 + 0.4 * head.concentrationLayer) / (0.7 - 0.4 * head.concentrationLayer)), 0, 1e-4, "mean write logit");
            LINNET_CLOSE(softplus(layer.dtBias[h].item<double>()), std::clamp(std::log(2.0) / head.distance.mean, 1e-3, 5.0), 1e-5, 0, "decay rate");
        }
    }

    void referenceDiffersInTheKnownWays() {
        const Inputs inputs(m_teachers, "llama");
        const auto paper = inputs.start("paper"), reference = inputs.start("reference"), naive = inputs.start("naive");
        QVERIFY(at::equal(reference.aProj, naive.aProj) && !at::equal(reference.aProj, paper.aProj)); // left random
        QVERIFY(at::equal(reference.qProj, paper.qProj) && at::equal(reference.oProj, paper.oProj));
        const auto& config = inputs.model->config();
        const at::Tensor k = inputs.model->layer(kLayer)->attention.k(config);
        QVERIFY(at::equal(reference.kProj, k.repeat_interleave(3, 0)));
        QVERIFY(at::equal(paper.kProj, k.view({2, 8, 48}).repeat_interleave(3, 0).reshape({48, 48})));
        // |b| scaled to the target by mean |b| sqrt(hidden): the same for any input, so the mean logit misses
        const at::Tensor size = reference.bProj.abs().mean(-1) * std::sqrt(48.0);
        for (std::int64_t h = 0; h < 6; ++h)
            QVERIFY(size[h].item<double>() <= 0.85); // |logit| of 0.3..0.7
        const at::Tensor found = inputs.logits(reference).mean(at::IntArrayRef{0, 1}), right = inputs.logits(paper).mean(at::IntArrayRef{0, 1});
        QVERIFY((found - right).abs().max().item<double>() > 0.1);
    }

    void gates() {
        const Inputs inputs(m_teachers, "llama");
        const auto naive = inputs.start("naive");
        QVERIFY(inputs.start("zero-gate").gProj.abs().max().item<float>() == 0);
        QVERIFY(at::allclose(inputs.start("small-gate").gProj, naive.gProj * 0.02));
        QVERIFY(at::equal(inputs.start("alignment-only").gProj, naive.gProj));
    }

    void anotherSeedAnotherDraw() {
        Inputs inputs(m_teachers, "llama");
        const auto first = inputs.start("naive"), again = inputs.start("naive");
        QVERIFY(at::equal(first.gProj, again.gProj) && at::equal(first.dtBias, again.dtBias));
        inputs.recipe.seed = 4;
        const auto other = inputs.start("naive");
        QVERIFY(!at::equal(first.gProj, other.gProj) && at::equal(first.qProj, other.qProj));
    }

    void treatments() {
        for (const char* kind : {"qwen2", "qwen3"}) {
            Inputs inputs(m_teachers, kind);
            inputs.recipe.biasTreatment = "drop";
            inputs.recipe.qkNormTreatment = "drop";
            const auto layer = inputs.start("naive");
            const auto& attention = inputs.model->layer(kLayer)->attention;
            QVERIFY(at::equal(layer.qProj, attention.q(inputs.model->config())));
        }
    }

    void foldedBias() { // inputs that never change: the folded rows give W x + b but for the ridge
        Inputs inputs(m_teachers, "qwen2");
        inputs.capture.x = at::ones_like(inputs.capture.x) * inputs.capture.x[0][0];
        inputs.moments = inputMoments(inputs.capture.x);
        const auto layer = inputs.start("naive");
        const auto& attention = inputs.model->layer(kLayer)->attention;
        const at::Tensor x = inputs.capture.x[0][0], expected = attention.qkv.matmul(x) + attention.qkvBias;
        LINNET_NEAR(layer.qProj.matmul(x), expected.narrow(0, 0, 48), 1e-3);
    }

    void targets() {
        Inputs inputs(m_teachers, "llama");
        const auto plain = inputs.start("naive");
        inputs.recipe.targets[kLayer][2] = {17.0, 0.8, 2.5, 1.0, {}};
        inputs.recipe.targets[kLayer][5].halfLife = INFINITY;
        inputs.recipe.targets[kLayer][5].outputGate = 0.0;
        inputs.recipe.targets[0][1].beta = 0.5; // of another layer
        const auto layer = inputs.start("naive");
        const at::Tensor mean = inputs.logits(layer).mean(at::IntArrayRef{0, 1});
        LINNET_CLOSE(mean[2].item<double>(), std::log(4.0), 0, 1e-4, "mean logit of beta 0.8");
        LINNET_CLOSE(softplus(layer.dtBias[2].item<double>()) * std::exp(layer.aLog[2].item<double>()), std::log(2.0) / 17, 1e-5, 0, "rate of half-life 17");
        LINNET_CLOSE(softplus(layer.dtBias[5].item<double>()), 1e-4, 1e-3, 0, "rate of no decay");
        QVERIFY(layer.aProj[2].abs().max().item<float>() == 0 && layer.aProj[5].abs().max().item<float>() == 0);
        // every channel of the gate has the mean input u with SiLU(u) = 1
        const at::Tensor gate = inputs.capture.x.to(at::kDouble).matmul(layer.gProj.narrow(0, 16, 8).to(at::kDouble).t()).mean(at::IntArrayRef{0, 1});
        LINNET_NEAR(gate, at::full({8}, 1.2784645), 1e-4);
        QVERIFY(layer.gProj.narrow(0, 40, 8).abs().max().item<float>() == 0);
        QVERIFY(at::allclose(layer.oProj.narrow(1, 16, 8), plain.oProj.narrow(1, 16, 8) * 2.5));
        for (const std::int64_t h : {0, 1, 3, 4}) { // heads without a target: untouched
            QVERIFY(at::equal(layer.bProj[h], plain.bProj[h]) && at::equal(layer.aProj[h], plain.aProj[h]) && at::equal(layer.dtBias[h], plain.dtBias[h]));
            QVERIFY(at::equal(layer.gProj.narrow(0, 8 * h, 8), plain.gProj.narrow(0, 8 * h, 8)));
            QVERIFY(at::equal(layer.oProj.narrow(1, 8 * h, 8), plain.oProj.narrow(1, 8 * h, 8)));
        }
    }

    void unknownPresetIsNamed() {
        const Inputs inputs(m_teachers, "llama");
        const auto result = guarded([&] { return inputs.start("linnet-x"); });
        QVERIFY(!result && messageOf(result).contains("linnet-x"));
    }
};

QTEST_APPLESS_MAIN(TestConvertCalibration)
#include "tst_convert_calibration.moc"
