// The attention statistics' CUDA kernels (through the emulator where that is linked) against their CPU twin on the same rounded inputs, and
// cases worked out by hand.
#include "device_memory.h"
#include "linnet/kernels/attention_statistics.h"

#include <QtTest>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>

using namespace linnet::kernels;
using linnet::tests::DeviceBuffer;
using std::int64_t;

namespace {

struct Setup {
    DataType type = DataType::BFloat16;
    std::vector<int> lengths = {64}; // of the sequences; packed: one after the other with sequenceStarts, else a batch of equal lengths
    bool packed = false;
    int heads = 1, kvHeads = 1, headDim = 64;
    int binsPerOctave = 2, sinkKeys = 4, skipRows = 8;
    float sinkLogit = 0.0F;  // what key 0 has above the others
    float queryScale = 1.0F; // the standard deviation of the logits
};

std::uint16_t bitsOf(DataType type, float x) {
    if (type == DataType::Float16)
        return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return static_cast<std::uint16_t>(std::isnan(x) ? 0x7fff : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float valueOf(DataType type, std::uint16_t bits) {
    return type == DataType::Float16 ? static_cast<float>(std::bit_cast<_Float16>(bits)) : std::bit_cast<float>(std::uint32_t{bits} << 16);
}

std::size_t sizeOf(DataType type) {
    return type == DataType::Float32 ? 4 : 2;
}

// A [tokens, heads, headDim] tensor with a gap of 8 values (NaN: nobody may read them) after each head.
struct Tensor {
    std::vector<float> values; // rounded to the type
    DeviceBuffer<std::uint8_t> device;
    int64_t headStride = 0, tokenStride = 0;

    Tensor(int64_t tokens, int heads, int headDim)
        : values(static_cast<std::size_t>(tokens * heads * (headDim + 8)), NAN), headStride(headDim + 8), tokenStride(heads * headStride) {}
    float& at(int64_t token, int head, int d) { return values[static_cast<std::size_t>(token * tokenStride + head * headStride + d)]; }

    void upload(DataType type) {
        std::vector<std::uint8_t> bytes(values.size() * sizeOf(type));
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (type == DataType::Float32) {
                std::memcpy(&bytes[4 * i], &values[i], 4);
            } else {
                const auto bits = bitsOf(type, values[i]);
                std::memcpy(&bytes[2 * i], &bits, 2);
                values[i] = valueOf(type, bits);
            }
        }
        device.upload(bytes);
    }
};

// Every statistic of every sequence and head: 8 values, then the two histograms. And A V.
struct Results {
    std::vector<double> values, histogram, histogramNoSink;
    std::vector<double> output;
};

struct Case {
    Setup setup;
    int64_t tokens = 0, longest = 0, bins = 0;
    Tensor q, k, v;
    float scale;

    explicit Case(const Setup& s)
        : setup(s), tokens(total(s)), longest(*std::max_element(s.lengths.begin(), s.lengths.end())),
          bins(std::ssize(distanceEdges(longest, s.binsPerOctave)) - 1), q(tokens, s.heads, s.headDim), k(tokens, s.kvHeads, s.headDim),
          v(tokens, s.kvHeads, s.headDim), scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.headDim)))) {}
    static int64_t total(const Setup& s) {
        int64_t sum = 0;
        for (const int length : s.lengths)
            sum += length;
        return sum;
    }

    void fill(const std::function<float(Tensor&, int64_t token, int head, int d)>& value) {
        for (Tensor* x : {&q, &k, &v})
            for (int64_t t = 0; t < tokens; ++t)
                for (int h = 0; h < (x == &q ? setup.heads : setup.kvHeads); ++h)
                    for (int d = 0; d < setup.headDim; ++d)
                        x->at(t, h, d) = value(*x, t, h, d);
    }

    void randomise(unsigned seed) {
        std::mt19937 generator(seed);
        std::normal_distribution<float> normal;
        fill([&](Tensor& x, int64_t, int, int) { return normal(generator) * (&x == &q ? setup.queryScale : 1.0F); });
        if (setup.sinkLogit == 0.0F)
            return;
        // Dimension 0 belongs to the sink: q = 4 everywhere, k = 0 but for the first key of each sequence.
        int64_t start = 0;
        for (const int length : setup.lengths) {
            for (int64_t t = start; t < start + length; ++t) {
                for (int h = 0; h < setup.heads; ++h)
                    q.at(t, h, 0) = 4.0F;
                for (int h = 0; h < setup.kvHeads; ++h)
                    k.at(t, h, 0) = t == start ? setup.sinkLogit / (4.0F * scale) : 0.0F;
            }
            start += length;
        }
    }

    void upload() {
        for (Tensor* x : {&q, &k, &v})
            x->upload(setup.type);
    }

    void describe(AttentionStatisticsShape& p, int64_t batch, int64_t length) const {
        p.qHeadStride = q.headStride, p.qTokenStride = q.tokenStride, p.qBatchStride = length * q.tokenStride;
        p.kHeadStride = k.headStride, p.kTokenStride = k.tokenStride, p.kBatchStride = length * k.tokenStride;
        p.vHeadStride = v.headStride, p.vTokenStride = v.tokenStride, p.vBatchStride = length * v.tokenStride;
        p.batch = batch, p.tokens = length, p.heads = setup.heads, p.kvHeads = setup.kvHeads, p.headDim = setup.headDim;
        p.scale = scale, p.sinkKeys = setup.sinkKeys, p.skipRows = setup.skipRows, p.binsPerOctave = setup.binsPerOctave;
    }
    // Ten outputs in one piece of memory: 8 rows of `heads`, then the histograms.
    static void point(AttentionStatisticsShape& p, double* out, int64_t heads, int64_t histogramBins) {
        p.distance = out, p.distanceNoSink = out + heads, p.entropy = out + 2 * heads, p.entropyRelative = out + 3 * heads;
        p.sinkMass = out + 4 * heads, p.previousMass = out + 5 * heads, p.selfMass = out + 6 * heads, p.outputSquare = out + 7 * heads;
        p.histogram = out + 8 * heads, p.histogramNoSink = p.histogram + heads * histogramBins;
    }

    Results cpu() const {
        Results r;
        const auto sequences = static_cast<int64_t>(setup.lengths.size()), heads = sequences * setup.heads;
        r.values.resize(static_cast<std::size_t>(8 * heads));
        int64_t start = 0;
        for (int64_t n = 0; n < sequences; ++n) {
            const int64_t length = setup.lengths[static_cast<std::size_t>(n)];
            const auto blank = [&](std::vector<double>& histogram, bool counts) {
                histogram.insert(histogram.end(), static_cast<std::size_t>(setup.heads * bins), counts ? 0.0 : NAN);
            };
            blank(r.histogram, length > 0);
            blank(r.histogramNoSink, length > std::max(setup.skipRows, setup.sinkKeys));
            if (length == 0) {
                for (int64_t i = 0; i < 8; ++i)
                    std::fill_n(r.values.begin() + i * heads + n * setup.heads, setup.heads, NAN);
                continue;
            }
            AttentionStatisticsParams p;
            describe(p, 1, length);
            p.q = q.values.data() + start * q.tokenStride, p.k = k.values.data() + start * k.tokenStride,
            p.v = v.values.data() + start * v.tokenStride;
            p.threads = 1;
            const int64_t own = std::ssize(distanceEdges(length, setup.binsPerOctave)) - 1; // the last one ends earlier, with the same mass
            std::vector<double> out(static_cast<std::size_t>(setup.heads * (8 + 2 * own)));
            std::vector<float> output(static_cast<std::size_t>(length * setup.heads * setup.headDim));
            point(p, out.data(), setup.heads, own);
            p.output = output.data();
            attentionStatistics(p);
            for (int64_t i = 0; i < 8; ++i)
                std::copy_n(out.begin() + i * setup.heads, setup.heads, r.values.begin() + i * heads + n * setup.heads);
            for (int64_t h = 0; h < setup.heads; ++h) {
                std::copy_n(p.histogram + h * own, own, r.histogram.begin() + (n * setup.heads + h) * bins);
                if (length > std::max(setup.skipRows, setup.sinkKeys))
                    std::copy_n(p.histogramNoSink + h * own, own, r.histogramNoSink.begin() + (n * setup.heads + h) * bins);
            }
            r.output.insert(r.output.end(), output.begin(), output.end());
            start += length;
        }
        return r;
    }

    Results cuda(bool withOutput = true) {
        AttentionStatisticsCudaParams p;
        const auto sequences = static_cast<int64_t>(setup.lengths.size()), heads = sequences * setup.heads;
        describe(p, setup.packed ? 1 : sequences, setup.packed ? tokens : longest);
        p.dataType = setup.type;
        p.q = q.device.data(), p.k = k.device.data(), p.v = v.device.data();
        std::vector<std::int32_t> starts = {0};
        for (const int length : setup.lengths)
            starts.push_back(starts.back() + length);
        const DeviceBuffer<std::int32_t> deviceStarts(starts);
        if (setup.packed)
            p.sequenceStarts = deviceStarts.data(), p.sequences = sequences, p.maxTokens = longest;
        DeviceBuffer<double> out(static_cast<std::size_t>(heads * (8 + 2 * bins)));
        DeviceBuffer<std::uint8_t> output(static_cast<std::size_t>(tokens * setup.heads * setup.headDim) * sizeOf(setup.type));
        DeviceBuffer<std::uint8_t> workspace(attentionStatisticsCudaWorkspace(p));
        point(p, out.data(), heads, bins);
        p.output = withOutput ? output.data() : nullptr;
        p.workspace = workspace.data();
        Results r;
        if (const auto error = attentionStatisticsCuda(p)) {
            qWarning("%s", error);
            return r;
        }
        const auto got = out.download();
        const auto histogram = got.begin() + 8 * heads, noSink = histogram + heads * bins;
        r.values.assign(got.begin(), histogram);
        r.histogram.assign(histogram, noSink);
        r.histogramNoSink.assign(noSink, got.end());
        const auto bytes = output.download();
        for (std::size_t i = 0; i < bytes.size() && withOutput; i += sizeOf(setup.type)) {
            float x;
            std::uint16_t bits;
            std::memcpy(&x, &bytes[i], sizeof x <= sizeOf(setup.type) ? 4 : 0);
            std::memcpy(&bits, &bytes[i], 2);
            r.output.push_back(setup.type == DataType::Float32 ? x : valueOf(setup.type, bits));
        }
        return r;
    }
};

