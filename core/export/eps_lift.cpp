#include "core/torch_pch.h"

#include "core/export/eps_lift.h"

namespace linnet::core {

int epsLiftShift(const at::Tensor& rows, const at::Tensor& bias, const at::Tensor& inputNorm, std::int64_t headDim, double eps) {
    const at::Tensor heads = (rows.to(at::kDouble) * inputNorm.to(rows.device(), at::kDouble)).reshape({-1, headDim * rows.size(1)});
    at::Tensor longest = heads.norm(2, 1) * std::sqrt(static_cast<double>(rows.size(1))); // of a head's q
    if (bias.defined())
        longest = longest + bias.to(rows.device(), at::kDouble).reshape({-1, headDim}).norm(2, 1);
    const double square = longest.max().item<double>(), mean = square * square / static_cast<double>(headDim);
    return std::max(0, static_cast<int>(std::ceil(0.5 * std::log2(std::max(mean, 1e-30) / eps) + 12)));
}

double epsLiftNorm(int shift, double eps) {
    return std::ldexp(std::sqrt(static_cast<double>(static_cast<float>(eps))), shift);
}

} // namespace linnet::core
