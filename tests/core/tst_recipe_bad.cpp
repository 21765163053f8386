// Recipes that must be refused, each with a message that names file, key, what was found and what is expected.
#include "core/recipe/recipe.h"

#include <QTest>
#include <functional>
#include <limits>

using namespace linnet::core;

class RecipeBad : public QObject {
    Q_OBJECT
private slots:
    void refused_data();
    void refused();
    void againstTeacher_data();
    void againstTeacher();
    void allProblemsAreListed();
    void notFinite_data();
    void notFinite();
    void budgetsSetByHand();
    void accepted_data();
    void accepted();
};

namespace {

using Value = std::function<double&(Recipe&)>;

Result<Recipe> parsed(const QString& text) {
    return guarded([&] { return recipeFromJson(parseJson(text.toStdString(), "r.json"), "r.json"); });
}

} // namespace

void RecipeBad::refused_data() {
    QTest::addColumn<QString>("body"); // after {"version": 1,
    QTest::addColumn<QString>("key");
    QTest::addColumn<QString>("named");
    const auto row = [](const char* body, const char* key, const char* named) { QTest::newRow(body) << body << key << named; };
    row(R"("tacher": {})", "tacher", "did you mean teacher?");
    row(R"("zzzzzzzzz": 1)", "zzzzzzzzz", "known here: version");
    row(R"("teacher": {"sorce": "x"})", "teacher.sorce", "did you mean teacher.source?");
    row(R"("align": {"lrnew": 1})", "align.lrnew", "did you mean align.lr_new?");
    row(R"("data": {"seqlen": 1})", "data.seqlen", "data.seq_len");
    row(R"("window": {"sink": 1})", "window.sink", "window.sinks");
    row(R"("evaluate": {"seq": 1})", "evaluate.seq", "evaluate");
    row(R"("treatment": {"ropes": "drop"})", "treatment.ropes", "treatment.rope?");
    row(R"("pins": {"nver": []})", "pins.nver", "pins.never?");
    row(R"("targets": {"0": {"0": {"halflife": 3}}})", "targets.0.0.halflife", "targets.0.0.half_life?");
    row(R"("teacher": "x")", "teacher", "expected an object");
    row(R"("teacher": {"source": 3})", "teacher.source", "found 3, expected a string");
    row(R"("teacher": {"source": ""})", "teacher.source", "found \"\"");
    row(R"("teacher": {"hash": null})", "teacher.hash", "found null");
    row(R"("data": [])", "data", "expected an object");
    row(R"("data": {"text": []})", "data.text", "list of paths");
    row(R"("data": {"text": [1]})", "data.text", "list of paths");
    row(R"("data": {"text": 7})", "data.text", "found 7");
    row(R"("data": {"text": ""})", "data.text", "found \"\"");
    row(R"("data": {"text": "self:0"})", "data.text", "self:N");
    row(R"("data": {"text": "self:x"})", "data.text", "self:x");
    row(R"("data": {"text": ["self:4", "a.txt"]})", "data.text", "alone");
    row(R"("data": {"seq_len": 1})", "data.seq_len", "found 1, expected a whole number from 2");
    row(R"("data": {"seq_len": "256"})", "data.seq_len", "found \"256\"");
    row(R"("data": {"seq_len": 256.5})", "data.seq_len", "found 256.5");
    row(R"("data": {"seq_len": 9999999})", "data.seq_len", "found 9999999");
    row(R"("data": {"calibration_tokens": 0})", "data.calibration_tokens", "found 0");
    row(R"("data": {"selection_tokens": 0})", "data.selection_tokens", "from 1");
    row(R"("data": {"evaluation_tokens": -1})", "data.evaluation_tokens", "found -1");
    row(R"("data": {"evaluation_tokens": 18446744073709551615})", "data.evaluation_tokens", "18446744073709551615");
    row(R"("mixer": "gated_deltanet")", "mixer", "did you mean \"gated_delta_net\"?");
    row(R"("mixer": 1)", "mixer", "expected a string");
    row(R"("preset": "papr")", "preset", "did you mean \"paper\"?");
    row(R"("preset": [])", "preset", "expected a string");
    row(R"("keep": 8)", "keep", "found 8");
    row(R"("keep": "uniform")", "keep", "uniform");
    row(R"("keep": "byPass:8")", "keep", "did you mean \"bypass\"?");
    row(R"("keep": [0, 0])", "keep", "different layer numbers");
    row(R"("keep": [-1])", "keep", "found -1");
    row(R"("keep": [1.5])", "keep", "found 1.5");
    row(R"("targets": [])", "targets", "expected an object");
    row(R"("targets": {"x": {}})", "targets.x", "as layer");
    row(R"("targets": {"01": {}})", "targets.01", "as layer");
    row(R"("targets": {"-1": {}})", "targets.-1", "as layer");
    row(R"("targets": {"3": 1})", "targets.3", "expected an object");
    row(R"("targets": {"3": {"h": {}}})", "targets.3.h", "as head");
    row(R"("targets": {"3": {"2": 1}})", "targets.3.2", "expected an object");
    row(R"("targets": {"3": {"2": {"half_life": 0}}})", "targets.3.2.half_life", "found 0");
    row(R"("targets": {"3": {"2": {"half_life": "long"}}})", "targets.3.2.half_life", "null for no decay");
    row(R"("targets": {"3": {"2": {"beta": 1}}})", "targets.3.2.beta", "between 0 and 1");
    row(R"("targets": {"3": {"2": {"beta": 0.0}}})", "targets.3.2.beta", "found 0");
    row(R"("targets": {"3": {"2": {"beta": null}}})", "targets.3.2.beta", "found null");
    row(R"("targets": {"3": {"2": {"value_scale": -1}}})", "targets.3.2.value_scale", "found -1");
    row(R"("targets": {"3": {"2": {"output_gate": -0.5}}})", "targets.3.2.output_gate", "found -0.5");
    row(R"("targets": {"3": {"2": {"locked": "beta"}}})", "targets.3.2.locked", "list");
    row(R"("targets": {"3": {"2": {"locked": ["beta", "beta"]}}})", "targets.3.2.locked", "different");
    row(R"("targets": {"3": {"2": {"locked": ["bta"]}}})", "targets.3.2.locked", "did you mean \"beta\"?");
    row(R"("align": {"steps": -1})", "align.steps", "found -1");
    row(R"("align": {"steps": true})", "align.steps", "found true");
    row(R"("align": {"batch": 0})", "align.batch", "found 0, expected a whole number from 1");
    row(R"("align": {"lr": -1e-3})", "align.lr", "found -0.001");
    row(R"("align": {"lr": "fast"})", "align.lr", "expected a number");
    row(R"("align": {"lr_new": 2})", "align.lr_new", "from 0 to 1");
    row(R"("align": {"schedule": "cosin"})", "align.schedule", "did you mean \"cosine\"?");
    row(R"("align": {"warmup": 1.5})", "align.warmup", "found 1.5");
    row(R"("align": {"train_output": 1})", "align.train_output", "true or false");
    row(R"("align": {"loss": "kl"})", "align.loss", "mse, relative_mse");
    row(R"("align": {"weight_decay": -1})", "align.weight_decay", "found -1");
    row(R"("align": {"clip": 0})", "align.clip", "above 0");
    row(R"("align": {"held_out": 1})", "align.held_out", "0 to 0.9");
    row(R"("align": {"loss": "kl_metrik"})", "align.loss", "did you mean \"kl_metric\"?");
    row(R"("align": {"early_stop": -1})", "align.early_stop", "found -1");
    row(R"("align": {"early_stop": 0.5})", "align.early_stop", "found 0.5");
    row(R"("align": {"drift": "refits"})", "align.drift", "did you mean \"refit\"?");
    row(R"("align": {"drift": null})", "align.drift", "found null");
    row(R"("align": {"drift_steps": -5})", "align.drift_steps", "found -5");
    row(R"("closed_form": [])", "closed_form", "found [], expected an object");
    row(R"("closed_from": {})", "closed_from", "did you mean closed_form?");
    row(R"("closed_form": {"half_live": []})", "closed_form.half_live", "did you mean closed_form.half_lives?");
    row(R"("closed_form": {"half_lives": 8})", "closed_form.half_lives", "found 8, expected a list of numbers");
    row(R"("closed_form": {"half_lives": []})", "closed_form.half_lives", "found 0, expected 1 to 32 entries");
    row(R"("closed_form": {"half_lives": [2, 0]})", "closed_form.half_lives", "found 0, expected numbers of tokens above 0");
    row(R"("closed_form": {"half_lives": [-1]})", "closed_form.half_lives", "found -1");
    row(R"("closed_form": {"half_lives": ["8"]})", "closed_form.half_lives", "found \"8\"");
    row(R"("closed_form": {"half_lives": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]})",
        "closed_form.half_lives", "found 33, expected 1 to 32 entries");
    row(R"("closed_form": {"betas": []})", "closed_form.betas", "found 0, expected 1 to 32 entries");
    row(R"("closed_form": {"betas": [0.5, 1]})", "closed_form.betas", "found 1, expected numbers between 0 and 1");
    row(R"("closed_form": {"betas": [0]})", "closed_form.betas", "found 0, expected numbers between 0 and 1");
    row(R"("closed_form": {"betas": [null]})", "closed_form.betas", "found null");
    row(R"("closed_form": {"sequences": 0})", "closed_form.sequences", "found 0");
    row(R"("closed_form": {"joint": 1})", "closed_form.joint", "found 1, expected true or false");
    row(R"("closed_form": {"ridge": 0})", "closed_form.ridge", "found 0, expected a number above 0");
    row(R"("closed_form": {"gate": "regresion"})", "closed_form.gate", "did you mean \"regression\"?");
    row(R"("closed_form": {"gate_rounds": -1})", "closed_form.gate_rounds", "found -1");
    row(R"("closed_form": {"refine": 1})", "closed_form.refine", "found 1, expected true or false");
    row(R"("closed_form": {"value_rms": 0})", "closed_form.value_rms", "found 0, expected a number above 0");
    row(R"("closed_form": {"ridge_before_alignment": -1})", "closed_form.ridge_before_alignment", "found -1, expected a number above 0");
    row(R"("distill": null)", "distill", "found null, expected an object");
    row(R"("distill": {"step": 3})", "distill.step", "did you mean distill.steps?");
    row(R"("distill": {"steps": -1})", "distill.steps", "found -1");
    row(R"("distill": {"batch": 0})", "distill.batch", "found 0");
    row(R"("distill": {"lr": 0})", "distill.lr", "found 0, expected a number above 0");
    row(R"("distill": {"warmup": 1})", "distill.warmup", "found 1, expected a number from 0 to below 1");
    row(R"("distill": {"warmup": -0.1})", "distill.warmup", "found -0.1");
    row(R"("distill": {"schedule": "linaer"})", "distill.schedule", "did you mean \"linear\"?");
    row(R"("distill": {"temperature": 0})", "distill.temperature", "found 0");
    row(R"("distill": {"kl_weight": -1})", "distill.kl_weight", "found -1");
    row(R"("distill": {"kl_weight": 0})", "distill.kl_weight", "above 0 where distill.cross_entropy_weight is 0");
    row(R"("distill": {"cross_entropy_weight": -0.5})", "distill.cross_entropy_weight", "found -0.5");
    row(R"("distill": {"weight_decay": -1})", "distill.weight_decay", "found -1");
    row(R"("distill": {"clip": 0})", "distill.clip", "found 0");
    row(R"("distill": {"tokens": -1})", "distill.tokens", "found -1");
    row(R"("memory_gib": -1)", "memory_gib", "found -1, expected a number from 0");
    row(R"("memory_gib": "8")", "memory_gib", "found \"8\"");
    row(R"("memory_gb": 8)", "memory_gb", "did you mean memory_gib?");
    row(R"("keep": "kl:cache=0@8")", "keep", "found \"0\" as BYTES");
    row(R"("keep": "score:ppl=1.1", "data": {"selection_tokens": 0})", "data.selection_tokens",
        "from 1"); // the ratio is measured on them
    row(R"("window": {"window": 0})", "window.window", "found 0");
    row(R"("window": {"sinks": -1})", "window.sinks", "found -1");
    row(R"("evaluate": {"convention": "words"})", "evaluate.convention", "did you mean \"word\"?");
    row(R"("evaluate": {"seq_len": 1})", "evaluate.seq_len", "found 1");
    row(R"("device": "gpu")", "device", "auto, cpu, cuda");
    row(R"("device": "cuda:x")", "device", "cuda:x");
    row(R"("device": "cuda:")", "device", "cuda:N");
    row(R"("dtype": "fp32")", "dtype", "f32, bf16 or f16");
    row(R"("seed": -1)", "seed", "found -1");
    row(R"("seed": 1.5)", "seed", "found 1.5");
    row(R"("treatment": {"bias": "keep"})", "treatment.bias", "found \"keep\", expected one of fold, drop, fit");
    row(R"("treatment": {"qk_norm": 1})", "treatment.qk_norm", "expected a string");
    row(R"("pins": {"never": 3})", "pins.never", "list");
    row(R"("pins": {"always": [1, 1]})", "pins.always", "different");
    row(R"("pins": {"never": [1, 2], "always": [2]})", "pins.always", "found 2, expected no layer that pins.never names too");
    row(R"("keep": "kl:1", "pins": {"never": [1, 2]})", "pins.never", "kl:1");
}

