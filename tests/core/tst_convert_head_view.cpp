// One head on one text: the recurrence's effective weights against a token recurrence in float64, the view against the layer that it is
// taken from, errors by position and class against loops in float64, jumps against every pair, token classes and neighbours by hand.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/closed_form_rows.h"
#include "core/convert/head_evidence.h"
#include "core/profile/similar_heads.h"
#include "tests/support/closed_form_cases.h"
#include "tests/support/convert_fixtures.h"

#include <QTest>
#include <cmath>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

constexpr std::int64_t kHead = 4;

class LetterTokenizer : public Tokenizer { // a byte of the text is a token; ids become letters, digits and signs
public:
    std::vector<TokenId> encode(std::string_view utf8, bool) const override {
        std::vector<TokenId> ids;
        for (const char c : utf8)
            ids.push_back(static_cast<TokenId>(static_cast<unsigned char>(c)));
        return ids;
    }
    std::string decode(const std::vector<TokenId>& ids) const override {
        std::string text;
        for (const auto id : ids)
            text += id % 11 == 0 ? ". " : id % 7 == 0 ? std::string(1, static_cast<char>('0' + id % 10)) : id % 3 == 0 ? " " + letter(id) : letter(id);
        return text;
    }
    std::string tokenText(TokenId id) const override { return decode({id}); }
    std::int64_t vocabSize() const override { return 500; } // the model has 517
    std::string type() const override { return "letters"; }
    bool isEndOfText(TokenId) const override { return false; }
    std::string applyChatTemplate(const std::vector<ChatMessage>&, bool) const override { return {}; }
    std::string chatTemplate() const override { return {}; }
    std::string tokenizerJson() const override { return {}; }
    std::string tokenizerConfigJson() const override { return {}; }

private:
    static std::string letter(TokenId id) { return std::string(1, static_cast<char>('a' + id % 26)); }
};

ModelPtr withTokenizer(const ModelConfig& config) {
    ModelFiles files;
    files.path = "random";
    files.config = config;
    files.weights = std::make_shared<RandomWeights>(config, 0.3);
    files.tokenizer = std::make_shared<LetterTokenizer>();
    return std::make_shared<const Model>(std::move(files), at::kCPU, at::kFloat, false, Mixers(), Control());
}

struct Case : ClosedFormCase {
    explicit Case(std::int64_t sequences = 5, std::int64_t tokens = 24) : ClosedFormCase(llama(), sequences, tokens) {
        const at::NoGradGuard noGradients;
        model = withTokenizer(llama());
        weights = model->layer(kLayer);
        capture = captureOf(*model, *weights, runBlock(*model, *model->layer(0), nullptr, model->embed(ids())));
        moments = inputMoments(capture.x);
        recipe.closedForm.joint = false;
    }
    at::Tensor ids() const { return at::tensor(std::vector<std::int64_t>(windows.ids.begin(), windows.ids.end()), at::kLong).view({windows.sequences, windows.seqLen}); }
    HeadView view(const HeadRequest& request) const {
        TargetProbe probe(model, windows);
        return orFail(headView(probe, recipe, request));
    }
};

HeadRequest request(std::int64_t layer = ClosedFormCase::kLayer, std::int64_t head = kHead) {
    HeadRequest request;
    request.layer = layer, request.head = head;
    return request;
}

at::Tensor wide(const std::vector<float>& values, at::IntArrayRef sizes) {
    return at::tensor(at::ArrayRef<float>(values)).to(at::kDouble).view(sizes);
}

