// Attention statistics on the CPU.
//
// Maths, for row t with scores x_s = scale <q_t, k_s>, s <= t, and S sink keys:
//   m' = max over s >= S, w_s = exp(x_s - m'), Z' = sum w_s, W' = sum w_s (x_s - m'): the row without its sink is w / Z'.
//   With the sink: m = max over all, f = exp(m' - m), Z = f Z' + sum over the sink of exp(x_s - m), A_s = f w_s / Z, and
//   E = log Z - (sum of exp(x_s - m) (x_s - m)) / Z.   One exponential a key serves both, and a sink that takes nearly
//   everything cannot underflow what is left.
//   The rows' masses are summed by distance: M[t - s] += A_s. Distance = sum_d d M[d] / T, previous = M[1], self = M[0], and the
//   histogram folds M into its bins.
// Layout: K packed once per call in panels [32 keys][headDim] transposed to [headDim][32], V in rows padded to a multiple of 32;
//   a tile is 16 query rows, its scores a thread's own [16, tokens] buffer (512 KiB at 8192 tokens), overwritten by the
//   weights and then multiplied with V. M is anchored so that the keys of a row run upwards in it: index T - t + s.
// Parallel plan: tasks are (sequence, head, slice); slice i takes tiles i, i + 16, ..., which evens out the causal triangle.
//   Every slice has its own sums; the last one of a head adds them up in order, so the bits do not depend on the number of threads.
// Precision: fp32 products and exponentials; short fp32 sums (256 keys of a row, 64 rows of M) folded into doubles.
// Limits: memory = a copy of K and V + 16 x tokens floats a thread + the slices' bins of the heads in flight. Non-finite scores
//   give NaN. No masks but the causal one, no logit cap.

#include "linnet/kernels/attention_statistics.h"

#include "task_pool.h"
#include "tile_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace linnet::kernels {

namespace {

constexpr std::int64_t kSlices = 16;   // tasks a head
constexpr std::int64_t kFoldTiles = 4; // tiles after which M's floats go into double bins
using tile::kPanel;
using tile::kRows;

std::int64_t roundUp(std::int64_t x, std::int64_t unit) { return (x + unit - 1) / unit * unit; }

void require(bool condition, const char* what) {
    if (!condition) {
        throw std::invalid_argument(std::string("attentionStatistics: ") + what);
    }
}

void check(const AttentionStatisticsParams& p) {
    require(p.batch >= 1 && p.heads >= 1 && p.kvHeads >= 1 && p.tokens >= 1 && p.headDim >= 1, "every size must be at least 1");
    require(p.heads % p.kvHeads == 0, "heads must be a multiple of kvHeads");
    require(p.sinkKeys >= 0 && p.skipRows >= 0, "sinkKeys and skipRows must not be negative");
    require(p.q && p.k && p.v, "q, k and v must be given");
    require(p.distance && p.distanceNoSink && p.entropy && p.entropyRelative && p.sinkMass && p.previousMass && p.selfMass &&
                p.outputSquare && p.histogram && p.histogramNoSink,
            "every output but `output` must be given");
}

// Sums over rows: of one slice while it runs, of a head when added up.
struct Sums {
    double distance = 0, distanceNoSink = 0, entropy = 0, entropyRelative = 0, sink = 0, previous = 0, self = 0, square = 0;
    std::vector<double> histogram, histogramNoSink; // mass by bin

    void add(const Sums& other) {
        distance += other.distance;
        distanceNoSink += other.distanceNoSink;
        entropy += other.entropy;
        entropyRelative += other.entropyRelative;
        sink += other.sink;
        previous += other.previous;
        self += other.self;
        square += other.square;
        for (std::size_t i = 0; i < histogram.size(); ++i) {
            histogram[i] += other.histogram[i];
            histogramNoSink[i] += other.histogramNoSink[i];
        }
    }
};

struct HeadState {
    std::atomic<std::int64_t> slicesLeft = 0;
    std::vector<Sums> slices;
};

// A thread's own buffers.
struct Workspace {
    std::vector<float> queries, scores, output, mass, noSinkMass;
    std::vector<double> sinkScores;
};

// What is left of a row's softmax when its weights have been formed.
struct RowResult {
    double entropy = 0, sink = 0;
};

class Pass {
public:
    explicit Pass(const AttentionStatisticsParams& p)
        : m_p(p), m_f(tile::functions()), m_edges(distanceEdges(p.tokens, p.binsPerOctave)), m_bins(std::ssize(m_edges) - 1),
          m_paddedTokens(roundUp(p.tokens, kPanel)), m_columns(roundUp(p.headDim, kPanel)), m_stride(m_paddedTokens + 16),
          m_tiles((p.tokens + kRows - 1) / kRows), m_slices(std::min(kSlices, m_tiles)),
          m_firstNoSinkRow(std::max(p.skipRows, p.sinkKeys)), m_keys(p.batch * p.kvHeads * m_paddedTokens * p.headDim),
          m_values(p.batch * p.kvHeads * p.tokens * m_columns), m_heads(p.batch * p.heads) {}