// Relative with a floor for values that vanish; NaN only equals NaN.
bool close(const char* what, const std::vector<double>& got, const std::vector<double>& expected, double relative, double floor) {
    if (got.size() != expected.size()) {
        qWarning("%s: %zu values, expected %zu", what, got.size(), expected.size());
        return false;
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const bool same =
            std::isnan(expected[i]) ? std::isnan(got[i]) : std::abs(got[i] - expected[i]) <= relative * std::abs(expected[i]) + floor;
        if (!same) {
            qWarning("%s: element %zu of %zu: got %.10g, expected %.10g", what, i, expected.size(), got[i], expected[i]);
            return false;
        }
    }
    return true;
}

bool compare(const Results& got, const Results& expected, DataType type) {
    // A 16-bit weight is off by up to 2^-9 (bfloat16) or 2^-12, and so is an output.
    const double rounding = type == DataType::BFloat16 ? 1.0 / 256 : (type == DataType::Float16 ? 1.0 / 2048 : 5e-5);
    const auto square = static_cast<std::ptrdiff_t>(expected.values.size() / 8 * 7);
    if (got.values.size() != expected.values.size())
        return false;
    const auto split = [&](const Results& r) {
        return std::pair(std::vector<double>(r.values.begin(), r.values.begin() + square),
                         std::vector<double>(r.values.begin() + square, r.values.end()));
    };
    const auto [values, squares] = split(got);
    const auto [expectedValues, expectedSquares] = split(expected);
    return close("values", values, expectedValues, 1e-4, 2e-6) && close("output square", squares, expectedSquares, rounding, 1e-7) &&
           close("histogram", got.histogram, expected.histogram, 1e-4, 1e-6) &&
           close("histogram without sink", got.histogramNoSink, expected.histogramNoSink, 1e-4, 1e-6) &&
           close("output", got.output, expected.output, 2 * rounding, 2 * rounding);
}

} // namespace