std::vector<float> narrow(const at::Tensor& t) {
    const at::Tensor flat = t.to(at::kFloat).contiguous();
    return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

HeadView madeUp(std::int64_t T, std::int64_t D, std::uint64_t seed) {
    const auto generator = at::detail::createCPUGenerator(seed);
    const auto normal = [&](at::IntArrayRef sizes) { return at::randn(sizes, generator); };
    HeadView view;
    view.length = T, view.headDim = D;
    const at::Tensor k = normal({T, D}), q = normal({T, D});
    view.k = narrow(k / k.norm(2, -1, true)), view.q = narrow(q / q.norm(2, -1, true) / std::sqrt(double(D))), view.v = narrow(normal({T, D}));
    view.logDecay = narrow(-normal({T}).square()), view.beta = narrow(normal({T}).sigmoid()), view.gate = narrow(normal({T}).abs()), view.unit = narrow(normal({T}) + 1);
    view.halfLife = 3, view.betaMean = 0.4, view.valueScale = 1.5, view.outputGate = 0.8;
    return view;
}

// o [T, D] of the oracle, gate and scale applied.
at::Tensor recurred(const HeadView& view, const HeadSliders& sliders) {
    const auto T = view.length, D = view.headDim;
    MixerSpec spec = mixerSpec("gated_delta_net");
    spec.deltaRule = view.deltaRule;
    RecurrenceInputs in;
    in.q = wide(view.q, {1, T, 1, D}), in.k = wide(view.k, {1, T, 1, D}), in.v = wide(view.v, {1, T, 1, D});
    in.logDecay = sliders.halfLife ? at::full({1, T, 1}, -std::log(2.0) / *sliders.halfLife, at::kDouble) : wide(view.logDecay, {1, T, 1});
    in.write = wide(view.beta, {1, T, 1});
    if (sliders.beta)
        in.write = ((in.write / (1 - in.write)).log() + wide(view.unit, {1, T, 1}) * (logit(*sliders.beta) - logit(view.betaMean))).sigmoid();
    const at::Tensor o = tokenRecurrence(spec, in).o.view({T, D}), gate = wide(view.gate, {T, 1});
    return o * gate * (sliders.outputGate.value_or(view.outputGate) / view.outputGate * sliders.valueScale.value_or(view.valueScale));
}

} // namespace

class TestConvertHeadView : public QObject {
    Q_OBJECT

    static void nearly(double found, double expected, double relative, const char* what) {
        QVERIFY2(std::abs(found - expected) <= relative * std::abs(expected) + 1e-9, qPrintable(QString("%1: %2, expected %3").arg(QLatin1String(what)).arg(found).arg(expected)));
    }

private Q_SLOTS:
    void initTestCase() { at::set_num_threads(1); }

    void patternByHand() { // two tokens with the same unit key: the second erases what the first wrote
        HeadView view;
        view.length = 2, view.headDim = 1;
        view.q = {1, 1}, view.k = {1, 1}, view.v = {7, -2};
        view.logDecay = {-1, std::log(0.5f)}, view.beta = {0.5f, 0.25f}, view.gate = {1, 2}, view.unit = {1, 1};
        const auto W = recurrencePattern(view, {});
        const float expected[] = {0.5f, 0, 2 * 0.5f * (1 - 0.25f) * 0.5f, 2 * 0.25f};
        for (std::size_t i = 0; i < 4; ++i)
            QVERIFY2(std::abs(W[i] - expected[i]) < 1e-6f, qPrintable(QString("%1: %2, expected %3").arg(i).arg(W[i]).arg(expected[i])));
        const auto shares = rowShares({0, 0, -3, 1}, 2);
        QCOMPARE(shares, (std::vector<float>{0, 0, -0.75f, 0.25f}));
    }

    void topMassByHand() { // two windows of 5 tokens
        const std::vector<float> even{1, 0, 0, 0, 0, .5f, .5f, 0, 0, 0, .25f, .5f, .25f, 0, 0, .25f, .25f, .25f, .25f, 0, .125f, .25f, .125f, .25f, .25f};
        std::vector<float> first(25);
        for (std::size_t t = 0; t < 5; ++t)
            first[5 * t] = 1;
        const auto one = topMass({even}, 5);
        QVERIFY(one.rows == 5 && one.windows == 1 && std::isnan(one.se[0]));
        QCOMPARE(one.mean[0], (1 + 0.5 + 0.5 + 0.25 + 0.25) / 5);
        QCOMPARE(one.mean[1], (1 + 1 + 1 + 1 + 0.875) / 5);
        QCOMPARE(one.mean[2], 1.0);
        const auto two = topMass({even, first}, 5);
        QVERIFY(two.rows == 10 && two.windows == 2);
        QCOMPARE(two.mean[0], 0.75);
        QCOMPARE(two.se[0], 0.25); // of 0.5 and 1: half their difference
        QVERIFY(topMass({}, 5).rows == 0);
    }

