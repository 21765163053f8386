// Profiles against transformers' own attention weights; long windows in bounded memory; stop, resume, cache, JSON.
#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/profile/profile.h"
#include "tests/support/oracle_process.h"

#include <QTemporaryDir>

using namespace linnet::core;

namespace {

constexpr std::int64_t kSequences = 5, kTokens = 40;

struct Oracle {
    ModelPtr model;
    TokenWindows windows;
    Json layers;
};

// Coarse bins of the oracle's exact histogram.
std::vector<double> coarse(const Json& exact, const std::vector<double>& edges) {
    std::vector<double> mass(edges.size() - 1);
    for (std::size_t bin = 0; bin < mass.size(); ++bin)
        for (auto distance = static_cast<std::size_t>(edges[bin]); distance < static_cast<std::size_t>(edges[bin + 1]);
             ++distance)
            mass[bin] += exact[distance].get<double>();
    return mass;
}

TokenWindows randomWindows(std::int64_t sequences, std::int64_t seqLen) {
    TokenWindows windows;
    windows.sequences = sequences, windows.seqLen = seqLen;
    std::uint32_t state = 12345;
    for (std::int64_t i = 0; i < sequences * seqLen; ++i)
        windows.ids.push_back(static_cast<TokenId>(2 + ((state = state * 1664525U + 1013904223U) >> 8) % 290));
    return windows;
}

ModelPtr open(const std::filesystem::path& folder) {
    RunOptions options;
    options.device = "cpu";
    options.dtype = "f32";
    return orFail(openModel(folder, options));
}

} // namespace

class TestProfileStatistics : public QObject {
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void matchesTransformers_data();
    void matchesTransformers();
    void streamedGivesTheSame();
    void stoppedAndResumedGivesTheSame();
    void finishedProfileIsReadFromTheCache();
    void damagedCacheIsNotUsed();
    void jsonKeepsEverything();
    void undefinedValuesAreNull();
    void longWindowsNeedLinearMemory();
    void badInputIsRefused();

private:
    Oracle oracle(const QString& kind);
    QTemporaryDir m_folder;
    std::map<QString, Oracle> m_oracles;
};

void TestProfileStatistics::initTestCase() {
    if (linnet::tests::oraclePython().isEmpty())
        QSKIP("LINNET_ORACLE_PYTHON is not set: nothing to compare with");
    for (const QString kind : {"llama", "qwen3"}) {
        const QString model = m_folder.filePath(kind), out = m_folder.filePath(kind + ".json");
        const auto error = linnet::tests::runOracle("profile_oracle.py",
                                                    {kind, model, QString::number(kSequences), QString::number(kTokens), out});
        QVERIFY2(error.isEmpty(), qPrintable(error));
        const auto json = readJsonFile(out.toStdString());
        auto& oracle = m_oracles[kind];
        try {
            oracle.model = open(model.toStdString());
        } catch (const Failure& failure) {
            QFAIL(failure.error.message.c_str());
        }
        oracle.windows.ids = json["ids"].get<std::vector<TokenId>>();
        oracle.windows.sequences = kSequences, oracle.windows.seqLen = kTokens;
        oracle.layers = json["layers"];
    }
}

Oracle TestProfileStatistics::oracle(const QString& kind) {
    return m_oracles.at(kind);
}

void TestProfileStatistics::matchesTransformers_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<int>("bins");
    QTest::newRow("llama, grouped heads") << "llama" << 2;
    QTest::newRow("qwen3, normed queries and keys") << "qwen3" << 4;
    QTest::newRow("exact histogram") << "llama" << 0;
}

