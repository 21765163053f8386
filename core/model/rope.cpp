#include "core/torch_pch.h"

#include "core/model/rope.h"

#include <numbers>

namespace linnet::core {
namespace {

// Llama 3.1's scaling: long wavelengths are stretched by `factor`, short ones stay, those between are blended.
at::Tensor llama3Scaled(const at::Tensor& frequencies, const RopeConfig& rope) {
    const double lowWavelength = rope.originalMaxPositions / rope.lowFrequencyFactor;
    const double highWavelength = rope.originalMaxPositions / rope.highFrequencyFactor;
    const at::Tensor wavelength = frequencies.reciprocal() * (2 * std::numbers::pi);
    const at::Tensor stretched = at::where(wavelength > lowWavelength, frequencies / rope.factor, frequencies);
    const at::Tensor blend = (wavelength.reciprocal() * rope.originalMaxPositions - rope.lowFrequencyFactor) /
                             (rope.highFrequencyFactor - rope.lowFrequencyFactor);
    const at::Tensor between = (wavelength >= highWavelength).logical_and(wavelength <= lowWavelength);
    return at::where(between, (1 - blend) * stretched / rope.factor + blend * stretched, stretched);
}

} // namespace

at::Tensor inverseFrequencies(const ModelConfig& config) {
    const RopeConfig& rope = config.rope;
    const at::Tensor exponents = at::arange(0, config.headDim, 2, at::kLong).to(at::kFloat) / static_cast<double>(config.headDim);
    at::Tensor frequencies = at::pow(rope.theta, exponents).reciprocal();
    if (!rope.frequencyDivisors.empty())
        return frequencies / at::tensor(rope.frequencyDivisors, at::kDouble).to(at::kFloat);
    if (rope.type == "linear")
        return frequencies / rope.factor;
    if (rope.type == "llama3")
        return llama3Scaled(frequencies, rope);
    return frequencies;
}

RopeTables ropeTables(const ModelConfig& config, std::int64_t length) {
    const at::Tensor positions = at::arange(length, at::kLong).to(at::kFloat);
    const at::Tensor half = positions.unsqueeze(1) * inverseFrequencies(config).unsqueeze(0);
    const at::Tensor angles = at::cat({half, half}, 1);
    return {angles.cos(), angles.sin()};
}

at::Tensor applyRope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    const std::int64_t half = x.size(-1) / 2;
    const at::Tensor rotated = at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
    return x * cos.to(x.scalar_type()) + rotated * sin.to(x.scalar_type());
}

} // namespace linnet::core
