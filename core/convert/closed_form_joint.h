// Heads choose together: coordinate descent on the ridge regression of the layer's output on the readouts of all heads; not a public header.
#pragma once

#include "core/convert/closed_form.h"

namespace linnet::core {

class JointChoice {
public:
    static constexpr std::size_t kCandidates = 12; // of a head, the best by own residual

    // `factors` [heads][tokens]: what each head's readouts are multiplied by before they meet the others, its gate.
    // `target` [tokens, hidden] float32: the layer's output.
    JointChoice(std::vector<at::Tensor> factors, at::Tensor target, double ridge, const Control& control);

    void offer(std::size_t head, const HeadTrial& trial, const at::Tensor& readouts); // [tokens, D]; kept if among the best
    // What each head takes of what was offered; from the second time on also what it took before, from which none moves without gain.
    std::vector<HeadTrial> choose();

private:
    struct Head {
        at::Tensor factor, readouts; // [tokens, 1], [candidates, tokens, D]: float32, on a GPU 16 bits
        std::vector<HeadTrial> trials;
        std::size_t pick = 0;
        // Products of its candidates, made on need for as many as `own` has.
        at::Tensor own;    // z'z [K, D, D] float64
        at::Tensor target; // z'y [K, D, hidden] float32
        at::Tensor cross;  // with the picks of all heads, its own left zero: [K, H D, D] float32 ..
        std::vector<std::size_t> picks; // .. when they were these
        std::vector<std::size_t> seen;  // all picks at the last visit
    };
    template <class F> at::Tensor sum(const F& products) const; // over all tokens, float64
    at::Tensor target(std::int64_t from, std::int64_t count) const { return m_target.narrow(0, from, count); }
    at::Tensor candidates(const Head& head, std::size_t first, std::int64_t from, std::int64_t count) const; // [count, (K - first) D]
    at::Tensor picks(const std::vector<std::size_t>& heads, std::int64_t from, std::int64_t count) const;    // [count, heads D]
    void begin();
    void makeProducts(std::size_t h);
    bool visit(std::size_t h);
    void keepPicks();

    std::vector<Head> m_heads;
    at::Tensor m_target; // of the readouts' type
    double m_ridge, m_penalty = 0;
    const Control& m_control;
    std::int64_t m_dim = 0;
    bool m_begun = false;
    at::Tensor m_inverse, m_solution; // (Z'Z + l I)^-1 [H D, H D] and its product with Z'y [H D, hidden], of the picks, float64
};

} // namespace linnet::core
