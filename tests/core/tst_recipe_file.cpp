// The recipe file: canonical text, round trips, defaults, hash, difference.
#include "core/recipe/recipe.h"

#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>

using namespace linnet::core;

class RecipeFile : public QObject {
    Q_OBJECT
private slots:
    void canonicalText();
    void numbers_data();
    void numbers();
    void roundTrip_data();
    void roundTrip();
    void everyKey_data();
    void everyKey();
    void olderFile();
    void keyOrderOfFileIsFree();
    void defaults_data();
    void defaults();
    void paths_data();
    void paths();
    void hash();
    void difference();
    void files();
};

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Recipe parsed(const std::string& text) {
    return recipeFromJson(parseJson(text, "test"), "test");
}

Recipe randomRecipe(unsigned seed) {
    std::mt19937_64 random(seed);
    const auto real = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
    const auto whole = [&](std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    Recipe recipe = defaultRecipe(whole(0, 1) ? "cuda" : "cpu", presetNames()[static_cast<std::size_t>(whole(0, 7))]);
    recipe.teacherSource = "models/a \"b\" \\ \u00e9";
    recipe.dataText.assign(static_cast<std::size_t>(whole(1, 3)), "some text.txt");
    recipe.seqLen = whole(2, 5000);
    recipe.calibrationTokens = whole(1, 1'000'000'000);
    recipe.keep = parseKeepRule(std::vector<std::string>{"uniform:3", "layers:1,4", "layers:", "file:x.json", "ga-s2:2",
                                                         "kl:cache=64MiB@32768",
                                                         "greedy:ppl=1.05"}[static_cast<std::size_t>(whole(0, 6))]);
    recipe.closedForm.halfLives.assign(static_cast<std::size_t>(whole(1, 32)), real(0.001, 1e6));
    recipe.closedForm.halfLives[0] = kInfinity;
    recipe.closedForm.betas.assign(static_cast<std::size_t>(whole(1, 32)), real(1e-9, 0.999));
    recipe.closedForm.joint = whole(0, 1);
    recipe.distill.temperature = std::pow(10.0, real(-3, 3));
    recipe.distill.tokens = whole(0, 1'000'000'000'000);
    recipe.memoryGib = real(0, 100);
    recipe.align.lr = std::pow(10.0, real(-300, 0));
    recipe.align.warmup = real(0, 1);
    recipe.align.clip = std::pow(10.0, real(-3, 300));
    recipe.seed = random();
    recipe.dtype = whole(0, 1) ? "bf16" : "";
    recipe.device = "cuda:3";
    recipe.never = {1};
    recipe.always = {2, 7};
    for (int i = 0; i < 20; ++i) {
        HeadTarget& target = recipe.targets[whole(0, 12)][whole(0, 12)];
        target.halfLife = whole(0, 2) == 0 ? kInfinity : real(0.001, 1e6);
        if (whole(0, 1))
            target.beta = real(1e-9, 0.999);
        if (whole(0, 1))
            target.outputGate = std::pow(10.0, real(-20, 20));
        if (whole(0, 1))
            target.locked = {"half_life", "output_gate"};
    }
    return recipe;
}

} // namespace

void RecipeFile::canonicalText() {
    Recipe recipe = defaultRecipe("cpu", "naive");
    recipe.targets[12][0].halfLife = kInfinity;
    recipe.targets[12][10].beta = 0.1;
    recipe.targets[12][10].locked = {"half_life", "beta"};
    recipe.targets[3][2] = {32, 0.05, 1.5, 0.0, {}};
    recipe.targets[4][4] = {}; // says nothing: not written
    recipe.never = {0, 1};
    const QString expected = R"({
  "version": 1,
  "teacher": {
    "source": "default",
    "hash": ""
  },
  "data": {
    "text": "default",
    "seq_len": 256,
    "calibration_tokens": 32768,
    "selection_tokens": 2048,
    "evaluation_tokens": 4096
  },
  "mixer": "gated_delta_net",
  "preset": "naive",
  "keep": "bypass:22",
  "targets": {
    "3": {
      "2": {"half_life": 32, "beta": 0.05, "value_scale": 1.5, "output_gate": 0}
    },
    "12": {
      "0": {"half_life": null},
      "10": {"beta": 0.1, "locked": ["beta", "half_life"]}
    }
  },
  "closed_form": {
    "half_lives": [2, 8, 32, 128, null],
    "betas": [0.01, 0.05, 0.2, 0.5, 0.8],
    "sequences": 16,
    "joint": true,
    "refine": true,
    "value_rms": 0.3,
    "gate": "regression",
    "gate_rounds": 4,
    "ridge": 0.001,
    "ridge_before_alignment": 1
  },
  "align": {
    "steps": 100,
    "batch": 4,
    "lr": 0.006,
    "lr_new": 0.006,
    "schedule": "cosine",
    "warmup": 0.05,
    "train_output": true,
    "loss": "mse",
    "early_stop": 0,
    "drift": "none",
    "drift_steps": 100,
    "weight_decay": 0.01,
    "clip": 1,
    "held_out": 0.1
  },
  "distill": {
    "steps": 0,
    "batch": 16,
    "lr": 0.001,
    "warmup": 0.1,
    "schedule": "cosine",
    "temperature": 1,
    "kl_weight": 1,
    "cross_entropy_weight": 0,
    "weight_decay": 0.01,
    "clip": 1,
    "tokens": 0
  },
  "window": {
    "window": 64,
    "sinks": 4
  },
  "evaluate": {
    "convention": "chunked",
    "seq_len": 0
  },
  "device": "auto",
  "dtype": "auto",
  "memory_gib": 0,
  "seed": 0,
  "treatment": {
    "bias": "fold",
    "qk_norm": "fold",
    "rope": "drop"
  },
  "pins": {
    "never": [0, 1],
    "always": []
  }
}
)";
    QCOMPARE(QString::fromStdString(recipeToText(recipe)), expected);
}

