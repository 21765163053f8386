// Gated delta rule: what prepare.cu hands to the scan against plain float64 formulas, and the decoding step against the CPU twin.
#include "kernels/gated_delta_rule/layout.h" // before anything of CUDA's

#include "linnet/kernels/gated_delta_rule_cpu.h"
#include "tests/kernels/device_memory.h"
#include "tests/kernels/sixteen_bits.h"

#include <QtTest>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace linnet::kernels;
using linnet::tests::DeviceBuffer;
using linnet::tests::rounded;
using linnet::tests::valueOf;
using std::int64_t;

namespace {

constexpr double kLog2E = 1.4426950408889634;

double unitRoundoff(DataType type) { return type == DataType::BFloat16 ? 0x1p-8 : 0x1p-11; }

// Inputs in [batch, token, head] order with a gap after each token; the gap and what follows the last token are NaN.
struct Inputs {
    std::vector<std::uint16_t> q, k, v;
    std::vector<float> g, beta, aLog, dtBias;
    GatedDeltaRuleParams p;

    Inputs(int64_t batch, int64_t tokens, int64_t heads, int64_t kvHeads, int64_t dim, DataType type, unsigned seed) {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
        const auto fill = [&](std::vector<std::uint16_t>& x, int64_t h, TokenStrides& s) {
            s.head = dim;
            s.token = h * dim + 8;
            s.batch = tokens * s.token;
            x.assign(batch * s.batch + 64 * s.token, 0x7fff);
            for (int64_t t = 0; t < batch * tokens; ++t)
                for (int64_t i = 0; i < h * dim; ++i)
                    x[t * s.token + i] = rounded(normal(random) / std::sqrt(static_cast<float>(dim)), type);
        };
        fill(q, heads, p.qStrides);
        fill(k, kvHeads, p.kStrides);
        fill(v, kvHeads, p.vStrides);
        g.resize(batch * tokens * heads);
        beta.resize(g.size());
        for (auto& x : g)
            x = -0.3F * uniform(random);
        for (auto& x : beta)
            x = uniform(random);
        for (int64_t h = 0; h < heads; ++h) {
            aLog.push_back(normal(random));
            dtBias.push_back(normal(random) - 2);
        }
        p.batch = batch;
        p.tokens = tokens;
        p.heads = heads;
        p.kvHeads = kvHeads;
        p.headDim = dim;
        p.dataType = type;
        p.scale = 1 / std::sqrt(static_cast<float>(dim));
    }
    double at(const std::vector<std::uint16_t>& x, const TokenStrides& s, int64_t b, int64_t t, int64_t h, int64_t i) const {
        return valueOf(x[b * s.batch + t * s.token + h * s.head + i], p.dataType);
    }
};

struct Expected {
    double T[64][64] = {}, P[64][64] = {}, gates[4][64] = {};
};

Expected expected(const Inputs& in, bool fused, const gdr::ChunkPlace& place, int64_t head) {
    const auto& p = in.p;
    Expected e;
    std::vector<std::vector<double>> q(64, std::vector<double>(p.headDim, 0.0)), k = q;
    double sum = 0;
    for (int64_t i = 0; i < 64; ++i) {
        if (i < place.count) {
            double qq = 0, kk = 0;
            for (int64_t d = 0; d < p.headDim; ++d) {
                q[i][d] = in.at(in.q, p.qStrides, place.batch, place.token + i, head, d);
                k[i][d] = in.at(in.k, p.kStrides, place.batch, place.token + i, head / (p.heads / p.kvHeads), d);
                qq += q[i][d] * q[i][d], kk += k[i][d] * k[i][d];
            }
            e.gates[2][i] = p.normalise ? p.scale / std::sqrt(qq + p.normEps) : p.scale;
            e.gates[3][i] = p.normalise ? 1 / std::sqrt(kk + p.normEps) : 1.0;
            const auto at = static_cast<std::size_t>((place.batch * p.tokens + place.token + i) * p.heads + head);
            const double x = in.g[at];
            sum += std::max(-160.0, kLog2E * (fused ? -std::exp(in.aLog[head]) * std::log1p(std::exp(x + in.dtBias[head])) : x));
            e.gates[1][i] = std::max(p.dataType == DataType::Float16 ? 0x1p-14 : 1e-12, p.betaIsLogit ? 1 / (1 + std::exp(-static_cast<double>(in.beta[at]))) : in.beta[at]);
        }
        e.gates[0][i] = sum;
    }
    for (int i = 0; i < 64; ++i) {
        double a[64] = {};
        for (int j = 0; j <= i; ++j) {
            double qk = 0, kk = 0;
            for (int64_t d = 0; d < p.headDim; ++d)
                qk += q[i][d] * k[j][d], kk += k[i][d] * k[j][d];
            const double decay = std::exp2(e.gates[0][i] - e.gates[0][j]);
            e.P[i][j] = qk * e.gates[2][i] * e.gates[3][j] * decay;
            a[j] = e.gates[1][i] * kk * e.gates[3][i] * e.gates[3][j] * decay;
        }
        e.T[i][i] = 1;
        for (int m = 0; m < i; ++m)
            for (int j = 0; j <= m; ++j)
                e.T[i][j] -= a[m] * e.T[m][j];
    }
    return e;
}

// Largest error of a tile image in units of the bound: rounding to T, and 2e-5 of the tile's largest entry.
double tileError(const unsigned char* image, const double (&want)[64][64], DataType type) {
    double largest = 0, worst = 0;
    for (const auto& row : want)
        for (const double x : row)
            largest = std::max(largest, std::fabs(x));
    for (int i = 0; i < 64; ++i)
        for (int j = 0; j < 64; ++j) {
            std::uint16_t bits;
            std::memcpy(&bits, image + gdr::imageOffset(i, j), 2);
            const double bound = unitRoundoff(type) * std::fabs(want[i][j]) + 2e-5 * largest + 1e-12;
            const double error = std::fabs(valueOf(bits, type) - want[i][j]) / bound;
            worst = error <= worst ? worst : error; // a NaN stays
            if (j > i && (bits & 0x7fff) != 0)
                return INFINITY;
        }
    return worst;
}

double gatesError(const float* gates, const double (&want)[4][64]) {
    double worst = 0;
    for (int kind = 0; kind < 4; ++kind)
        for (int i = 0; i < 64; ++i) {
            const double error = std::fabs(gates[64 * kind + i] - want[kind][i]) / (4e-6 * std::fabs(want[kind][i]) + 1e-18);
            worst = error <= worst ? worst : error;
        }
    return worst;
}

} // namespace

