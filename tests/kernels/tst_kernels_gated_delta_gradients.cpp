// The gradients kernel of the gated delta rule against float64. The token recurrence and its backward, written down without chunks, give
// what the kernel reads (V', dX, S, dS', rounded) and what it must write; the chunk formulas on the rounded buffers bound it more tightly.
#include "kernels/gated_delta_rule/layout.h" // before anything of CUDA's

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
using Vector = std::vector<double>;

namespace {

constexpr double kLog2E = 1.4426950408889634;

struct Setup {
    int64_t dim = 64, heads = 1, kvHeads = 1, batch = 1, tokens = 64;
    DataType type = DataType::BFloat16;
    bool normalise = false, fused = false;  // fused: aLog, dtBias and the sigmoid of beta
    double decay = 0.1, beta = 1, size = 1; // log decay per token, size of beta, of q and k
    std::vector<int64_t> starts = {};       // variable length
};

struct Sequence {
    int64_t batch, token, count;
};

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

// |a - b| / |size|
double relativeError(const Vector& a, const Vector& b, const Vector& size) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += size[i] * size[i];
    }
    return std::sqrt(difference / norm);
}

struct Gradients {
    Vector q, k, g, beta, aLog, dtBias; // k per query head; of the effective q, k, g, beta until chainRule
    Vector aLogSize, dtBiasSize;        // sums of what may cancel, without signs
};

// Row-major [rows, columns] in float64.
struct Matrix {
    int64_t rows = 0, columns = 0;
    Vector x;
    Matrix() = default;
    Matrix(int64_t r, int64_t c) : rows(r), columns(c), x(static_cast<std::size_t>(r * c)) {}
    double& at(int64_t r, int64_t c) { return x[static_cast<std::size_t>(r * columns + c)]; }
    double at(int64_t r, int64_t c) const { return x[static_cast<std::size_t>(r * columns + c)]; }
    const double* row(int64_t r) const { return x.data() + r * columns; }
};

double dot(const double* a, const double* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i)
        sum += a[i] * b[i];
    return sum;
}

class Problem {
public:
    explicit Problem(const Setup& s) : m_setup(s), m_random(static_cast<unsigned>(s.dim + 7 * s.heads + s.tokens)) {
        makeInputs();
        makeChunks();
        m_token.q.resize(m_q.size()), m_token.k = m_token.q;
        m_token.g.resize(m_g.size()), m_token.beta = m_token.g;
        m_chunk = m_token;
        for (const auto& sequence : m_sequences)
            for (int64_t h = 0; h < s.heads; ++h)
                tokenRecurrence(sequence, h);
        for (int64_t chunk = 0; chunk < m_chunks; ++chunk)
            for (int64_t h = 0; h < s.heads; ++h)
                chunkFormulas(chunk, h);
        chainRule(m_token);
        chainRule(m_chunk);
    }

