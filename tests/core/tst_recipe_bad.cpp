// Recipes that must be refused, each with a message that names file, key, what was found and what is expected.
#include "core/recipe/recipe.h"

#include <QTest>

using namespace linnet::core;

class RecipeBad : public QObject {
    Q_OBJECT
private slots:
    void refused_data();
    void refused();
    void againstTeacher_data();
    void againstTeacher();
    void allProblemsAreListed();
    void accepted_data();
    void accepted();
};

namespace {

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
    row(R"("distill": {"steps": 3})", "distill.steps", "later stage");
    row(R"("distill": null)", "distill", "later stage");
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
    row(R"("treatment": {"bias": "keep"})", "treatment.bias", "fold, drop");
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