void RecipeFile::numbers_data() {
    QTest::addColumn<double>("value");
    QTest::addColumn<QString>("text");
    QTest::newRow("0.1") << 0.1 << "0.1";
    QTest::newRow("third") << 1.0 / 3 << "0.3333333333333333";
    QTest::newRow("sum") << 0.1 + 0.2 << "0.30000000000000004";
    QTest::newRow("1e-4") << 1e-4 << "0.0001";
    QTest::newRow("small") << 1e-7 << "1e-07";
    QTest::newRow("smallest") << 5e-324 << "5e-324";
    QTest::newRow("large") << 1e22 << "1e+22";
    QTest::newRow("whole") << 4096.0 << "4096";
}

void RecipeFile::numbers() {
    QFETCH(double, value);
    QFETCH(QString, text);
    Recipe recipe;
    recipe.targets[0][0].halfLife = value;
    const auto written = recipeToText(recipe);
    QVERIFY2(written.find("\"half_life\": " + text.toStdString() + "}") != std::string::npos, written.c_str());
    QCOMPARE(*parsed(written).targets[0][0].halfLife, value);
}

void RecipeFile::roundTrip_data() {
    QTest::addColumn<unsigned>("seed");
    for (unsigned seed = 0; seed < 30; ++seed)
        QTest::addRow("%u", seed) << seed;
}

void RecipeFile::roundTrip() {
    QFETCH(unsigned, seed);
    const Recipe recipe = randomRecipe(seed);
    const auto text = recipeToText(recipe);
    const Recipe again = parsed(text);
    QCOMPARE(again, recipe);
    QCOMPARE(recipeToText(again), text);
    QVERIFY(diffRecipes(recipe, again).empty());
}