    void patternAgainstTokens_data() {
        QTest::addColumn<int>("T");
        QTest::addColumn<bool>("delta");
        QTest::addColumn<QList<double>>("sliders"); // half-life, beta, value scale, gate; 0: as it is
        const QList<double> none{0, 0, 0, 0};
        QTest::newRow("one token") << 1 << true << none;
        QTest::newRow("as it is") << 37 << true << none;
        QTest::newRow("no delta rule") << 37 << false << none;
        QTest::newRow("half-life") << 65 << true << QList<double>{20, 0, 0, 0};
        QTest::newRow("beta") << 65 << true << QList<double>{0, 0.7, 0, 0};
        QTest::newRow("scale and gate") << 65 << true << QList<double>{0, 0, 3, 0.2};
        QTest::newRow("all") << 300 << true << QList<double>{90, 0.2, 0.5, 2};
    }
    void patternAgainstTokens() {
        QFETCH(int, T);
        QFETCH(bool, delta);
        QFETCH(QList<double>, sliders);
        auto view = madeUp(T, 8, 5);
        view.deltaRule = delta;
        const auto slider = [&](int i) { return sliders[i] > 0 ? std::optional(sliders[i]) : std::nullopt; };
        const HeadSliders set{slider(0), slider(1), slider(2), slider(3)};
        const auto W = recurrencePattern(view, set);
        for (std::int64_t t = 0; t < T; ++t)
            for (std::int64_t s = t + 1; s < T; ++s)
                QCOMPARE(W[static_cast<std::size_t>(t * T + s)], 0.f);
        LINNET_NEAR(wide(W, {T, T}).matmul(wide(view.v, {T, 8})), recurred(view, set), 2e-5);
    }