class TestGatedDeltaPrepare : public QObject {
    Q_OBJECT

private:
    // Runs prepare over all chunks of `places` (empty: fixed length) and holds everything against the formulas.
    void runPrepare(Inputs& in, bool fused, std::vector<gdr::ChunkPlace> places = {}) {
        auto& p = in.p;
        DeviceBuffer<std::uint16_t> q(in.q), k(in.k);
        DeviceBuffer<float> g(in.g), beta(in.beta), aLog(in.aLog), dtBias(in.dtBias);
        p.q = q.data(), p.k = k.data(), p.g = g.data(), p.beta = beta.data();
        p.aLog = fused ? aLog.data() : nullptr, p.dtBias = fused ? dtBias.data() : nullptr;
        gdr::ChunkMap map;
        map.tokens = static_cast<int>(p.tokens);
        map.chunksPerSequence = static_cast<int>((p.tokens + 63) / 64);
        map.chunks = static_cast<int>(p.batch) * map.chunksPerSequence;
        const bool variable = !places.empty();
        for (int c = 0; !variable && c < map.chunks; ++c)
            places.push_back(map.place(c));
        DeviceBuffer<gdr::ChunkPlace> table(places);
        map.chunks = static_cast<int>(places.size());
        map.table = variable ? table.data() : nullptr;
        const std::size_t tiles = places.size() * p.heads;
        DeviceBuffer<unsigned char> solveAttention(tiles * 2 * gdr::kTileBytes);
        DeviceBuffer<float> gates(tiles * gdr::kGateFloats);
        gdr::ChunkBuffers buffers;
        buffers.solveAttention = solveAttention.data();
        buffers.gates = gates.data();
        const char* error = gdr::launchPrepare(p, map, buffers);
        QVERIFY2(error == nullptr, error);
        const auto images = solveAttention.download();
        const auto factors = gates.download();
        for (int64_t head = 0; head < p.heads; ++head)
            for (std::size_t c = 0; c < places.size(); ++c) {
                if (places[c].count == 0)
                    continue;
                const auto e = expected(in, fused, places[c], head);
                const std::size_t tile = static_cast<std::size_t>(head) * places.size() + c;
                const unsigned char* image = images.data() + tile * 2 * gdr::kTileBytes;
                const double t = tileError(image, e.T, p.dataType), a = tileError(image + gdr::kTileBytes, e.P, p.dataType);
                const double s = gatesError(factors.data() + tile * gdr::kGateFloats, e.gates);
                m_worst = std::max({m_worst, t, a, s});
                QVERIFY2(t <= 1 && a <= 1 && s <= 1,
                         qPrintable(QString("head %1 chunk %2: T %3 P %4 gates %5 of the bound").arg(head).arg(c).arg(t).arg(a).arg(s)));
            }
    }
    double m_worst = 0;

private slots:
    void prepare_data() {
        QTest::addColumn<int>("dim");
        QTest::addColumn<int>("tokens");
        QTest::addColumn<bool>("normalise");
        QTest::addColumn<bool>("fused");
        QTest::addColumn<int>("type");
        unsigned mix = 0;
        for (const int dim : {64, 96, 128, 256})
            for (const int tokens : {1, 15, 16, 17, 63, 64, 65, 130})
                for (const auto type : {DataType::BFloat16, DataType::Float16}) {
                    mix = mix * 5 + 3;
                    QTest::addRow("%s %d x %d", type == DataType::BFloat16 ? "bf16" : "fp16", tokens, dim)
                        << dim << tokens << (mix / 4 % 2 == 0) << (mix / 8 % 2 == 0) << static_cast<int>(type);
                }
    }
    void prepare() {
        LINNET_NEEDS_DEVICE();
        QFETCH(int, dim);
        QFETCH(int, tokens);
        QFETCH(bool, normalise);
        QFETCH(bool, fused);
        QFETCH(int, type);
        Inputs in(dim <= 96 ? 2 : 1, tokens, 4, 2, dim, static_cast<DataType>(type), static_cast<unsigned>(dim + tokens));
        in.p.normalise = normalise;
        in.p.betaIsLogit = fused;
        runPrepare(in, fused);
    }
    void everyCount() {
        LINNET_NEEDS_DEVICE();
        for (int tokens = 1; tokens <= 64; ++tokens) {
            Inputs in(1, tokens, 1, 1, 64, DataType::Float16, static_cast<unsigned>(tokens));
            in.p.normalise = true;
            runPrepare(in, false);
        }
    }
    void variableLengths() {
        LINNET_NEEDS_DEVICE();
        Inputs in(1, 150, 2, 1, 128, DataType::BFloat16, 3);
        in.p.normalise = true;
        runPrepare(in, true, {{0, 0, 0, 5}, {1, 0, 5, 64}, {1, 0, 69, 64}, {1, 0, 133, 1}, {3, 0, 134, 16}, {3, 0, 0, 0}});
    }
    void strongDecay_data() {
        QTest::addColumn<float>("decay");
        for (const float decay : {0.0F, -1.0F, -30.0F, -1e4F, -INFINITY})
            QTest::addRow("%g", static_cast<double>(decay)) << decay;
    }
    void strongDecay() {
        LINNET_NEEDS_DEVICE();
        QFETCH(float, decay);
        for (const auto type : {DataType::BFloat16, DataType::Float16}) {
            Inputs in(1, 64, 1, 1, 128, type, 11);
            in.p.normalise = true;
            std::fill(in.g.begin(), in.g.end(), decay);
            runPrepare(in, false);
            for (std::size_t i = 0; i < in.g.size(); ++i) // some tokens only
                in.g[i] = i % 5 == 2 ? decay : -0.01F;
            runPrepare(in, false);
        }
    }
    void equalKeys() {
        LINNET_NEEDS_DEVICE();
        for (const auto type : {DataType::BFloat16, DataType::Float16})
            for (const float noise : {0.0F, 0.02F}) {
                Inputs in(1, 64, 1, 1, 128, type, 5);
                in.p.normalise = true;
                std::mt19937 random(9);
                std::normal_distribution<float> normal;
                for (int64_t t = 0; t < 64; ++t)
                    for (int64_t i = 0; i < 128; ++i)
                        in.k[t * in.p.kStrides.token + i] =
                            rounded(static_cast<float>(valueOf(in.k[i], type)) * (1 + noise * normal(random)), type);
                std::fill(in.g.begin(), in.g.end(), 0.0F);
                std::fill(in.beta.begin(), in.beta.end(), 1.0F);
                runPrepare(in, false);
            }
    }
    void worst() { qInfo("largest error: %.3f of the bound", m_worst); }

