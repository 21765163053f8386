#include "core/torch_pch.h"

#include "core/distill/chunked_kl.h"

#include "core/base/result.h"
#include "core/model/vocabulary_scores.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kWideTensors = 5; // [rows, tokens] float tensors that VocabularyScores holds at a time, with the allocator's slack

struct KnownGradients {
    at::Tensor hidden, head; // times rows; undefined where nobody asks
    double rows = 1;
};

// The loss as a node whose gradients are there already: backward multiplies them by the gradient that reaches it.
class KnownGradientLoss : public torch::autograd::Function<KnownGradientLoss> {
public:
    static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& hidden, const at::Tensor& head,
                              const at::Tensor& loss, const KnownGradients& known) {
        ctx->save_for_backward({known.hidden, known.head});
        ctx->saved_data["rows"] = known.rows;
        ctx->saved_data["types"] = std::vector<std::int64_t>{static_cast<std::int64_t>(hidden.scalar_type()),
                                                             static_cast<std::int64_t>(head.scalar_type())};
        return loss.clone();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list gradients) {
        const auto saved = ctx->get_saved_variables();
        const auto types = ctx->saved_data["types"].toIntVector();
        const at::Tensor factor = gradients[0] / ctx->saved_data["rows"].toDouble();
        const auto scaled = [&](std::size_t i) {
            return saved[i].defined() ? at::mul(saved[i], factor).to(static_cast<at::ScalarType>(types[i])) : at::Tensor();
        };
        return {scaled(0), scaled(1), {}, {}};
    }
};

void require(bool holds, const std::string& what) {
    if (!holds)
        fail(ErrorCode::Usage, "distillation loss: " + what);
}

void check(const DistillInput& in, const DistillOptions& options) {
    require(in.hidden.dim() == 2 && in.head.dim() == 2 && in.hidden.size(1) == in.head.size(1),
            "hidden [rows, n] and head [V, n] don't fit each other");
    require(in.teacherHidden.defined() == in.teacherHead.defined(), "a teacher needs both hidden states and head");
    require(in.teacherHidden.defined() || in.targets.defined(), "neither a teacher nor targets were given");
    if (in.teacherHidden.defined()) {
        require(in.teacherHidden.dim() == 2 && in.teacherHead.dim() == 2 && in.teacherHidden.size(1) == in.teacherHead.size(1),
                "the teacher's hidden [rows, n] and head [V, n] don't fit each other");
        require(in.teacherHidden.size(0) == in.hidden.size(0), "teacher and student have different numbers of rows");
        require(in.teacherHead.size(0) == in.head.size(0),
                "the teacher has " + std::to_string(in.teacherHead.size(0)) + " tokens, the student " + std::to_string(in.head.size(0)));
    }
    require(!in.targets.defined() || (in.targets.dim() == 1 && in.targets.size(0) == in.hidden.size(0)), "targets need one entry a row");
    require(!in.rowWeights.defined() || (in.rowWeights.dim() == 1 && in.rowWeights.size(0) == in.hidden.size(0)),
            "row weights need one entry a row");
    require(options.temperature > 0, "the temperature must be above 0");
}

// sum += a b. Narrow factors are multiplied with a float32 result; the CPU has no such product and widens them first.
void addProduct(at::Tensor sum, const at::Tensor& a, const at::Tensor& b) {
    if (a.scalar_type() == sum.scalar_type())
        sum.addmm_(a, b);
    else if (a.is_cuda())
        sum.add_(at::mm(a, b, sum.scalar_type()));
    else
        sum.addmm_(a.to(sum.scalar_type()), b.to(sum.scalar_type()));
}

class Pass {
public:
    Pass(const DistillInput& in, const DistillOptions& options) : m_in(in), m_options(options) {
        const bool graph = at::GradMode::is_enabled();
        m_wide = in.hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
        const auto wide = in.hidden.options().dtype(m_wide).requires_grad(false);
        if (graph && in.hidden.requires_grad())
            m_known.hidden = at::empty(in.hidden.sizes(), wide);
        if (graph && in.head.requires_grad())
            m_known.head = at::zeros(in.head.sizes(), wide);
        const auto rows = in.hidden.size(0);
        m_known.rows = static_cast<double>(std::max<std::int64_t>(rows, 1));
        const at::Tensor weights = in.rowWeights.defined() ? in.rowWeights.detach().to(wide) : at::ones({rows}, wide);
        m_klShare = shares(weights);
        if (in.targets.defined())
            m_crossShare = shares(weights * (in.targets >= 0));
        m_kl = at::zeros({}, wide), m_cross = at::zeros({}, wide);
    }