    void viewOfTheStart() {
        Case one;
        one.recipe.targets[Case::kLayer][kHead] = {.halfLife = 5, .beta = {}, .valueScale = 2, .outputGate = 0.7, .locked = {}};
        const auto view = one.view(request());
        const auto T = one.windows.seqLen, D = one.model->config().headDim;
        QVERIFY(view.length == T && view.headDim == D && view.textTokens == T && std::ssize(view.tokens) == T && !view.trained);
        const auto fit = one.fit(); // its readout of the first window, in float64
        QCOMPARE(view.halfLife, 5.0);
        QCOMPARE(view.betaMean, fit.heads[kHead].chosen.beta);
        QVERIFY(view.valueScale == 2 && view.outputGate == 0.7);
        const auto layer = mapped(fit.layer, [](const at::Tensor& t) { return t.to(at::kDouble); });
        const at::Tensor x = one.capture.x.narrow(0, 0, 1).to(at::kDouble);
        const auto raw = linearReadout(mixerSpec("gated_delta_net"), one.model->linearShape(), layer, x).raw[0].select(1, kHead);
        const at::Tensor gate = wide(view.gate, {T, 1});
        LINNET_NEAR(wide(recurrencePattern(view, {}), {T, T}).matmul(wide(view.v, {T, D})), raw * gate * 2, 2e-5);
        LINNET_NEAR(gate.view({T}), outputGate(layer, x)[0].narrow(1, kHead * D, D).square().mean(-1).sqrt(), 1e-5);
        nearly((wide(view.beta, {T}) / (1 - wide(view.beta, {T}))).log().mean().item<double>(), x[0].matmul(layer.bProj[kHead]).mean().item<double>(), 1e-4, "write logits");
        // the teacher's pattern gives what its attention gives
        const auto& config = one.model->config();
        const at::Tensor v = queryKeyValue(*one.model, *one.weights, one.capture.x.narrow(0, 0, 1)).v[0][kHead / config.groupSize()];
        LINNET_NEAR(wide(view.teacher, {T, T}).matmul(v.to(at::kDouble)), one.capture.heads[0].narrow(1, kHead * D, D), 1e-5);
        LINNET_NEAR(wide(view.teacher, {T, T}).sum(1), at::ones({T}, at::kDouble), 1e-5);
        // the largest sources of each row of each window
        QVERIFY(view.top.windows == 5 && view.top.rows == 5 * T);
        std::vector<at::Tensor> means;
        for (std::int64_t n = 0; n < 5; ++n) {
            const auto qk = queryKeyValue(*one.model, *one.weights, one.capture.x.narrow(0, n, 1));
            const at::Tensor logits = qk.q[0][kHead].to(at::kDouble).matmul(qk.k[0][kHead / config.groupSize()].to(at::kDouble).t()) / std::sqrt(double(D));
            const at::Tensor A = logits.masked_fill(at::ones({T, T}, at::kBool).triu(1), -INFINITY).softmax(-1);
            means.push_back(std::get<0>(A.sort(-1, true)).cumsum(-1).mean(0));
        }
        const at::Tensor shares = at::stack(means); // [5, T]
        for (std::size_t k = 0; k < kTopSources.size(); ++k) {
            const at::Tensor of = shares.select(1, kTopSources[k] - 1);
            nearly(view.top.mean[k], of.mean().item<double>(), 1e-5, "top mass");
            nearly(view.top.se[k], of.std().item<double>() / std::sqrt(5.0), 1e-3, "its standard error");
        }
        double mass = 0;
        for (const double each : view.distanceMass)
            mass += each;
        nearly(mass, 1, 1e-6, "mass by distance");
        QCOMPARE(view.distanceEdges.size(), view.distanceMass.size() + 1);
    }

    void betaMovesAsATargetDoes() { // what the slider shows is what a run with that target would start from
        Case one;
        one.recipe.closedForm.refine = false;
        one.recipe.targets[Case::kLayer][kHead] = {.halfLife = 6, .beta = 0.1, .valueScale = {}, .outputGate = {}, .locked = {}};
        const auto before = one.view(request());
        one.recipe.targets[Case::kLayer][kHead] = {.halfLife = 25, .beta = 0.6, .valueScale = {}, .outputGate = {}, .locked = {}};
        const auto after = one.view(request());
        if (before.v != after.v)
            QSKIP("the two targets chose other value taps");
        const auto T = before.length;
        LINNET_NEAR(wide(recurrencePattern(before, {.halfLife = 25, .beta = 0.6, .valueScale = {}, .outputGate = {}}), {T, T}), wide(recurrencePattern(after, {}), {T, T}), 1e-4);
    }

    void ownTextAndCuts() {
        Case one;
        TargetProbe probe(one.model, one.windows);
        auto asked = request();
        asked.text = "some text of a person";
        const auto view = orFail(headView(probe, one.recipe, asked));
        QVERIFY(view.length == 21 && view.textTokens == 21);
        std::vector<std::int64_t> ids(asked.text.begin(), asked.text.end());
        const at::Tensor x = attentionInput(*one.model, *one.weights, runBlock(*one.model, *one.model->layer(0), nullptr, one.model->embed(at::tensor(ids, at::kLong).unsqueeze(0))));
        const auto qkv = queryKeyValue(*one.model, *one.weights, x);
        const at::Tensor A = (qkv.q[0][kHead].matmul(qkv.k[0][1].t()) / std::sqrt(8.0)).masked_fill(at::ones({21, 21}, at::kBool).triu(1), -INFINITY).softmax(-1);
        LINNET_NEAR(wide(view.teacher, {21, 21}), A, 1e-5);
        asked.layer = 0; // back to an earlier layer, and on again
        QVERIFY(headView(probe, one.recipe, asked).has_value());
        asked.layer = Case::kLayer;
        QCOMPARE(orFail(headView(probe, one.recipe, asked)).teacher, view.teacher);
        asked.text = std::string(600, 'x');
        const auto cut = orFail(headView(probe, one.recipe, asked));
        QVERIFY(cut.length == kProbeTokens && cut.textTokens == 600);
    }