    bool run() {
        TaskPool pool(m_p.threads, units(), m_p.keepGoing, m_p.keepGoingUser);
        if (!pool.run(m_p.batch * m_p.kvHeads, [&](int, std::int64_t index) { pack(index); })) {
            return false;
        }
        for (auto& head : m_heads) {
            head.slicesLeft = m_slices;
        }
        m_workspaces.resize(pool.threads());
        return pool.run(m_p.batch * m_p.heads * m_slices, [&](int worker, std::int64_t task) {
            const std::int64_t index = task / m_slices; // sequence * heads + head
            HeadState& head = m_heads[index];
            Sums sums;
            if (!runSlice(pool, worker, index, task % m_slices, sums)) {
                return;
            }
            {
                const std::lock_guard lock(m_mutex);
                head.slices.resize(m_slices);
                head.slices[task % m_slices] = std::move(sums);
            }
            if (--head.slicesLeft == 0) {
                finishHead(index, head);
            }
        });
    }

private:
    // Key rows of all tiles: a tile's cost grows with the keys it sees.
    double units() const {
        double keys = 0;
        for (std::int64_t i = 0; i < m_tiles; ++i) {
            keys += static_cast<double>((i + 1) * kRows);
        }
        return keys * static_cast<double>(m_p.batch * m_p.heads);
    }

    void pack(std::int64_t index) {
        const std::int64_t b = index / m_p.kvHeads, h = index % m_p.kvHeads;
        const float* k = m_p.k + b * m_p.kBatchStride + h * m_p.kHeadStride;
        const float* v = m_p.v + b * m_p.vBatchStride + h * m_p.vHeadStride;
        float* panels = m_keys.data() + index * m_paddedTokens * m_p.headDim;
        float* rows = m_values.data() + index * m_p.tokens * m_columns;
        for (std::int64_t t = 0; t < m_p.tokens; ++t) {
            float* panel = panels + t / kPanel * kPanel * m_p.headDim + t % kPanel;
            for (std::int64_t d = 0; d < m_p.headDim; ++d) {
                panel[d * kPanel] = k[t * m_p.kTokenStride + d];
                rows[t * m_columns + d] = v[t * m_p.vTokenStride + d];
            }
        }
    }

    void prepare(Workspace& w) const {
        w.queries.resize(kRows * m_p.headDim);
        w.scores.resize(kRows * m_stride);
        w.output.resize(kRows * m_columns);
        w.mass.assign(m_paddedTokens + kPanel, 0.0F);
        w.noSinkMass.assign(m_paddedTokens + kPanel, 0.0F);
        w.sinkScores.resize(m_p.sinkKeys);
    }

    bool runSlice(TaskPool& pool, int worker, std::int64_t index, std::int64_t slice, Sums& sums) {
        Workspace& w = m_workspaces[worker];
        prepare(w);
        sums.histogram.resize(m_bins);
        sums.histogramNoSink.resize(m_bins);
        std::int64_t waiting = 0; // tiles not folded yet
        for (std::int64_t i = slice; i < m_tiles; i += m_slices) {
            runTile(w, index, i * kRows, sums);
            if (++waiting == kFoldTiles || i + m_slices >= m_tiles) {
                fold(w, std::min(m_p.tokens, (i + 1) * kRows), sums);
                waiting = 0;
            }
            if (!pool.advance(worker, static_cast<double>((i + 1) * kRows))) {
                return false;
            }
        }
        return true;
    }