class TestAttentionStatisticsCuda : public QObject {
    Q_OBJECT

private slots:
    void againstCpu_data() {
        QTest::addColumn<Setup>("setup");
        const auto b = DataType::BFloat16, f = DataType::Float16, s = DataType::Float32;
        const auto add = [](const char* name, const Setup& setup) { QTest::newRow(name) << setup; };
        for (const int tokens : {1, 7, 64, 65, 200})
            add(qPrintable(QString("%1 tokens").arg(tokens)), {.type = b, .lengths = {tokens}});
        for (const int headDim : {80, 96, 128, 256})
            add(qPrintable(QString("headDim %1").arg(headDim)), {.type = b, .lengths = {150}, .headDim = headDim});
        for (const int headDim : {64, 80, 96, 128, 256})
            add(qPrintable(QString("float32, headDim %1").arg(headDim)), {.type = s, .lengths = {90}, .headDim = headDim});
        for (const int headDim : {64, 80, 96, 128, 256})
            add(qPrintable(QString("float16, headDim %1").arg(headDim)), {.type = f, .lengths = {70}, .headDim = headDim});
        add("headDim 24", {.type = b, .lengths = {50}, .headDim = 24});
        add("headDim 200, float16", {.type = f, .lengths = {40}, .headDim = 200});
        add("three heads a key head", {.type = b, .lengths = {65, 65}, .heads = 3});
        add("six heads, two key heads", {.type = f, .lengths = {33}, .heads = 6, .kvHeads = 2});
        add("packed", {.type = b, .lengths = {65, 1, 7, 140, 0, 12}, .packed = true, .heads = 3});
        add("packed, float32", {.type = s, .lengths = {9, 70}, .packed = true, .heads = 2, .kvHeads = 2});
        add("sink 20 above", {.type = b, .lengths = {200}, .sinkLogit = 20.0F});
        add("sink 20 above, float16", {.type = f, .lengths = {130}, .sinkLogit = 20.0F});
        add("sink 20 above, float32", {.type = s, .lengths = {130}, .headDim = 128, .sinkLogit = 20.0F});
        add("sink 300 above", {.type = b, .lengths = {130}, .headDim = 128, .sinkLogit = 300.0F});
        add("no sink keys, all rows", {.type = b, .lengths = {70}, .sinkKeys = 0, .skipRows = 0});
        add("sixteen sink keys", {.type = b, .lengths = {70}, .sinkKeys = 16, .skipRows = 0});
        add("sixteen sink keys, float32", {.type = s, .lengths = {20}, .headDim = 256, .sinkKeys = 16});
        add("eight bins an octave", {.type = b, .lengths = {200}, .binsPerOctave = 8});
        add("eight bins an octave, headDim 256", {.type = f, .lengths = {140}, .headDim = 256, .binsPerOctave = 8});
        add("a bin a distance", {.type = b, .lengths = {150, 150}, .heads = 2, .binsPerOctave = 0});
        add("a bin a distance, float32, packed", {.type = s, .lengths = {3, 80}, .packed = true, .headDim = 256, .binsPerOctave = 0});
        add("a bin a distance, sink 20 above", {.type = f, .lengths = {130}, .binsPerOctave = 0, .sinkLogit = 20.0F});
        add("more bins than the pass holds", {.type = b, .lengths = {260}, .binsPerOctave = 64});
        add("1100 tokens", {.type = b, .lengths = {1100}});
        add("1100 tokens, eight bins an octave", {.type = b, .lengths = {1100}, .binsPerOctave = 8, .sinkLogit = 10.0F});
        add("headDim 128, 520 tokens, two bins an octave", {.type = b, .lengths = {520}, .headDim = 128});
        add("headDim 256, float32, 300 tokens", {.type = s, .lengths = {300}, .headDim = 256, .binsPerOctave = 4});
        add("logits of 8", {.type = b, .lengths = {200}, .queryScale = 8.0F});
        add("logits of 8, float32", {.type = s, .lengths = {100}, .queryScale = 8.0F});
    }
    void againstCpu() {
        LINNET_NEEDS_DEVICE();
        QFETCH(Setup, setup);
        Case c(setup);
        c.randomise(1);
        c.upload();
        QVERIFY(compare(c.cuda(), c.cpu(), setup.type));
    }