    void viewOfARun() {
        Case one;
        QTemporaryDir folder;
        const std::filesystem::path run = folder.path().toStdString();
        std::filesystem::create_directories(run / "checkpoints");
        one.recipe.teacherHash = "random";
        orFail(writeRecipe(run / "recipe.json", one.recipe));
        auto layer = mapped(one.fit().layer, [](const at::Tensor& t) { return t + at::randn(t.sizes()) * 0.05; }); // gates that depend on the token
        saveLinearLayers(run / "checkpoints" / "student.safetensors", {{Case::kLayer, Mixer{Mixer::Kind::Linear, &mixerSpec("gated_delta_net"), layer}}});
        auto asked = request();
        asked.run = run;
        TargetProbe probe(one.model, one.windows);
        const auto view = orFail(headView(probe, one.recipe, asked));
        QVERIFY(view.trained);
        const auto T = view.length, D = view.headDim;
        const at::Tensor x = one.capture.x.narrow(0, 0, 1);
        const auto raw = linearReadout(mixerSpec("gated_delta_net"), one.model->linearShape(), layer, x).raw[0].select(1, kHead);
        LINNET_NEAR(wide(recurrencePattern(view, {}), {T, T}).matmul(wide(view.v, {T, D})), raw.to(at::kDouble) * wide(view.gate, {T, 1}), 1e-4);
        nearly(view.halfLife, std::log(2.0) / -wide(view.logDecay, {T}).mean().item<double>(), 1e-5, "half-life");
        QVERIFY(orFail(headEvidence(probe, one.recipe, asked)).trained);
        asked.layer = 0;
        QVERIFY(messageOf(headView(probe, one.recipe, asked)).contains("no aligned layer"));
        auto other = one.recipe;
        other.teacherHash = "another";
        orFail(writeRecipe(run / "recipe.json", other));
        asked.layer = Case::kLayer;
        QVERIFY(messageOf(headView(probe, one.recipe, asked)).contains("another teacher"));
    }

    void refusals() {
        Case one;
        TargetProbe probe(one.model, one.windows);
        one.recipe.ropeTreatment = one.recipe.biasTreatment = one.recipe.qkNormTreatment = "drop"; // what other presets know
        one.recipe.preset = "sliding-window";
        QVERIFY(messageOf(headView(probe, one.recipe, request())).contains("sliding-window"));
        one.recipe.preset = "naive";
        QVERIFY(headView(probe, one.recipe, request()).has_value()); // its start needs no search
        one.recipe.mixer = "gla";
        QVERIFY(messageOf(headView(probe, one.recipe, request())).contains("gla"));
        one.recipe.mixer = "gated_delta_net";
        QVERIFY(!headView(probe, one.recipe, request(7)) && !headEvidence(probe, one.recipe, request(0, 9)));
    }

