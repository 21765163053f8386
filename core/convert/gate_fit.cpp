#include "core/torch_pch.h"

#include "core/convert/gate_fit.h"

#include "core/convert/closed_form_output.h"

namespace linnet::core {
namespace {

constexpr double kLevelRidge = 1e-3, kRowRidge = 0.1; // shares of the mean diagonal
constexpr double kLeastLevel = 0.02;
constexpr std::int64_t kMostTokens = 8192, kMostTokensCuda = 32768; // that the rows are fitted on
constexpr std::int64_t kPieceTokens = 2048, kPieceTokensCuda = 16384;

std::map<std::int64_t, double> givenLevels(const LayerContext& context) {
    std::map<std::int64_t, double> levels;
    if (const auto layer = context.recipe.targets.find(context.layer); layer != context.recipe.targets.end())
        for (const auto& [head, target] : layer->second)
            if (target.outputGate)
                levels[head] = *target.outputGate;
    return levels;
}

class GateRegression {
public:
    GateRegression(const LayerContext& context, const LinearLayer& layer, const Control& control)
        : m_context(context), m_control(control), m_heads(context.teacher.config().heads), m_dim(context.teacher.config().headDim), m_given(givenLevels(context)) {
        const auto& capture = context.capture;
        const bool cuda = capture.x.is_cuda();
        const auto T = capture.x.size(1), windows = std::min(capture.x.size(0), std::max<std::int64_t>(1, (cuda ? kMostTokensCuda : kMostTokens) / T));
        const auto piece = std::max<std::int64_t>(1, (cuda ? kPieceTokensCuda : kPieceTokens) / T);
        std::vector<at::Tensor> x, y, n;
        for (std::int64_t w = 0; w < windows; w += piece) {
            control.checkpoint();
            const auto count = std::min(piece, windows - w);
            x.push_back(floatOn(context.teacher, capture.x.narrow(0, w, count)));
            y.push_back(floatOn(context.teacher, capture.target.narrow(0, w, count)).flatten(0, 1));
            n.push_back(fittedReadout(context, layer, x.back()).normed.flatten(0, 1).flatten(1));
            x.back() = x.back().flatten(0, 1);
        }
        for (std::size_t i = 0; i < x.size(); ++i)
            m_pieces.push_back({x[i], y[i], n[i]});
        at::Tensor square = at::zeros({}, context.moments.second.options());
        for (const auto& p : m_pieces)
            square += p.y.square().sum();
        m_square = std::max(square.item<double>(), 1e-30);
        m_fit.oProj = floatOn(context.teacher, context.weights.attention.o).clone();
    }

    GateFit run(std::int64_t rounds) {
        setLevels();
        const at::Tensor second = m_context.moments.second;
        at::Tensor S = second.clone();
        S.diagonal().add_(kRowRidge * second.diagonal().mean());
        m_factor = at::linalg_cholesky(S);
        for (std::int64_t round = 0; round < rounds; ++round)
            turn();
        m_fit.residuals.push_back(residual());
        return std::move(m_fit);
    }

private:
    struct Piece {
        at::Tensor x, y, n; // [tokens, hidden], [tokens, hidden], [tokens, H D] float32
    };
    struct Forward {
        at::Tensor f, error; // n SiLU'(u) [tokens, H D]; y - W (n SiLU(u)) [tokens, hidden]
    };

    at::Tensor unitRow() const { return floatOn(m_context.teacher, m_context.moments.unitRow()); }

