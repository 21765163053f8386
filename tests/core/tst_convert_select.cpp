// Layer selection over tiny random teachers and random banks: every number against a whole evaluation, every order against a search
// that tries everything, stops anywhere, pins, budgets.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/convert/select_rankings.h"
#include "core/evaluate/evaluate_model.h"
#include "tests/support/oracle_process.h"
#include "tests/support/random_model.h"

#include <QTest>

#include <limits>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

constexpr double kTolerance = 1e-5;

ModelConfig tinyConfig(std::int64_t layers) {
    return smallConfig([&](ModelConfig& c) {
        c.layers = layers, c.hiddenSize = 32, c.heads = 4, c.kvHeads = 2, c.headDim = 16, c.intermediateSize = 48, c.vocabSize = 101;
    });
}

TokenWindows someWindows(std::int64_t sequences, std::int64_t seqLen, std::int64_t vocabulary) {
    TokenWindows windows{{}, sequences, seqLen};
    for (std::int64_t i = 0; i < sequences * seqLen; ++i)
        windows.ids.push_back(static_cast<TokenId>((i * i * 31 + i * 7 + 11) % vocabulary));
    return windows;
}

// Layers that cost differently and whose costs don't just add up.
Mixers randomBank(const Model& teacher, std::uint64_t seed) {
    const auto& c = teacher.config();
    const auto width = c.heads * c.headDim;
    auto generator = at::detail::createCPUGenerator(seed);
    const auto draw = [&](std::vector<std::int64_t> sizes, double scale) { return at::randn(sizes, generator) * scale; };
    Mixers bank;
    for (std::int64_t l = 0; l < c.layers; ++l) {
        LinearLayer layer;
        for (auto* projection : {&layer.qProj, &layer.kProj, &layer.vProj, &layer.gProj})
            *projection = draw({width, c.hiddenSize}, 0.2);
        for (auto* taps : {&layer.qConv, &layer.kConv, &layer.vConv}) {
            *taps = draw({width, kConvTaps}, 0.2);
            taps->select(1, kConvTaps - 1).add_(1);
        }
        layer.aProj = draw({c.heads, c.hiddenSize}, 0.2), layer.bProj = draw({c.heads, c.hiddenSize}, 0.2);
        layer.aLog = draw({c.heads}, 0.5), layer.dtBias = draw({c.heads}, 0.5) - 2, layer.oNorm = draw({c.headDim}, 0.1) + 1;
        layer.oProj = draw({c.hiddenSize, width}, 0.05 + 0.1 * static_cast<double>(l * 7 % 5));
        bank[l] = Mixer{Mixer::Kind::Linear, &mixerSpec("gated_delta_net"), layer};
    }
    return bank;
}

Mixers chosen(const Mixers& bank, const LayerSet& layers) {
    Mixers mixers;
    for (const auto l : layers)
        mixers[l] = bank.at(l);
    return mixers;
}

// A profile whose numbers can be followed by hand: two heads a layer, bins 0..16, 16..48, 48..64.
Profile handProfile(std::int64_t layers) {
    Profile profile;
    profile.edges = {0, 16, 48, 64};
    for (std::int64_t l = 0; l < layers; ++l) {
        HeadProfile head;
        head.rmsPostO = 1 + static_cast<double>(l), head.sinkMass = 0.25, head.concentrationAbsolute = 0.5;
        head.histogramNoSink = {0.25, 0.5, 0.25}; // within 32: 0.25 + 0.5 / 2
        HeadProfile dumb;                         // all sink
        dumb.rmsPostO = 2, dumb.sinkMass = 1, dumb.concentrationAbsolute = 1;
        dumb.histogramNoSink = {0, 0, 1};
        profile.layers.push_back({head, dumb});
    }
    return profile;
}

template <class F> Error errorOf(F&& body) {
    const auto result = guarded([&] { body(); });
    return result ? Error{ErrorCode::Internal, "no error", {}} : result.error();
}

// A teacher with its bank and every choice's whole evaluation, each made once.
class Bench {
public:
    explicit Bench(std::int64_t layers, std::uint64_t seed = 3, const ModelConfig* config = nullptr)
        : teacher(randomModel(config ? *config : tinyConfig(layers), at::kCPU, at::kFloat)),
          windows(someWindows(5, 24, teacher->config().vocabSize)), bank(randomBank(*teacher, seed)), profile(handProfile(layers)),
          m_reference(orFail(teacherReference(*teacher, windows))) {}

