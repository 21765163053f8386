#include "core/torch_pch.h"

#include "core/model/sampling.h"

#include <numeric>

namespace linnet::core {
namespace {

struct Candidates {
    std::vector<std::int64_t> ids;
    std::vector<double> weights; // not normalised
};

Candidates candidates(const float* logits, std::int64_t count, double temperature, double largest, double smallest) {
    Candidates c;
    for (std::int64_t id = 0; id < count; ++id)
        if (logits[id] >= smallest) {
            c.ids.push_back(id);
            c.weights.push_back(std::exp((logits[id] - largest) / temperature));
        }
    return c;
}

double kthLargest(const float* logits, std::int64_t count, std::int64_t k) {
    std::vector<float> sorted(logits, logits + count);
    std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
    return sorted[static_cast<std::size_t>(k - 1)];
}

void keepTopP(Candidates& c, double topP) {
    std::vector<std::size_t> order(c.ids.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return c.weights[a] > c.weights[b]; });
    const double total = std::accumulate(c.weights.begin(), c.weights.end(), 0.0);
    Candidates kept;
    double sum = 0;
    for (const std::size_t i : order) {
        kept.ids.push_back(c.ids[i]);
        kept.weights.push_back(c.weights[i]);
        sum += c.weights[i];
        if (sum >= topP * total)
            break;
    }
    c = std::move(kept);
}

} // namespace

std::int64_t Sampler::pick(const float* logits, std::int64_t count) {
    const float* largest = std::max_element(logits, logits + count);
    if (!std::isfinite(*largest) || std::isnan(logits[0]))
        fail(ErrorCode::Internal, "the model's logits are not finite: try --dtype f32");
    if (m_options.greedy || m_options.topK == 1)
        return largest - logits;
    const bool limited = m_options.topK > 0 && m_options.topK < count;
    const double smallest = limited ? kthLargest(logits, count, m_options.topK) : -std::numeric_limits<double>::infinity();
    Candidates c = candidates(logits, count, m_options.temperature, *largest, smallest);
    if (m_options.topP < 1)
        keepTopP(c, m_options.topP);
    const double total = std::accumulate(c.weights.begin(), c.weights.end(), 0.0);
    double left = static_cast<double>(m_random() >> 11) * 0x1p-53 * total; // own mapping: the same on every standard library
    for (std::size_t i = 0; i + 1 < c.ids.size(); ++i) {
        left -= c.weights[i];
        if (left < 0)
            return c.ids[i];
    }
    return c.ids.back();
}

} // namespace linnet::core
