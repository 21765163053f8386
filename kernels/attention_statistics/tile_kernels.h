// The inner loops of attention_statistics, compiled once per instruction set (tile_body.h) and chosen at run time.
#pragma once

#include <cstdint>

namespace linnet::kernels::tile {

constexpr std::int64_t kRows = 16;  // query rows of a tile
constexpr std::int64_t kPanel = 32; // keys of a panel of K; V's rows are padded to a multiple of it too
constexpr float kMasked = -1e30F;   // the score of a key that does not count: finite, and exp gives exactly 0

struct Functions {
    // scores[r][s] = sum_d queries[d][r] * panels[s / 32][d][s % 32] for 16 rows and `keys` (a multiple of 32) keys.
    void (*scores)(const float* queries, const float* panels, std::int64_t headDim, std::int64_t keys, float* scores,
                   std::int64_t stride);
    float (*rowMax)(const float* row, std::int64_t keys);
    // row[s] = w = exp(row[s] - maximum); sum = sum of w, weighted = sum of w (row[s] - maximum).
    void (*rowExp)(float* row, std::int64_t keys, float maximum, double* sum, double* weighted);
    // noSinkMass[s] += row[s] * noSink, then row[s] *= plain and mass[s] += row[s]. No alignment of the masses is asked.
    void (*rowSpread)(float* row, std::int64_t keys, float plain, float noSink, float* mass, float* noSinkMass);
    // out[r][c] = sum_s weights[r][s] * values[s][c] for 16 rows; `columns` (a multiple of 32) is the row length of values and out.
    void (*values)(const float* weights, std::int64_t stride, const float* values, std::int64_t columns, std::int64_t keys,
                   float* out);
};

// The widest set that this processor has.
const Functions& functions();

} // namespace linnet::kernels::tile