    Evaluation whole(const Mixers& mixers) const { return evaluateMixers(*teacher, mixers, windows, m_reference.get(), {}); }
    const Evaluation& whole(const LayerSet& converted) {
        auto& found = m_known[converted];
        if (found.tokens == 0)
            found = whole(chosen(bank, converted));
        return found;
    }
    Evaluation bypassed(std::int64_t layer) const {
        Mixers mixers;
        mixers[layer].kind = Mixer::Kind::Bypass;
        return whole(mixers);
    }

    ModelPtr teacher;
    TokenWindows windows;
    Mixers bank;
    Profile profile;
    LayerSet never, always;
    bool curve = true, withBank = true;

    SelectionJob job(Json& finished, const Control& control, const std::function<void()>& save = {}) const {
        return {.teacher = *teacher, .windows = windows, .bank = withBank ? &bank : nullptr, .profile = &profile, .never = never,
                .always = always, .curve = curve, .finished = finished, .save = save, .control = control};
    }
    Selection select(const std::string& rule, Json* finished = nullptr) const {
        Json own;
        const Control control;
        return selectLayers(parseKeepRule(rule), job(finished ? *finished : own, control));
    }
    LayerSet convertedBut(const std::vector<std::int64_t>& kept) const {
        LayerSet all;
        for (std::int64_t l = 0; l < teacher->config().layers; ++l)
            if (std::find(kept.begin(), kept.end(), l) == kept.end())
                all.insert(l);
        return all;
    }

private:
    TeacherReferencePtr m_reference;
    std::map<LayerSet, Evaluation> m_known;
};

const std::vector<std::string>& methods() {
    static const std::vector<std::string> names = {"bypass", "kl", "greedy", "restore", "ga-s2", "score"};
    return names;
}

void addMethods() {
    QTest::addColumn<QString>("method");
    for (const auto& method : methods())
        QTest::newRow(method.c_str()) << QString::fromStdString(method);
}

} // namespace

class TestConvertSelect : public QObject {
    Q_OBJECT

    // Each order by trying every set, as method.md says it. Pinned layers: always from the start, never not at all.
    static std::vector<std::int64_t> greedyByHand(Bench& bench, std::size_t steps) {
        LayerSet converted = bench.always;
        std::vector<std::int64_t> order;
        std::vector<std::pair<double, std::int64_t>> single;
        for (std::int64_t l = 0; l < bench.teacher->config().layers; ++l)
            if (!bench.never.contains(l) && !bench.always.contains(l))
                single.emplace_back(*bench.whole({l}).klToTeacher, l);
        std::sort(single.begin(), single.end());
        while (order.size() < steps) {
            std::pair<double, std::int64_t> best{INFINITY, -1};
            for (std::size_t i = 0; i < std::min<std::size_t>(10, single.size()); ++i) {
                LayerSet tried = converted;
                tried.insert(single[i].second);
                best = std::min(best, {*bench.whole(tried).klToTeacher, single[i].second});
            }
            order.push_back(best.second);
            converted.insert(best.second);
            std::erase_if(single, [&](const auto& entry) { return entry.second == best.second; });
        }
        return order;
    }
    static std::vector<std::int64_t> restoreByHand(Bench& bench) { // last restored first
        LayerSet converted = bench.convertedBut({bench.never.begin(), bench.never.end()});
        std::vector<std::int64_t> order;
        while (converted.size() > bench.always.size()) {
            std::pair<double, std::int64_t> best{INFINITY, -1};
            for (const auto l : converted)
                if (!bench.always.contains(l)) {
                    LayerSet tried = converted;
                    tried.erase(l);
                    best = std::min(best, {*bench.whole(tried).klToTeacher, l});
                }
            order.insert(order.begin(), best.second);
            converted.erase(best.second);
        }
        return order;
    }

private Q_SLOTS:
    void initTestCase() { at::set_num_threads(1); }

