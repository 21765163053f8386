#include "core/convert/closed_form_output.h"

namespace linnet::core {

void OutputRegression::add(const at::Tensor& z, const at::Tensor& y) {
    const at::Tensor gram = z.t().matmul(z).to(at::kDouble), cross = z.t().matmul(y).to(at::kDouble);
    m_gram = m_gram.defined() ? m_gram.add_(gram) : gram;
    m_cross = m_cross.defined() ? m_cross.add_(cross) : cross;
    m_square += y.square().sum(at::kDouble).item<double>();
}

at::Tensor OutputRegression::solve(double ridge, const at::Tensor& toward) const {
    at::Tensor G = m_gram.clone();
    G.diagonal().add_((G.diagonal().mean() * std::max(ridge, kLeastRidge)).clamp_min(1e-30));
    const at::Tensor L = at::linalg_cholesky(G);
    if (!toward.defined())
        return at::cholesky_solve(m_cross, L).t().to(at::kFloat).contiguous();
    const at::Tensor from = toward.t().to(at::kDouble);
    return (from + at::cholesky_solve(m_cross - m_gram.matmul(from), L)).t().to(at::kFloat).contiguous();
}

double OutputRegression::residual(const at::Tensor& weight) const {
    const at::Tensor W = weight.t().to(at::kDouble); // [W, hidden]
    const double explained = (W * (2 * m_cross - m_gram.matmul(W))).sum().item<double>();
    return (m_square - explained) / std::max(m_square, 1e-30);
}

Readout fittedReadout(const LayerContext& context, const LinearLayer& layer, const at::Tensor& x) {
    return linearReadout(mixerSpec(context.recipe.mixer), context.teacher.linearShape(), layer, x, nullptr, 64, at::kHalf);
}

} // namespace linnet::core