    void errorsAgainstLoops() {
        Case one(6, 40);
        TargetProbe probe(one.model, one.windows);
        const auto found = orFail(headEvidence(probe, one.recipe, request()));
        const auto fit = one.fit();
        nearly(found.relativeError, fit.heads[kHead].residual, 2e-3, "own residual"); // the ridge counts once here and not at all there
        const auto N = one.windows.sequences, T = one.windows.seqLen, D = one.model->config().headDim;
        const auto layer = mapped(fit.layer, [](const at::Tensor& t) { return t.to(at::kDouble); });
        const at::Tensor z = linearReadout(mixerSpec("gated_delta_net"), one.model->linearShape(), layer, one.capture.x.to(at::kDouble)).normed.select(2, kHead).reshape({N * T, D});
        const at::Tensor y = one.capture.heads.narrow(2, kHead * D, D).to(at::kDouble).reshape({N * T, D}), O = one.weights->attention.o.narrow(1, kHead * D, D).to(at::kDouble);
        const at::Tensor G = z.t().matmul(z), ridge = at::eye(D, at::kDouble) * (G.diagonal().mean() * 1e-4);
        const at::Tensor B = at::linalg_inv(G + ridge).matmul(z.t()).matmul(y);
        const at::Tensor made = z.matmul(B).matmul(O.t()), target = y.matmul(O.t()); // [N T, hidden]: as the residual stream gets them
        const at::Tensor error = (made - target).square().sum(-1), power = target.square().sum(-1), cosine = (made * target).sum(-1) / (made.norm(2, -1) * target.norm(2, -1));
        const auto pieces = [&] {
            LetterTokenizer tokenizer;
            std::vector<std::string> all;
            for (const auto id : one.windows.ids)
                all.push_back(id < 500 ? tokenizer.decode({id}) : "<" + std::to_string(id) + ">");
            return all;
        }();
        const auto check = [&](const ErrorBucket& bucket, const std::function<bool(std::int64_t, std::int64_t)>& member) {
            double e = 0, p = 0, c = 0;
            std::int64_t count = 0;
            std::vector<double> ratios;
            for (std::int64_t n = 0; n < N; ++n) {
                double windowError = 0, windowPower = 0;
                for (std::int64_t t = 0; t < T; ++t)
                    if (member(n, t)) {
                        const auto i = n * T + t;
                        windowError += error[i].item<double>(), windowPower += power[i].item<double>(), c += cosine[i].item<double>(), ++count;
                    }
                e += windowError, p += windowPower;
                if (windowPower > 0)
                    ratios.push_back(windowError / windowPower);
            }
            QCOMPARE(bucket.tokens, count);
            if (count == 0) {
                QVERIFY(std::isnan(bucket.relativeError) && std::isnan(bucket.cosine));
                return;
            }
            nearly(bucket.relativeError, e / p, 1e-3, "relative error");
            nearly(bucket.cosine, c / double(count), 1e-3, "cosine");
            const double mean = std::accumulate(ratios.begin(), ratios.end(), 0.0) / double(ratios.size());
            const double square = std::accumulate(ratios.begin(), ratios.end(), 0.0, [&](double sum, double r) { return sum + (r - mean) * (r - mean); });
            if (ratios.size() > 1)
                nearly(bucket.relativeErrorSe, std::sqrt(square / double(ratios.size() - 1) / double(ratios.size())), 1e-2, "its standard error");
            else
                QVERIFY(std::isnan(bucket.relativeErrorSe));
        };
        QCOMPARE(found.byPosition.size(), std::size_t(7)); // 0, 1, 2-3, 4-7, 8-15, 16-31, 32-39
        QVERIFY(found.byPosition.back().from == 32 && found.byPosition.back().to == 40);
        for (const auto& bucket : found.byPosition)
            check(bucket, [&](std::int64_t, std::int64_t t) { return t >= bucket.from && t < bucket.to; });
        QCOMPARE(found.byClass.size(), std::size_t(kTokenClasses));
        for (const auto& bucket : found.byClass)
            check(bucket, [&](std::int64_t n, std::int64_t t) {
                const auto first = pieces.begin() + n * T;
                return static_cast<std::int64_t>(tokenClasses({first, first + T})[static_cast<std::size_t>(t)]) == bucket.from;
            });
        QVERIFY(!found.errors.empty());
        const auto& worst = found.errors.front();
        nearly(worst.error, (error.max() / power.mean()).item<double>(), 1e-3, "largest error");
        QCOMPARE(worst.at.window * T + worst.at.position, error.argmax().item<std::int64_t>());
        QCOMPARE(worst.at.piece, pieces[static_cast<std::size_t>(worst.at.window * T + worst.at.position)]);
    }