void RecipeFile::everyKey_data() {
    QTest::addColumn<QString>("value"); // canonical, and not the default
    const auto row = [](const char* key, const char* value) { QTest::addRow("%s %s", key, value) << value; };
    row("keep", "\"kl:cache=67108864@32768\"");
    row("keep", "\"greedy:ppl=1.05\"");
    row("closed_form.half_lives", "[0.5, null, 1000000]");
    row("closed_form.half_lives", "[null]");
    row("closed_form.betas", "[0.3]");
    row("closed_form.sequences", "7");
    row("closed_form.joint", "true");
    row("closed_form.ridge", "1e-06");
    row("closed_form.refine", "false");
    row("closed_form.value_rms", "1");
    row("closed_form.gate", "\"constant\"");
    row("closed_form.gate_rounds", "0");
    row("closed_form.ridge_before_alignment", "0.25");
    row("align.loss", "\"kl_metric\"");
    row("align.early_stop", "3");
    row("align.drift", "\"refit\"");
    row("align.drift", "\"align\"");
    row("align.drift_steps", "0");
    row("distill.steps", "2000");
    row("distill.batch", "1");
    row("distill.lr", "0.0003");
    row("distill.warmup", "0");
    row("distill.schedule", "\"constant\"");
    row("distill.schedule", "\"linear\"");
    row("distill.schedule", "\"wsd\"");
    row("distill.temperature", "2.5");
    row("distill.kl_weight", "0.9");
    row("distill.cross_entropy_weight", "0.1");
    row("distill.weight_decay", "0");
    row("distill.clip", "0.5");
    row("distill.tokens", "50000000");
    row("memory_gib", "12.5");
    row("treatment.bias", "\"fit\"");
    row("treatment.qk_norm", "\"fit\"");
    row("treatment.rope", "\"fold\"");
}

void RecipeFile::everyKey() {
    QFETCH(QString, value);
    const auto key = QString(QTest::currentDataTag()).section(' ', 0, 0);
    const auto path = key.split('.');
    const auto body =
        path.size() == 1 ? QString("\"%1\": %2").arg(key, value) : QString("\"%1\": {\"%2\": %3}").arg(path[0], path[1], value);
    const Recipe plain = defaultRecipe("cpu"), recipe = parsed(("{\"version\": 1, " + body + "}").toStdString());
    const auto differences = diffRecipes(plain, recipe); // this key and no other
    QCOMPARE(differences.size(), std::size_t{1});
    QCOMPARE(QString::fromStdString(differences[0].key), key);
    QCOMPARE(QString::fromStdString(differences[0].right), value);
    QVERIFY(recipe != plain && recipeHash(recipe) != recipeHash(plain));
    QCOMPARE(parsed(recipeToText(recipe)), recipe);
    QCOMPARE(recipeToText(parsed(recipeToText(recipe))), recipeToText(recipe));
}

// As version 1 wrote it before it knew closed_form, the later keys of align, distill and memory_gib.
void RecipeFile::olderFile() {
    const Recipe recipe = parsed(R"({
  "version": 1,
  "teacher": {"source": "default", "hash": ""},
  "data": {"text": "default", "seq_len": 256, "calibration_tokens": 32768, "selection_tokens": 2048, "evaluation_tokens": 4096},
  "mixer": "gated_delta_net",
  "preset": "naive",
  "keep": "bypass:22",
  "targets": {},
  "align": {"steps": 100, "batch": 4, "lr": 0.003, "lr_new": 0.003, "schedule": "cosine", "warmup": 0.05,
            "train_output": true, "loss": "mse", "weight_decay": 0.01, "clip": 1, "held_out": 0.1},
  "distill": {},
  "window": {"window": 64, "sinks": 4},
  "evaluate": {"convention": "chunked", "seq_len": 0},
  "device": "auto",
  "dtype": "auto",
  "seed": 0,
  "treatment": {"bias": "fold", "qk_norm": "fold", "rope": "drop"},
  "pins": {"never": [], "always": []}
})");
    Recipe then = defaultRecipe("auto", "naive");
    then.align.lr = then.align.lrNew = 3e-3; // as the file says
    QCOMPARE(recipe, then);
    QCOMPARE(recipeToText(recipe), recipeToText(then));
}

