#include "core/torch_pch.h"

#include "core/export/qwen35_lift.h"

namespace linnet::core {
namespace {

// [n d, ..] -> [n width, ..] with zeros after each head's d rows.
at::Tensor withRowsAfter(const at::Tensor& rows, std::int64_t headDim, std::int64_t width) {
    const at::Tensor heads = rows.unflatten(0, {rows.size(0) / headDim, headDim});
    auto shape = heads.sizes().vec();
    shape[1] = width - headDim;
    return at::cat({heads, at::zeros(shape, heads.options())}, 1).flatten(0, 1);
}

} // namespace

at::Tensor paddedHeads(const at::Tensor& rows, const HeadLift& lift) {
    return withRowsAfter(rows, lift.headDim, lift.padded);
}

at::Tensor gatedHeads(const at::Tensor& rows, const HeadLift& lift) {
    return withRowsAfter(rows, lift.headDim, 2 * lift.padded);
}

at::Tensor outputOfHeads(const at::Tensor& output, const HeadLift& lift) {
    return paddedHeads(output.t(), lift).t() * 2;
}

at::Tensor biasWithPads(const at::Tensor& bias, const std::vector<double>& pads, const HeadLift& lift) {
    const at::Tensor padded = paddedHeads(bias, lift);
    const at::Tensor heads = padded.view({-1, lift.padded});
    for (std::size_t i = 0; i < pads.size(); ++i)
        heads.select(1, lift.headDim + static_cast<std::int64_t>(i)).fill_(pads[i]);
    return padded;
}

at::Tensor liftedNorm(const HeadLift& lift) {
    const at::Tensor w = at::zeros({lift.padded}, at::kDouble);
    w.narrow(0, 0, lift.headDim).fill_(lift.scale);
    return w;
}

} // namespace linnet::core
