// The rules that say which layers stay softmax: text, layers, pins, rankings.
#include "core/recipe/recipe.h"

#include <QTemporaryDir>
#include <QTest>
#include <fstream>

using namespace linnet::core;

namespace {

using Layers = std::vector<std::int64_t>;

QString shown(const Layers& layers) {
    QStringList list;
    for (const auto layer : layers)
        list << QString::number(layer);
    return list.join(",");
}

Recipe withRule(const std::string& rule) {
    Recipe recipe;
    recipe.keep = parseKeepRule(rule);
    return recipe;
}

std::set<std::int64_t> pinsOf(const QString& text) {
    std::set<std::int64_t> pins;
    for (const auto& part : text.split(",", Qt::SkipEmptyParts))
        pins.insert(part.toLongLong());
    return pins;
}

} // namespace

class RecipeRules : public QObject {
    Q_OBJECT
private slots:
    void text_data();
    void text();
    void refused_data();
    void refused();
    void kept_data();
    void kept();
    void outOfRange_data();
    void outOfRange();
    void uniformIsSpread();
    void ruleFile();
    void ranking_data();
    void ranking();
};

void RecipeRules::text_data() {
    QTest::addColumn<QString>("rule");
    QTest::addColumn<QString>("canonical");
    for (const char* rule : {"uniform:8", "first:0", "last:3", "layers:0,7,15", "layers:", "layers:4", "file:kept.json",
                             "file:a:b", "bypass:22", "kl:1", "greedy:15", "restore:7", "ga-s2:8", "score:0"})
        QTest::newRow(rule) << rule << rule;
    for (const char* rule : {"kl:cache=67108864@32768", "score:cache=1@1", "bypass:cache=562949953421312@1000000000",
                             "greedy:ppl=1.05", "ga-s2:ppl=1", "restore:ppl=1e+22"})
        QTest::newRow(rule) << rule << rule;
    QTest::newRow("sorted") << "layers:15,0,7"
                            << "layers:0,7,15";
    QTest::newRow("leading zero") << "uniform:08"
                                  << "uniform:8";
    QTest::newRow("KiB") << "kl:cache=3KiB@10"
                         << "kl:cache=3072@10";
    QTest::newRow("MiB") << "kl:cache=64MiB@32768"
                         << "kl:cache=67108864@32768";
    QTest::newRow("GiB") << "restore:cache=2GiB@131072"
                         << "restore:cache=2147483648@131072";
    QTest::newRow("ratio") << "greedy:ppl=1.050"
                           << "greedy:ppl=1.05";
}

void RecipeRules::text() {
    QFETCH(QString, rule);
    QFETCH(QString, canonical);
    const KeepRule parsed = parseKeepRule(rule.toStdString());
    QCOMPARE(QString::fromStdString(parsed.text()), canonical);
    QCOMPARE(parseKeepRule(parsed.text()), parsed);
}