void RecipeFile::keyOrderOfFileIsFree() {
    const Recipe recipe = parsed(
        R"({"seed": 3, "pins": {"always": [9, 2]}, "keep": [5, 0], "version": 1, "data": {"text": ["one.txt"]}, "dtype": "auto"})");
    QCOMPARE(recipe.seed, std::uint64_t{3});
    QCOMPARE(recipe.keep.text(), std::string("layers:0,5"));
    QCOMPARE(recipe.dataText, std::vector<std::string>{"one.txt"});
    QVERIFY(recipe.dtype.empty());
    const auto text = recipeToText(recipe);
    QVERIFY(text.find("\"text\": \"one.txt\"") != std::string::npos && text.find("\"always\": [2, 9]") != std::string::npos);
    QCOMPARE(recipeToText(parsed(text)), text);
}

void RecipeFile::defaults_data() {
    QTest::addColumn<QString>("device");
    QTest::addColumn<QString>("preset");
    QTest::addColumn<QList<qint64>>(
        "counts"); // seq_len, calibration, selection, evaluation, steps, batch, closed_form.sequences
    QTest::addColumn<double>("lr");
    QTest::addColumn<double>("lrNew");
    QTest::addColumn<bool>("paper"); // constant, no warm-up, o_proj frozen
    const QList<qint64> cpu = {256, 32768, 2048, 4096, 100, 4, 16}, gpu = {512, 400000, 16000, 50000, 300, 16, 24},
                        published = {512, 400000, 16000, 50000, 300, 8, 24};
    QTest::newRow("cpu naive") << "cpu"
                               << "naive" << cpu << 6e-3 << 6e-3 << false;
    QTest::newRow("cuda naive") << "cuda"
                                << "naive" << gpu << 6e-3 << 6e-3 << false;
    QTest::newRow("cpu linnet") << "cpu"
                                << "linnet" << cpu << 6e-3 << 6e-3 << false;
    QTest::newRow("cuda linnet") << "cuda"
                                 << "linnet" << gpu << 6e-3 << 6e-3 << false;
    QTest::newRow("cuda:1 zero-gate") << "cuda:1"
                                      << "zero-gate" << gpu << 6e-3 << 6e-3 << false;
    QTest::newRow("cpu small-gate") << "cpu"
                                    << "small-gate" << cpu << 6e-3 << 6e-3 << false;
    QTest::newRow("cpu paper") << "cpu"
                               << "paper" << cpu << 1e-4 << 1e-3 << true;
    QTest::newRow("cuda reference") << "cuda"
                                    << "reference" << published << 1e-4 << 1e-3 << true;
    QTest::newRow("cuda alignment-only") << "cuda"
                                         << "alignment-only" << published << 1e-4 << 1e-3 << true;
    QTest::newRow("cpu sliding-window") << "cpu"
                                        << "sliding-window" << QList<qint64>{256, 32768, 2048, 4096, 0, 4, 16} << 6e-3 << 6e-3
                                        << false;
}

void RecipeFile::defaults() {
    QFETCH(QString, device);
    QFETCH(QString, preset);
    QFETCH(QList<qint64>, counts);
    QFETCH(double, lr);
    QFETCH(double, lrNew);
    QFETCH(bool, paper);
    const Recipe recipe = defaultRecipe(device.toStdString(), preset.toStdString());
    QCOMPARE((QList<qint64>{recipe.seqLen, recipe.calibrationTokens, recipe.selectionTokens, recipe.evaluationTokens,
                            recipe.align.steps, recipe.align.batch, recipe.closedForm.sequences}),
             counts);
    QCOMPARE(recipe.align.lr, lr);
    QCOMPARE(recipe.align.lrNew, lrNew);
    QCOMPARE(recipe.align.schedule == "constant", paper);
    QCOMPARE(recipe.align.warmup, paper ? 0.0 : 0.05);
    QCOMPARE(recipe.align.trainOutput, !paper);
    QCOMPARE(recipe.keep.text(), std::string(device == "cpu" ? "bypass:22" : "kl:22")); // a bank takes minutes there, seconds here
    QCOMPARE(recipe.ropeTreatment, std::string(preset == "linnet" ? "fit" : "drop"));
    QVERIFY(validateRecipe(recipe, 30, 9).empty());
    // what a file leaves out is that default
    QCOMPARE(parsed("{\"version\": 1, \"device\": \"" + (device == "cpu" ? "cpu" : device.toStdString()) +
                    "\", \"preset\": \"" + preset.toStdString() + "\"}")
                 .align,
             recipe.align);
    const auto unknown = guarded([] { return defaultRecipe("cpu", "zerogate"); });
    QVERIFY(!unknown && unknown.error().message.find("\"zero-gate\"") != std::string::npos);
}