    void scorer_data() {
        QTest::addColumn<quint64>("prefixBytes");
        QTest::addColumn<bool>("streamed");
        const quint64 stream = 43 * 24 * 32 * 4;
        QTest::newRow("all kept") << quint64(0) << false;
        QTest::newRow("one stream") << quint64(1) << false;
        QTest::newRow("two streams") << 2 * stream << false;
        QTest::newRow("four streams") << 4 * stream << false;
        QTest::newRow("streamed teacher") << quint64(0) << true;
    }
    void scorer() { // any choice over any base, in any order, in two batches
        QFETCH(quint64, prefixBytes);
        QFETCH(bool, streamed);
        ModelFiles files;
        files.path = "random", files.config = tinyConfig(7), files.weights = std::make_shared<RandomWeights>(files.config);
        const Model teacher(std::move(files), at::kCPU, at::kFloat, streamed, {}, {});
        const auto windows = someWindows(43, 24, 101);
        const auto reference = orFail(teacherReference(teacher, windows));
        const auto bank = randomBank(teacher, 5);
        const Control control;
        SelectionScorer scorer(teacher, windows, control, prefixBytes);
        const auto choiceOf = [&](const LayerSet& layers) {
            SelectionScorer::Choice choice(7, nullptr);
            for (const auto l : layers)
                choice[static_cast<std::size_t>(l)] = &bank.at(l);
            return choice;
        };
        const std::vector<std::pair<LayerSet, LayerSet>> pairs = {
            {{3}, {}}, {{5}, {}}, {{1}, {}}, {{0}, {}}, {{}, {}}, {{2, 5}, {2}}, {{2, 6}, {2}}, {{2, 4}, {2}}, {{1, 2}, {1, 2}}, {{1, 2, 6}, {1, 2}},
            {{6}, {}}, {{0, 1, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 4, 5, 6}}, {{0, 1, 2, 3, 5, 6}, {0, 1, 2, 3, 4, 5, 6}}, {{}, {1, 2}}, {{4}, {0, 4}}, {{3}, {}}};
        for (const auto& [layers, base] : pairs) {
            double share = 0;
            const auto found = scorer.score(choiceOf(layers), choiceOf(base), true, [&](double done) {
                QVERIFY(done >= share && done <= 1);
                share = done;
            });
            LINNET_CLOSE(share, 1.0, 1e-9, 0, "progress at the end");
            const auto expected = evaluateMixers(teacher, chosen(bank, layers), windows, reference.get(), {});
            const QString name = QString::fromStdString(listed(layers) + " over " + listed(base));
            LINNET_CLOSE(found.loss, expected.loss, kTolerance, 0, "loss of " + name);
            LINNET_CLOSE(found.kl, *expected.klToTeacher, kTolerance, 1e-7, "KL of " + name);
            const auto lossOnly = scorer.score(choiceOf(layers), choiceOf(base), false);
            QCOMPARE(lossOnly.loss, found.loss);
            QVERIFY(std::isnan(lossOnly.kl) || layers.empty());
        }
    }

    void prefixIsReused() { // one-layer choices upwards: only blocks from the layer on, even where one stream is all that fits
        const Bench bench(6);
        const Control control;
        for (const std::uint64_t bytes : {0, 1}) {
            SelectionScorer scorer(*bench.teacher, bench.windows, control, bytes);
            const SelectionScorer::Choice base(6, nullptr);
            std::int64_t expected = 6; // the teacher
            for (std::size_t l = 0; l < 6; ++l) {
                auto choice = base;
                choice[l] = &bench.bank.at(static_cast<std::int64_t>(l));
                scorer.score(choice, base);
                expected += 6 - static_cast<std::int64_t>(l) + (bytes == 1 && l > 0 ? 1 : 0); // the way from one layer to the next
            }
            QCOMPARE(scorer.blocksRun(), expected);
        }
        SelectionScorer scorer(*bench.teacher, bench.windows, control); // nested choices: each goes on from the one before
        SelectionScorer::Choice choice(6, nullptr);
        std::int64_t expected = 6;
        for (const std::size_t l : {4, 2, 5, 0, 1, 3}) {
            choice[l] = &bench.bank.at(static_cast<std::int64_t>(l));
            scorer.score(choice, choice);
            expected += 6 - static_cast<std::int64_t>(l);
            QCOMPARE(scorer.blocksRun(), expected);
        }
    }

    void bypass() {
        Bench bench(5);
        bench.withBank = false;
        const auto selection = bench.select("bypass:2");
        QCOMPARE(selection.ranking.size(), std::size_t(5));
        double previous = -INFINITY;
        for (const auto& entry : selection.ranking) {
            LINNET_CLOSE(entry.score, bench.bypassed(entry.layer).loss - bench.whole(LayerSet{}).loss, kTolerance, kTolerance, "rise of the loss");
            QVERIFY(entry.score >= previous);
            previous = entry.score;
        }
        QVERIFY(selection.curve.empty()); // no bank, nothing converted to measure
        LINNET_CLOSE(selection.teacherPerplexity, bench.whole(LayerSet{}).perplexity, kTolerance, 0, "teacher");
        QCOMPARE(selection.method, std::string("bypass"));
    }

    void oneLayerKl() {
        Bench bench(5);
        const auto selection = bench.select("kl:2");
        double previous = -INFINITY;
        for (const auto& entry : selection.ranking) {
            LINNET_CLOSE(entry.score, *bench.whole({entry.layer}).klToTeacher, kTolerance, 0, "KL");
            QVERIFY(entry.score >= previous);
            previous = entry.score;
        }
        QCOMPARE(selection.ranking.size(), std::size_t(5));
    }