void TestProfileStatistics::matchesTransformers() {
    QFETCH(QString, kind);
    QFETCH(int, bins);
    const auto expected = oracle(kind);
    ProfileOptions options;
    options.binsPerOctave = bins;
    const auto result = profileModel(*expected.model, expected.windows, options);
    QVERIFY2(result, result ? "" : result.error().message.c_str());
    QCOMPARE(result->tokens, kSequences * kTokens);
    QCOMPARE(result->layers.size(), expected.layers.size());
    for (std::size_t l = 0; l < result->layers.size(); ++l) {
        const auto entropies = expected.layers[l]["entropy"]["mean"].get<std::vector<double>>();
        const auto [low, high] = std::minmax_element(entropies.begin(), entropies.end());
        for (std::size_t h = 0; h < result->layers[l].size(); ++h) {
            const auto& head = result->layers[l][h];
            const auto mean = [&](const char* key) { return expected.layers[l][key]["mean"][h].get<double>(); };
            const auto se = [&](const char* key) { return expected.layers[l][key]["se"][h].get<double>(); };
            const auto at = QString("layer %1 head %2 ").arg(l).arg(h);
            LINNET_CLOSE(head.distance.mean, mean("distance"), 1e-4, 0, at + "distance");
            LINNET_CLOSE(head.distance.se, se("distance"), 1e-3, 0, at + "distance's error");
            LINNET_CLOSE(head.distanceNoSink.mean, mean("distance_no_sink"), 1e-4, 0, at + "sink-free distance");
            LINNET_CLOSE(head.distanceNoSink.se, se("distance_no_sink"), 1e-3, 0, at + "sink-free distance's error");
            LINNET_CLOSE(head.entropy.mean, mean("entropy"), 1e-4, 0, at + "entropy");
            LINNET_CLOSE(head.entropy.se, se("entropy"), 1e-3, 0, at + "entropy's error");
            LINNET_CLOSE(head.concentrationAbsolute, 1 - mean("relative"), 1e-3, 0, at + "absolute concentration");
            LINNET_CLOSE(head.concentrationLayer, 1 - (entropies[h] - *low) / std::max(*high - *low, 1e-3), 0, 2e-3,
                         at + "concentration");
            LINNET_CLOSE(head.sinkMass, mean("sink"), 1e-4, 0, at + "sink mass");
            LINNET_CLOSE(head.sinkSe, se("sink"), 1e-3, 0, at + "sink mass's error");
            LINNET_CLOSE(head.previousMass, mean("previous"), 1e-4, 0, at + "previous mass");
            LINNET_CLOSE(head.selfMass, mean("self"), 1e-4, 0, at + "self mass");
            LINNET_CLOSE(head.rmsPreO, std::sqrt(mean("pre")), 1e-4, 0, at + "RMS before W_O");
            LINNET_CLOSE(head.rmsPostO, std::sqrt(mean("post")), 1e-4, 0, at + "RMS after W_O");
            LINNET_CLOSE(head.rmsPostOSe, se("post") / (2 * std::sqrt(mean("post"))), 1e-3, 0, at + "its error");
            const auto mass = coarse(expected.layers[l]["histogram"]["mean"][h], result->edges);
            const auto noSink = coarse(expected.layers[l]["histogram_no_sink"]["mean"][h], result->edges);
            QCOMPARE(head.histogram.size(), mass.size());
            for (std::size_t bin = 0; bin < mass.size(); ++bin) {
                LINNET_CLOSE(head.histogram[bin], mass[bin], 1e-3, 1e-6, at + "histogram");
                LINNET_CLOSE(head.histogramNoSink[bin], noSink[bin], 1e-3, 1e-6, at + "sink-free histogram");
            }
            if (bins == 0) { // each bin one distance: the smallest one that half of the mass does not pass
                double below = 0;
                std::size_t median = 0;
                while ((below += mass[median]) < 0.5)
                    ++median;
                QCOMPARE(head.p50, static_cast<double>(median));
            }
            QVERIFY(head.p10 <= head.p50 && head.p50 <= head.p90 && head.p90 < kTokens);
        }
    }
}

void TestProfileStatistics::streamedGivesTheSame() {
    const auto resident = oracle("llama");
    RunOptions options;
    options.device = "cpu";
    options.dtype = "f32";
    options.streamed = true;
    const auto streamed = openModel(m_folder.filePath("llama").toStdString(), options);
    QVERIFY2(streamed, streamed ? "" : streamed.error().message.c_str());
    const auto a = profileModel(*resident.model, resident.windows, {}), b = profileModel(**streamed, resident.windows, {});
    QVERIFY(a && b);
    QCOMPARE(profileToJson(*a).dump(), profileToJson(*b).dump());
}