    // Logits that grow towards the first key: the running maximum is raised tile after tile, and finished bins with it.
    void risingMaximum_data() {
        QTest::addColumn<Setup>("setup");
        QTest::newRow("bfloat16") << Setup{.type = DataType::BFloat16, .lengths = {200}};
        QTest::newRow("float32") << Setup{.type = DataType::Float32, .lengths = {130}, .headDim = 128};
        QTest::newRow("float16, falling") << Setup{.type = DataType::Float16, .lengths = {200}, .headDim = 80, .queryScale = -1.0F};
    }
    void risingMaximum() {
        LINNET_NEEDS_DEVICE();
        QFETCH(Setup, setup);
        Case c(setup);
        c.randomise(5);
        for (int64_t t = 0; t < c.tokens; ++t) {
            c.q.at(t, 0, 0) = setup.queryScale * 4.0F;
            c.k.at(t, 0, 0) = static_cast<float>(c.tokens - t) / 16.0F / (4.0F * c.scale);
        }
        c.upload();
        QVERIFY(compare(c.cuda(), c.cpu(), setup.type));
    }

    void uniform() {
        LINNET_NEEDS_DEVICE();
        constexpr int kTokens = 100;
        Case c({.lengths = {kTokens}});
        c.fill([&](Tensor& x, int64_t, int, int) { return &x == &c.q ? 0.0F : 1.0F; }); // every key the same
        c.upload();
        const auto got = c.cuda();
        double entropy = 0, distance = 0, noSink = 0, sink = 0;
        for (int t = 0; t < kTokens; ++t) {
            entropy += std::log(t + 1.0) / kTokens;
            distance += t / 2.0 / kTokens;
            sink += std::min(4, t + 1) / (t + 1.0) / kTokens;
            noSink += t >= 8 ? (t - 4) / 2.0 / (kTokens - 8) : 0.0; // keys 4 .. t
        }
        const std::vector<double> expected = {distance, noSink, entropy, 1.0, sink};
        QVERIFY(close("uniform", {got.values.begin(), got.values.begin() + 5}, expected, 1e-5, 0));
        QVERIFY(close("square", {got.values[7]}, {1.0}, 1e-5, 0)); // v = 1, and weights of equal keys are rounded alike
    }

