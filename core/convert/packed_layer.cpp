#include "core/torch_pch.h"

#include "core/convert/packed_layer.h"

namespace linnet::core {
namespace {

std::int64_t roundedUp(std::int64_t value, std::int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

} // namespace

PackedLayout::PackedLayout(const LinearShape& shape)
    : heads(shape.heads), headDim(shape.headDim), hidden(shape.hidden), width(heads * headDim), aRow(4 * width), bRow(aRow + heads) {
    rows = roundedUp(bRow + heads, 8);
    taps = roundedUp(rows * hidden, 8);
    aLog = taps + 3 * width * kConvTaps;
    dtBias = roundedUp(aLog + heads, 8);
    oNorm = roundedUp(dtBias + heads, 8);
    oProj = roundedUp(oNorm + headDim, 8);
    total = roundedUp(oProj + hidden * width, 64);
}

at::Tensor PackedLayout::part(const at::Tensor& packed, std::int64_t offset, std::vector<std::int64_t> sizes) const {
    std::vector<std::int64_t> strides(sizes.size() + 1, 1);
    for (std::size_t i = sizes.size(); i-- > 1;)
        strides[i] = strides[i + 1] * sizes[i];
    strides[0] = packed.stride(0);
    sizes.insert(sizes.begin(), packed.size(0));
    return packed.as_strided(sizes, strides, packed.storage_offset() + offset);
}

LinearLayer PackedLayout::views(const at::Tensor& row) const {
    const auto matrix = [&](std::int64_t offset, std::int64_t count, std::int64_t columns) {
        return row.narrow(0, offset, count * columns).view({count, columns});
    };
    LinearLayer layer;
    layer.qProj = matrix(0, width, hidden);
    layer.kProj = matrix(width * hidden, width, hidden);
    layer.vProj = matrix(2 * width * hidden, width, hidden);
    layer.gProj = matrix(3 * width * hidden, width, hidden);
    layer.aProj = matrix(aRow * hidden, heads, hidden);
    layer.bProj = matrix(bRow * hidden, heads, hidden);
    layer.qConv = matrix(taps, width, kConvTaps);
    layer.kConv = matrix(taps + width * kConvTaps, width, kConvTaps);
    layer.vConv = matrix(taps + 2 * width * kConvTaps, width, kConvTaps);
    layer.aLog = row.narrow(0, aLog, heads);
    layer.dtBias = row.narrow(0, dtBias, heads);
    layer.oNorm = row.narrow(0, oNorm, headDim);
    layer.oProj = matrix(oProj, hidden, width);
    return layer;
}

void PackedLayout::write(const at::Tensor& row, const LinearLayer& layer) const {
    const at::NoGradGuard noGradients;
    std::vector<at::Tensor> to;
    std::as_const(*this).views(row).forEach([&](const std::string&, at::Tensor& tensor) { to.push_back(tensor); });
    std::size_t index = 0;
    layer.forEach([&](const std::string&, const at::Tensor& tensor) { to[index++].copy_(tensor); });
}

LinearLayer PackedLayout::read(const at::Tensor& row, at::Device device) const {
    const at::NoGradGuard noGradients;
    return views(row.device() == device ? row.clone() : row.to(device));
}

} // namespace linnet::core
