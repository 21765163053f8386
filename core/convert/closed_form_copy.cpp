// Projections of the teacher, copied (method.md section 2): block-wise repetition, and what becomes of biases, QK-norm and RoPE.
#include "core/torch_pch.h"

#include "core/convert/calibration.h"

#include "core/profile/layer_statistics.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kStatisticsSequences = 4; // at once: between two looks at the control

// q rows times E[exp(i w delta)] of each rotary pair under the head's distances: RoPE folded in expectation.
at::Tensor foldRope(const at::Tensor& q, const Model& teacher, const at::Tensor& distances) {
    const auto heads = distances.size(0), last = distances.size(1), half = teacher.config().headDim / 2;
    const auto expectation = [&](const at::Tensor& table) { // [H, D/2, 1]
        return floatOn(teacher, distances.matmul(table.narrow(0, 0, last).narrow(1, 0, half).to(at::kCPU, at::kDouble))).unsqueeze(-1);
    };
    const at::Tensor c = expectation(teacher.ropeCos(last)), s = expectation(teacher.ropeSin(last));
    const at::Tensor pairs = q.view({heads, 2, half, -1});
    const at::Tensor a = pairs.select(1, 0), b = pairs.select(1, 1);
    return at::stack({a * c - b * s, b * c + a * s}, 1).reshape(q.sizes());
}

bool exactBins(const Profile& profile) {
    return static_cast<double>(profile.edges.size()) == profile.edges.back() + 1;
}

at::Tensor measuredDistances(const LayerContext& context) {
    const auto& x = context.capture.x;
    const auto sequences = std::min(context.recipe.closedForm.sequences, x.size(0));
    at::Tensor sum;
    for (std::int64_t n = 0; n < sequences; n += kStatisticsSequences) {
        if (context.control)
            context.control->checkpoint();
        const auto rows = x.narrow(0, n, std::min(kStatisticsSequences, sequences - n));
        const auto qkv = queryKeyValue(context.teacher, context.weights, rows);
        const at::Tensor piece = layerStatistics(context.teacher.config(), context.weights, qkv, 0).histogramNoSink.sum(0);
        sum = sum.defined() ? sum + piece : piece;
    }
    return (sum / static_cast<double>(sequences)).to(at::kCPU);
}

} // namespace

Treatments treatmentsOf(const Recipe& recipe) {
    return {recipe.biasTreatment != "drop", recipe.qkNormTreatment != "drop", recipe.ropeTreatment == "fold"};
}

Projections copiedProjections(const LayerContext& context, const Treatments& treatments, const at::Tensor& distances, bool scrambled) {
    const auto& teacher = context.teacher;
    const auto& config = teacher.config();
    const auto& attention = context.weights.attention;
    at::Tensor qkv = floatOn(teacher, attention.qkv);
    if (attention.qkvBias.defined() && treatments.foldBias) {
        // least squares of the constant b on x: dW = b m' (Sigma + lambda I)^-1
        const at::Tensor row = context.moments.solve(context.moments.mean);
        qkv = qkv + at::outer(floatOn(teacher, attention.qkvBias), floatOn(teacher, row));
    }
    const auto queryRows = config.heads * config.headDim, keyRows = config.kvHeads * config.headDim;
    at::Tensor q = qkv.narrow(0, 0, queryRows), k = qkv.narrow(0, queryRows, keyRows);
    if (attention.qNorm.defined() && treatments.foldQkNorm) {
        q = q * floatOn(teacher, attention.qNorm).repeat({config.heads}).unsqueeze(-1);
        k = k * floatOn(teacher, attention.kNorm).repeat({config.kvHeads}).unsqueeze(-1);
    }
    if (treatments.foldRope) {
        if (!distances.defined())
            fail(ErrorCode::Usage, "treatment.rope = fold needs attention beyond the sink: windows of more than 8 tokens, found " + std::to_string(context.capture.x.size(1)),
                 {{"key", "data.seq_len"}, {"found", std::to_string(context.capture.x.size(1))}, {"expected", "more than 8"}});
        q = foldRope(q, teacher, distances);
    }
    return {q.clone(), expandKeyValueRows(k, config.kvHeads, config.groupSize(), scrambled),
            expandKeyValueRows(qkv.narrow(0, queryRows + keyRows, keyRows), config.kvHeads, config.groupSize(), scrambled)};
}

at::Tensor attentionDistances(const LayerContext& context) {
    at::Tensor mass;
    if (context.profile && exactBins(*context.profile)) {
        std::vector<at::Tensor> rows;
        for (const auto& head : context.profile->layers[static_cast<std::size_t>(context.layer)])
            rows.push_back(at::tensor(head.histogramNoSink, at::kDouble));
        mass = at::stack(rows);
    } else {
        mass = measuredDistances(context);
    }
    return at::isnan(mass).any().item<bool>() ? at::Tensor() : mass;
}

at::Tensor expandKeyValueRows(const at::Tensor& weight, std::int64_t kvHeads, std::int64_t group, bool scrambled) {
    if (scrambled) // what the released code of both papers does: rows repeated inside a head
        return weight.repeat_interleave(group, 0);
    return weight.view({kvHeads, weight.size(0) / kvHeads, -1}).repeat_interleave(group, 0).reshape({weight.size(0) * group, -1});
}

void setDecay(LinearLayer& layer, std::int64_t head, double rate) {
    layer.aLog[head].zero_();
    layer.aProj[head].zero_();
    layer.dtBias[head].fill_(inverseSoftplus(rate));
}

at::Tensor floatOn(const Model& model, const at::Tensor& tensor) {
    return tensor.to(model.device(), at::kFloat);
}

} // namespace linnet::core