    void gaS2() { // the layer whose company alone leaves the largest loss is given up first
        Bench bench(5);
        bench.never = {1}, bench.always = {4};
        const auto selection = bench.select("ga-s2:2");
        const LayerSet all = {0, 2, 3, 4};
        QCOMPARE(selection.ranking.size(), std::size_t(3));
        double previous = INFINITY;
        for (const auto& entry : selection.ranking) {
            LayerSet others = all;
            others.erase(entry.layer);
            const double loss = bench.whole(others).loss;
            LINNET_CLOSE(entry.score, bench.whole(all).loss - loss, kTolerance, kTolerance, "gain of keeping it alone");
            QVERIFY(loss <= previous + kTolerance);
            previous = loss;
        }
        QCOMPARE(selection.kept, (std::vector<std::int64_t>{std::min<std::int64_t>(1, selection.ranking.back().layer), std::max<std::int64_t>(1, selection.ranking.back().layer)}));
    }

    void score() { // by hand: far = rms^2 0.75 0.5 0.5, the other head adds 4 to what is written
        Bench bench(3);
        bench.withBank = false;
        Json finished;
        const auto selection = bench.select("score:1", &finished);
        const double written[] = {1 + 4, 5 + 4 + 4, 13 + 9 + 4};
        QVERIFY(finished.is_null()); // no forward
        QCOMPARE(selection.teacherPerplexity, 0.0);
        for (const auto& entry : selection.ranking)
            LINNET_CLOSE(entry.score, std::pow(1 + static_cast<double>(entry.layer), 2) * 0.1875 / written[entry.layer], 1e-12, 0, "score");
        QCOMPARE(selection.kept, (std::vector<std::int64_t>{2}));
        auto& short_ = bench.profile.layers[1][0]; // windows of 8 tokens: no sink-free histogram
        short_.histogramNoSink = {NAN, NAN, NAN};
        short_.concentrationAbsolute = NAN;
        for (const auto& entry : bench.select("score:1").ranking)
            QVERIFY(std::isfinite(entry.score));
    }

    void searches_data() {
        QTest::addColumn<int>("layers");
        QTest::addColumn<int>("seed");
        QTest::addColumn<bool>("pins");
        QTest::newRow("11 layers: more than greedy tries at once") << 11 << 3 << false;
        QTest::newRow("6 layers") << 6 << 4 << false;
        QTest::newRow("11 layers, pins") << 11 << 5 << true;
        QTest::newRow("6 layers, pins") << 6 << 6 << true;
    }
    void searches() {
        QFETCH(int, layers);
        QFETCH(int, seed);
        QFETCH(bool, pins);
        Bench bench(layers, static_cast<std::uint64_t>(seed));
        if (pins)
            bench.never = {0, 3}, bench.always = {1};
        const auto orderOf = [](const Selection& selection) {
            std::vector<std::int64_t> order;
            for (const auto& entry : selection.ranking)
                order.push_back(entry.layer);
            return order;
        };
        const auto freeLayers = static_cast<std::size_t>(layers) - bench.never.size() - bench.always.size();
        const auto count = std::to_string(layers / 2);
        Json finished;
        const auto greedy = bench.select("greedy:" + count, &finished), restore = bench.select("restore:" + count, &finished);
        QCOMPARE(orderOf(greedy), greedyByHand(bench, freeLayers));
        QCOMPARE(orderOf(restore), restoreByHand(bench));
        for (const auto& selection : {greedy, restore}) { // the cost of a step: what it adds, in the order's sets
            LayerSet converted = bench.always;
            for (const auto& entry : selection.ranking) {
                const double before = *bench.whole(converted).klToTeacher;
                converted.insert(entry.layer);
                LINNET_CLOSE(entry.score, *bench.whole(converted).klToTeacher - before, 1e-4, kTolerance, "cost of a step");
            }
            QCOMPARE(std::ssize(selection.kept), std::ptrdiff_t(layers / 2));
        }
        bench.curve = false; // no more steps than the rule needs, the same choice
        const auto shortGreedy = bench.select("greedy:" + count), shortRestore = bench.select("restore:" + count);
        QCOMPARE(shortGreedy.kept, greedy.kept);
        QCOMPARE(shortRestore.kept, restore.kept);
        QCOMPARE(std::ssize(shortGreedy.ranking), std::ptrdiff_t(layers - layers / 2) - std::ssize(bench.always));
        QCOMPARE(std::ssize(shortRestore.ranking), std::ptrdiff_t(layers / 2) - std::ssize(bench.never));
        QVERIFY(shortGreedy.curve.empty() && shortRestore.curve.empty());
    }