void TestProfileStatistics::stoppedAndResumedGivesTheSame() {
    const auto model = oracle("qwen3").model;
    const auto windows = randomWindows(9, 400); // batches of two sequences
    const auto whole = profileModel(*model, windows, {});
    QVERIFY(whole);

    QTemporaryDir cache;
    ProfileOptions options;
    options.cacheFolder = cache.path().toStdString();
    std::vector<std::string> logs;
    double firstDone = -1;
    for (const double stopAt : {2.5, 6.5}) {
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        control.onLog = [&](const std::string& line) { logs.push_back(line); };
        control.onProgress = [&](const Progress& progress) {
            QCOMPARE(progress.stage, "profile");
            if (progress.done > stopAt)
                stop.request_stop();
        };
        const auto stopped = profileModel(*model, windows, options, control);
        QVERIFY(!stopped);
        QCOMPARE(stopped.error().code, ErrorCode::Cancelled);
    }
    QCOMPARE(logs, std::vector<std::string>{"profile: goes on at sequence 2 of 9"});
    Control control;
    control.onProgress = [&](const Progress& progress) { firstDone = firstDone < 0 ? progress.done : firstDone; };
    const auto resumed = profileModel(*model, windows, options, control);
    QVERIFY(resumed);
    QCOMPARE(firstDone, 6.0);
    QCOMPARE(profileToJson(*resumed).dump(), profileToJson(*whole).dump());
    QCOMPARE(std::distance(std::filesystem::directory_iterator(options.cacheFolder), {}), 1); // the partial file is gone
}

void TestProfileStatistics::finishedProfileIsReadFromTheCache() {
    const auto known = oracle("llama");
    QTemporaryDir cache;
    ProfileOptions options;
    options.cacheFolder = cache.path().toStdString();
    const auto first = profileModel(*known.model, known.windows, options);
    QVERIFY(first);
    int reports = 0;
    Control control;
    control.onProgress = [&](const Progress&) { ++reports; };
    const auto second = profileModel(*known.model, known.windows, options, control);
    QVERIFY(second);
    QCOMPARE(reports, 0); // no forward ran
    QCOMPARE(profileToJson(*second).dump(), profileToJson(*first).dump());
    // Other settings, other data or another model are other profiles.
    options.binsPerOctave = 3;
    QVERIFY(profileModel(*known.model, known.windows, options, control));
    QVERIFY(std::exchange(reports, 0) > 0);
    QVERIFY(profileModel(*known.model, known.windows.rows({0, 1}), options, control));
    QVERIFY(std::exchange(reports, 0) > 0);
    QVERIFY(profileModel(*oracle("qwen3").model, known.windows, options, control));
    QVERIFY(reports > 0);
}

void TestProfileStatistics::damagedCacheIsNotUsed() {
    const auto known = oracle("llama");
    QTemporaryDir cache;
    ProfileOptions options;
    options.cacheFolder = cache.path().toStdString();
    const auto first = profileModel(*known.model, known.windows, options);
    QVERIFY(first);
    const auto file = std::filesystem::directory_iterator(options.cacheFolder)->path();
    auto partial = file;
    partial.replace_extension(".partial");
    writeFileAtomically(file, readTextFile(file).substr(0, 1000));
    writeFileAtomically(partial, std::string(5000, 'x'));
    const auto again = profileModel(*known.model, known.windows, options);
    QVERIFY(again);
    QCOMPARE(profileToJson(*again).dump(), profileToJson(*first).dump());
    QCOMPARE(readTextFile(file), profileToJson(*first).dump());
}