    void runTile(Workspace& w, std::int64_t index, std::int64_t firstRow, Sums& sums) const {
        const std::int64_t b = index / m_p.heads, h = index % m_p.heads;
        const std::int64_t kv = b * m_p.kvHeads + h / (m_p.heads / m_p.kvHeads);
        const std::int64_t rows = std::min(kRows, m_p.tokens - firstRow);
        const std::int64_t keys = roundUp(firstRow + rows, kPanel); // the same for every row: a panel holds whole tiles
        const float* q = m_p.q + b * m_p.qBatchStride + h * m_p.qHeadStride + firstRow * m_p.qTokenStride;
        for (std::int64_t d = 0; d < m_p.headDim; ++d) {
            for (std::int64_t r = 0; r < kRows; ++r) {
                w.queries[d * kRows + r] = r < rows ? q[r * m_p.qTokenStride + d] * m_p.scale : 0.0F;
            }
        }
        m_f.scores(w.queries.data(), m_keys.data() + kv * m_paddedTokens * m_p.headDim, m_p.headDim, keys, w.scores.data(), m_stride);
        for (std::int64_t r = 0; r < rows; ++r) {
            const std::int64_t t = firstRow + r;
            const RowResult row = runRow(w, t, keys, w.scores.data() + r * m_stride);
            sums.entropy += row.entropy;
            sums.entropyRelative += t > 0 ? row.entropy / std::log(static_cast<double>(t + 1)) : 0.0;
            sums.sink += row.sink;
        }
        m_f.values(w.scores.data(), m_stride, m_values.data() + kv * m_p.tokens * m_columns, m_columns, firstRow + rows,
                   w.output.data());
        for (std::int64_t r = 0; r < rows; ++r) {
            const float* y = w.output.data() + r * m_columns;
            for (std::int64_t d = 0; d < m_p.headDim; ++d) {
                sums.square += static_cast<double>(y[d]) * static_cast<double>(y[d]);
            }
            if (m_p.output != nullptr) {
                std::copy_n(y, m_p.headDim, m_p.output + ((b * m_p.tokens + firstRow + r) * m_p.heads + h) * m_p.headDim);
            }
        }
    }

    // Turns a row of scores into attention weights and adds their masses by distance (the header of this file has the maths).
    RowResult runRow(Workspace& w, std::int64_t t, std::int64_t keys, float* row) const {
        const std::int64_t seen = t + 1;
        const std::int64_t sinks = std::min<std::int64_t>(m_p.sinkKeys, seen);
        for (std::int64_t s = 0; s < sinks; ++s) {
            w.sinkScores[s] = static_cast<double>(row[s]);
            row[s] = tile::kMasked;
        }
        std::fill(row + seen, row + keys, tile::kMasked);
        double maximum = -std::numeric_limits<double>::infinity();
        double sum = 0.0, weighted = 0.0, factor = 0.0, noSinkSum = 0.0;
        if (seen > sinks) {
            const float restMaximum = m_f.rowMax(row, keys);
            m_f.rowExp(row, keys, restMaximum, &noSinkSum, &weighted);
            maximum = static_cast<double>(restMaximum);
        } else {
            std::fill(row, row + keys, 0.0F);
        }
        const double restMaximum = maximum;
        for (std::int64_t s = 0; s < sinks; ++s) {
            maximum = std::max(maximum, w.sinkScores[s]);
        }
        if (seen > sinks) {
            factor = std::exp(restMaximum - maximum);
            sum = factor * noSinkSum;
            weighted = factor * (weighted + (restMaximum - maximum) * noSinkSum);
        }
        for (std::int64_t s = 0; s < sinks; ++s) {
            const double x = w.sinkScores[s] - maximum;
            w.sinkScores[s] = std::exp(x);
            sum += w.sinkScores[s];
            weighted += w.sinkScores[s] * x;
        }
        float* mass = w.mass.data() + m_paddedTokens - 1 - t;
        m_f.rowSpread(row, keys, static_cast<float>(factor / sum),
                      t >= m_firstNoSinkRow ? static_cast<float>(1.0 / noSinkSum) : 0.0F, mass,
                      w.noSinkMass.data() + m_paddedTokens - 1 - t);
        RowResult result{std::log(sum) - weighted / sum, 0.0};
        for (std::int64_t s = 0; s < sinks; ++s) {
            const double a = w.sinkScores[s] / sum;
            row[s] = static_cast<float>(a);
            mass[s] += row[s];
            result.sink += a;
        }
        return result;
    }