    void setLevels() {
        const at::Tensor& W = m_fit.oProj;
        at::Tensor gram, cross;
        std::int64_t tokens = 0;
        for (const auto& p : m_pieces) {
            m_control.checkpoint();
            const at::Tensor g = p.n.t().matmul(p.n).to(at::kDouble), c = p.n.t().matmul(p.y).to(at::kDouble);
            gram = gram.defined() ? gram + g : g;
            cross = cross.defined() ? cross + c : c;
            tokens += p.x.size(0);
        }
        const at::Tensor wide = W.to(at::kDouble);
        at::Tensor M = (wide.t().matmul(wide) * gram).view({m_heads, m_dim, m_heads, m_dim}).sum(at::IntArrayRef{1, 3}) / tokens;
        const at::Tensor r = (wide.t() * cross).sum(1).view({m_heads, m_dim}).sum(1) / tokens;
        M.diagonal().add_((kLevelRidge * M.diagonal().mean()).clamp_min(1e-30));
        const at::Tensor c = at::cholesky_solve(r.unsqueeze(-1), at::linalg_cholesky(M)).squeeze(-1).to(at::kCPU);
        const at::Tensor row = unitRow();
        std::vector<at::Tensor> gates;
        for (std::int64_t h = 0; h < m_heads; ++h) {
            const double level = c[h].item<double>(), size = std::max(std::abs(level), kLeastLevel);
            const auto given = m_given.find(h);
            // A given level stays in the gate, and W takes the rest; no number makes up for a gate that is closed.
            const double factor = given == m_given.end() ? 1 : given->second > 0 ? size / given->second : 1;
            m_fit.oProj.narrow(1, h * m_dim, m_dim).mul_(level < 0 ? -factor : factor);
            gates.push_back((row * inverseSiLU(given == m_given.end() ? size : given->second)).expand({m_dim, -1}));
        }
        m_fit.gProj = at::cat(gates);
    }

    Forward forward(const Piece& p) const {
        const at::Tensor u = p.x.matmul(m_fit.gProj.t()), s = u.sigmoid();
        return {p.n * s * (1 + u * (1 - s)), p.y - (p.n * u * s).matmul(m_fit.oProj.t())};
    }

    void turn() {
        const at::Tensor& W = m_fit.oProj;
        const at::Tensor norms = W.square().sum(0).clamp_min(1e-20);
        at::Tensor cross, power, error = at::zeros({}, m_factor.options());
        std::int64_t tokens = 0;
        std::vector<Forward> forwards;
        for (const auto& p : m_pieces) {
            m_control.checkpoint();
            const auto& at = forwards.emplace_back(forward(p));
            const at::Tensor c = (at.f * (at.error.matmul(W) / norms)).t().matmul(p.x).to(at::kDouble), f = at.f.square().sum(0);
            cross = cross.defined() ? cross + c : c;
            power = power.defined() ? power + f : f;
            error += at.error.square().sum();
            tokens += p.x.size(0);
        }
        m_fit.residuals.push_back(error.item<double>() / m_square);
        at::Tensor step = at::cholesky_solve((cross / tokens).t(), m_factor).t().to(at::kFloat) / (power / tokens).clamp_min(1e-20).unsqueeze(-1);
        for (const auto& [head, level] : m_given)
            step.narrow(0, head * m_dim, m_dim).zero_();
        at::Tensor along = at::zeros({}, m_factor.options()), length = along.clone();
        for (std::size_t i = 0; i < m_pieces.size(); ++i) {
            m_control.checkpoint();
            const at::Tensor change = (forwards[i].f * m_pieces[i].x.matmul(step.t())).matmul(W.t());
            along += (forwards[i].error * change).sum();
            length += change.square().sum();
        }
        m_fit.gProj = m_fit.gProj + step * (along / length.clamp_min(1e-30)).to(at::kFloat);
    }

    double residual() const {
        at::Tensor error = at::zeros({}, m_factor.options());
        for (const auto& p : m_pieces)
            error += forward(p).error.square().sum();
        return error.item<double>() / m_square;
    }

    const LayerContext& m_context;
    const Control& m_control;
    std::int64_t m_heads, m_dim;
    std::map<std::int64_t, double> m_given;
    std::vector<Piece> m_pieces;
    double m_square = 0; // of y
    at::Tensor m_factor; // of Sigma + ridge
    GateFit m_fit;
};

} // namespace

GateFit fitGate(const LayerContext& context, const LinearLayer& layer, std::int64_t rounds, const Control& control) {
    const at::NoGradGuard noGradients;
    return GateRegression(context, layer, control).run(rounds);
}

} // namespace linnet::core
