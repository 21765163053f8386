// y [tokens, hidden] on Z = [Z_o | z], z of one head, Z_o of the others as they stand. With Z_o fixed,
//     min |y - Z W|^2 + l |W|^2 = min over Z_o alone - tr(s' G^-1 s),   P = Z_o'z,  U = A^-1 P,  A = Z_o'Z_o + l I,
//     G = z'z + l I - P'U,  s = z'y - P'B,  B = A^-1 Z_o'y                                          (Schur complement)
// so the head's best candidate is that with the largest last term, its gain.
// Kept for the picks of all heads: K = (Z'Z + l I)^-1 and K Z'y. With rows and columns of the head left in and zero, R = K_h K_hh^-1:
//     A^-1 = K - R K_h',  U = K P - R (K P)_h,  B = K Z'y - R (K Z'y)_h
// and a head that takes z gives, with E = U but -1 on the head's diagonal,  K = A^-1 + E G^-1 E',  K Z'y = B - E G^-1 s.
#include "core/torch_pch.h"

#include "core/convert/closed_form_joint.h"

#include "core/convert/closed_form_output.h"

namespace linnet::core {
namespace {

constexpr int kSweeps = 3;
constexpr double kBetter = 1e-9;          // relative gain that makes a head move
// Products of so many tokens at once; float32 sums go over kChunk of them, float64 takes the rest. Tensor cores cut digits off their sums, and
// what all readouts share is hundreds of times the penalty: over many thousand tokens that would make Z'Z + l I indefinite.
constexpr std::int64_t kSumTokens = 4096, kSumTokensCuda = 16384, kChunk = 1024;
constexpr double kLargestHalf = 4096;     // of targets in 16 bits

std::int64_t index(std::size_t i) { return static_cast<std::int64_t>(i); }

// Only ratios of gains count, so a GPU may have the target times a power of two in 16 bits: exact for a teacher in bfloat16.
at::Tensor scaledTarget(const at::Tensor& target) {
    if (!target.is_cuda())
        return target;
    const double most = std::max(target.abs().max().item<double>(), 1e-30);
    return (target * std::exp2(std::floor(std::log2(kLargestHalf / most)))).to(at::kHalf);
}

// x'y of [.., tokens, m] and [.., tokens, n] float64; products of 16-bit factors are exact. tokens: below kChunk or a multiple.
at::Tensor product(const at::Tensor& x, const at::Tensor& y) {
    const auto tokens = x.size(-2), chunk = std::min(tokens, kChunk), chunks = tokens / chunk, batch = x.numel() / (tokens * x.size(-1));
    const auto chunked = [&](const at::Tensor& t) { return t.reshape({batch * chunks, chunk, t.size(-1)}); };
    const at::Tensor a = chunked(x).transpose(1, 2), b = chunked(y);
    const at::Tensor sums = a.scalar_type() == at::kHalf ? at::bmm(a, b, at::kFloat) : at::bmm(a, b);
    const at::Tensor total = sums.view({batch, chunks, x.size(-1), y.size(-1)}).sum(at::IntArrayRef{1}, false, at::kDouble);
    return x.dim() == 2 ? total[0] : total;
}

} // namespace

JointChoice::JointChoice(std::vector<at::Tensor> factors, at::Tensor target, double ridge, const Control& control)
    : m_target(scaledTarget(target)), m_ridge(std::max(ridge, kLeastRidge)), m_control(control) {
    for (auto& factor : factors)
        m_heads.emplace_back().factor = factor.unsqueeze(-1);
}

void JointChoice::offer(std::size_t h, const HeadTrial& trial, const at::Tensor& readouts) {
    auto& head = m_heads[h];
    if (!head.readouts.defined()) // what the kernels gave in 16 bits loses nothing there
        head.readouts = at::empty({index(kCandidates), readouts.size(0), readouts.size(1)}, readouts.options().dtype(readouts.is_cuda() ? at::kHalf : at::kFloat));
    std::size_t place = head.trials.size();
    if (place < kCandidates) {
        head.trials.push_back(trial);
    } else {
        const auto worst = std::ranges::max_element(head.trials.begin() + (m_begun ? 1 : 0), head.trials.end(), {}, &HeadTrial::residual);
        if (!(trial.residual < worst->residual))
            return;
        *worst = trial;
        place = static_cast<std::size_t>(worst - head.trials.begin());
    }
    at::Tensor to = head.readouts[index(place)];
    at::mul_out(to, readouts, head.factor);
}

template <class F> at::Tensor JointChoice::sum(const F& products) const {
    at::Tensor total;
    const auto most = m_target.is_cuda() ? kSumTokensCuda : kSumTokens;
    for (std::int64_t t = 0, count = 0; t < m_target.size(0); t += count) {
        m_control.checkpoint();
        count = std::min(most, m_target.size(0) - t);
        count -= count > kChunk ? count % kChunk : 0;
        const at::Tensor piece = products(t, count);
        total = total.defined() ? total.add_(piece) : piece;
    }
    return total;
}

at::Tensor JointChoice::candidates(const Head& head, std::size_t first, std::int64_t from, std::int64_t count) const {
    return head.readouts.narrow(0, index(first), std::ssize(head.trials) - index(first)).narrow(1, from, count).transpose(0, 1).reshape({count, -1});
}

at::Tensor JointChoice::picks(const std::vector<std::size_t>& heads, std::int64_t from, std::int64_t count) const {
    std::vector<at::Tensor> parts;
    for (const auto h : heads)
        parts.push_back(m_heads[h].readouts[index(m_heads[h].pick)].narrow(0, from, count));
    return at::cat(parts, 1);
}

// Each head at its best by own residual.
void JointChoice::begin() {
    std::vector<std::size_t> all;
    for (auto& head : m_heads) {
        all.push_back(all.size());
        head.pick = static_cast<std::size_t>(std::ranges::min_element(head.trials, {}, &HeadTrial::residual) - head.trials.begin());
    }
    m_dim = m_heads.front().readouts.size(2);
    at::Tensor gram = sum([&](std::int64_t from, std::int64_t count) {
        const at::Tensor z = picks(all, from, count);
        return product(z, z);
    });
    m_penalty = std::max(m_ridge * gram.diagonal().mean().item<double>(), 1e-30);
    gram.diagonal().add_(m_penalty);
    m_inverse = at::cholesky_inverse(at::linalg_cholesky(gram));
    m_solution = m_inverse.matmul(sum([&](std::int64_t from, std::int64_t count) { return product(picks(all, from, count), target(from, count)); }));
    m_begun = true;
}

// Brings a head's products up to date with its candidates and with the others' picks.
void JointChoice::makeProducts(std::size_t h) {
    auto& head = m_heads[h];
    const auto known = head.own.defined() ? static_cast<std::size_t>(head.own.size(0)) : 0;
    const auto fresh = std::ssize(head.trials) - index(known);
    const auto columns = [&](const at::Tensor& t) { return t.view({t.size(0), -1, m_dim}).transpose(0, 1).to(at::kFloat); }; // [.., K D] -> [K, .., D]
    const auto crossed = [&](const std::vector<std::size_t>& with, std::size_t first) {
        return columns(sum([&](std::int64_t from, std::int64_t count) { return product(picks(with, from, count), candidates(head, first, from, count)); }));
    };
    std::vector<std::size_t> all, moved;
    for (std::size_t j = 0; j < m_heads.size(); ++j) {
        if (j != h && known > 0 && head.picks[j] != m_heads[j].pick)
            moved.push_back(j);
        all.push_back(j);
    }
    if (fresh > 0) {
        const at::Tensor own = sum([&](std::int64_t from, std::int64_t count) {
            const at::Tensor z = head.readouts.narrow(0, index(known), fresh).narrow(1, from, count);
            return product(z, z);
        });
        const at::Tensor withTarget = sum([&](std::int64_t from, std::int64_t count) { return product(candidates(head, known, from, count), target(from, count)); })
                                          .view({fresh, m_dim, -1})
                                          .to(at::kFloat);
        at::Tensor cross = crossed(all, known).contiguous();
        cross.narrow(1, index(h) * m_dim, m_dim).zero_();
        head.own = known > 0 ? at::cat({head.own, own}) : own;
        head.target = known > 0 ? at::cat({head.target, withTarget}) : withTarget;
        head.cross = known > 0 ? at::cat({head.cross, cross}) : cross;
    }
    if (!moved.empty()) {
        const at::Tensor cross = crossed(moved, 0).view({std::ssize(head.trials), std::ssize(moved), m_dim, m_dim});
        for (std::size_t i = 0; i < moved.size(); ++i)
            head.cross.view({-1, std::ssize(m_heads), m_dim, m_dim}).select(1, index(moved[i])).copy_(cross.select(1, index(i)));
    }
    head.picks.clear();
    for (const auto& other : m_heads)
        head.picks.push_back(other.pick);
}

bool JointChoice::visit(std::size_t h) {
    auto& head = m_heads[h];
    std::vector<std::size_t> present;
    for (const auto& other : m_heads)
        present.push_back(other.pick);
    if (head.trials.size() < 2 || head.seen == present)
        return false; // nothing to choose, or nobody moved since
    m_control.checkpoint();
    makeProducts(h);
    const auto K = std::ssize(head.trials), row = index(h) * m_dim;
    const auto own = [&](const at::Tensor& t, std::int64_t dim) { return t.narrow(dim, row, m_dim); }; // the head's rows or columns
    const at::Tensor L = std::get<0>(at::linalg_cholesky_ex(own(own(m_inverse, 0), 1)));
    const at::Tensor P = head.cross.to(at::kDouble); // [K, H D, D]
    const at::Tensor KP = m_inverse.matmul(P.transpose(0, 1).flatten(1)).view({-1, K, m_dim}).transpose(0, 1);
    const at::Tensor F = at::linalg_solve_triangular(L, own(KP, 1), false);                              // L^-1 (K P)_h [K, D, D]
    at::Tensor G = head.own - P.transpose(1, 2).bmm(KP) + F.transpose(1, 2).bmm(F);
    G.diagonal(0, 1, 2).add_(m_penalty);
    const at::Tensor f = at::linalg_solve_triangular(L, own(m_solution, 0), false);                      // L^-1 (K Z'y)_h [D, hidden]
    const at::Tensor s = head.target.to(at::kDouble) - P.transpose(1, 2).matmul(m_solution) + F.transpose(1, 2).matmul(f);
    const auto [LG, failed] = at::linalg_cholesky_ex(G);
    // A candidate that adds nothing to the others but rounding, or is not finite, gains nothing.
    const at::Tensor all = at::linalg_solve_triangular(LG, s, false).square().sum(at::IntArrayRef{1, 2});
    const at::Tensor gains = at::where((failed == 0).logical_and_(all.isfinite()), all, at::full_like(all, -1)).to(at::kCPU);
    const auto best = gains.argmax().item<std::int64_t>();
    const bool moves = gains[best].item<double>() > 0 && gains[best].item<double>() > gains[index(head.pick)].item<double>() * (1 + kBetter);
    if (moves) {
        const at::Tensor R = at::cholesky_solve(own(m_inverse, 1).t(), L).t(), weight = at::cholesky_solve(s[best], LG[best]);
        at::Tensor E = KP[best] - R.matmul(own(KP[best], 0));
        own(E, 0).copy_(-at::eye(m_dim, E.options()));
        const at::Tensor without = m_inverse - R.matmul(own(m_inverse, 0)), solution = m_solution - R.matmul(own(m_solution, 0));
        m_inverse = without + E.matmul(at::cholesky_solve(E.t(), LG[best]));
        m_solution = solution - E.matmul(weight);
        head.pick = static_cast<std::size_t>(best);
        present[h] = head.pick;
    }
    head.seen = std::move(present);
    return moves;
}

// What was not taken goes; each head's pick will be the first of the next time.
void JointChoice::keepPicks() {
    for (auto& head : m_heads) {
        const auto pick = index(head.pick);
        if (pick > 0)
            head.readouts[0].copy_(head.readouts[pick]);
        head.trials = {head.trials[head.pick]};
        if (head.own.defined()) {
            const auto kept = [&](const at::Tensor& t) { return t.narrow(0, pick, 1).clone(); };
            head.own = kept(head.own), head.target = kept(head.target), head.cross = kept(head.cross);
        }
        head.seen.clear();
    }
    for (auto& head : m_heads) {
        for (std::size_t j = 0; j < head.picks.size(); ++j)
            head.picks[j] = head.picks[j] == m_heads[j].pick ? 0 : kCandidates; // as they are numbered now, or of one that is gone
    }
    for (auto& head : m_heads)
        head.pick = 0;
}

std::vector<HeadTrial> JointChoice::choose() {
    if (!m_begun)
        begin();
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
        bool moved = false;
        for (std::size_t h = 0; h < m_heads.size(); ++h)
            moved = visit(h) || moved;
        if (!moved)
            break;
    }
    keepPicks();
    std::vector<HeadTrial> taken;
    for (const auto& head : m_heads)
        taken.push_back(head.trials.front());
    return taken;
}

} // namespace linnet::core
