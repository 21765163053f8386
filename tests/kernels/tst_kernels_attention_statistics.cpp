// The attention statistics against a plain fp64 softmax with the whole T x T matrix, hand-computed cases, and the promises about bits,
// memory and stopping.
#include "linnet/kernels/attention_statistics.h"

#include <QtTest>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>

using namespace linnet::kernels;
using std::int64_t;

namespace {

// Inputs, outputs and the struct that points at both. Layout "strided": [batch, tokens, heads, headDim + 3] with a gap after each head.
struct Case {
    AttentionStatisticsParams p;
    std::vector<float> q, k, v, output;
    std::vector<double> distance, distanceNoSink, entropy, entropyRelative, sink, previous, self, square, histogram, histogramNoSink;
    int64_t bins = 0;

    Case(int64_t batch, int64_t heads, int64_t kvHeads, int64_t tokens, int64_t headDim, bool strided = false, int binsPerOctave = 2) {
        p.batch = batch;
        p.heads = heads;
        p.kvHeads = kvHeads;
        p.tokens = tokens;
        p.headDim = headDim;
        p.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(headDim)));
        p.binsPerOctave = binsPerOctave;
        p.threads = 1;
        const int64_t width = strided ? headDim + 3 : headDim;
        const auto lay = [&](std::vector<float>& x, int64_t h, int64_t& b, int64_t& head, int64_t& token) {
            x.assign(static_cast<std::size_t>(batch * h * tokens * width), 0.0F);
            b = h * tokens * width;
            head = strided ? width : tokens * width;
            token = strided ? h * width : width;
            return x.data();
        };
        p.q = lay(q, heads, p.qBatchStride, p.qHeadStride, p.qTokenStride);
        p.k = lay(k, kvHeads, p.kBatchStride, p.kHeadStride, p.kTokenStride);
        p.v = lay(v, kvHeads, p.vBatchStride, p.vHeadStride, p.vTokenStride);
        bins = std::ssize(distanceEdges(tokens, binsPerOctave)) - 1;
        const auto room = [&](std::vector<double>& x, int64_t each) {
            x.assign(static_cast<std::size_t>(batch * heads * each), -7.0);
            return x.data();
        };
        p.distance = room(distance, 1);
        p.distanceNoSink = room(distanceNoSink, 1);
        p.entropy = room(entropy, 1);
        p.entropyRelative = room(entropyRelative, 1);
        p.sinkMass = room(sink, 1);
        p.previousMass = room(previous, 1);
        p.selfMass = room(self, 1);
        p.outputSquare = room(square, 1);
        p.histogram = room(histogram, bins);
        p.histogramNoSink = room(histogramNoSink, bins);
        output.assign(static_cast<std::size_t>(batch * tokens * heads * headDim), -7.0F);
        p.output = output.data();
    }
    Case(const Case&) = delete;
    Case& operator=(const Case&) = delete;

    void randomise(unsigned seed, float queryScale = 1.0F) {
        std::mt19937 generator(seed);
        std::normal_distribution<float> normal;
        for (auto* x : {&q, &k, &v}) {
            for (float& value : *x) {
                value = normal(generator) * (x == &q ? queryScale : 1.0F);
            }
        }
    }

    // Every output in one row, so that two runs can be compared.
    std::vector<double> all() const {
        std::vector<double> result;
        for (const auto* x : {&distance, &distanceNoSink, &entropy, &entropyRelative, &sink, &previous, &self, &square, &histogram,
                              &histogramNoSink}) {
            result.insert(result.end(), x->begin(), x->end());
        }
        result.insert(result.end(), output.begin(), output.end());
        return result;
    }
};

// Scores of one head in fp64, -inf above the diagonal.
std::vector<std::vector<double>> scoresOf(const Case& c, int64_t b, int64_t h) {
    const auto& p = c.p;
    const int64_t kv = h / (p.heads / p.kvHeads);
    std::vector scores(p.tokens, std::vector<double>(p.tokens, -INFINITY));
    for (int64_t t = 0; t < p.tokens; ++t) {
        for (int64_t s = 0; s <= t; ++s) {
            double dot = 0.0;
            for (int64_t d = 0; d < p.headDim; ++d) {
                dot += double(p.q[b * p.qBatchStride + h * p.qHeadStride + t * p.qTokenStride + d]) *
                       double(p.k[b * p.kBatchStride + kv * p.kHeadStride + s * p.kTokenStride + d]);
            }
            scores[t][s] = dot * double(p.scale);
        }
    }
    return scores;
}

