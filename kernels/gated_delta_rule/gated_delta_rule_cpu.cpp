// Token recurrence and its exact gradient. With a = exp(g), per head and token:
//     p = a S^T k      u = beta (v - p)      S' = a S + k u^T      o = scale S'^T q
// Backward, dS' = gradient of S' including scale q dO^T:
//     dq = scale S' dO      du = dS'^T k      dv = beta du      dbeta = du.(v - p)      w = dS' - k (beta du)^T  (gradient of a S)
//     dk = dS' u - a S (beta du)      dg = <w, a S>      dS = a w
// A row of S is a key, so every inner loop runs over the contiguous values. One task is one key head of one sequence with its query
// heads in order, so that dk and dv are summed in a fixed order; tasks share nothing.
// States for backward: one kept every sqrt(tokens) tokens, those between computed again, one stretch at a time.
#include "linnet/kernels/gated_delta_rule_cpu.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace linnet::kernels {
namespace {

using std::int64_t;

float halfToFloat(std::uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
        : exponent == 0               ? std::ldexp(static_cast<float>(mantissa), -24)
                                      : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
    return bits & 0x8000 ? -size : size;
}

// Nearest, ties to even, straight from float64: no second rounding.
std::uint16_t halfFromDouble(double x) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
    if (std::isnan(x))
        return 0x7e00;
    const double size = std::fabs(x);
    if (size >= 65520.0)
        return sign | 0x7c00;
    const int exponent = std::max(size > 0 ? std::ilogb(size) : -15, -14);
    // In units of the last place; 2048 of them are the next exponent's first, which the sum below carries into.
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
    return static_cast<std::uint16_t>(sign | (units + ((exponent + 14) << 10)));
}

std::uint16_t bfloatFromDouble(double x) {
    if (std::isnan(x))
        return 0x7fc0;
    if (x == 0.0 || std::isinf(x)) {
        const auto narrow = static_cast<float>(x);
        std::uint32_t bits;
        std::memcpy(&bits, &narrow, 4);
        return static_cast<std::uint16_t>(bits >> 16);
    }
    const int shift = 7 - std::max(std::ilogb(x), -126);
    const auto rounded = static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(x, shift)), -shift)); // too large: infinity
    std::uint32_t bits;
    std::memcpy(&bits, &rounded, 4);
    return static_cast<std::uint16_t>(bits >> 16);
}

double load(const void* base, int64_t at, DataType type) {
    if (type == DataType::Float32)
        return static_cast<const float*>(base)[at];
    const std::uint16_t bits = static_cast<const std::uint16_t*>(base)[at];
    if (type == DataType::Float16)
        return halfToFloat(bits);
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &wide, 4);
    return x;
}

void store(void* base, int64_t at, DataType type, double x) {
    if (type == DataType::Float32)
        static_cast<float*>(base)[at] = static_cast<float>(x);
    else
        static_cast<std::uint16_t*>(base)[at] = type == DataType::Float16 ? halfFromDouble(x) : bfloatFromDouble(x);
}

// Tokens of one sequence: `count` of them from token `first` of row `batch`; `index` numbers its states.
struct Sequence {
    int64_t index, batch, first, count;
};

std::vector<Sequence> sequencesOf(const GatedDeltaRuleParams& p) {
    std::vector<Sequence> all;
    if (p.sequences > 0)
        for (int64_t n = 0; n < p.sequences; ++n)
            all.push_back({n, 0, p.sequenceStarts[n], p.sequenceStarts[n + 1] - p.sequenceStarts[n]});
    else
        for (int64_t b = 0; b < p.batch; ++b)
            all.push_back({b, b, 0, p.tokens});
    return all;
}

// One token's inputs as the recurrence sees them, with what their gradients need.
template <class Work> struct Token {
    std::vector<Work> q, k, v, u; // u: what is written, beta (v - p)
    Work qNorm = 1, kNorm = 1, beta = 0, logDecay = 0, decay = 1, decaySlope = 1; // norms: factors; slope: d logDecay / d g_in
    explicit Token(int64_t dim) : q(dim), k(dim), v(dim), u(dim) {}
};