    // Moves the masses of distances 0 .. tokens - 1 into the sums and clears them.
    void fold(Workspace& w, std::int64_t tokens, Sums& sums) const {
        const std::int64_t anchor = m_paddedTokens - 1; // index of distance 0
        for (std::int64_t bin = 0; bin < m_bins && m_edges[bin] < tokens; ++bin) {
            double mass = 0.0, noSinkMass = 0.0, moment = 0.0, noSinkMoment = 0.0;
            for (std::int64_t d = m_edges[bin]; d < std::min(m_edges[bin + 1], tokens); ++d) {
                const double a = static_cast<double>(w.mass[anchor - d]);
                const double n = static_cast<double>(w.noSinkMass[anchor - d]);
                mass += a;
                noSinkMass += n;
                moment += static_cast<double>(d) * a;
                noSinkMoment += static_cast<double>(d) * n;
            }
            sums.histogram[bin] += mass;
            sums.histogramNoSink[bin] += noSinkMass;
            sums.distance += moment;
            sums.distanceNoSink += noSinkMoment;
        }
        sums.self += static_cast<double>(w.mass[anchor]);
        sums.previous += tokens > 1 ? static_cast<double>(w.mass[anchor - 1]) : 0.0;
        std::fill(w.mass.begin(), w.mass.end(), 0.0F);
        std::fill(w.noSinkMass.begin(), w.noSinkMass.end(), 0.0F);
    }

    void finishHead(std::int64_t index, HeadState& head) const {
        Sums& sums = head.slices[0];
        for (std::int64_t i = 1; i < m_slices; ++i) {
            sums.add(head.slices[i]);
        }
        // 0 / 0 is NaN on purpose: "no row counts" must not read as a value.
        const double rows = static_cast<double>(m_p.tokens);
        const double laterRows = rows - 1.0;
        const double noSinkRows = static_cast<double>(std::max<std::int64_t>(0, m_p.tokens - m_firstNoSinkRow));
        m_p.distance[index] = sums.distance / rows;
        m_p.distanceNoSink[index] = sums.distanceNoSink / noSinkRows;
        m_p.entropy[index] = sums.entropy / rows;
        m_p.entropyRelative[index] = sums.entropyRelative / laterRows;
        m_p.sinkMass[index] = sums.sink / rows;
        m_p.previousMass[index] = sums.previous / laterRows;
        m_p.selfMass[index] = sums.self / rows;
        m_p.outputSquare[index] = sums.square / (rows * static_cast<double>(m_p.headDim));
        for (std::int64_t bin = 0; bin < m_bins; ++bin) {
            m_p.histogram[index * m_bins + bin] = sums.histogram[bin] / rows;
            m_p.histogramNoSink[index * m_bins + bin] = sums.histogramNoSink[bin] / noSinkRows;
        }
        head.slices = {};
    }

    const AttentionStatisticsParams& m_p;
    const tile::Functions& m_f;
    const std::vector<std::int64_t> m_edges;
    const std::int64_t m_bins, m_paddedTokens, m_columns;
    const std::int64_t m_stride; // of a row of scores; not a power of two, so that the 16 rows spread over the cache's sets
    const std::int64_t m_tiles, m_slices, m_firstNoSinkRow;
    std::vector<float> m_keys;   // [batch * kvHeads][tokens / 32][headDim][32]
    std::vector<float> m_values; // [batch * kvHeads][tokens][columns]
    std::vector<HeadState> m_heads;
    std::vector<Workspace> m_workspaces;
    std::mutex m_mutex; // of HeadState::slices while slices hand in their sums
};

} // namespace

std::vector<std::int64_t> distanceEdges(std::int64_t tokens, int binsPerOctave) {
    if (tokens < 1 || binsPerOctave < 0 || binsPerOctave == 1) {
        throw std::invalid_argument("distanceEdges: tokens must be at least 1 and binsPerOctave 0 or at least 2, got " +
                                    std::to_string(tokens) + " and " + std::to_string(binsPerOctave));
    }
    constexpr std::int64_t kExact = 4; // distances below it have a bin each
    const std::int64_t exact = binsPerOctave == 0 ? tokens : std::min(kExact, tokens);
    std::vector<std::int64_t> edges;
    for (std::int64_t d = 0; d < exact; ++d) {
        edges.push_back(d);
    }
    for (int i = 0; exact < tokens; ++i) {
        const std::int64_t edge = std::llround(static_cast<double>(kExact) * std::exp2(static_cast<double>(i) / binsPerOctave));
        if (edge >= tokens) {
            break;
        }
        if (edge > edges.back()) {
            edges.push_back(edge);
        }
    }
    edges.push_back(tokens);
    return edges;
}

bool attentionStatistics(const AttentionStatisticsParams& params) {
    check(params);
    return Pass(params).run();
}

} // namespace linnet::kernels
