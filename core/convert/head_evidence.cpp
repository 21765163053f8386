#include "core/torch_pch.h"

#include "core/convert/head_evidence.h"

#include "core/convert/student_head.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kPieceWindows = 4, kJumpWindows = 8; // of a forward; that jumps are looked for in
constexpr std::size_t kSpots = 5;
constexpr std::int64_t kApart = 12, kAround = 10; // tokens between two spots of one window; of text on each side
constexpr double kRidge = 1e-4, kLeastPower = 1e-30; // the former a share of the mean diagonal, as in closed_form.h

struct Tokenwise { // [N, T] float64 on the host
    at::Tensor error, power, cosine; // squared, as W_O sees them
};

// Normed (and gated) readouts of the one head [N, T, D].
at::Tensor readouts(const StudentHead& student, const at::Tensor& x, const Control& control) {
    std::vector<at::Tensor> parts;
    for (std::int64_t n = 0; n < x.size(0); n += kPieceWindows) {
        control.checkpoint();
        const at::Tensor some = x.narrow(0, n, std::min(kPieceWindows, x.size(0) - n)).to(at::kFloat);
        at::Tensor z = linearReadout(*student.spec, student.shape, student.layer, some).normed.flatten(2);
        if (student.ownGate && student.spec->outputGate)
            z = z * outputGate(student.layer, some);
        parts.push_back(z);
    }
    return at::cat(parts);
}

Tokenwise compare(const StudentHead& student, const LayerContext& context, std::int64_t head, const Control& control) {
    const auto D = student.shape.headDim;
    const at::Tensor z = readouts(student, context.capture.x, control).to(at::kDouble);
    const at::Tensor y = context.capture.heads.narrow(2, head * D, D).to(at::kDouble);
    const at::Tensor O = context.weights.attention.o.narrow(1, head * D, D).to(at::kDouble), M = O.t().matmul(O);
    const at::Tensor flat = z.flatten(0, 1);
    at::Tensor G = flat.t().matmul(flat);
    G.diagonal().add_((G.diagonal().mean() * kRidge).clamp_min(kLeastPower));
    const at::Tensor B = at::cholesky_solve(flat.t().matmul(y.flatten(0, 1)), at::linalg_cholesky(G));
    const at::Tensor made = z.matmul(B), left = made - y;
    const auto inner = [&](const at::Tensor& a, const at::Tensor& b) { return (a.matmul(M) * b).sum(-1); };
    const at::Tensor power = inner(y, y);
    const at::Tensor cosine = inner(made, y) / (power * inner(made, made)).clamp_min(kLeastPower).sqrt();
    return {inner(left, left).to(at::kCPU), power.to(at::kCPU), cosine.to(at::kCPU)};
}

double standardError(const std::vector<double>& each) {
    const auto n = static_cast<double>(each.size());
    if (each.size() < 2)
        return NAN;
    double mean = 0, square = 0;
    for (const double value : each)
        mean += value / n;
    for (const double value : each)
        square += (value - mean) * (value - mean);
    return std::sqrt(square / (n - 1) / n);
}

// Of the tokens where member[n][t] holds.
template <class Member> ErrorBucket bucket(const Tokenwise& tokens, const Member& member) {
    const auto error = tokens.error.accessor<double, 2>(), power = tokens.power.accessor<double, 2>(), cosine = tokens.cosine.accessor<double, 2>();
    ErrorBucket result;
    double errors = 0, powers = 0, cosines = 0;
    std::vector<double> byWindowError, byWindowCosine;
    for (std::int64_t n = 0; n < error.size(0); ++n) {
        double e = 0, p = 0, c = 0;
        std::int64_t count = 0;
        for (std::int64_t t = 0; t < error.size(1); ++t)
            if (member(n, t))
                e += error[n][t], p += power[n][t], c += cosine[n][t], ++count;
        if (count == 0)
            continue;
        byWindowError.push_back(e / std::max(p, kLeastPower));
        byWindowCosine.push_back(c / static_cast<double>(count));
        errors += e, powers += p, cosines += c, result.tokens += count;
    }
    const bool any = result.tokens > 0;
    result.relativeError = any ? errors / std::max(powers, kLeastPower) : NAN;
    result.cosine = any ? cosines / static_cast<double>(result.tokens) : NAN;
    result.relativeErrorSe = standardError(byWindowError), result.cosineSe = standardError(byWindowCosine);
    return result;
}