void RecipeRules::refused_data() {
    QTest::addColumn<QString>("rule");
    QTest::addColumn<QString>("named");
    QTest::newRow("empty") << ""
                           << "keep rule \"\"";
    QTest::newRow("no colon") << "uniform"
                              << "colon";
    QTest::newRow("no count") << "uniform:"
                              << "found \"\"";
    QTest::newRow("negative") << "first:-1"
                              << "found \"-1\"";
    QTest::newRow("fraction") << "last:1.5"
                              << "found \"1.5\"";
    QTest::newRow("trailing") << "kl:3x"
                              << "found \"3x\"";
    QTest::newRow("space") << "kl: 3"
                           << "found \" 3\"";
    QTest::newRow("huge") << "uniform:99999999999999999999"
                          << "99999999999999999999";
    QTest::newRow("unknown") << "unifrom:8"
                             << "did you mean \"uniform\"";
    QTest::newRow("upper case") << "KL:8"
                                << "unknown name \"KL\"";
    QTest::newRow("layer twice") << "layers:1,2,1"
                                 << "layer 1 appears twice";
    QTest::newRow("layer word") << "layers:1,two"
                                << "found \"two\"";
    QTest::newRow("layer gap") << "layers:1,,2"
                               << "found \"\"";
    QTest::newRow("layer comma") << "layers:1,"
                                 << "ends with a comma";
    QTest::newRow("no file") << "file:"
                             << "names no file";
    const auto row = [](const char* rule, const char* named) { QTest::newRow(rule) << rule << named; };
    row("uniform:cache=64MiB@32768", "found \"cache=64MiB@32768\" as N");
    row("kl:cach=64MiB@32768", "unknown budget \"cach\", did you mean \"cache\"?");
    row("kl:=3", "unknown budget \"\"");
    row("kl:cache", "found \"cache\" as N");
    row("kl:cache=64MiB", "expected BYTES@TOKENS");
    row("kl:cache=@8", "found \"\" as BYTES");
    row("kl:cache=0@8", "found \"0\" as BYTES");
    row("kl:cache=-1@8", "found \"-1\" as BYTES");
    row("kl:cache=0.5GiB@8", "found \"0.5GiB\" as BYTES");
    row("kl:cache=64MB@8", "found \"64MB\" as BYTES");
    row("kl:cache=MiB@8", "found \"MiB\" as BYTES");
    row("kl:cache=1MiBKiB@8", "found \"1MiBKiB\" as BYTES");
    row("kl:cache=9223372036854775807KiB@8", "512 TiB");
    row("kl:cache=562949953421313@8", "512 TiB");
    row("kl:cache=1MiB@", "found \"\" as TOKENS");
    row("kl:cache=1MiB@0", "found \"0\" as TOKENS");
    row("kl:cache=1MiB@8@9", "found \"8@9\" as TOKENS");
    row("kl:ppl=", "found \"\" as RATIO");
    row("kl:ppl=0.99", "found \"0.99\" as RATIO, expected a number from 1");
    row("kl:ppl=nan", "found \"nan\" as RATIO");
    row("kl:ppl=inf", "found \"inf\" as RATIO");
    row("kl:ppl=5%", "found \"5%\" as RATIO");
}

void RecipeRules::refused() {
    QFETCH(QString, rule);
    QFETCH(QString, named);
    const auto result = guarded([&] { return parseKeepRule(rule.toStdString()); });
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::Usage);
    const auto message = QString::fromStdString(result.error().message);
    QVERIFY2(message.contains(named) && message.contains("\"" + rule + "\""), qPrintable(message));
}

void RecipeRules::kept_data() {
    QTest::addColumn<QString>("rule");
    QTest::addColumn<int>("layers");
    QTest::addColumn<QString>("never");
    QTest::addColumn<QString>("always");
    QTest::addColumn<QString>("kept");
    // floor(i * 30 / 8): 0, 3.75, 7.5, 11.25, 15, 18.75, 22.5, 26.25
    QTest::newRow("uniform 8 of 30") << "uniform:8" << 30 << ""
                                     << ""
                                     << "0,3,7,11,15,18,22,26";
    QTest::newRow("uniform 7 of 28") << "uniform:7" << 28 << ""
                                     << ""
                                     << "0,4,8,12,16,20,24";
    QTest::newRow("uniform 1") << "uniform:1" << 30 << ""
                               << ""
                               << "0";
    QTest::newRow("uniform all") << "uniform:4" << 4 << ""
                                 << ""
                                 << "0,1,2,3";
    QTest::newRow("uniform 0") << "uniform:0" << 4 << ""
                               << ""
                               << "";
    QTest::newRow("first 0") << "first:0" << 30 << ""
                             << ""
                             << "";
    QTest::newRow("first 3") << "first:3" << 30 << ""
                             << ""
                             << "0,1,2";
    QTest::newRow("last 2") << "last:2" << 30 << ""
                            << ""
                            << "28,29";
    QTest::newRow("last all") << "last:3" << 3 << ""
                              << ""
                              << "0,1,2";
    QTest::newRow("layers") << "layers:7,0,15" << 16 << ""
                            << ""
                            << "0,7,15";
    QTest::newRow("no layers") << "layers:" << 16 << ""
                               << ""
                               << "";
    QTest::newRow("pinned to stay") << "first:2" << 6 << "4"
                                    << ""
                                    << "0,1,4";
    QTest::newRow("pinned to convert") << "first:2" << 6 << ""
                                       << "0,5"
                                       << "1";
    QTest::newRow("both pins") << "uniform:3" << 6 << "1,2"
                               << "4"
                               << "0,1,2";
}

