// Readouts of heads on the grid's windows, and the own residual of each (closed_form.h); not a public header.
#pragma once

#include "core/convert/closed_form_options.h"
#include "core/convert/closed_form_rows.h"

namespace linnet::core {

// Queries, keys and the convolution's inputs do not depend on half-life and write gate: they are made once for a run of rows that share
// the projections, and the recurrence takes many rows as one batch, within a bound of memory.
class HeadScorer {
public:
    HeadScorer(const LayerContext& context, const HeadRows& rows, std::vector<std::int64_t> heads, const Control& control);

    std::vector<std::vector<double>> score(const std::vector<OptionRow>& rows); // by row and head; infinity where it is not finite

    // Gets each row with its residuals and readouts [n, tokens, D] of the heads, which live no longer than the call.
    std::function<void(const OptionRow& row, const std::vector<double>& residuals, const at::Tensor& readouts)> onRow;

    const at::Tensor& gateInput() const { return m_unit; } // unitRow x [tokens]
    std::int64_t windows() const { return m_x.size(0); }

private:
    struct Shared { // what a run of rows has in common
        std::vector<HeadOption> options; // of its first row
        at::Tensor q, k;                 // [N, T, n, D], in 16 bits where the kernels take them
        at::Tensor u;                    // inputs of the value convolution [N, T, n D] float32
        at::Tensor prior;                // [N, T, n]
        std::map<std::vector<bool>, at::Tensor> values; // by taps and signs of the heads, once or (joined rows) twice: [N, T, n, D or 2 D]
    };
    void share(const std::vector<HeadOption>& options);
    const at::Tensor& values(std::span<const OptionRow> rows);
    const at::Tensor& prior();
    void recur(std::span<const OptionRow> rows, std::int64_t width, std::int64_t from, std::int64_t count, const at::Tensor& out);
    at::Tensor readouts(std::span<const OptionRow> rows);
    std::vector<std::vector<double>> residuals(const at::Tensor& readouts) const;

    const LayerContext& m_context;
    const HeadRows& m_rows;
    const Control& m_control;
    const MixerSpec& m_spec;
    std::vector<std::int64_t> m_heads;
    Shared m_shared;
    bool m_kernels = false;
    at::Tensor m_x, m_unit;                  // [N, T, hidden] float32, [N T]
    at::Tensor m_y;                          // teacher's head outputs [n, N T, D] float32
    at::Tensor m_square, m_metric, m_power;  // S, M [n, D, D] and tr(S M) [n], float64
    at::Tensor m_buffer;                     // of readouts: new pages cost as much as what is written there
};

} // namespace linnet::core