// Softmax over keys first .. t.
std::vector<double> softmax(const std::vector<double>& scores, int64_t first, int64_t t) {
    std::vector<double> a(scores.size(), 0.0);
    const double maximum = *std::max_element(scores.begin() + first, scores.begin() + t + 1);
    double sum = 0.0;
    for (int64_t s = first; s <= t; ++s) {
        sum += a[s] = std::exp(scores[s] - maximum);
    }
    for (double& x : a) {
        x /= sum;
    }
    return a;
}

// The statistics by their definitions, into `c` (another Case with the same inputs).
void naive(Case& c) {
    const auto& p = c.p;
    const auto edges = distanceEdges(p.tokens, p.binsPerOctave);
    const int64_t firstNoSink = std::max(p.skipRows, p.sinkKeys);
    std::fill(c.histogram.begin(), c.histogram.end(), 0.0);
    std::fill(c.histogramNoSink.begin(), c.histogramNoSink.end(), 0.0);
    const auto binOf = [&](int64_t d) { return std::upper_bound(edges.begin(), edges.end(), d) - edges.begin() - 1; };
    for (int64_t i = 0; i < p.batch * p.heads; ++i) {
        const int64_t b = i / p.heads, h = i % p.heads, kv = h / (p.heads / p.kvHeads);
        const auto scores = scoresOf(c, b, h);
        const double rows = double(p.tokens), later = rows - 1, noSinkRows = double(std::max<int64_t>(0, p.tokens - firstNoSink));
        double distance = 0, distanceNoSink = 0, entropy = 0, relative = 0, sink = 0, previous = 0, self = 0, square = 0;
        for (int64_t t = 0; t < p.tokens; ++t) {
            const auto a = softmax(scores[t], 0, t);
            double rowEntropy = 0;
            for (int64_t s = 0; s <= t; ++s) {
                distance += a[s] * double(t - s);
                rowEntropy -= a[s] > 0 ? a[s] * std::log(a[s]) : 0.0;
                sink += s < p.sinkKeys ? a[s] : 0.0;
                c.histogram[i * c.bins + binOf(t - s)] += a[s] / rows;
            }
            entropy += rowEntropy;
            relative += t > 0 ? rowEntropy / std::log(double(t + 1)) : 0.0;
            previous += t > 0 ? a[t - 1] : 0.0;
            self += a[t];
            for (int64_t d = 0; d < p.headDim; ++d) {
                double y = 0;
                for (int64_t s = 0; s <= t; ++s) {
                    y += a[s] * double(p.v[b * p.vBatchStride + kv * p.vHeadStride + s * p.vTokenStride + d]);
                }
                square += y * y;
                c.output[((b * p.tokens + t) * p.heads + h) * p.headDim + d] = float(y);
            }
            if (t >= firstNoSink) {
                const auto rest = softmax(scores[t], p.sinkKeys, t);
                for (int64_t s = p.sinkKeys; s <= t; ++s) {
                    distanceNoSink += rest[s] * double(t - s);
                    c.histogramNoSink[i * c.bins + binOf(t - s)] += rest[s] / noSinkRows;
                }
            }
        }
        c.distance[i] = distance / rows;
        c.distanceNoSink[i] = distanceNoSink / noSinkRows;
        c.entropy[i] = entropy / rows;
        c.entropyRelative[i] = relative / later;
        c.sink[i] = sink / rows;
        c.previous[i] = previous / later;
        c.self[i] = self / rows;
        c.square[i] = square / (rows * double(p.headDim));
        for (int64_t bin = 0; bin < c.bins && noSinkRows == 0; ++bin) {
            c.histogramNoSink[i * c.bins + bin] = NAN;
        }
    }
}

// Relative with a floor for values that vanish; NaN only equals NaN.
bool close(const std::vector<double>& got, const std::vector<double>& expected, double relative, double floor) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const bool same = std::isnan(expected[i]) ? std::isnan(got[i])
                                                  : std::abs(got[i] - expected[i]) <= relative * std::abs(expected[i]) + floor;
        if (!same) {
            qWarning("element %zu: got %.10g, expected %.10g", i, got[i], expected[i]);
            return false;
        }
    }
    return got.size() == expected.size();
}

int64_t peakMemoryKiB() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmHWM:")) {
            return std::stoll(line.substr(6));
        }
    }
    return -1;
}

} // namespace