    void pinsAndCounts_data() { addMethods(); }
    void pinsAndCounts() {
        QFETCH(QString, method);
        Bench bench(6, 9);
        bench.never = {0, 2}, bench.always = {1, 5};
        bench.bank.erase(0), bench.bank.erase(2); // what stays needs no mixer
        Json finished;
        for (const bool curve : {true, false}) {
            bench.curve = curve;
            for (std::int64_t count = 0; count <= 6; ++count) {
                const auto selection = bench.select(method.toStdString() + ":" + std::to_string(count), &finished);
                const auto& kept = selection.kept;
                QCOMPARE(std::ssize(kept), std::clamp<std::ptrdiff_t>(count, 2, 4));
                QVERIFY(std::is_sorted(kept.begin(), kept.end()));
                for (const auto l : bench.never)
                    QVERIFY(std::binary_search(kept.begin(), kept.end(), l));
                for (const auto l : bench.always)
                    QVERIFY(!std::binary_search(kept.begin(), kept.end(), l));
                if (!curve)
                    continue;
                std::vector<std::int64_t> order;
                for (const auto& entry : selection.ranking)
                    order.push_back(entry.layer);
                for (const auto l : bench.never)
                    if (std::find(order.begin(), order.end(), l) == order.end())
                        order.push_back(l);
                QCOMPARE(kept, keepByRanking(order, count, bench.never, bench.always));
            }
        }
    }

    void curve_data() { addMethods(); }
    void curve() {
        QFETCH(QString, method);
        for (const bool pins : {false, true}) {
            Bench bench(5, 11);
            if (pins)
                bench.never = {3}, bench.always = {0, 2};
            const auto selection = bench.select(method.toStdString() + ":2");
            const std::int64_t most = pins ? 3 : 5, least = pins ? 1 : 0;
            QCOMPARE(std::ssize(selection.curve), std::ptrdiff_t(most - least + 1));
            LINNET_CLOSE(selection.teacherPerplexity, bench.whole(LayerSet{}).perplexity, kTolerance, 0, "teacher");
            Json finished;
            auto kept = most;
            for (const auto& point : selection.curve) {
                QCOMPARE(point.kept, kept);
                const auto choice = bench.select(method.toStdString() + ":" + std::to_string(kept), &finished).kept;
                const auto expected = bench.whole(bench.convertedBut(choice));
                LINNET_CLOSE(point.loss, expected.loss, kTolerance, 0, "loss");
                LINNET_CLOSE(point.perplexity, expected.perplexity, 10 * kTolerance, 0, "perplexity");
                LINNET_CLOSE(point.kl, *expected.klToTeacher, kTolerance, 1e-7, "KL");
                QCOMPARE(point.cacheBytes, studentCacheBytes(bench.teacher->config(), kept, 32768, 4));
                --kept;
            }
            if (!pins)
                QCOMPARE(selection.curve.front().kl, 0.0);
        }
    }

    void stopAndGoOn_data() {
        QTest::addColumn<QString>("method");
        QTest::addColumn<int>("reports"); // stop at the n-th
        for (const auto& method : methods())
            for (const int reports : {1, 40, 200, 500})
                QTest::newRow((method + " " + std::to_string(reports)).c_str()) << QString::fromStdString(method) << reports;
    }
    void stopAndGoOn() {
        QFETCH(QString, method);
        QFETCH(int, reports);
        const Bench bench(5, 13);
        const auto rule = parseKeepRule(method.toStdString() + ":2");
        Json undisturbed, finished;
        std::vector<std::string> saved; // each measurement as it was told
        const auto save = [&] {
            QVERIFY(finished.size() == saved.size() + 1);
            saved.push_back(std::prev(finished.end()).key());
        };
        const Control plain;
        const auto expected = selectLayers(rule, bench.job(undisturbed, plain));
        std::stop_source stop;
        Control control;
        control.stop = stop.get_token();
        int seen = 0;
        double done = 0;
        control.onProgress = [&](const Progress& progress) {
            QCOMPARE(progress.stage, std::string("select"));
            QVERIFY(progress.done >= done && progress.done <= progress.total + 1e-9);
            done = progress.done;
            if (++seen == reports)
                stop.request_stop();
        };
        const auto stopped = guarded([&] { return selectLayers(rule, bench.job(finished, control, save)); });
        if (!stopped)
            QCOMPARE(stopped.error().code, ErrorCode::Cancelled);
        else
            QVERIFY(seen < reports || method == "score");
        Json read = parseJson(finished.is_null() ? "{}" : finished.dump(), "finished"); // as it comes back from a file
        finished = read;
        const auto found = selectLayers(rule, bench.job(finished, plain, save));
        QCOMPARE(selectionToJson(found).dump(), selectionToJson(expected).dump());
        QCOMPARE(finished.size(), undisturbed.size());
        QCOMPARE(std::set<std::string>(saved.begin(), saved.end()).size(), saved.size()); // nothing twice
        QCOMPARE(saved.size(), undisturbed.size());
        for (const auto& [key, entry] : undisturbed.items())
            QCOMPARE(finished.at(key).dump(), entry.dump());
        finished = undisturbed;
        selectLayers(rule, bench.job(finished, plain, [] { QFAIL("measured again"); }));
    }