void RecipeBad::refused() {
    QFETCH(QString, body);
    QFETCH(QString, key);
    QFETCH(QString, named);
    const auto result = parsed("{\"version\": 1, " + body + "}");
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::Malformed);
    const auto message = QString::fromStdString(result.error().message);
    QVERIFY2(message.startsWith("r.json: ") && message.contains(key) && message.contains(named), qPrintable(message));
    QCOMPARE(QString::fromStdString(result.error().context.at("key")), key);
    QCOMPARE(result.error().context.at("file"), std::string("r.json"));
}

void RecipeBad::againstTeacher_data() {
    QTest::addColumn<QString>("body");
    QTest::addColumn<QString>("key");
    const auto row = [](const char* body, const char* key) { QTest::newRow(body) << body << key; };
    row(R"("targets": {"30": {"0": {"beta": 0.1}}})", "targets.30");
    row(R"("targets": {"29": {"9": {"beta": 0.1}}})", "targets.29.9");
    row(R"("keep": "uniform:31")", "keep");
    row(R"("keep": "bypass:31")", "keep");
    row(R"("keep": [30])", "keep");
    row(R"("keep": "bypass:22", "pins": {"always": [0, 1, 2, 3, 4, 5, 6, 7, 8]})", "pins.always");
    row(R"("pins": {"never": [30]})", "pins.never");
    row(R"("pins": {"always": [30]})", "pins.always");
}