template <class Work> class Recurrence {
public:
    Recurrence(const GatedDeltaRuleParams& params, const Sequence& sequence, int64_t head)
        : p(params), m_sequence(sequence), m_head(head), m_keyHead(head / (params.heads / params.kvHeads)), m_dim(params.headDim) {}

    // Offset of [token][head] in a contiguous [B, T, heads] tensor.
    int64_t place(int64_t t, int64_t heads, int64_t head) const {
        return (m_sequence.batch * p.tokens + m_sequence.first + t) * heads + head;
    }
    int64_t stateOffset() const { return (m_sequence.index * p.heads + m_head) * m_dim * m_dim; }
    int64_t strided(const TokenStrides& s, int64_t t, int64_t head) const {
        return m_sequence.batch * s.batch + (m_sequence.first + t) * s.token + head * s.head;
    }

    void read(Token<Work>& x, int64_t t) const {
        readRow(x.q, x.qNorm, p.q, strided(p.qStrides, t, m_head));
        readRow(x.k, x.kNorm, p.k, strided(p.kStrides, t, m_keyHead));
        const int64_t v = strided(p.vStrides, t, m_keyHead), gate = place(t, p.heads, m_head);
        for (int64_t i = 0; i < m_dim; ++i)
            x.v[i] = static_cast<Work>(load(p.v, v + i, p.dataType));
        x.logDecay = p.g[gate];
        x.decaySlope = 1;
        if (p.aLog) {
            const Work raw = x.logDecay + (p.dtBias ? p.dtBias[m_head] : 0.0F), rate = -std::exp(static_cast<Work>(p.aLog[m_head]));
            x.logDecay = rate * (raw > 0 ? raw + std::log1p(std::exp(-raw)) : std::log1p(std::exp(raw))); // softplus
            x.decaySlope = rate / (1 + std::exp(-raw));
        }
        x.decay = std::exp(x.logDecay);
        x.beta = p.beta[gate];
        if (p.betaIsLogit)
            x.beta = 1 / (1 + std::exp(-x.beta));
    }

    // S -> S', fills x.u.
    void advance(std::vector<Work>& state, Token<Work>& x) const {
        for (Work& s : state)
            s *= x.decay;
        std::fill(x.u.begin(), x.u.end(), Work(0));
        for (int64_t i = 0; i < m_dim; ++i)
            for (int64_t j = 0; j < m_dim; ++j)
                x.u[j] += x.k[i] * state[i * m_dim + j];
        for (int64_t j = 0; j < m_dim; ++j)
            x.u[j] = x.beta * (x.v[j] - x.u[j]);
        for (int64_t i = 0; i < m_dim; ++i)
            for (int64_t j = 0; j < m_dim; ++j)
                state[i * m_dim + j] += x.k[i] * x.u[j];
    }

    std::vector<Work> initialState() const {
        std::vector<Work> state(m_dim * m_dim, Work(0));
        if (p.initialState)
            std::copy_n(p.initialState + stateOffset(), m_dim * m_dim, state.begin());
        return state;
    }

    void forward() const {
        std::vector<Work> state = initialState(), o(m_dim);
        Token<Work> x(m_dim);
        for (int64_t t = 0; t < m_sequence.count; ++t) {
            read(x, t);
            advance(state, x);
            std::fill(o.begin(), o.end(), Work(0));
            for (int64_t i = 0; i < m_dim; ++i)
                for (int64_t j = 0; j < m_dim; ++j)
                    o[j] += x.q[i] * state[i * m_dim + j];
            const int64_t at = strided(p.oStrides, t, m_head);
            for (int64_t j = 0; j < m_dim; ++j)
                store(p.o, at + j, p.dataType, p.scale * o[j]);
        }
        if (p.finalState)
            for (int64_t i = 0; i < m_dim * m_dim; ++i)
                p.finalState[stateOffset() + i] = static_cast<float>(state[i]);
    }

    // Adds to dK and dV [count, dim] of the key head; gateSums: dALog and dDtBias of this sequence and head.
    void backward(std::vector<Work>& dK, std::vector<Work>& dV, std::array<double, 2>& gateSums) const {
        const int64_t count = m_sequence.count, stretch = std::max<int64_t>(1, std::llround(std::sqrt(static_cast<double>(count))));
        std::vector<std::vector<Work>> kept; // the state before every stretch
        std::vector<Work> state = initialState(), gradient(m_dim * m_dim, Work(0));
        Token<Work> x(m_dim);
        for (int64_t t = 0; t < count; ++t) {
            if (t % stretch == 0)
                kept.push_back(state);
            read(x, t);
            advance(state, x);
        }
        if (p.dFinalState)
            std::copy_n(p.dFinalState + stateOffset(), m_dim * m_dim, gradient.begin());
        Work dALog = 0, dDtBias = 0;
        std::vector<std::vector<Work>> before; // the states before the tokens of this stretch, then the one after the last
        for (int64_t first = (std::ssize(kept) - 1) * stretch; first >= 0; first -= stretch) {
            const int64_t end = std::min(first + stretch, count);
            before.assign(1, std::move(kept[first / stretch]));
            for (int64_t t = first; t < end; ++t) {
                read(x, t);
                before.push_back(before.back());
                advance(before.back(), x);
            }
            for (int64_t t = end - 1; t >= first; --t)
                backwardToken(t, before[t - first], before[t - first + 1], gradient, dK, dV, dALog, dDtBias);
        }
        if (p.dInitialState)
            for (int64_t i = 0; i < m_dim * m_dim; ++i)
                p.dInitialState[stateOffset() + i] = static_cast<float>(gradient[i]);
        gateSums[0] = static_cast<double>(dALog);
        gateSums[1] = static_cast<double>(dDtBias);
    }

private:
    void readRow(std::vector<Work>& row, Work& factor, const void* base, int64_t at) const {
        Work square = 0;
        for (int64_t i = 0; i < m_dim; ++i) {
            row[i] = static_cast<Work>(load(base, at + i, p.dataType));
            square += row[i] * row[i];
        }
        factor = p.normalise ? 1 / std::sqrt(square + static_cast<Work>(p.normEps)) : Work(1);
        for (Work& y : row)
            y *= factor;
    }

    // Gradient of a row before it was multiplied by its factor, from that after: d - y (y.d), times the factor.
    void throughNorm(std::vector<Work>& d, const std::vector<Work>& y, Work factor) const {
        if (!p.normalise)
            return;
        Work along = 0;
        for (int64_t i = 0; i < m_dim; ++i)
            along += y[i] * d[i];
        for (int64_t i = 0; i < m_dim; ++i)
            d[i] = factor * (d[i] - y[i] * along);
    }

    void backwardToken(int64_t t, const std::vector<Work>& before, const std::vector<Work>& after, std::vector<Work>& gradient,
                       std::vector<Work>& dK, std::vector<Work>& dV, Work& dALog, Work& dDtBias) const {
        Token<Work> x(m_dim);
        read(x, t);
        std::vector<Work> dO(m_dim), dQ(m_dim), dKey(m_dim), du(m_dim, Work(0)), p0(m_dim, Work(0));
        const int64_t at = strided(p.doStrides, t, m_head);
        for (int64_t j = 0; j < m_dim; ++j)
            dO[j] = static_cast<Work>(p.scale * load(p.dO, at + j, p.dataType));
        for (int64_t i = 0; i < m_dim; ++i) {
            const Work *old = &before[i * m_dim], *fresh = &after[i * m_dim];
            Work* d = &gradient[i * m_dim];
            Work sum = 0;
            for (int64_t j = 0; j < m_dim; ++j) {
                sum += fresh[j] * dO[j];
                d[j] += x.q[i] * dO[j];
                du[j] += x.k[i] * d[j];
                p0[j] += x.k[i] * x.decay * old[j];
            }
            dQ[i] = sum;
        }
        Work dBeta = 0, dLogDecay = 0;
        for (int64_t j = 0; j < m_dim; ++j) {
            dBeta += du[j] * (x.v[j] - p0[j]);
            x.u[j] = x.beta * (x.v[j] - p0[j]);
            du[j] *= x.beta; // dv
            dV[t * m_dim + j] += du[j];
        }
        for (int64_t i = 0; i < m_dim; ++i) {
            const Work* old = &before[i * m_dim];
            Work* d = &gradient[i * m_dim];
            Work sum = 0, product = 0;
            for (int64_t j = 0; j < m_dim; ++j) {
                sum += d[j] * x.u[j] - x.decay * old[j] * du[j];
                const Work w = d[j] - x.k[i] * du[j];
                product += w * old[j];
                d[j] = x.decay * w;
            }
            dKey[i] = sum;
            dLogDecay += x.decay * product;
        }
        throughNorm(dQ, x.q, x.qNorm);
        throughNorm(dKey, x.k, x.kNorm);
        for (int64_t i = 0; i < m_dim; ++i)
            dK[t * m_dim + i] += dKey[i];
        if (p.dq)
            for (int64_t i = 0; i < m_dim; ++i)
                store(p.dq, place(t, p.heads, m_head) * m_dim + i, p.dataType, static_cast<double>(dQ[i]));
        const Work dRaw = dLogDecay * x.decaySlope;
        if (p.dg)
            p.dg[place(t, p.heads, m_head)] = static_cast<float>(dRaw);
        if (p.dbeta)
            p.dbeta[place(t, p.heads, m_head)] = static_cast<float>(p.betaIsLogit ? dBeta * x.beta * (1 - x.beta) : dBeta);
        dALog += dLogDecay * x.logDecay;
        dDtBias += dRaw;
    }

    const GatedDeltaRuleParams& p;
    Sequence m_sequence;
    int64_t m_head, m_keyHead, m_dim;
};