    void jumpsAgainstEveryPair() {
        Case one(5, 60);
        TargetProbe probe(one.model, one.windows);
        const auto found = orFail(headEvidence(probe, one.recipe, request())).jumps;
        const auto T = one.windows.seqLen;
        std::int64_t furthest = 0;
        for (std::int64_t n = 0; n < 5; ++n) {
            const auto qkv = queryKeyValue(*one.model, *one.weights, one.capture.x.narrow(0, n, 1));
            const at::Tensor A = (qkv.q[0][kHead].matmul(qkv.k[0][1].t()) / std::sqrt(8.0)).masked_fill(at::ones({T, T}, at::kBool).triu(1), -INFINITY).softmax(-1);
            const auto weight = A.accessor<float, 2>();
            for (std::int64_t t = 0; t < T; ++t)
                for (std::int64_t s = kJumpSinks; s < t; ++s)
                    if (weight[t][s] >= kJumpWeight)
                        furthest = std::max(furthest, t - s);
            for (const auto& jump : found)
                if (jump.from.window == n) {
                    QVERIFY(jump.to.window == n && jump.from.position - jump.to.position == jump.distance && jump.to.position >= kJumpSinks);
                    nearly(jump.weight, weight[jump.from.position][jump.to.position], 1e-5, "weight");
                    QVERIFY(jump.weight >= kJumpWeight);
                }
        }
        QVERIFY(furthest > 0 && !found.empty());
        QCOMPARE(found.front().distance, furthest);
        for (std::size_t i = 1; i < found.size(); ++i)
            QVERIFY(found[i].distance <= found[i - 1].distance);
    }

    void classesByHand() {
        const std::vector<std::string> pieces{"The", " cat", "s", ",", " on", " 3", "4", " mats", ".\"", " They", " sat", ".", "\n", "\n", "(", "Then", "’s", " \xF0\x9F", "\n\n", "end", " été"};
        using enum TokenClass;
        const std::vector<TokenClass> expected{SentenceStart, WordStart, Continuation, Punctuation, WordStart, Digit, Digit, WordStart, Punctuation, SentenceStart, WordStart,
                                               Punctuation, Space, Space, Punctuation, SentenceStart, Continuation, Punctuation, Space, SentenceStart, WordStart};
        const auto found = tokenClasses(pieces);
        QCOMPARE(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i)
            QVERIFY2(found[i] == expected[i], qPrintable(QString("%1 is %2").arg(QString::fromStdString(pieces[i]), QLatin1String(tokenClassName(found[i])))));
    }

    void neighboursByHand() {
        Profile profile;
        profile.edges = {0, 1, 2};
        const auto head = [](double near, double concentration, double rms) {
            HeadProfile one;
            one.histogram = one.histogramNoSink = {near, 1 - near};
            one.concentrationAbsolute = concentration, one.rmsPostO = rms;
            return one;
        };
        profile.layers = {{head(1, 0.5, 1), head(0, 0.5, 1)}, {head(1, 0.8, 1), head(1, 0.5, 10)}, {head(0.36, 0.5, 1), head(1, NAN, 1)}};
        const auto found = similarHeads(profile, 0, 0);
        QCOMPARE(found.size(), std::size_t(4)); // less the head itself and the one that was not measured
        const struct { std::int64_t layer, head; double distance; } expected[] = {{1, 0, 0.3}, {2, 0, std::sqrt(1 - 0.6)}, {0, 1, 1}, {1, 1, 1}};
        for (std::size_t i = 0; i < 4; ++i) {
            QVERIFY(found[i].layer == expected[i].layer && found[i].head == expected[i].head);
            nearly(found[i].distance, expected[i].distance, 1e-9, "distance");
        }
        QCOMPARE(similarHeads(profile, 0, 0, 2).size(), std::size_t(2));
        QVERIFY(similarHeads(profile, 3, 0).empty() && similarHeads(profile, 0, 2).empty());
    }
};

QTEST_GUILESS_MAIN(TestConvertHeadView)
#include "tst_convert_head_view.moc"