void RecipeRules::kept() {
    QFETCH(QString, rule);
    QFETCH(int, layers);
    QFETCH(QString, never);
    QFETCH(QString, always);
    QFETCH(QString, kept);
    Recipe recipe = withRule(rule.toStdString());
    recipe.never = pinsOf(never);
    recipe.always = pinsOf(always);
    const auto found = keptLayers(recipe, layers);
    QVERIFY(found);
    QCOMPARE(shown(*found), kept);
}

void RecipeRules::outOfRange_data() {
    QTest::addColumn<QString>("rule");
    QTest::addColumn<QString>("named");
    QTest::newRow("uniform") << "uniform:31"
                             << "31";
    QTest::newRow("first") << "first:40"
                           << "40";
    QTest::newRow("last") << "last:31"
                          << "31";
    QTest::newRow("layers") << "layers:0,30"
                            << "layer 30";
    QTest::newRow("method") << "bypass:31"
                            << "31";
}

void RecipeRules::outOfRange() {
    QFETCH(QString, rule);
    QFETCH(QString, named);
    const auto result = guarded([&] { return keptLayers(withRule(rule.toStdString()), 30); });
    QVERIFY(!result);
    const auto message = QString::fromStdString(result.error().message);
    QVERIFY2(message.contains(named) && message.contains(rule) && (message.contains("30") || message.contains("29")),
             qPrintable(message));
}

void RecipeRules::uniformIsSpread() {
    for (int layers = 1; layers <= 40; ++layers)
        for (int count = 1; count <= layers; ++count) {
            const auto kept = *keptLayers(withRule("uniform:" + std::to_string(count)), layers);
            QCOMPARE(kept.size(), static_cast<std::size_t>(count));
            QCOMPARE(kept.front(), 0);
            for (std::size_t i = 1; i < kept.size(); ++i)
                QVERIFY(kept[i] - kept[i - 1] >= layers / count && kept[i] - kept[i - 1] <= (layers + count - 1) / count);
        }
}

void RecipeRules::ruleFile() {
    QTemporaryDir folder;
    const auto write = [&](const char* text) { std::ofstream((folder.path() + "/kept.json").toStdString()) << text; };
    Recipe recipe = withRule("file:kept.json");
    recipe.folder = folder.path().toStdString();
    write("[7, 0, 3]");
    QCOMPARE(shown(*keptLayers(recipe, 8)), QString("0,3,7"));
    for (const char* bad : {"[0, 8]", "{\"a\": 1}", "[0, 0]", "[1.5]", "[-1]", "[\"1\"]", "7"}) {
        write(bad);
        const auto result = guarded([&] { return keptLayers(recipe, 8); });
        QVERIFY2(!result && result.error().message.find("kept.json") != std::string::npos, bad);
    }
    recipe.folder /= "elsewhere";
    const auto missing = guarded([&] { return keptLayers(recipe, 8); });
    QVERIFY(!missing);
    QCOMPARE(missing.error().code, ErrorCode::NotFound);
    QVERIFY(!validateRecipe(recipe, 8).empty());
}

void RecipeRules::ranking_data() {
    QTest::addColumn<QString>("never");
    QTest::addColumn<QString>("always");
    QTest::addColumn<int>("keep");
    QTest::addColumn<QString>("kept");
    // convert first: 3, 1, 4, 0, 2
    QTest::newRow("plain") << ""
                           << "" << 2 << "0,2";
    QTest::newRow("none") << ""
                          << "" << 0 << "";
    QTest::newRow("all") << ""
                         << "" << 5 << "0,1,2,3,4";
    QTest::newRow("best pinned to stay") << "3"
                                         << "" << 2 << "2,3";
    QTest::newRow("worst pinned to convert") << ""
                                             << "2" << 2 << "0,4";
    QTest::newRow("both") << "3,1"
                          << "2" << 3 << "0,1,3";
    QTest::newRow("pins win over the count") << "3,1,4"
                                             << "" << 1 << "1,3,4";
}

void RecipeRules::ranking() {
    QFETCH(QString, never);
    QFETCH(QString, always);
    QFETCH(int, keep);
    QFETCH(QString, kept);
    QCOMPARE(shown(keepByRanking({3, 1, 4, 0, 2}, keep, pinsOf(never), pinsOf(always))), kept);
    for (const char* measured : {"bypass:2", "kl:cache=1MiB@4096", "greedy:ppl=1.05"})
        QVERIFY(!keptLayers(withRule(measured), 5)); // a measurement decides
}

QTEST_APPLESS_MAIN(RecipeRules)
#include "tst_recipe_rules.moc"
