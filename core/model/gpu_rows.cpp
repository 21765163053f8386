#include "core/torch_pch.h"

#include "core/model/gpu_rows.h"

namespace linnet::core {

bool onGpuForInference(const at::Tensor& t) {
    return t.is_cuda() && !at::GradMode::is_enabled();
}

at::Tensor rmsNormFused(const at::Tensor& x, const at::Tensor& weight, double eps) {
    return std::get<0>(at::_fused_rms_norm(x, weight.sizes(), weight, eps));
}

at::Tensor rotatedRows(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    const std::int64_t half = x.size(-1) / 2;
    const at::Tensor out = at::mul(x, cos.unsqueeze(1)), s = sin.unsqueeze(1);
    out.narrow(-1, 0, half).addcmul_(x.narrow(-1, half, half), s.narrow(-1, 0, half), -1);
    out.narrow(-1, half, half).addcmul_(x.narrow(-1, 0, half), s.narrow(-1, half, half));
    return out;
}

at::Tensor projectedOnto(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         bool mayOverwrite) {
    if (bias.defined()) {
        at::Tensor out = at::linear(x, weight, bias);
        return mayOverwrite ? at::Tensor(residual).add_(out) : out.add_(residual);
    }
    const at::Tensor rows = x.reshape({-1, x.size(-1)});
    if (mayOverwrite && residual.is_contiguous()) {
        residual.view({-1, residual.size(-1)}).addmm_(rows, weight.t());
        return residual;
    }
    return at::addmm(residual.reshape({-1, residual.size(-1)}), rows, weight.t()).view(residual.sizes());
}

} // namespace linnet::core