class TestAttentionStatistics : public QObject {
    Q_OBJECT

private slots:
    void edges_data() {
        QTest::addColumn<int>("tokens");
        QTest::addColumn<int>("binsPerOctave");
        QTest::addColumn<QList<int>>("expected");
        QTest::newRow("one token") << 1 << 2 << QList<int>{0, 1};
        QTest::newRow("three tokens") << 3 << 2 << QList<int>{0, 1, 2, 3};
        QTest::newRow("four tokens") << 4 << 2 << QList<int>{0, 1, 2, 3, 4};
        QTest::newRow("five tokens") << 5 << 2 << QList<int>{0, 1, 2, 3, 4, 5};
        QTest::newRow("two an octave") << 40 << 2 << QList<int>{0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 40};
        QTest::newRow("four an octave") << 32 << 4 << QList<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 19, 23, 27, 32};
        QTest::newRow("more bins than distances") << 10 << 64 << QList<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
        QTest::newRow("exact") << 7 << 0 << QList<int>{0, 1, 2, 3, 4, 5, 6, 7};
    }
    void edges() {
        QFETCH(int, tokens);
        QFETCH(int, binsPerOctave);
        QFETCH(QList<int>, expected);
        const auto got = distanceEdges(tokens, binsPerOctave);
        QCOMPARE(QList<int>(got.begin(), got.end()), expected);
    }
    void edgesRefuse() {
        QVERIFY_EXCEPTION_THROWN(distanceEdges(0, 2), std::invalid_argument);
        QVERIFY_EXCEPTION_THROWN(distanceEdges(8, 1), std::invalid_argument);
        QVERIFY_EXCEPTION_THROWN(distanceEdges(8, -1), std::invalid_argument);
    }

    void matchesNaive_data() {
        QTest::addColumn<int>("batch");
        QTest::addColumn<int>("heads");
        QTest::addColumn<int>("kvHeads");
        QTest::addColumn<int>("tokens");
        QTest::addColumn<int>("headDim");
        QTest::addColumn<bool>("strided");
        QTest::addColumn<int>("binsPerOctave");
        for (const int tokens : {1, 7, 8, 9, 15, 63, 64, 65, 127, 300}) {
            QTest::addRow("T %d", tokens) << 1 << 3 << 1 << tokens << 64 << false << 2;
            QTest::addRow("T %d, strided, exact bins", tokens) << 2 << 2 << 2 << tokens << 16 << true << 0;
        }
        for (const int headDim : {16, 64, 80, 96, 128, 5}) {
            QTest::addRow("D %d", headDim) << 1 << 2 << 1 << 70 << headDim << false << 2;
        }
        for (const int kvHeads : {1, 3, 8}) {
            QTest::addRow("%d key/value heads of 24, batch 3", kvHeads) << 3 << 24 << kvHeads << 40 << 16 << true << 4;
        }
    }
    void matchesNaive() {
        QFETCH(int, batch);
        QFETCH(int, heads);
        QFETCH(int, kvHeads);
        QFETCH(int, tokens);
        QFETCH(int, headDim);
        QFETCH(bool, strided);
        QFETCH(int, binsPerOctave);
        Case got(batch, heads, kvHeads, tokens, headDim, strided, binsPerOctave);
        Case expected(batch, heads, kvHeads, tokens, headDim, strided, binsPerOctave);
        got.randomise(11, 2.0F);
        expected.randomise(11, 2.0F);
        QVERIFY(attentionStatistics(got.p));
        naive(expected);
        QVERIFY2(close(got.distance, expected.distance, 1e-5, 1e-9), "distance");
        QVERIFY2(close(got.distanceNoSink, expected.distanceNoSink, 1e-5, 1e-9), "distanceNoSink");
        QVERIFY2(close(got.entropy, expected.entropy, 1e-5, 1e-9), "entropy");
        QVERIFY2(close(got.entropyRelative, expected.entropyRelative, 1e-5, 1e-9), "entropyRelative");
        QVERIFY2(close(got.sink, expected.sink, 1e-5, 1e-9), "sinkMass");
        QVERIFY2(close(got.previous, expected.previous, 1e-5, 1e-9), "previousMass");
        QVERIFY2(close(got.self, expected.self, 1e-5, 1e-9), "selfMass");
        QVERIFY2(close(got.square, expected.square, 1e-5, 1e-9), "outputSquare");
        QVERIFY2(close(got.histogram, expected.histogram, 1e-5, 1e-9), "histogram");
        QVERIFY2(close(got.histogramNoSink, expected.histogramNoSink, 1e-5, 1e-9), "histogramNoSink");
        QVERIFY2(close({got.output.begin(), got.output.end()}, {expected.output.begin(), expected.output.end()}, 1e-5, 3e-6), "output");
    }

    void otherSinkSettings_data() {
        QTest::addColumn<int>("sinkKeys");
        QTest::addColumn<int>("skipRows");
        QTest::newRow("no sink at all") << 0 << 0;
        QTest::newRow("one key") << 1 << 3;
        QTest::newRow("the sink decides the first row") << 40 << 8;
        QTest::newRow("nothing left") << 200 << 8;
    }
    void otherSinkSettings() {
        QFETCH(int, sinkKeys);
        QFETCH(int, skipRows);
        Case got(1, 2, 1, 100, 32), expected(1, 2, 1, 100, 32);
        for (Case* c : {&got, &expected}) {
            c->randomise(5);
            c->p.sinkKeys = sinkKeys;
            c->p.skipRows = skipRows;
        }
        QVERIFY(attentionStatistics(got.p));
        naive(expected);
        QVERIFY(close(got.all(), expected.all(), 1e-5, 3e-6));
    }

    void uniform() {
        constexpr int64_t kTokens = 100;
        Case c(1, 2, 1, kTokens, 16);
        c.randomise(1, 0.0F); // q = 0: every key the same
        QVERIFY(attentionStatistics(c.p));
        double entropy = 0, distance = 0, noSink = 0, sink = 0;
        for (int64_t t = 0; t < kTokens; ++t) {
            entropy += std::log(double(t + 1)) / kTokens;
            distance += double(t) / 2 / kTokens;
            sink += double(std::min<int64_t>(4, t + 1)) / double(t + 1) / kTokens;
            noSink += t >= 8 ? double(t - 4) / 2 / (kTokens - 8) : 0.0; // keys 4 .. t
        }
        QVERIFY(close(c.entropy, {entropy, entropy}, 1e-6, 0));
        QVERIFY(close(c.entropyRelative, {1.0, 1.0}, 1e-6, 0));
        QVERIFY(close(c.distance, {distance, distance}, 1e-6, 0));
        QVERIFY(close(c.distanceNoSink, {noSink, noSink}, 1e-6, 0));
        QVERIFY(close(c.sink, {sink, sink}, 1e-6, 0));
    }

    // q_t = 100 e_(t-1), k_s = e_s: all the mass on the previous token, and on itself at t = 0.
    void previousToken() {
        constexpr int64_t kTokens = 32;
        Case c(1, 1, 1, kTokens, kTokens);
        c.p.scale = 1.0F;
        for (int64_t t = 0; t < kTokens; ++t) {
            c.q[t * kTokens + std::max<int64_t>(0, t - 1)] = 100.0F;
            c.k[t * kTokens + t] = 1.0F;
            c.v[t * kTokens + t] = 2.0F;
        }
        QVERIFY(attentionStatistics(c.p));
        QVERIFY(close(c.distance, {31.0 / 32}, 1e-7, 0));
        QVERIFY(close(c.distanceNoSink, {1.0}, 1e-7, 0));
        QVERIFY(close(c.previous, {1.0}, 1e-7, 0));
        QVERIFY(close(c.self, {1.0 / 32}, 1e-7, 0));
        QVERIFY(close(c.entropy, {0.0}, 0, 1e-12));
        QVERIFY(close(c.square, {4.0 / 32}, 1e-7, 0));
        QVERIFY(close({c.histogram.begin(), c.histogram.begin() + 3}, {1.0 / 32, 31.0 / 32, 0.0}, 1e-7, 1e-30));
        QVERIFY(close({c.histogramNoSink.begin(), c.histogramNoSink.begin() + 3}, {0.0, 1.0, 0.0}, 1e-7, 0));
    }

    // A sink that is 10000 above every other key must not erase what the other keys look like among themselves.
    void sinkFarAbove() {
        constexpr int64_t kTokens = 50;
        Case c(1, 1, 1, kTokens, 16);
        c.p.scale = 1.0F;
        for (int64_t t = 0; t < kTokens; ++t) {
            c.q[t * 16] = 100.0F;
        }
        c.k[0] = 100.0F;
        QVERIFY(attentionStatistics(c.p));
        double noSink = 0;
        for (int64_t t = 8; t < kTokens; ++t) {
            noSink += double(t - 4) / 2 / (kTokens - 8);
        }
        QVERIFY(close(c.sink, {1.0}, 1e-7, 0));
        QVERIFY(close(c.distance, {(kTokens - 1) / 2.0}, 1e-6, 0));
        QVERIFY(close(c.entropy, {0.0}, 0, 1e-12));
        QVERIFY(close(c.distanceNoSink, {noSink}, 1e-6, 0));
    }

    void sharpLogits() {
        Case c(1, 2, 1, 130, 64);
        c.randomise(3, 1e4F); // scores of about +-1e4
        QVERIFY(attentionStatistics(c.p));
        for (const double x : c.all()) {
            QVERIFY(std::isfinite(x));
        }
        QVERIFY(c.entropy[0] >= 0.0 && c.entropy[0] < 0.05);
        for (int64_t h = 0; h < 2; ++h) {
            double sum = 0, sumNoSink = 0;
            for (int64_t bin = 0; bin < c.bins; ++bin) {
                sum += c.histogram[h * c.bins + bin];
                sumNoSink += c.histogramNoSink[h * c.bins + bin];
            }
            QVERIFY(std::abs(sum - 1) < 1e-6 && std::abs(sumNoSink - 1) < 1e-6);
        }
    }

    void sameBitsForAnyThreads() {
        Case one(2, 6, 2, 333, 32);
        one.randomise(9);
        QVERIFY(attentionStatistics(one.p));
        for (const int threads : {2, 3}) {
            Case other(2, 6, 2, 333, 32);
            other.randomise(9);
            other.p.threads = threads;
            QVERIFY(attentionStatistics(other.p));
            QVERIFY(other.all() == one.all());
        }
    }

    void withoutOutput() {
        Case with(1, 2, 1, 40, 16), without(1, 2, 1, 40, 16);
        with.randomise(2);
        without.randomise(2);
        without.p.output = nullptr;
        QVERIFY(attentionStatistics(with.p) && attentionStatistics(without.p));
        QVERIFY(with.distance == without.distance && with.square == without.square && with.histogram == without.histogram);
        QVERIFY(std::ranges::all_of(without.output, [](float x) { return x == -7.0F; }));
    }

    // A T x T matrix of floats would be 256 MiB.
    void memoryStaysFlat() {
        Case c(1, 1, 1, 8192, 64);
        c.randomise(4);
        const int64_t before = peakMemoryKiB();
        if (before < 0) {
            QSKIP("no /proc/self/status to read the peak memory from");
        }
        c.p.threads = 2;
        QVERIFY(attentionStatistics(c.p));
        const int64_t grown = peakMemoryKiB() - before;
        qInfo("grew by %lld KiB", static_cast<long long>(grown));
        QVERIFY(grown < 64 * 1024);
    }

    void stopsEarly() {
        struct Watch {
            std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
            std::chrono::duration<double> longest{};
            double fraction = 0;
            int calls = 0, stopAt = 0;
        };
        const auto watch = [](void* user, double fraction) {
            auto& w = *static_cast<Watch*>(user);
            const auto now = std::chrono::steady_clock::now();
            w.longest = std::max<std::chrono::duration<double>>(w.longest, now - w.last);
            w.last = now;
            w.fraction = fraction;
            return ++w.calls != w.stopAt;
        };
        for (const int threads : {1, 3}) {
            Case c(1, 8, 1, 4096, 64);
            c.randomise(6);
            c.p.threads = threads;
            c.p.keepGoing = watch;
            Watch stop{.stopAt = 3};
            c.p.keepGoingUser = &stop;
            QVERIFY(!attentionStatistics(c.p));
            QCOMPARE(stop.calls, 3);
            QVERIFY(stop.fraction >= 0.0 && stop.fraction < 0.9);
            Watch all;
            c.p.keepGoingUser = &all;
            QVERIFY(attentionStatistics(c.p));
            QVERIFY(all.calls > 3 && all.fraction > stop.fraction && all.fraction <= 1.0);
            qInfo("%d threads: at most %.0f ms between calls", threads, all.longest.count() * 1e3);
        }
    }

    void passesExceptionsOn() {
        Case c(1, 1, 1, 64, 16);
        c.p.threads = 3;
        c.p.keepGoing = [](void*, double) -> bool { throw std::runtime_error("stop"); };
        QVERIFY_EXCEPTION_THROWN(attentionStatistics(c.p), std::runtime_error);
    }

    void refuses() {
        const auto refused = [](auto change) {
            Case c(1, 4, 2, 8, 16);
            change(c.p);
            QVERIFY_EXCEPTION_THROWN(attentionStatistics(c.p), std::invalid_argument);
        };
        refused([](auto& p) { p.tokens = 0; });
        refused([](auto& p) { p.kvHeads = 3; });
        refused([](auto& p) { p.sinkKeys = -1; });
        refused([](auto& p) { p.k = nullptr; });
        refused([](auto& p) { p.histogramNoSink = nullptr; });
        refused([](auto& p) { p.binsPerOctave = 1; });
    }
};

QTEST_APPLESS_MAIN(TestAttentionStatistics)
#include "tst_kernels_attention_statistics.moc"
