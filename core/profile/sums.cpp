#include "core/torch_pch.h"

#include "core/profile/sums.h"

#include "core/base/files.h"

#include <cstring>

namespace linnet::core {

ProfileSums::ProfileSums(std::int64_t layers, std::int64_t heads, std::int64_t bins, at::Device device)
    : sum(at::zeros({layers, kStatisticCount, heads}, at::TensorOptions(device).dtype(at::kDouble))), square(at::zeros_like(sum)),
      histogram(at::zeros({layers, heads, bins}, sum.options())), histogramNoSink(at::zeros_like(histogram)) {}

void ProfileSums::add(std::int64_t layer, const LayerStatistics& statistics) {
    const auto add = [layer](const at::Tensor& to, const at::Tensor& part) { to[layer] += part.to(to.device()); };
    add(sum, statistics.values.sum(1));
    add(square, statistics.values.square().sum(1));
    add(histogram, statistics.histogram.sum(0));
    add(histogramNoSink, statistics.histogramNoSink.sum(0));
}

void ProfileSums::merge(const ProfileSums& batch, std::int64_t count) {
    sum += batch.sum.to(sum.device());
    square += batch.square.to(sum.device());
    histogram += batch.histogram.to(sum.device());
    histogramNoSink += batch.histogramNoSink.to(sum.device());
    sequences += count;
}

// 16 hex digits of the rest's hash, the number of sequences, then the tensors' doubles in this machine's byte order.
void ProfileSums::save(const std::filesystem::path& file) const {
    std::string payload(reinterpret_cast<const char*>(&sequences), sizeof sequences);
    for (const at::Tensor& tensor : tensors())
        payload.append(reinterpret_cast<const char*>(tensor.const_data_ptr<double>()), tensor.nbytes());
    writeFileAtomically(file, hashBytes(payload) + payload);
}

bool ProfileSums::load(const std::filesystem::path& file) {
    if (!std::filesystem::is_regular_file(file))
        return false;
    const auto bytes = readTextFile(file);
    std::size_t expected = 16 + sizeof sequences;
    for (const at::Tensor& tensor : tensors())
        expected += tensor.nbytes();
    if (bytes.size() != expected || hashBytes(std::string_view(bytes).substr(16)) != std::string_view(bytes).substr(0, 16))
        return false;
    const char* at = bytes.data() + 16;
    std::memcpy(&sequences, at, sizeof sequences);
    at += sizeof sequences;
    for (const at::Tensor& tensor : tensors()) {
        std::memcpy(tensor.data_ptr<double>(), at, tensor.nbytes());
        at += tensor.nbytes();
    }
    return true;
}

} // namespace linnet::core