const char* refusal(const GatedDeltaRuleParams& p) {
    if (p.headDim <= 0 || p.batch < 0 || p.tokens < 0)
        return "gated delta rule: batch, tokens and headDim cannot be negative, headDim not 0";
    if (p.heads <= 0 || p.kvHeads <= 0 || p.heads % p.kvHeads != 0)
        return "gated delta rule: heads must be a multiple of kvHeads";
    if (p.sequences < 0 || (p.sequences > 0 && (p.batch != 1 || !p.sequenceStarts)))
        return "gated delta rule: variable lengths need batch = 1 and sequenceStarts";
    for (int64_t n = 0; n < p.sequences; ++n)
        if (p.sequenceStarts[n] < 0 || p.sequenceStarts[n + 1] < p.sequenceStarts[n] || p.sequenceStarts[n + 1] > p.tokens)
            return "gated delta rule: sequenceStarts must rise from 0 or more to at most tokens";
    if (p.batch * p.tokens > 0 && (!p.q || !p.k || !p.v || !p.g || !p.beta))
        return "gated delta rule: q, k, v, g and beta are needed";
    return nullptr;
}

// task(index) for all indices, on all hardware threads; the first exception is thrown here.
template <class Task> void inParallel(int64_t tasks, const Task& task) {
    std::atomic<int64_t> next = 0;
    std::exception_ptr error;
    std::mutex mutex;
    const auto work = [&] {
        try {
            for (int64_t i = next++; i < tasks; i = next++)
                task(i);
        } catch (...) {
            const std::lock_guard lock(mutex);
            error = std::current_exception();
            next = tasks;
        }
    };
    {
        std::vector<std::jthread> helpers;
        const auto wanted = std::min<int64_t>(tasks, std::max(1U, std::thread::hardware_concurrency()));
        for (int64_t i = 1; i < wanted; ++i)
            helpers.emplace_back(work);
        work();
    }
    if (error)
        std::rethrow_exception(error);
}

