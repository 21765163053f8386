// Body of the tile functions, included by tile_kernels.cpp once per instruction set, inside a namespace of its own and under that
// set's target pragma; kLanes (floats of a vector) and kGroup (rows of the register block) are defined there. No include guard, and no
// templates or standard functions: those would be shared between the sets.
//
// Register block of both products: kGroup rows x 2 vectors of accumulators; per step two vector loads and kGroup broadcasts, each
// feeding two multiply-adds. AVX-512: 8 x 2 of 32 registers; AVX2 and SSE: 4 x 2 of 16.

using Vector = float __attribute__((vector_size(kLanes * 4)));
using Integers = std::int32_t __attribute__((vector_size(kLanes * 4)));
using Unaligned = float __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

static inline Vector load(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
static inline void store(float* p, const Vector& x) { *reinterpret_cast<Unaligned*>(p) = x; }

static inline float sumOf(const Vector& x) {
    float sum = 0.0F;
    for (int i = 0; i < kLanes; ++i) {
        sum += x[i];
    }
    return sum;
}

// exp for x <= 0, relative error about 1e-7, exactly 0 below -87.3 (the last normal float). x = n ln 2 + r with |r| <= ln 2 / 2: the
// Taylor polynomial of degree 7 has a remainder of r^8 / 8! < 6e-9; 2^n is put together in the exponent bits.
static inline Vector expNonPositive(const Vector& x) {
    const Vector kLowest = Vector{} - 87.3F;
    const Vector clamped = x < kLowest ? kLowest : x;
    const Vector kRound = Vector{} + 12582912.0F; // 1.5 * 2^23: adding it rounds to a whole number
    const Vector n = (clamped * 1.44269504F + kRound) - kRound;
    const Vector r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F; // ln 2 in two parts, the first exact in few bits
    Vector p = r * (1.0F / 5040.0F) + (1.0F / 720.0F);
    p = p * r + (1.0F / 120.0F);
    p = p * r + (1.0F / 24.0F);
    p = p * r + (1.0F / 6.0F);
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const Integers power = (__builtin_convertvector(n, Integers) + 127) << 23;
    const Vector result = p * reinterpret_cast<Vector>(power);
    return x < kLowest ? Vector{} : result;
}

static void scores(const float* queries, const float* panels, std::int64_t headDim, std::int64_t keys, float* out,
                   std::int64_t stride) {
    for (std::int64_t key = 0; key < keys; key += kPanel) {
        const float* panel = panels + key * headDim;
        for (std::int64_t row = 0; row < kRows; row += kGroup) {
            for (std::int64_t column = 0; column < kPanel; column += 2 * kLanes) {
                Vector sum[kGroup][2] = {};
                for (std::int64_t d = 0; d < headDim; ++d) {
                    const Vector k0 = load(panel + d * kPanel + column);
                    const Vector k1 = load(panel + d * kPanel + column + kLanes);
#pragma GCC unroll 8
                    for (int r = 0; r < kGroup; ++r) {
                        const float q = queries[d * kRows + row + r];
                        sum[r][0] += q * k0;
                        sum[r][1] += q * k1;
                    }
                }
#pragma GCC unroll 8
                for (int r = 0; r < kGroup; ++r) {
                    store(out + (row + r) * stride + key + column, sum[r][0]);
                    store(out + (row + r) * stride + key + column + kLanes, sum[r][1]);
                }
            }
        }
    }
}

static float rowMax(const float* row, std::int64_t keys) {
    Vector best = load(row);
    for (std::int64_t s = kLanes; s < keys; s += kLanes) {
        const Vector x = load(row + s);
        best = x > best ? x : best;
    }
    float result = best[0];
    for (int i = 1; i < kLanes; ++i) {
        result = best[i] > result ? best[i] : result;
    }
    return result;
}

static void rowExp(float* row, std::int64_t keys, float maximum, double* sum, double* weighted) {
    constexpr std::int64_t kBlock = 256; // short float sums, folded into doubles
    *sum = 0.0;
    *weighted = 0.0;
    for (std::int64_t begin = 0; begin < keys; begin += kBlock) {
        const std::int64_t end = begin + kBlock < keys ? begin + kBlock : keys;
        Vector total = {};
        Vector product = {};
        for (std::int64_t s = begin; s < end; s += kLanes) {
            const Vector x = load(row + s) - maximum;
            const Vector w = expNonPositive(x);
            store(row + s, w);
            total += w;
            product += w * x;
        }
        *sum += static_cast<double>(sumOf(total));
        *weighted += static_cast<double>(sumOf(product));
    }
}

static void rowSpread(float* row, std::int64_t keys, float plain, float noSink, float* mass, float* noSinkMass) {
    for (std::int64_t s = 0; s < keys; s += kLanes) {
        const Vector w = load(row + s);
        const Vector a = w * plain;
        store(noSinkMass + s, load(noSinkMass + s) + w * noSink);
        store(mass + s, load(mass + s) + a);
        store(row + s, a);
    }
}

static void values(const float* weights, std::int64_t stride, const float* value, std::int64_t columns, std::int64_t keys,
                   float* out) {
    constexpr std::int64_t kBlock = 64; // keys whose values stay in the first-level cache while all rows use them
    for (std::int64_t i = 0; i < kRows * columns; ++i) {
        out[i] = 0.0F;
    }
    for (std::int64_t begin = 0; begin < keys; begin += kBlock) {
        const std::int64_t end = begin + kBlock < keys ? begin + kBlock : keys;
        for (std::int64_t column = 0; column < columns; column += 2 * kLanes) {
            for (std::int64_t row = 0; row < kRows; row += kGroup) {
                const float* w = weights + row * stride;
                float* to = out + row * columns + column;
                Vector sum[kGroup][2];
#pragma GCC unroll 8
                for (int r = 0; r < kGroup; ++r) {
                    sum[r][0] = load(to + r * columns);
                    sum[r][1] = load(to + r * columns + kLanes);
                }
                for (std::int64_t s = begin; s < end; ++s) {
                    const Vector v0 = load(value + s * columns + column);
                    const Vector v1 = load(value + s * columns + column + kLanes);
#pragma GCC unroll 8
                    for (int r = 0; r < kGroup; ++r) {
                        const float a = w[r * stride + s];
                        sum[r][0] += a * v0;
                        sum[r][1] += a * v1;
                    }
                }
#pragma GCC unroll 8
                for (int r = 0; r < kGroup; ++r) {
                    store(to + r * columns, sum[r][0]);
                    store(to + r * columns + kLanes, sum[r][1]);
                }
            }
        }
    }
}

constexpr Functions kFunctions{scores, rowMax, rowExp, rowSpread, values};