    void greedyTriesTheSixCheapest() {
        const Bench bench(12);
        Json finished;
        const auto order = bench.select("greedy:0", &finished).ranking;
        QCOMPARE(finished.size(), std::size_t(1 + 12 + 6 * 6 + (5 + 4 + 3 + 2 + 1))); // first step: known by kl
        std::int64_t worst = -1;
        for (std::int64_t l = 0; l < 12; ++l)
            if (worst < 0 || finished.at("aligned " + std::to_string(l)).at("kl") > finished.at("aligned " + std::to_string(worst)).at("kl"))
                worst = l;
        const auto second = listed({order[0].layer, worst});
        QVERIFY(!finished.contains("aligned " + second));
    }

    void oneRecordServesAll() { // greedy finds kl's numbers, kl's curve greedy's; bypass has its own
        Bench bench(6);
        Json finished;
        bench.select("greedy:3", &finished);
        const auto greedyOnly = finished.size();
        bench.curve = false;
        bench.select("kl:3", &finished);
        QCOMPARE(finished.size(), greedyOnly);
        bench.select("bypass:3", &finished);
        QCOMPARE(finished.size(), greedyOnly + 6);
        bench.select("ga-s2:3", &finished); // another bank: nothing of the aligned one is taken
        QCOMPARE(finished.size(), greedyOnly + 6 + 1 + 6);
        QVERIFY(finished.contains("teacher") && finished.contains("bypass 5") && finished.contains("aligned 5") && finished.contains("starts 0,1,2,3,4,5"));
    }

