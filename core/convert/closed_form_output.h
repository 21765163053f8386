// Ridge regression of a layer's output on its gated readouts, streamed: what o_proj is fitted with; not a public header.
#pragma once

#include "core/convert/calibration.h"

namespace linnet::core {

// The products are of float32: a smaller penalty would be below their rounding.
inline constexpr double kLeastRidge = 1e-5;

class OutputRegression {
public:
    void add(const at::Tensor& z, const at::Tensor& y); // [tokens, W], [tokens, hidden], float32
    // [hidden, W] float32: least squared error + ridge * mean diagonal of z'z * square of the weight's distance from `toward` (undefined: 0).
    at::Tensor solve(double ridge, const at::Tensor& toward = {}) const;
    double residual(const at::Tensor& weight) const; // squared error / square of y

private:
    at::Tensor m_gram, m_cross; // z'z [W, W], z'y [W, hidden], float64
    double m_square = 0;        // of y
};

// What the regressions are made on: on a GPU the rule gets 16-bit q, k and v, as in the grid (closed_form_score.h).
Readout fittedReadout(const LayerContext& context, const LinearLayer& layer, const at::Tensor& x);

} // namespace linnet::core
