// SiLU(depthwise causal convolution), and the L2 norm of each head's q or k, as one differentiable step; not a public header.
#pragma once

#include <ATen/ATen.h>

namespace linnet::core {

struct ShortConvolution {
    int64_t heads = 0;
    double scale = 0;  // 0: no norm; otherwise z * scale * rsqrt(sum z^2 + eps) over each head
    double eps = 1e-6; // flash-linear-attention's
};

// u [B, T, H*D], taps [H*D, 4] or undefined (no convolution), past [B, 3, H*D]: the inputs before u, or undefined (zeros)
// -> [B, T, H, D]. All of one floating dtype. `past` gets no gradient: a carried state is a constant here.
at::Tensor shortConvolution(const at::Tensor& u, const at::Tensor& taps, const at::Tensor& past, const ShortConvolution& options);

} // namespace linnet::core