void RecipeBad::againstTeacher() {
    QFETCH(QString, body);
    QFETCH(QString, key);
    const auto recipe = parsed("{\"version\": 1, " + body + "}");
    QVERIFY2(recipe, recipe ? "" : recipe.error().message.c_str()); // nothing wrong with it alone
    QVERIFY(validateRecipe(*recipe, 100, 100).empty());
    const auto errors = validateRecipe(*recipe, 30, 9); // SmolLM2-135M's shape
    QCOMPARE(errors.size(), std::size_t{1});
    QCOMPARE(QString::fromStdString(errors[0].context.at("key")), key);
    QVERIFY(errors[0].message.find(key.toStdString()) != std::string::npos);
}

void RecipeBad::allProblemsAreListed() {
    Recipe recipe;
    recipe.seqLen = 0;
    recipe.align.batch = 0;
    recipe.targets[2][1].beta = 2;
    QCOMPARE(validateRecipe(recipe).size(), std::size_t{3});
    const auto result = parsed(R"({"version": 1, "data": {"seq_len": 0}, "align": {"batch": 0}})");
    QVERIFY(!result);
    QVERIFY(result.error().message.find("data.seq_len") != std::string::npos &&
            result.error().message.find("align.batch") != std::string::npos);
}

void RecipeBad::notFinite_data() { // JSON has no such numbers, but a recipe in memory may
    QTest::addColumn<Value>("value");
    const auto row = [](const char* key, Value value) { QTest::newRow(key) << value; };
    row("closed_form.half_lives", [](Recipe& r) -> double& { return r.closedForm.halfLives[1]; });
    row("closed_form.betas", [](Recipe& r) -> double& { return r.closedForm.betas[1]; });
    row("closed_form.ridge", [](Recipe& r) -> double& { return r.closedForm.ridge; });
    row("closed_form.value_rms", [](Recipe& r) -> double& { return r.closedForm.valueRms; });
    row("closed_form.ridge_before_alignment", [](Recipe& r) -> double& { return r.closedForm.ridgeBeforeAlignment; });
    row("distill.lr", [](Recipe& r) -> double& { return r.distill.lr; });
    row("distill.warmup", [](Recipe& r) -> double& { return r.distill.warmup; });
    row("distill.temperature", [](Recipe& r) -> double& { return r.distill.temperature; });
    row("distill.kl_weight", [](Recipe& r) -> double& { return r.distill.klWeight; });
    row("distill.cross_entropy_weight", [](Recipe& r) -> double& { return r.distill.crossEntropyWeight; });
    row("distill.weight_decay", [](Recipe& r) -> double& { return r.distill.weightDecay; });
    row("distill.clip", [](Recipe& r) -> double& { return r.distill.clip; });
    row("memory_gib", [](Recipe& r) -> double& { return r.memoryGib; });
}