void RecipeFile::paths_data() {
    QTest::addColumn<QString>("path");
    QTest::addColumn<QString>("resolved");
    QTest::newRow("default") << "default"
                             << "default";
    QTest::newRow("self") << "self:12"
                          << "self:12";
    QTest::newRow("absolute") << "/data/a.txt"
                              << "/data/a.txt";
    QTest::newRow("relative") << "a.txt"
                              << "/home/x/recipes/a.txt";
    QTest::newRow("parent") << "../models/m"
                            << "/home/x/models/m";
}

void RecipeFile::paths() {
    QFETCH(QString, path);
    QFETCH(QString, resolved);
    Recipe recipe;
    recipe.folder = "/home/x/recipes";
    QCOMPARE(QString::fromStdString(resolvePath(recipe, path.toStdString()).string()), resolved);
}

void RecipeFile::hash() {
    Recipe recipe = defaultRecipe("cpu"), other = recipe;
    other.device = "cuda:1";
    other.folder = "/elsewhere";
    QCOMPARE(recipeHash(other), recipeHash(recipe)); // what is computed does not depend on where
    other.seed = 1;
    QVERIFY(recipeHash(other) != recipeHash(recipe));
    QCOMPARE(recipeHash(recipe).size(), std::size_t{16});
}

void RecipeFile::difference() {
    Recipe left = defaultRecipe("cpu"), right = left;
    QVERIFY(diffRecipes(left, right).empty());
    right.align.lr = 1e-4;
    right.keep = parseKeepRule("layers:0,7");
    left.targets[3][1].beta = 0.2;
    right.targets[5][0].halfLife = kInfinity;
    right.dataText = {"a.txt", "b.txt"};
    QStringList lines;
    for (const auto& d : diffRecipes(left, right))
        lines << QString::fromStdString(d.key + "|" + d.left + "|" + d.right);
    QCOMPARE(lines, (QStringList{"data.text|\"default\"|[\"a.txt\", \"b.txt\"]", "keep|\"bypass:22\"|\"layers:0,7\"",
                                 "targets.3.1.beta|0.2|", "align.lr|0.006|0.0001", "targets.5.0.half_life||null"}));
}

void RecipeFile::files() {
    QTemporaryDir folder;
    const std::filesystem::path file = (folder.path() + "/r.json").toStdString();
    const Recipe recipe = randomRecipe(99);
    QVERIFY(writeRecipe(file, recipe));
    const auto read = readRecipe(file);
    QVERIFY2(read, read ? "" : read.error().message.c_str());
    QCOMPARE(read->folder, file.parent_path());
    QCOMPARE(recipeToText(*read), recipeToText(recipe));

    const auto missing = readRecipe(file.parent_path() / "none.json");
    QVERIFY(!missing);
    QCOMPARE(missing.error().code, ErrorCode::NotFound);
    QVERIFY(!writeRecipe(file.parent_path() / "no" / "folder.json", recipe));
    std::ofstream(file) << "{\"version\": 1, \"seed\": \"x\"}";
    const auto bad = readRecipe(file);
    QVERIFY(!bad);
    QVERIFY(bad.error().message.find(file.string()) != std::string::npos &&
            bad.error().message.find("seed") != std::string::npos);
}

QTEST_APPLESS_MAIN(RecipeFile)
#include "tst_recipe_file.moc"