    // q_t = 100 e_(t-1), k_s = e_s: all the mass on the previous token, and on itself at t = 0.
    void previousToken() {
        LINNET_NEEDS_DEVICE();
        constexpr int kTokens = 64;
        Case c({.lengths = {kTokens}});
        c.scale = 1.0F;
        c.fill([&](Tensor& x, int64_t t, int, int d) {
            return &x == &c.q ? (d == std::max<int64_t>(0, t - 1) ? 100.0F : 0.0F) : (d == t ? (&x == &c.k ? 1.0F : 2.0F) : 0.0F);
        });
        c.upload();
        const auto got = c.cuda();
        const double share = 1.0 / kTokens, rest = 1.0 - share;
        QVERIFY(close("previous", got.values, {rest, 1.0, 0.0, 0.0, 5 * share, 1.0, share, 4.0 / kTokens}, 1e-6, 1e-6));
        QVERIFY(close("histogram", {got.histogram.begin(), got.histogram.begin() + 3}, {share, rest, 0.0}, 1e-6, 1e-30));
        QVERIFY(close("no sink", {got.histogramNoSink.begin(), got.histogramNoSink.begin() + 3}, {0.0, 1.0, 0.0}, 1e-6, 1e-30));
    }

    void sameBits() {
        LINNET_NEEDS_DEVICE();
        Case c({.lengths = {140}, .heads = 2});
        c.randomise(3);
        c.upload();
        const auto one = c.cuda(), two = c.cuda(), without = c.cuda(false);
        QVERIFY(!one.values.empty() && !one.output.empty());
        QVERIFY(one.values == two.values && one.histogram == two.histogram && one.histogramNoSink == two.histogramNoSink &&
                one.output == two.output);
        QVERIFY(one.values == without.values && one.histogram == without.histogram);
    }