void RecipeBad::notFinite() {
    QFETCH(Value, value);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::string key = QTest::currentDataTag();
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity}) {
        Recipe recipe;
        value(recipe) = bad;
        const auto errors = validateRecipe(recipe);
        if (key == "closed_form.half_lives" && bad == kInfinity) {
            QVERIFY(errors.empty()); // no decay
            continue;
        }
        QCOMPARE(errors.size(), std::size_t{1});
        QVERIFY2(errors[0].message.starts_with(key + ": found " + std::to_string(bad)), errors[0].message.c_str());
    }
}

void RecipeBad::budgetsSetByHand() {
    using Budget = KeepRule::Budget;
    const auto errors = [](KeepRule::Kind kind, Budget budget, double limit, std::int64_t length) {
        Recipe recipe;
        recipe.keep = {kind, 0, {}, {}, "kl", budget, limit, length};
        return validateRecipe(recipe, 30);
    };
    constexpr auto kMethod = KeepRule::Kind::Method;
    QVERIFY(errors(kMethod, Budget::Cache, 1 << 20, 4096).empty());
    QVERIFY(errors(kMethod, Budget::Perplexity, 1, 0).empty());
    for (const double limit : {0.0, 1.5, 1e18, std::numeric_limits<double>::quiet_NaN()})
        QCOMPARE(errors(kMethod, Budget::Cache, limit, 4096).size(), std::size_t{1});
    for (const double limit : {0.9, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
        QCOMPARE(errors(kMethod, Budget::Perplexity, limit, 0).size(), std::size_t{1});
    QCOMPARE(errors(kMethod, Budget::Cache, 1 << 20, 0).at(0).context.at("key"), std::string("keep"));
    QCOMPARE(errors(KeepRule::Kind::Uniform, Budget::Perplexity, 1.1, 0).size(), std::size_t{1});
}

void RecipeBad::accepted_data() {
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("error"); // "" = accepted
    QTest::newRow("smallest") << R"({"version": 1})"
                              << "";
    QTest::newRow("nothing kept") << R"({"version": 1, "keep": []})"
                                  << "";
    QTest::newRow("no decay") << R"({"version": 1, "targets": {"0": {"0": {"half_life": null}}}})"
                              << "";
    QTest::newRow("empty distill") << R"({"version": 1, "distill": {}})"
                                   << "";
    QTest::newRow("cross entropy alone") << R"({"version": 1, "distill": {"kl_weight": 0, "cross_entropy_weight": 1}})"
                                         << "";
    QTest::newRow("pins beside a budget")
        << R"({"version": 1, "keep": "kl:ppl=1.05", "pins": {"never": [1, 2], "always": [3]}})"
        << "";
    QTest::newRow("largest seed") << R"({"version": 1, "seed": 18446744073709551615})"
                                  << "";
    QTest::newRow("no version") << R"({})"
                                << "version: found nothing";
    QTest::newRow("newer") << R"({"version": 2})"
                           << "newer";
    QTest::newRow("version 0") << R"({"version": 0})"
                               << "version: found 0";
    QTest::newRow("version word") << R"({"version": "1"})"
                                  << "version: found \"1\"";
    QTest::newRow("no object") << R"([1])"
                               << "expected an object";
    QTest::newRow("key twice") << R"({"version": 1, "seed": 1, "seed": 2})"
                               << "seed";
    QTest::newRow("cut off") << R"({"version": 1, )"
                             << "line 1";
    QTest::newRow("not a number") << R"({"version": 1, "align": {"lr": NaN}})"
                                  << "line 1";
    QTest::newRow("beyond double") << R"({"version": 1, "align": {"lr": 1e999}})"
                                   << "1e999";
}

void RecipeBad::accepted() {
    QFETCH(QString, text);
    QFETCH(QString, error);
    const auto result = parsed(text);
    if (error.isEmpty()) {
        QVERIFY2(result, result ? "" : result.error().message.c_str());
    } else {
        QVERIFY(!result);
        QCOMPARE(result.error().code, ErrorCode::Malformed);
        QVERIFY2(result.error().message.find(error.toStdString()) != std::string::npos, result.error().message.c_str());
    }
}

QTEST_APPLESS_MAIN(RecipeBad)
#include "tst_recipe_bad.moc"