class Texts { // of the calibration windows
public:
    explicit Texts(const TargetProbe::State& state) : m_length(state.calibration.seqLen) {
        const std::vector<TokenId> ids(state.calibration.ids.begin(), state.calibration.ids.begin() + state.sequences * m_length);
        m_pieces = tokenPieces(*state.teacher, ids);
        for (std::int64_t n = 0; n < state.sequences; ++n) { // a window starts cold: its first word may be the middle of one
            const auto first = m_pieces.begin() + n * m_length;
            const auto classes = tokenClasses({first, first + m_length});
            m_classes.insert(m_classes.end(), classes.begin(), classes.end());
        }
    }
    TokenClass kind(std::int64_t window, std::int64_t position) const { return m_classes[static_cast<std::size_t>(window * m_length + position)]; }
    TextSpot spot(std::int64_t window, std::int64_t position) const {
        TextSpot spot{{}, piece(window, position), {}, window, position};
        for (auto t = std::max<std::int64_t>(0, position - kAround); t < position; ++t)
            spot.before += piece(window, t);
        for (auto t = position + 1; t < std::min(m_length, position + kAround); ++t)
            spot.after += piece(window, t);
        return spot;
    }

private:
    const std::string& piece(std::int64_t window, std::int64_t position) const { return m_pieces[static_cast<std::size_t>(window * m_length + position)]; }
    std::int64_t m_length;
    std::vector<std::string> m_pieces;
    std::vector<TokenClass> m_classes;
};

struct Place {
    std::int64_t window = 0, token = 0, source = 0;
    double value = 0, weight = 0; // that they are ordered by; of attention
};

// The largest by value, one of each neighbourhood.
std::vector<Place> spread(std::vector<Place> all) {
    std::ranges::stable_sort(all, std::greater{}, &Place::value);
    std::vector<Place> chosen;
    for (const auto& place : all) {
        const auto near = [&](const Place& other) { return other.window == place.window && std::abs(other.token - place.token) < kApart; };
        if (chosen.size() < kSpots && std::ranges::none_of(chosen, near))
            chosen.push_back(place);
    }
    return chosen;
}

std::vector<Place> jumps(const LayerContext& context, std::int64_t head, const Control& control) {
    std::vector<Place> all;
    const auto windows = std::min(kJumpWindows, context.capture.x.size(0)), T = context.capture.x.size(1);
    const at::Tensor past = at::arange(T, at::kFloat).unsqueeze(1) - at::arange(T, at::kFloat); // t - s
    for (std::int64_t n = 0; n < windows; ++n) {
        control.checkpoint();
        const at::Tensor A = teacherAttention(context.teacher, context.weights, context.capture.x.narrow(0, n, 1), head).to(at::kCPU);
        at::Tensor reach = past * (A >= kJumpWeight);
        reach.narrow(1, 0, std::min(kJumpSinks, T)).zero_();
        const auto [distance, source] = reach.max(1);
        const auto d = distance.accessor<float, 1>();
        const auto s = source.accessor<std::int64_t, 1>();
        const auto weight = A.accessor<float, 2>();
        for (std::int64_t t = 0; t < T; ++t)
            if (d[t] > 0)
                all.push_back({n, t, s[t], d[t], weight[t][s[t]]});
    }
    return spread(std::move(all));
}

} // namespace

Result<HeadEvidence> headEvidence(TargetProbe& probe, const Recipe& recipe, const HeadRequest& request, const Control& control) {
    return guarded([&] {
        const at::NoGradGuard noGradients;
        auto& state = probe.state();
        const auto [context, student] = openHead(state, recipe, request, control);
        const auto tokens = compare(student, context, request.head, control);
        const Texts texts(state);
        const auto T = tokens.error.size(1);
        HeadEvidence evidence;
        evidence.layer = request.layer, evidence.head = request.head, evidence.windows = tokens.error.size(0), evidence.windowTokens = T, evidence.trained = student.trained;
        const auto all = bucket(tokens, [](std::int64_t, std::int64_t) { return true; });
        evidence.relativeError = all.relativeError, evidence.cosine = all.cosine;
        for (std::int64_t from = 0, to = 1; from < T; from = to, to *= 2) {
            auto one = bucket(tokens, [&](std::int64_t, std::int64_t t) { return t >= from && t < to; });
            one.from = from, one.to = std::min(to, T);
            evidence.byPosition.push_back(one);
        }
        for (int kind = 0; kind < kTokenClasses; ++kind) {
            auto one = bucket(tokens, [&](std::int64_t n, std::int64_t t) { return static_cast<int>(texts.kind(n, t)) == kind; });
            one.from = kind, one.to = kind + 1;
            evidence.byClass.push_back(one);
        }
        for (const auto& place : jumps(context, request.head, control))
            evidence.jumps.push_back({texts.spot(place.window, place.token), texts.spot(place.window, place.source), place.token - place.source, place.weight});
        const double mean = std::max(tokens.power.mean().item<double>(), kLeastPower);
        const auto error = tokens.error.accessor<double, 2>();
        std::vector<Place> places;
        for (std::int64_t n = 0; n < error.size(0); ++n)
            for (std::int64_t t = 0; t < T; ++t)
                places.push_back({n, t, 0, error[n][t] / mean, 0});
        for (const auto& place : spread(std::move(places)))
            evidence.errors.push_back({texts.spot(place.window, place.token), place.value});
        return evidence;
    });
}

} // namespace linnet::core