    void run() {
        const auto& s = m_setup;
        const int64_t group = s.heads / s.kvHeads, size = s.batch * s.tokens * s.heads;
        GatedDeltaRuleParams p;
        DeviceBuffer<std::uint16_t> q(m_qRows), k(m_kRows), dO(m_dORows), dq(static_cast<std::size_t>(size * s.dim)), dk(dq.size() / group),
            dv(dk.size());
        DeviceBuffer<std::uint16_t> dkPerHead(group > 1 ? dq.size() : 0), dvPerHead(dkPerHead.size());
        DeviceBuffer<float> g(m_g), beta(m_beta), aLog(m_aLog), dtBias(m_dtBias), dg(m_g.size()), dbeta(m_g.size()), dALog(m_aLog.size()),
            dDtBias(m_aLog.size());
        DeviceBuffer<float> gates(m_gates), partials(static_cast<std::size_t>(s.heads * m_chunks * 2));
        DeviceBuffer<unsigned char> written(m_written), dWrittenRhs(m_dWrittenRhs), states(m_states), dStates(m_dStates);
        DeviceBuffer<gdr::ChunkPlace> table(m_setup.starts.empty() ? std::vector<gdr::ChunkPlace>() : m_places);
        p.q = q.data(), p.k = k.data(), p.dO = dO.data();
        p.qStrides = p.doStrides = m_strides, p.kStrides = m_kStrides;
        p.g = g.data(), p.beta = beta.data(), p.aLog = aLog.data(), p.dtBias = dtBias.data();
        p.betaIsLogit = s.fused, p.normalise = s.normalise, p.scale = static_cast<float>(m_scale);
        p.dq = dq.data(), p.dk = dk.data(), p.dv = dv.data(), p.dg = dg.data(), p.dbeta = dbeta.data(), p.dALog = dALog.data(),
        p.dDtBias = dDtBias.data();
        p.batch = s.batch, p.tokens = s.tokens, p.heads = s.heads, p.kvHeads = s.kvHeads, p.headDim = s.dim, p.dataType = s.type;
        gdr::ChunkMap map;
        map.table = table.data();
        map.chunks = static_cast<int>(m_chunks), map.tokens = static_cast<int>(s.tokens),
        map.chunksPerSequence = static_cast<int>((s.tokens + 63) / 64);
        gdr::ChunkBuffers buffers;
        buffers.gates = gates.data(), buffers.written = written.data(), buffers.states = states.data();
        buffers.dWrittenRhs = dWrittenRhs.data(), buffers.dStates = dStates.data();
        gdr::GradientScratch scratch{dkPerHead.data(), dvPerHead.data(), partials.data()};
        Vector dvSum(dv.size());
        if (group > 1)
            dvPerHead.upload(m_dORows.size() == dq.size() ? m_dORows : std::vector<std::uint16_t>(dq.size(), rounded(0.5, s.type)));
        const char* error = gdr::launchGradients(p, map, buffers, scratch);
        QVERIFY2(!error, error);
        compare("dq", floats(dq.download()), m_token.q, m_chunk.q);
        compare("dk", floats(dk.download()), sumHeads(m_token.k), sumHeads(m_chunk.k));
        compare("dg", floats(dg.download()), m_token.g, m_chunk.g);
        compare("dbeta", floats(dbeta.download()), m_token.beta, m_chunk.beta);
        if (s.fused) {
            compare("dALog", floats(dALog.download()), m_token.aLog, m_chunk.aLog, m_token.aLogSize);
            compare("dDtBias", floats(dDtBias.download()), m_token.dtBias, m_chunk.dtBias, m_token.dtBiasSize);
        }
        if (group > 1)
            for (const double x : floats(dv.download()))
                QCOMPARE(x, 0.5 * static_cast<double>(group));
        const auto first = dq.download();
        const auto firstGates = dg.download();
        QVERIFY(!gdr::launchGradients(p, map, buffers, scratch));
        QVERIFY(first == dq.download() && firstGates == dg.download()); // the same bits
    }

private:
    Vector floats(const std::vector<float>& x) const { return {x.begin(), x.end()}; }
    Vector floats(const std::vector<std::uint16_t>& x) const {
        Vector y;
        for (const auto bits : x)
            y.push_back(valueOf(bits, m_setup.type));
        return y;
    }
    Vector sumHeads(const Vector& x) const {
        const int64_t group = m_setup.heads / m_setup.kvHeads, dim = m_setup.dim;
        Vector y(x.size() / static_cast<std::size_t>(group));
        for (std::size_t i = 0; i < x.size(); ++i) {
            const auto row = static_cast<int64_t>(i) / dim;
            y[static_cast<std::size_t>((row / group) * dim + static_cast<int64_t>(i) % dim)] += x[i];
        }
        return y;
    }
    // Against the recurrence: what rounded buffers cost. Against the formulas on these buffers: the kernel's own roundings.
    void compare(const char* name, const Vector& got, const Vector& token, const Vector& chunk, const Vector& size = {}) const {
        const bool half = m_setup.type == DataType::Float16;
        const double far = relativeError(got, token, size.empty() ? token : size),
                     near = relativeError(got, chunk, size.empty() ? token : size);
        qInfo("%-8s %.1e of the recurrence, %.1e of the chunk formulas", name, far, near);
        QVERIFY2(far < (half ? 2e-3 : 1.2e-2), name);
        QVERIFY2(near < (half ? 5e-4 : 4e-3), name);
    }