void TestProfileStatistics::jsonKeepsEverything() {
    const auto known = oracle("llama");
    const auto profile = profileModel(*known.model, known.windows, {});
    QVERIFY(profile);
    const auto json = profileToJson(*profile);
    QCOMPARE(profileToJson(profileFromJson(parseJson(json.dump(), "copy"), "copy")).dump(), json.dump());
    QCOMPARE(json["schema"].get<int>(), 1);
    QCOMPARE(json["model"]["name"].get<std::string>(), "llama");
    QCOMPARE(json["sample"]["seq_len"].get<std::int64_t>(), kTokens);
    QCOMPARE(json["layers"][2]["layer"].get<int>(), 2);
    const auto& head = json["layers"][1]["heads"][4];
    QCOMPARE(head["head"].get<int>(), 4);
    QCOMPARE(head["kv_head"].get<int>(), 1);
    const std::map<std::string, std::vector<const char*>> keys = {{"distance", {"mean", "se", "p10", "p50", "p90"}},
                                                                  {"distance_no_sink", {"mean", "se"}},
                                                                  {"entropy", {"mean", "se"}},
                                                                  {"concentration", {"layer", "absolute"}},
                                                                  {"output_rms", {"pre_o", "post_o"}}};
    for (const auto& [object, members] : keys)
        for (const char* member : members)
            QVERIFY2(head[object][member].is_number(), member);
    for (const char* key : {"sink_mass", "previous_mass", "self_mass"})
        QVERIFY2(head[key].is_number(), key);
    QCOMPARE(head["histogram"]["edges"].size(), head["histogram"]["mass"].size() + 1);

    auto broken = json;
    broken["layers"][1]["heads"][4]["entropy"].erase("mean");
    try {
        profileFromJson(broken, "broken.json");
        QFAIL("a missing key was accepted");
    } catch (const Failure& failure) {
        QCOMPARE(failure.error.code, ErrorCode::Malformed);
        QCOMPARE(failure.error.message, "broken.json: key layers[1].heads[4].entropy.mean is missing");
    }
}

void TestProfileStatistics::undefinedValuesAreNull() {
    const auto profile = profileModel(*oracle("llama").model, randomWindows(1, 6), {});
    QVERIFY2(profile, profile ? "" : profile.error().message.c_str());
    const auto head = profileToJson(*profile)["layers"][0]["heads"][0];
    QVERIFY(head["distance"]["mean"].is_number());
    QVERIFY(head["distance"]["se"].is_null());           // one sequence
    QVERIFY(head["distance_no_sink"]["mean"].is_null()); // all rows left out
    QVERIFY(std::isnan(profileFromJson(profileToJson(*profile), "copy").layers[0][0].medianNoSink));
}

void TestProfileStatistics::longWindowsNeedLinearMemory() {
    const auto model = oracle("llama").model;
    QVERIFY(profileModel(*model, randomWindows(1, 512), {})); // warm: threads and their buffers exist
    const auto before = peakResidentMemoryBytes();
    const auto profile = profileModel(*model, randomWindows(1, 8192), {});
    QVERIFY2(profile, profile ? "" : profile.error().message.c_str());
    const auto grown = peakResidentMemoryBytes() - before;
    QVERIFY2(grown < (64U << 20), qPrintable(QString("%1 MiB").arg(grown >> 20))); // one head's T x T float matrix: 256 MiB
    QVERIFY(profile->layers[0][0].distance.mean > 512);
}

void TestProfileStatistics::badInputIsRefused() {
    const auto model = oracle("llama").model;
    auto windows = randomWindows(1, 8);
    windows.ids[3] = 300;
    const auto outside = profileModel(*model, windows, {});
    QVERIFY(!outside);
    QCOMPARE(outside.error().code, ErrorCode::Usage);
    QVERIFY(outside.error().message.find("token id 300") != std::string::npos);
    QVERIFY(!profileModel(*model, {}, {}));
    ProfileOptions options;
    options.binsPerOctave = 1;
    QVERIFY(!profileModel(*model, randomWindows(1, 8), options));
}

QTEST_APPLESS_MAIN(TestProfileStatistics)
#include "tst_profile_statistics.moc"