    void cacheBytes() { // by hand: 3 kept of 7, 11 query heads over 1 key head of 24, 100 tokens in 2 bytes
        ModelConfig c;
        c.layers = 7, c.heads = 11, c.kvHeads = 1, c.headDim = 24;
        QCOMPARE(studentCacheBytes(c, 7, 100, 2), std::uint64_t(7 * 9600));
        QCOMPARE(studentCacheBytes(c, 0, 100, 2), std::uint64_t(7 * (25344 + 9504))); // 11 24 24 4 and 3 3 11 24 4
        QCOMPARE(studentCacheBytes(c, 3, 100, 2), std::uint64_t(3 * 9600 + 4 * 34848));
        c.layers = 80, c.heads = 64, c.kvHeads = 8, c.headDim = 128; // past 32 bits
        QCOMPARE(studentCacheBytes(c, 80, 1'000'000'000, 2), std::uint64_t(80) * 4096 * 1'000'000'000);
    }

    void cacheOfWindows() { // by hand: 2 kept layers of 4 with 100 tokens, 2 with a window of 8 and 4 sinks; 2 3 8 4 bytes a token
        auto config = tinyConfig(4);
        config.heads = 6, config.kvHeads = 3, config.headDim = 8;
        const std::int64_t full = 192 * 100, windowed = 192 * 12;
        QCOMPARE(studentCacheBytes(config, 2, 100, 4, 12), std::uint64_t(2 * full + 2 * windowed));
        QCOMPARE(studentCacheBytes(config, 2, 10, 4, 12), std::uint64_t(4 * 192 * 10)); // a text shorter than the window
        Bench bench(4, 3, &config);
        Json finished;
        const Control control;
        auto job = bench.job(finished, control);
        job.curve = false, job.window = 12;
        QCOMPARE(std::ssize(selectLayers(parseKeepRule("kl:cache=" + std::to_string(2 * full + 2 * windowed) + "@100"), job).kept), std::ptrdiff_t(2));
        QCOMPARE(std::ssize(selectLayers(parseKeepRule("kl:cache=" + std::to_string(2 * full + 2 * windowed - 1) + "@100"), job).kept), std::ptrdiff_t(1));
    }

    void everyLayerPinned_data() { addMethods(); }
    void everyLayerPinned() { // nothing to choose, and no bank to choose it with
        QFETCH(QString, method);
        Bench bench(4);
        bench.never = {0, 1, 2, 3};
        Json finished;
        const Control control;
        auto job = bench.job(finished, control);
        job.bank = nullptr;
        const auto selection = selectLayers(parseKeepRule(method.toStdString() + ":2"), job);
        QCOMPARE(selection.kept, (std::vector<std::int64_t>{0, 1, 2, 3}));
        const auto tooSmall = errorOf([&] { selectLayers(parseKeepRule(method.toStdString() + ":cache=64@100"), job); });
        QVERIFY2(tooSmall.code == ErrorCode::Usage && tooSmall.message.find("cache") != std::string::npos, tooSmall.message.c_str());
    }

    void cacheBudget() { // 6 heads over 3, size 8: kept 192 bytes a token, converted 6 8 8 4 + 9 6 8 4 = 3264
        auto config = tinyConfig(4);
        config.heads = 6, config.kvHeads = 3, config.headDim = 8;
        Bench bench(4, 3, &config);
        bench.curve = false;
        Json finished;
        const auto kept = [&](std::int64_t bytes, std::int64_t tokens) {
            return std::ssize(bench.select("kl:cache=" + std::to_string(bytes) + "@" + std::to_string(tokens), &finished).kept);
        };
        const std::int64_t perLayer = 192 * 100, state = 3264;
        QCOMPARE(kept(4 * perLayer, 100), 4);
        QCOMPARE(kept(4 * perLayer - 1, 100), 3);
        QCOMPARE(kept(2 * perLayer + 2 * state, 100), 2);
        QCOMPARE(kept(2 * perLayer + 2 * state - 1, 100), 1);
        QCOMPARE(kept(4 * state, 100), 0);
        QCOMPARE(kept(4 * 192 * 10, 10), 4); // so short that states are larger: keeping all is the smallest
        const auto tooSmall = errorOf([&] { kept(4 * state - 1, 100); });
        QVERIFY2(tooSmall.code == ErrorCode::Usage && tooSmall.message.find("13056") != std::string::npos, tooSmall.message.c_str());
        const auto tooShort = errorOf([&] { kept(7679, 10); });
        QVERIFY2(tooShort.message.find("7680") != std::string::npos, tooShort.message.c_str());
        bench.never = {0, 1};
        QCOMPARE(kept(2 * perLayer + 2 * state, 100), 2);
        const auto pinned = errorOf([&] { kept(2 * perLayer + 2 * state - 1, 100); });
        for (const char* part : {"pins.never 0,1", "44927@100", "44928", "13056"})
            QVERIFY2(pinned.message.find(part) != std::string::npos, pinned.message.c_str());
        bench.never = {}, bench.always = {2};
        QCOMPARE(kept(4 * perLayer, 100), 3); // the pin costs a kept layer, not the budget
    }

    void perplexityBudget_data() { addMethods(); }
    void perplexityBudget() {
        QFETCH(QString, method);
        Bench bench(5, 17);
        Json finished;
        const auto any = bench.select(method.toStdString() + ":0", &finished);
        bench.curve = false; // a perplexity budget measures it all the same
        for (const auto& point : any.curve) {
            const double ratio = point.perplexity / any.teacherPerplexity;
            for (const double limit : {ratio * 1.0001, ratio * 0.9999}) {
                if (limit < 1)
                    continue;
                auto rule = parseKeepRule(method.toStdString() + ":ppl=2");
                rule.limit = limit;
                const Control control;
                const auto found = selectLayers(rule, bench.job(finished, control));
                std::int64_t expected = 5;
                for (const auto& candidate : any.curve)
                    if (candidate.perplexity / any.teacherPerplexity <= limit)
                        expected = candidate.kept; // the last of them is the fewest
                QCOMPARE(std::int64_t(found.kept.size()), expected);
                QCOMPARE(found.curve.size(), any.curve.size());
            }
        }
        bench.always = {0};
        auto strict = parseKeepRule(method.toStdString() + ":ppl=1");
        strict.limit = 0.01; // random students may well be better than a random teacher, but not by that
        const Control control;
        const auto refused = errorOf([&] { selectLayers(strict, bench.job(finished, control)); });
        QVERIFY2(refused.code == ErrorCode::Usage && refused.message.find("pins.always 0") != std::string::npos, refused.message.c_str());
    }

    void overflowingLayerIsWorst() {
        Bench bench(4);
        bench.bank[1].linear.oProj = at::full_like(bench.bank[1].linear.oProj, std::numeric_limits<float>::quiet_NaN());
        Json finished;
        for (const char* method : {"kl", "greedy", "restore"}) {
            const auto selection = bench.select(std::string(method) + ":1", &finished);
            QCOMPARE(selection.kept, (std::vector<std::int64_t>{1}));
            const Json json = selectionToJson(selection);
            QCOMPARE(selectionToJson(selectionFromJson(parseJson(json.dump(), "json"))).dump(), json.dump());
        }
        QVERIFY(finished.at("aligned 1").at("kl").is_null());
        auto rule = parseKeepRule("kl:ppl=1000");
        const Control control;
        const auto kept = selectLayers(rule, bench.job(finished, control)).kept;
        QCOMPARE(kept, (std::vector<std::int64_t>{1}));
    }

    void json() {
        Selection selection{"kl", "nats of KL", {{3, 0.125}, {0, -1e-9}}, {0, 7}, {{2, 3.25, 25.8, 0.5, 123456789012}, {1, 4, 54.6, 1, 7}}, 21.5, 32768};
        const Json json = selectionToJson(selection);
        for (const char* key : {"method", "unit", "ranking", "kept_layers", "curve", "teacher_perplexity", "cache_length"})
            QVERIFY2(json.contains(key), key);
        const auto back = selectionFromJson(parseJson(json.dump(), "json"));
        QCOMPARE(selectionToJson(back).dump(), json.dump());
        QCOMPARE(back.ranking[1].score, -1e-9);
        QCOMPARE(back.curve[0].cacheBytes, std::uint64_t(123456789012));
        QCOMPARE(back.curve[1].perplexity, 54.6);
        QCOMPARE(back.kept, selection.kept);
        selection.teacherPerplexity = 0;
        QVERIFY(selectionToJson(selection).at("teacher_perplexity").is_null());
        QCOMPARE(selectionFromJson(selectionToJson(selection)).teacherPerplexity, 0.0);
        for (const char* key : {"method", "ranking", "kept_layers", "curve", "cache_length"}) {
            Json torn = json;
            torn[key] = Json::array({Json{{"layer", "three"}}});
            QCOMPARE(errorOf([&] { selectionFromJson(torn); }).code, ErrorCode::Malformed);
            torn.erase(key);
            QCOMPARE(errorOf([&] { selectionFromJson(torn); }).code, ErrorCode::Malformed);
        }
    }

    void banks() {
        QVERIFY(bankFor("bypass") == BankKind::None && bankFor("score") == BankKind::None && bankFor("ga-s2") == BankKind::Starts);
        for (const char* method : {"kl", "greedy", "restore"})
            QVERIFY(bankFor(method) == BankKind::Aligned);
        const auto unknown = errorOf([] { bankFor("oracle"); });
        QVERIFY(unknown.code == ErrorCode::Usage && unknown.message.find("oracle") != std::string::npos);
    }

    void errors() {
        Bench bench(4);
        const auto refused = [&](const std::string& rule, const char* culprit) {
            const auto error = errorOf([&] { bench.select(rule); });
            QVERIFY2(error.code == ErrorCode::Usage && error.message.find(culprit) != std::string::npos, error.message.c_str());
        };
        refused("uniform:2", "uniform:2");
        refused("kl:5", "5");
        bench.withBank = false;
        for (const char* rule : {"kl:1", "greedy:1", "restore:1", "ga-s2:1", "bypass:ppl=1.5", "score:ppl=1.5"})
            refused(rule, "bank");
        bench.withBank = true;
        bench.bank.erase(2);
        refused("restore:1", "layer 2");
        bench.never = {2};
        QCOMPARE(bench.select("restore:1").kept, (std::vector<std::int64_t>{2}));
        bench.never = {2, 4};
        refused("bypass:1", "layer 4");
        bench.never = {2}, bench.always = {2};
        refused("bypass:1", "layer 2");
        bench.never = {2}, bench.always = {};
        bench.profile.layers.pop_back();
        refused("score:1", "profile");
        const auto windows = std::exchange(bench.windows, TokenWindows{{}, 0, 24});
        refused("bypass:1", "window");
        bench.windows = windows;
        bench.windows.ids[7] = 101;
        refused("kl:1", "101");
        bench.windows = windows;
        Json torn{{"teacher", {{"loss", "low"}}}};
        const auto malformed = errorOf([&] { bench.select("kl:1", &torn); });
        QVERIFY2(malformed.code == ErrorCode::Malformed && malformed.message.find("teacher") != std::string::npos, malformed.message.c_str());
        Json list = Json::array();
        QCOMPARE(errorOf([&] { bench.select("kl:1", &list); }).code, ErrorCode::Malformed);
    }
};

QTEST_APPLESS_MAIN(TestConvertSelect)
#include "tst_convert_select.moc"