    std::size_t gateIndex(int64_t batch, int64_t token, int64_t head) const {
        return static_cast<std::size_t>((batch * m_setup.tokens + token) * m_setup.heads + head);
    }
    std::size_t tile(int64_t head, int64_t chunk) const { return static_cast<std::size_t>(head * m_chunks + chunk); }

    void makeInputs() {
        const auto& s = m_setup;
        std::normal_distribution<double> normal;
        std::uniform_real_distribution<double> uniform;
        // Rows as of a fused projection: a gap after each token, NaN.
        const auto rows = [&](TokenStrides& strides, int64_t heads, double size, Vector& values) {
            strides = {s.tokens * (heads * s.dim + 16), heads * s.dim + 16, s.dim};
            std::vector<std::uint16_t> x(static_cast<std::size_t>(s.batch * strides.batch), 0xffff);
            for (int64_t b = 0; b < s.batch; ++b)
                for (int64_t t = 0; t < s.tokens; ++t)
                    for (int64_t i = 0; i < heads * s.dim; ++i) {
                        auto& bits = x[static_cast<std::size_t>(b * strides.batch + t * strides.token + i)];
                        bits = rounded(size * normal(m_random), s.type);
                        values.push_back(valueOf(bits, s.type));
                    }
            return x;
        };
        const double size = s.normalise ? s.size : s.size / std::sqrt(static_cast<double>(s.dim));
        Vector v;
        m_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.dim)));
        m_qRows = rows(m_strides, s.heads, s.size, m_q);
        m_kRows = rows(m_kStrides, s.kvHeads, size, m_k);
        m_dORows = rows(m_strides, s.heads, 1, m_dO);
        TokenStrides unused;
        rows(unused, s.kvHeads, 1, m_v);
        for (int64_t h = 0; h < s.heads && s.fused; ++h) {
            m_aLog.push_back(static_cast<float>(0.3 * normal(m_random)));
            m_dtBias.push_back(static_cast<float>(0.3 * normal(m_random)));
        }
        for (int64_t i = 0; i < s.batch * s.tokens * s.heads; ++i) {
            const double decay = s.decay * (0.5 + uniform(m_random));
            if (!s.fused) {
                m_g.push_back(static_cast<float>(-decay));
                m_beta.push_back(static_cast<float>(s.beta * (0.2 + 0.8 * uniform(m_random))));
            } else {
                m_g.push_back(static_cast<float>(std::log(std::expm1(decay))));
                m_beta.push_back(static_cast<float>(2 * normal(m_random) + std::log(s.beta)));
            }
        }
        if (s.starts.empty())
            for (int64_t b = 0; b < s.batch; ++b)
                m_sequences.push_back({b, 0, s.tokens});
        for (std::size_t i = 1; i < s.starts.size(); ++i)
            m_sequences.push_back({0, s.starts[i - 1], s.starts[i] - s.starts[i - 1]});
    }

    void makeChunks() {
        for (int i = 0; i < static_cast<int>(m_sequences.size()); ++i) {
            const auto& sequence = m_sequences[static_cast<std::size_t>(i)];
            for (int64_t t = 0; t < sequence.count; t += 64)
                m_places.push_back({i, static_cast<int>(sequence.batch), static_cast<int>(sequence.token + t),
                                    static_cast<int>(std::min<int64_t>(64, sequence.count - t))});
        }
        if (!m_setup.starts.empty())
            m_places.push_back({-1, 0, 0, 0}); // the bound is one too large
        m_chunks = std::ssize(m_places);
        const std::size_t tiles = static_cast<std::size_t>(m_setup.heads * m_chunks),
                          n = static_cast<std::size_t>(gdr::paddedDim(static_cast<int>(m_setup.dim)) / 64);
        m_gates.assign(tiles * gdr::kGateFloats, 0.0F);
        m_written.assign(tiles * n * gdr::kTileBytes, 0);
        m_dWrittenRhs = m_written;
        m_states.assign(tiles * n * n * gdr::kTileBytes, 0);
        m_dStates = m_states;
    }

    // Of one token: what enters the rule.
    struct Token {
        Vector q, k, v, dO;
        double decay, beta, queryFactor, keyFactor;
    };
    Token token(int64_t b, int64_t t, int64_t h) const {
        const auto& s = m_setup;
        const auto rows = [&](const Vector& x, int64_t heads, int64_t head) {
            const auto first = x.begin() + ((b * s.tokens + t) * heads + head) * s.dim;
            return Vector(first, first + s.dim);
        };
        const int64_t kv = h / (s.heads / s.kvHeads);
        Token x{rows(m_q, s.heads, h), rows(m_k, s.kvHeads, kv), rows(m_v, s.kvHeads, kv), rows(m_dO, s.heads, h), 0, 0, m_scale, 1};
        if (s.normalise) {
            x.queryFactor /= std::sqrt(dot(x.q.data(), x.q.data(), s.dim) + GatedDeltaRuleParams().normEps);
            x.keyFactor /= std::sqrt(dot(x.k.data(), x.k.data(), s.dim) + GatedDeltaRuleParams().normEps);
        }
        for (auto& y : x.q)
            y *= x.queryFactor;
        for (auto& y : x.k)
            y *= x.keyFactor;
        const auto i = gateIndex(b, t, h);
        const auto head = static_cast<std::size_t>(h);
        x.decay = s.fused ? -std::exp(m_aLog[head]) * std::log1p(std::exp(static_cast<double>(m_g[i]) + m_dtBias[head])) : m_g[i];
        x.beta = std::max(s.fused ? sigmoid(m_beta[i]) : m_beta[i], 1e-12);
        return x;
    }

    void putState(std::vector<unsigned char>& images, int64_t head, int64_t chunk, const Matrix& state) const {
        const std::size_t n = static_cast<std::size_t>(gdr::paddedDim(static_cast<int>(m_setup.dim)) / 64);
        for (int64_t key = 0; key < m_setup.dim; ++key)
            for (int64_t value = 0; value < m_setup.dim; ++value) {
                const std::size_t image =
                    (tile(head, chunk) * n + static_cast<std::size_t>(value / 64)) * n + static_cast<std::size_t>(key / 64);
                put(images, image, value % 64, key % 64, state.at(key, value));
            }
    }
    void put(std::vector<unsigned char>& images, std::size_t image, int64_t row, int64_t column, double x) const {
        const auto bits = rounded(x, m_setup.type);
        std::memcpy(images.data() + image * gdr::kTileBytes + gdr::imageOffset(static_cast<int>(row), static_cast<int>(column)), &bits, 2);
    }
    double get(const std::vector<unsigned char>& images, std::size_t image, int64_t row, int64_t column) const {
        std::uint16_t bits;
        std::memcpy(&bits, images.data() + image * gdr::kTileBytes + gdr::imageOffset(static_cast<int>(row), static_cast<int>(column)), 2);
        return valueOf(bits, m_setup.type);
    }

    // The recurrence and its backward; U = exp(g) S before the token, u = v - U^T k. beta u is V', dS^T k is dX.
    void tokenRecurrence(const Sequence& sequence, int64_t h) {
        const int64_t D = m_setup.dim;
        const std::size_t n = static_cast<std::size_t>(gdr::paddedDim(static_cast<int>(D)) / 64);
        int64_t chunk = 0;
        while (m_places[static_cast<std::size_t>(chunk)].batch != sequence.batch ||
               m_places[static_cast<std::size_t>(chunk)].token != sequence.token)
            ++chunk;
        std::normal_distribution<double> normal;
        Matrix S(D, D), dS(D, D);
        for (auto& x : S.x)
            x = 0.3 * normal(m_random);
        for (auto& x : dS.x)
            x = 0.3 * normal(m_random);
        std::vector<Token> tokens;
        std::vector<Matrix> before, us;
        double G = 0;
        for (int64_t t = 0; t < sequence.count; ++t) {
            tokens.push_back(token(sequence.batch, sequence.token + t, h));
            const Token& x = tokens.back();
            before.push_back(S);
            if (t % 64 == 0)
                putState(m_states, h, chunk + t / 64, S), G = 0;
            G += x.decay * kLog2E;
            float* gates = m_gates.data() + tile(h, chunk + t / 64) * gdr::kGateFloats;
            for (int64_t i = t % 64; i < 64; ++i)
                gates[i] = static_cast<float>(G);
            gates[64 + t % 64] = static_cast<float>(x.beta);
            gates[128 + t % 64] = static_cast<float>(x.queryFactor);
            gates[192 + t % 64] = static_cast<float>(x.keyFactor);
            Matrix u(1, D);
            u.x = x.v;
            for (int64_t key = 0; key < D; ++key)
                for (int64_t value = 0; value < D; ++value)
                    u.x[value] -= std::exp(x.decay) * S.at(key, value) * x.k[key];
            for (int64_t key = 0; key < D; ++key)
                for (int64_t value = 0; value < D; ++value)
                    S.at(key, value) = std::exp(x.decay) * S.at(key, value) + x.beta * x.k[key] * u.x[value];
            us.push_back(u);
            for (int64_t value = 0; value < D; ++value)
                put(m_written, tile(h, chunk + t / 64) * n + static_cast<std::size_t>(value / 64), value % 64, t % 64, x.beta * u.x[value]);
        }
        for (int64_t t = sequence.count - 1; t >= 0; --t) {
            const Token& x = tokens[t];
            if (t % 64 == 63 || t == sequence.count - 1)
                putState(m_dStates, h, chunk + t / 64, dS);
            const Matrix& S0 = before[t];
            const Vector& u = us[t].x;
            const double decay = std::exp(x.decay);
            const auto at = gateIndex(sequence.batch, sequence.token + t, h);
            Vector dX(D);
            for (int64_t key = 0; key < D; ++key)
                for (int64_t value = 0; value < D; ++value) {
                    m_token.q[at * D + key] += (decay * S0.at(key, value) + x.beta * x.k[key] * u[value]) * x.dO[value];
                    dS.at(key, value) += x.q[key] * x.dO[value];
                    dX[value] += dS.at(key, value) * x.k[key];
                }
            for (int64_t value = 0; value < D; ++value)
                put(m_dWrittenRhs, tile(h, chunk + t / 64) * n + static_cast<std::size_t>(value / 64), value % 64, t % 64, dX[value]);
            m_token.beta[at] = dot(dX.data(), u.data(), D);
            for (int64_t key = 0; key < D; ++key)
                for (int64_t value = 0; value < D; ++value) {
                    const double U = decay * S0.at(key, value);
                    m_token.k[at * D + key] += x.beta * (dS.at(key, value) * u[value] - U * dX[value]);
                    const double dU = dS.at(key, value) - x.beta * x.k[key] * dX[value];
                    m_token.g[at] += dU * U;
                    dS.at(key, value) = decay * dU;
                }
        }
    }

    // gated_delta_rule.md on the rounded buffers.
    void chunkFormulas(int64_t chunk, int64_t h) {
        const auto& place = m_places[static_cast<std::size_t>(chunk)];
        const int64_t D = m_setup.dim, C = place.count;
        if (C == 0)
            return;
        const std::size_t n = static_cast<std::size_t>(gdr::paddedDim(static_cast<int>(D)) / 64), own = tile(h, chunk);
        std::vector<Token> x;
        Vector G;
        Matrix V(C, D), dX(C, D), S(D, D), dS(D, D), E(C, C), F(C, C), M(C, C), dOS(C, D), dXS(C, D), VdS(C, D);
        for (int64_t i = 0; i < C; ++i) {
            x.push_back(token(place.batch, place.token + i, h));
            G.push_back((i ? G.back() : 0) + x.back().decay);
            for (int64_t value = 0; value < D; ++value) {
                V.at(i, value) = get(m_written, own * n + static_cast<std::size_t>(value / 64), value % 64, i);
                dX.at(i, value) = get(m_dWrittenRhs, own * n + static_cast<std::size_t>(value / 64), value % 64, i);
            }
        }
        double stateDot = 0;
        for (int64_t key = 0; key < D; ++key)
            for (int64_t value = 0; value < D; ++value) {
                const std::size_t image = (own * n + static_cast<std::size_t>(value / 64)) * n + static_cast<std::size_t>(key / 64);
                S.at(key, value) = get(m_states, image, value % 64, key % 64);
                dS.at(key, value) = get(m_dStates, image, value % 64, key % 64);
                stateDot += S.at(key, value) * dS.at(key, value);
            }
        for (int64_t i = 0; i < C; ++i) {
            for (int64_t j = 0; j <= i; ++j) {
                E.at(i, j) = std::exp(G[i] - G[j]) * dot(x[i].dO.data(), V.row(j), D);
                F.at(i, j) = j < i ? -x[i].beta * std::exp(G[i] - G[j]) * dot(dX.row(i), V.row(j), D) : 0;
                M.at(i, j) =
                    j < i ? E.at(i, j) * dot(x[i].q.data(), x[j].k.data(), D) + F.at(i, j) * dot(x[i].k.data(), x[j].k.data(), D) : 0;
            }
            for (int64_t key = 0; key < D; ++key) {
                dOS.at(i, key) = dot(x[i].dO.data(), S.row(key), D);
                dXS.at(i, key) = dot(dX.row(i), S.row(key), D);
                VdS.at(i, key) = dot(V.row(i), dS.row(key), D);
            }
        }
        double keptSum = 0;
        Vector dG(C);
        for (int64_t i = 0; i < C; ++i) {
            const auto at = gateIndex(place.batch, place.token + i, h);
            const double fromStart = std::exp(G[i]), toEnd = std::exp(G[C - 1] - G[i]);
            for (int64_t key = 0; key < D; ++key) {
                double dq = fromStart * dOS.at(i, key), dk = toEnd * VdS.at(i, key) - fromStart * x[i].beta * dXS.at(i, key);
                for (int64_t j = 0; j < C; ++j) {
                    dq += E.at(i, j) * x[j].k[key];
                    dk += E.at(j, i) * x[j].q[key] + (F.at(i, j) + F.at(j, i)) * x[j].k[key];
                }
                m_chunk.q[at * D + key] = dq;
                m_chunk.k[at * D + key] = dk;
            }
            m_chunk.beta[at] = dot(dX.row(i), V.row(i), D) / x[i].beta;
            const double kept = toEnd * dot(x[i].k.data(), VdS.row(i), D);
            keptSum += kept;
            dG[i] = fromStart * (dot(x[i].q.data(), dOS.row(i), D) - x[i].beta * dot(x[i].k.data(), dXS.row(i), D)) - kept;
            for (int64_t j = 0; j < C; ++j)
                dG[i] += M.at(i, j) - M.at(j, i);
        }
        dG[C - 1] += keptSum + std::exp(G[C - 1]) * stateDot;
        double sum = 0;
        for (int64_t i = C - 1; i >= 0; --i)
            m_chunk.g[gateIndex(place.batch, place.token + i, h)] = sum += dG[i];
    }

    // From the effective q, k, g, beta to those given.
    void chainRule(Gradients& d) const {
        const auto& s = m_setup;
        const int64_t D = s.dim;
        d.aLog.assign(m_aLog.size(), 0);
        d.dtBias = d.aLogSize = d.dtBiasSize = d.aLog;
        for (int64_t b = 0; b < s.batch; ++b)
            for (int64_t t = 0; t < s.tokens; ++t)
                for (int64_t h = 0; h < s.heads; ++h) {
                    const auto at = gateIndex(b, t, h);
                    const Token x = token(b, t, h);
                    const auto through = [&](double* gradient, const Vector& effective, double scale,
                                             double factor) { // effective = factor raw
                        const double projection = s.normalise ? dot(gradient, effective.data(), D) / (scale * scale) : 0;
                        for (int64_t i = 0; i < D; ++i)
                            gradient[i] = factor * (gradient[i] - projection * effective[static_cast<std::size_t>(i)]);
                    };
                    through(d.q.data() + at * D, x.q, m_scale, x.queryFactor);
                    through(d.k.data() + at * D, x.k, 1, x.keyFactor);
                    if (!s.fused)
                        continue;
                    const auto head = static_cast<std::size_t>(h);
                    d.beta[at] *= x.beta * (1 - x.beta);
                    d.aLog[head] += d.g[at] * x.decay;
                    d.aLogSize[head] += std::fabs(d.g[at] * x.decay);
                    d.g[at] *= -std::exp(m_aLog[head]) * sigmoid(static_cast<double>(m_g[at]) + m_dtBias[head]);
                    d.dtBias[head] += d.g[at];
                    d.dtBiasSize[head] += std::fabs(d.g[at]);
                }
    }

    Setup m_setup;
    std::mt19937 m_random;
    double m_scale = 1;
    Vector m_q, m_k, m_v, m_dO; // [B, T, heads, D]
    std::vector<std::uint16_t> m_qRows, m_kRows, m_dORows;
    TokenStrides m_strides, m_kStrides;
    std::vector<float> m_g, m_beta, m_aLog, m_dtBias, m_gates;
    std::vector<Sequence> m_sequences;
    std::vector<gdr::ChunkPlace> m_places;
    int64_t m_chunks = 0;
    std::vector<unsigned char> m_written, m_dWrittenRhs, m_states, m_dStates;
    Gradients m_token, m_chunk;
};

} // namespace