template <class Work> LaunchError forwardWith(const GatedDeltaRuleParams& p) {
    if (const char* why = refusal(p))
        return why;
    if (p.batch * p.tokens > 0 && !p.o)
        return "gated delta rule: o is needed";
    const auto sequences = sequencesOf(p);
    inParallel(std::ssize(sequences) * p.heads, [&](int64_t i) { Recurrence<Work>(p, sequences[i / p.heads], i % p.heads).forward(); });
    return nullptr;
}

template <class Work> LaunchError backwardWith(const GatedDeltaRuleParams& p) {
    if (const char* why = refusal(p))
        return why;
    if (p.batch * p.tokens > 0 && !p.dO)
        return "gated delta rule: dO is needed";
    const auto sequences = sequencesOf(p);
    const int64_t group = p.heads / p.kvHeads;
    std::vector<std::array<double, 2>> gateSums(sequences.size() * p.heads);
    inParallel(std::ssize(sequences) * p.kvHeads, [&](int64_t task) {
        const Sequence& sequence = sequences[task / p.kvHeads];
        const int64_t keyHead = task % p.kvHeads, size = sequence.count * p.headDim;
        std::vector<Work> dK(size, Work(0)), dV(size, Work(0));
        for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head)
            Recurrence<Work>(p, sequence, head).backward(dK, dV, gateSums[sequence.index * p.heads + head]);
        const Recurrence<Work> any(p, sequence, keyHead * group);
        for (int64_t i = 0; i < size; ++i) {
            const int64_t at = any.place(i / p.headDim, p.kvHeads, keyHead) * p.headDim + i % p.headDim;
            if (p.dk)
                store(p.dk, at, p.dataType, static_cast<double>(dK[i]));
            if (p.dv)
                store(p.dv, at, p.dataType, static_cast<double>(dV[i]));
        }
    });
    for (int64_t head = 0; head < p.heads; ++head) {
        double sums[2] = {};
        for (const Sequence& sequence : sequences)
            for (int i = 0; i < 2; ++i)
                sums[i] += gateSums[sequence.index * p.heads + head][i];
        if (p.dALog)
            p.dALog[head] = static_cast<float>(sums[0]);
        if (p.dDtBias)
            p.dDtBias[head] = static_cast<float>(sums[1]);
    }
    return nullptr;
}

} // namespace

LaunchError gatedDeltaRuleForwardCpu(const GatedDeltaRuleParams& params) { return forwardWith<double>(params); }
LaunchError gatedDeltaRuleBackwardCpu(const GatedDeltaRuleParams& params) { return backwardWith<double>(params); }
LaunchError gatedDeltaRuleStepCpu(const GatedDeltaRuleParams& params) {
    if (params.tokens != 1 || params.sequences != 0)
        return "gated delta rule step: one token per sequence, without variable lengths";
    return forwardWith<double>(params);
}

} // namespace linnet::kernels