    void step_data() {
        QTest::addColumn<int>("dim");
        QTest::addColumn<int>("batch");
        QTest::addColumn<int>("type");
        for (const int dim : {64, 96, 128, 256})
            for (const int batch : {1, 3, 34}) // 34 x 4 heads: wide slices
                for (const auto type : {DataType::BFloat16, DataType::Float16})
                    QTest::addRow("%s %d x %d", type == DataType::BFloat16 ? "bf16" : "fp16", batch, dim)
                        << dim << batch << static_cast<int>(type);
    }
    void step() {
        LINNET_NEEDS_DEVICE();
        QFETCH(int, dim);
        QFETCH(int, batch);
        QFETCH(int, type);
        const auto dataType = static_cast<DataType>(type);
        Inputs in(batch, 1, 4, 2, dim, dataType, static_cast<unsigned>(dim + batch));
        const bool fused = batch != 3, withState = dim != 96 || batch != 3;
        auto p = in.p;
        p.normalise = p.betaIsLogit = fused;
        p.oStrides = {4 * dim + 16, 0, dim};
        std::vector<float> state(static_cast<std::size_t>(batch) * 4 * dim * dim), wantState(state.size(), NAN);
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        for (auto& x : state)
            x = normal(random);
        std::vector<std::uint16_t> wantO(batch * p.oStrides.batch, 0x7fff);

        auto host = p;
        host.q = in.q.data(), host.k = in.k.data(), host.v = in.v.data(), host.g = in.g.data(), host.beta = in.beta.data();
        host.aLog = fused ? in.aLog.data() : nullptr, host.dtBias = fused ? in.dtBias.data() : nullptr;
        host.initialState = withState ? state.data() : nullptr, host.finalState = wantState.data(), host.o = wantO.data();
        QVERIFY(gatedDeltaRuleStepCpu(host) == nullptr);

        DeviceBuffer<std::uint16_t> q(in.q), k(in.k), v(in.v), o(wantO.size());
        DeviceBuffer<float> g(in.g), beta(in.beta), aLog(in.aLog), dtBias(in.dtBias), deviceState(state);
        p.q = q.data(), p.k = k.data(), p.v = v.data(), p.g = g.data(), p.beta = beta.data(), p.o = o.data();
        p.aLog = fused ? aLog.data() : nullptr, p.dtBias = fused ? dtBias.data() : nullptr;
        p.initialState = withState ? deviceState.data() : nullptr, p.finalState = deviceState.data(); // in place
        const char* refused = gatedDeltaRuleStep(p);
        QVERIFY2(refused == nullptr, refused);
        const auto gotO = o.download();
        const auto gotState = deviceState.download();
        double worst = 0, largest = 0, worstO = 0;
        for (std::size_t i = 0; i < gotState.size(); ++i) {
            const double error = std::fabs(static_cast<double>(gotState[i]) - wantState[i]) / (2e-6 * (1 + std::fabs(wantState[i])));
            worst = error <= worst ? worst : error;
        }
        for (int64_t i = 0; i < std::ssize(gotO); ++i)
            if (i % p.oStrides.batch < 4 * dim)
                largest = std::max(largest, std::fabs(valueOf(wantO[i], dataType)));
        for (int64_t i = 0; i < std::ssize(gotO); ++i) {
            if (i % p.oStrides.batch >= 4 * dim)
                continue; // the gap
            const double want = valueOf(wantO[i], dataType);
            const double bound = 2 * unitRoundoff(dataType) * std::fabs(want) + 1e-6 * largest;
            const double error = std::fabs(valueOf(gotO[i], dataType) - want) / bound;
            worstO = error <= worstO ? worstO : error;
        }
        QVERIFY2(worst <= 1 && worstO <= 1, qPrintable(QString("state %1, o %2 of the bound").arg(worst).arg(worstO)));
    }
    void stepRefuses() {
        Inputs in(2, 1, 4, 2, 64, DataType::BFloat16, 1);
        QVERIFY(gatedDeltaRuleStep(in.p) != nullptr); // no o, no finalState
        in.p.headDim = 80;
        QVERIFY(QString(gatedDeltaRuleStep(in.p)).contains("96"));
        in.p.headDim = 64, in.p.kvHeads = 3;
        QVERIFY(QString(gatedDeltaRuleStep(in.p)).contains("kvHeads"));
    }
};

QTEST_GUILESS_MAIN(TestGatedDeltaPrepare)
#include "tst_kernels_gated_delta_prepare.moc"