class TestGatedDeltaGradients : public QObject {
    Q_OBJECT
private slots:
    void gradients_data() {
        QTest::addColumn<Setup>("setup");
        const auto bf16 = DataType::BFloat16, half = DataType::Float16;
        QTest::newRow("64, one whole chunk") << Setup{};
        QTest::newRow("64, two chunks, batch 2") << Setup{.dim = 64, .batch = 2, .tokens = 100};
        QTest::newRow("64, normalised, fused") << Setup{
            .dim = 64, .heads = 2, .kvHeads = 2, .tokens = 90, .normalise = true, .fused = true, .size = 3};
        QTest::newRow("64, float16") << Setup{.dim = 64, .tokens = 70, .type = half, .normalise = true, .fused = true};
        QTest::newRow("64, three query heads per key head")
            << Setup{.dim = 64, .heads = 6, .kvHeads = 2, .tokens = 30, .type = bf16, .normalise = true};
        QTest::newRow("64, decay 0.5") << Setup{.dim = 64, .tokens = 128, .decay = 0.5};
        QTest::newRow("64, decay 5") << Setup{.dim = 64, .tokens = 128, .decay = 5};
        QTest::newRow("64, decay 5, float16") << Setup{.dim = 64, .tokens = 64, .type = half, .normalise = true, .decay = 5};
        QTest::newRow("64, decay 20, fused") << Setup{.dim = 64, .tokens = 64, .fused = true, .decay = 20};
        QTest::newRow("64, beta 1e-9") << Setup{.dim = 64, .tokens = 64, .beta = 1e-9};
        QTest::newRow("64, beta 1e-20, raised to 1e-12") << Setup{.dim = 64, .tokens = 40, .beta = 1e-20};
        QTest::newRow("64, one token") << Setup{.dim = 64, .tokens = 1, .normalise = true};
        QTest::newRow("64, variable length") << Setup{
            .dim = 64, .heads = 2, .kvHeads = 1, .tokens = 100, .fused = true, .starts = {0, 70, 71, 100}};
        QTest::newRow("96") << Setup{.dim = 96, .tokens = 64, .normalise = true, .fused = true};
        QTest::newRow("96, float16, three query heads per key head")
            << Setup{.dim = 96, .heads = 3, .kvHeads = 1, .tokens = 50, .type = half};
        QTest::newRow("128") << Setup{.dim = 128, .tokens = 100, .normalise = true};
        QTest::newRow("128, float16, fused") << Setup{
            .dim = 128, .heads = 2, .kvHeads = 1, .tokens = 64, .type = half, .normalise = true, .fused = true};
        QTest::newRow("128, decay 0.5") << Setup{.dim = 128, .tokens = 64, .decay = 0.5};
        QTest::newRow("256") << Setup{.dim = 256, .tokens = 64, .normalise = true, .fused = true};
        QTest::newRow("256, float16, two chunks") << Setup{.dim = 256, .tokens = 80, .type = half};
    }
    void gradients() {
        LINNET_NEEDS_DEVICE();
        QFETCH(Setup, setup);
        Problem(setup).run();
    }
};

QTEST_GUILESS_MAIN(TestGatedDeltaGradients)
#include "tst_kernels_gated_delta_gradients.moc"