    DistillLoss run(const Control& control) {
        const auto rows = m_in.hidden.size(0), vocabulary = m_in.head.size(0);
        const auto bytes = static_cast<std::int64_t>(m_in.hidden.element_size());
        const auto teacherBytes = teacher() ? static_cast<std::int64_t>(m_in.teacherHidden.element_size()) : 0;
        const PieceSizes sizes = pieceSizes(rows, vocabulary, bytes + teacherBytes, m_wide == at::kDouble ? 8 : 4, m_options.pieceBytes);
        const at::Tensor logits = at::empty({sizes.rows, vocabulary}, m_in.hidden.options().requires_grad(false));
        const at::Tensor teacherLogits =
            teacher() ? at::empty({sizes.rows, vocabulary}, m_in.teacherHidden.options().requires_grad(false)) : at::Tensor();
        for (std::int64_t from = 0; from < rows; from += sizes.rows) {
            control.checkpoint();
            rowPiece(from, std::min(sizes.rows, rows - from), sizes.tokens, logits, teacherLogits);
        }
        DistillLoss result;
        result.loss = at::zeros_like(m_kl);
        if (teacher()) {
            result.kl = m_kl.mul_(m_options.temperature * m_options.temperature);
            result.loss = result.loss + result.kl * m_options.klWeight;
        }
        if (m_in.targets.defined()) {
            result.crossEntropy = m_cross;
            result.loss = result.loss + result.crossEntropy * m_options.crossEntropyWeight;
        }
        return result;
    }

    const KnownGradients& known() const { return m_known; }
    bool gradients() const { return m_known.hidden.defined() || m_known.head.defined(); }

private:
    bool teacher() const { return m_in.teacherHidden.defined(); }

    // What a row's value counts for in the mean: weights over their sum, 0 where that is 0.
    static at::Tensor shares(const at::Tensor& weights) {
        const at::Tensor sum = weights.sum();
        return weights / at::where(sum > 0, sum, at::ones_like(sum));
    }

    void rowPiece(std::int64_t from, std::int64_t count, std::int64_t tokens, const at::Tensor& logitBuffer,
                  const at::Tensor& teacherBuffer) {
        const auto rowsOf = [&](const at::Tensor& t) { return t.defined() ? t.detach().narrow(0, from, count) : at::Tensor(); };
        const at::Tensor hidden = rowsOf(m_in.hidden), head = m_in.head.detach(), targets = rowsOf(m_in.targets);
        at::Tensor logits = logitBuffer.narrow(0, 0, count), teacherLogits;
        at::mm_out(logits, hidden, head.t());
        if (teacher()) {
            teacherLogits = teacherBuffer.narrow(0, 0, count);
            at::mm_out(teacherLogits, rowsOf(m_in.teacherHidden), m_in.teacherHead.detach().t());
        }
        VocabularyScores scores({.temperature = m_options.temperature}, targets);
        const auto eachPiece = [&](const auto& work) {
            for (std::int64_t first = 0; first < head.size(0); first += tokens) {
                const auto n = std::min(tokens, head.size(0) - first);
                work(first, n, logits.narrow(1, first, n), teacher() ? teacherLogits.narrow(1, first, n) : at::Tensor());
            }
        };
        eachPiece([&](std::int64_t first, std::int64_t, const at::Tensor& z, const at::Tensor& zt) { scores.add(z, zt, first); });
        const at::Tensor klShare = rowsOf(m_klShare), crossShare = rowsOf(m_crossShare);
        if (teacher())
            m_kl.add_((scores.kl() * klShare).sum());
        if (targets.defined())
            m_cross.add_((scores.crossEntropy() * crossShare).sum());
        if (!gradients())
            return;
        // Without their 1 / rows, gradients have the size of probabilities: float16 can hold them.
        const double rows = m_known.rows;
        const at::Tensor klScale = klShare.unsqueeze(1) * (rows * m_options.klWeight);
        const at::Tensor crossScale = crossShare.defined() ? crossShare.unsqueeze(1) * (rows * m_options.crossEntropyWeight) : at::Tensor();
        at::Tensor hiddenGradient = m_known.hidden.defined() ? rowsOf(m_known.hidden).zero_() : at::Tensor();
        eachPiece([&](std::int64_t first, std::int64_t n, const at::Tensor& z, const at::Tensor& zt) {
            scores.replaceByGradient(z, zt, first, klScale, crossScale);
            if (hiddenGradient.defined())
                addProduct(hiddenGradient, z, head.narrow(0, first, n));
            if (m_known.head.defined())
                addProduct(m_known.head.narrow(0, first, n), z.t(), hidden);
        });
    }

    const DistillInput& m_in;
    const DistillOptions& m_options;
    at::ScalarType m_wide;
    KnownGradients m_known; // wide
    at::Tensor m_klShare, m_crossShare;          // wide [rows]
    at::Tensor m_kl, m_cross;                    // sums so far
};

} // namespace

PieceSizes pieceSizes(std::int64_t rows, std::int64_t vocabulary, std::int64_t logitBytes, std::int64_t wideBytes,
                      std::int64_t pieceBytes) {
    PieceSizes sizes; // half of the bytes for logits, half for what softmax needs beside them
    const auto half = std::max<std::int64_t>(pieceBytes / 2, 1);
    sizes.rows = std::clamp<std::int64_t>(half / (vocabulary * logitBytes), 1, std::max<std::int64_t>(rows, 1));
    sizes.tokens = std::clamp<std::int64_t>(half / (sizes.rows * wideBytes * kWideTensors), 1, vocabulary);
    return sizes;
}

DistillLoss distillLoss(const DistillInput& input, const DistillOptions& options, const Control& control) {
    check(input, options);
    Pass pass(input, options);
    DistillLoss result;
    {
        const at::NoGradGuard noGrad;
        result = pass.run(control);
    }
    if (pass.gradients())
        result.loss = KnownGradientLoss::apply(input.hidden, input.head, result.loss, pass.known());
    return result;
}

} // namespace linnet::core
