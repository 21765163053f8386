// The parameters of heads that start in given ways (HeadOption); not a public header.
#pragma once

#include "core/convert/closed_form.h"

namespace linnet::core {

class HeadRows {
public:
    HeadRows(const LayerContext& context, at::Tensor distances); // of attentionDistances()

    bool distancesKnown() const { return m_distances.defined(); } // needed for histogram taps and a folded RoPE
    const at::Tensor& unitRow() const { return m_unitRow; }       // [hidden] float32: mean of unitRow x = 1, least variance
    double gateLevel(std::int64_t head) const;                    // the user's, or 1

    // Of some heads, options[i] being of heads[i]. Values are scaled so that a head's centred ones have RMS closed_form.value_rms.
    Projections projections(const std::vector<std::int64_t>& heads, const std::vector<HeadOption>& options) const; // [n D, hidden] each
    // Softmax logit that a key gets from the mean query, less its mean: what HeadOption::keyPrior multiplies. [n, hidden]
    at::Tensor priorRows(const std::vector<std::int64_t>& heads, const std::vector<HeadOption>& options) const;
    at::Tensor valueTaps(std::int64_t head, bool histogram) const; // [D, 4]
    LinearLayer layer(const std::vector<HeadOption>& options) const; // of all heads; gates constant, o_proj undefined

private:
    const Projections& variant(const HeadOption& option) const; // of all heads, but for signs and scales; made once
    const LayerContext& m_context;
    at::Tensor m_distances, m_unitRow, m_mean, m_second;
    std::array<at::Tensor, 2> m_taps;                              // [H, 4]: the current token alone, by the distances
    mutable std::map<std::array<bool, 4>, Projections> m_variants; // a layer's closed form has one thread
};

// Two options that need the same projections but for a scale.
bool sameVariant(const HeadOption& a, const HeadOption& b);

} // namespace linnet::core