    void notANumber() {
        LINNET_NEEDS_DEVICE();
        Case c({.lengths = {70}});
        c.randomise(3);
        c.k.at(10, 0, 3) = NAN;
        c.upload();
        const auto got = c.cuda();
        for (const std::size_t i : {0, 1, 2, 3, 4, 7})
            QVERIFY(std::isnan(got.values[i]));
    }

    void scoresBeyondFloat32() { // finite ones whose rounding alone is a weight of 2^1000, and infinite ones: the kernel comes back
        LINNET_NEEDS_DEVICE();
        for (const float large : {6e4F, 1e30F}) {
            Case c({.lengths = {70}});
            c.randomise(3);
            for (int d = 0; d < c.setup.headDim; ++d)
                c.q.at(60, 0, d) = c.k.at(5, 0, d) = large;
            c.upload();
            const auto got = c.cuda();
            if (large > 1e20F)
                QVERIFY(std::isnan(got.values[0]) && std::isnan(got.values[2]));
        }
    }

    void refuses() {
        Case c({.lengths = {8}});
        double out[64];
        AttentionStatisticsCudaParams good;
        c.describe(good, 1, 8);
        c.point(good, out, 1, c.bins);
        alignas(16) static char memory[16];
        good.q = good.k = good.v = good.workspace = memory;
        const auto refused = [&](const char* why, auto change) {
            auto p = good;
            change(p);
            const auto error = attentionStatisticsCuda(p);
            return error != nullptr && QByteArrayView(error).contains(why);
        };
        QVERIFY(refused("size", [](auto& p) { p.tokens = 0; }));
        QVERIFY(refused("kvHeads", [](auto& p) { p.kvHeads = 3; }));
        QVERIFY(refused("headDim", [](auto& p) { p.headDim = 60; }));
        QVERIFY(refused("headDim", [](auto& p) { p.headDim = 264; }));
        QVERIFY(refused("sinkKeys", [](auto& p) { p.sinkKeys = 17; }));
        QVERIFY(refused("scale", [](auto& p) { p.scale = NAN; }));
        QVERIFY(refused("binsPerOctave", [](auto& p) { p.binsPerOctave = 1; }));
        QVERIFY(refused("896", [](auto& p) { p.binsPerOctave = 1000; }));
        QVERIFY(refused("16 bytes", [](auto& p) { p.kTokenStride = 4; }));
        QVERIFY(refused("16 bytes", [](auto& p) { p.v = memory + 2; }));
        QVERIFY(refused("workspace", [](auto& p) { p.workspace = nullptr; }));
        QVERIFY(refused("every output", [](auto& p) { p.histogramNoSink = nullptr; }));
        const std::int32_t starts[] = {0, 8};
        QVERIFY(refused("maxTokens", [&](auto& p) { p.sequenceStarts = starts, p.sequences = 1; }));
        good.tokens = 0;
        QCOMPARE(attentionStatisticsCudaWorkspace(good), 0U);
    }
};

QTEST_APPLESS_MAIN(TestAttentionStatisticsCuda)
#include "tst_kernels_attention_cuda.moc"
