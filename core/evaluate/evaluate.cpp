#include "core/torch_pch.h"

#include "core/evaluate/evaluate_model.h"
#include "core/evaluate/score_rows.h"

#include <chrono>
#include <limits>

namespace linnet::core {
namespace {

constexpr std::int64_t kLargeBytes = std::int64_t{2} << 30; // a teacher reference above this stays on the host

void refuseUnscorable(const Model& model, const TokenWindows& windows) {
    if (windows.sequences < 1 || windows.seqLen < 2)
        fail(ErrorCode::Usage, "an evaluation needs at least one window of two tokens, got " +
                                   std::to_string(windows.sequences) + " of " + std::to_string(windows.seqLen));
    checkTokenIds(model, windows.ids);
}

void checkReference(const Model& model, const TokenWindows& windows, const TeacherReference& teacher) {
    if (teacher.hidden.size(0) != windows.sequences || teacher.hidden.size(1) != windows.seqLen)
        fail(ErrorCode::Usage, "the teacher was run on " + std::to_string(teacher.hidden.size(0)) + " windows of " +
                                   std::to_string(teacher.hidden.size(1)) + " tokens, the model on " +
                                   std::to_string(windows.sequences) + " of " + std::to_string(windows.seqLen));
    const auto vocabulary = teacher.head.defined() ? teacher.head.size(0) : model.config().vocabSize;
    if (vocabulary != model.config().vocabSize)
        fail(ErrorCode::Usage, "teacher and model can't be compared: the teacher has " + std::to_string(vocabulary) +
                                   " tokens, " + model.files().path.string() + " has " +
                                   std::to_string(model.config().vocabSize));
}

// Mean over all positions, and its standard error over windows. `perPosition` float64 [sequences, positions].
std::pair<double, double> meanOverWindows(const at::Tensor& perPosition) {
    const auto means = perPosition.mean(1);
    const auto n = means.size(0);
    const double se =
        n < 2 ? std::numeric_limits<double>::quiet_NaN() : means.std().item<double>() / std::sqrt(static_cast<double>(n));
    return {means.mean().item<double>(), se};
}

using Hidden = std::function<at::Tensor(std::int64_t first, const at::Tensor& ids)>; // final hidden states of some windows

// All windows, a few at a time; `each` gets their first index, ids and final hidden states.
void eachBatch(const Model& model, const TokenWindows& windows, const Control& control, const char* detail, const Hidden& hidden,
               const std::function<void(std::int64_t, const at::Tensor&, const at::Tensor&)>& each) {
    const auto ids = windowTensor(windows, model.device());
    const auto step = forwardBatch(model, windows.seqLen);
    const auto total = static_cast<double>(windows.sequences);
    for (std::int64_t from = 0; from < windows.sequences; from += step) {
        control.report("evaluate", static_cast<double>(from), total, detail);
        const auto batch = ids.narrow(0, from, std::min(step, windows.sequences - from));
        each(from, batch, hidden(from, batch));
    }
    control.report("evaluate", total, total, detail);
}

Json number(double value) {
    return std::isfinite(value) ? Json(value) : Json();
}

Json number(const std::optional<double>& value) {
    return number(value.value_or(std::numeric_limits<double>::quiet_NaN()));
}

double toNumber(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found == json.end() || found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
}

std::optional<double> toOptional(const Json& json, const char* key) {
    const double value = toNumber(json, key);
    return std::isnan(value) ? std::nullopt : std::optional(value);
}

} // namespace

at::Tensor windowTensor(const TokenWindows& windows, at::Device device) {
    auto* data = const_cast<TokenId*>(windows.ids.data()); // from_blob asks for a mutable pointer; the copy below only reads
    return at::from_blob(data, {windows.sequences, windows.seqLen}, at::kInt).to(device, at::kLong);
}

namespace {

Evaluation evaluated(const Model& model, const TokenWindows& windows, const TeacherReference* teacher, const Hidden& hiddenOf, const Control& control,
                     at::Tensor* windowLoss = nullptr) {
    refuseUnscorable(model, windows);
    if (teacher)
        checkReference(model, windows, *teacher);
    const at::NoGradGuard noGrad;
    const auto start = std::chrono::steady_clock::now();
    const auto positions = windows.seqLen - 1; // the last token of a window predicts nothing that could be scored
    std::vector<at::Tensor> loss, kl, agreement;
    eachBatch(model, windows, control, "windows", hiddenOf,
              [&](std::int64_t from, const at::Tensor& ids, const at::Tensor& hidden) {
                  const auto count = ids.size(0);
                  const auto rows = [&](const at::Tensor& x) {
                      return x.narrow(1, 0, positions).reshape({count * positions, x.size(2)});
                  };
                  at::Tensor reference;
                  if (teacher)
                      reference = rows(teacher->hidden.narrow(0, from, count).to(model.device()));
                  const auto scores = scoreRows(model, rows(hidden), ids.narrow(1, 1, positions).reshape({-1}), reference,
                                                teacher ? teacher->head : at::Tensor(), control);
                  loss.push_back(scores.loss.view({count, positions}));
                  if (teacher) {
                      kl.push_back(scores.kl.view({count, positions}));
                      agreement.push_back(scores.agreement.view({count, positions}));
                  }
              });
    Evaluation result;
    result.seqLen = windows.seqLen, result.sequences = windows.sequences, result.tokens = windows.sequences * positions;
    std::tie(result.loss, result.lossSe) = meanOverWindows(at::cat(loss));
    result.perplexity = std::exp(result.loss);
    const at::Tensor byWindow = at::cat(loss).mean(1);
    if (windowLoss)
        *windowLoss = byWindow;
    else if (teacher && teacher->windowLoss.defined() && windows.sequences > 1)
        result.lossDifferenceSe = (byWindow - teacher->windowLoss).std().item<double>() / std::sqrt(static_cast<double>(windows.sequences));
    if (teacher) {
        std::tie(result.klToTeacher, result.klSe) = meanOverWindows(at::cat(kl));
        std::tie(result.top1Agreement, result.top1Se) = meanOverWindows(at::cat(agreement));
    }
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
}

} // namespace

Evaluation evaluateMixers(const Model& model, const Mixers& mixers, const TokenWindows& windows,
                          const TeacherReference* teacher, const Control& control) {
    return evaluated(model, windows, teacher, [&](std::int64_t, const at::Tensor& ids) { return forwardHidden(model, mixers, ids, control); }, control);
}

Evaluation evaluateReference(const Model& teacher, const TokenWindows& windows, TeacherReference& reference, const Control& control) {
    auto result = evaluated(teacher, windows, &reference,
                            [&](std::int64_t first, const at::Tensor& ids) { return reference.hidden.narrow(0, first, ids.size(0)).to(teacher.device()); }, control, &reference.windowLoss);
    result.seconds += reference.seconds;
    return result;
}

Result<TeacherReferencePtr> teacherReference(const Model& teacher, const TokenWindows& windows, const Control& control) {
    return guarded([&]() -> TeacherReferencePtr {
        refuseUnscorable(teacher, windows);
        const at::NoGradGuard noGrad;
        const auto elements = windows.tokens() * teacher.config().hiddenSize;
        const bool large = elements * static_cast<std::int64_t>(at::elementSize(teacher.dtype())) > kLargeBytes;
        auto reference = std::make_shared<TeacherReference>();
        reference->head = teacher.head();
        reference->hidden = at::empty({windows.sequences, windows.seqLen, teacher.config().hiddenSize},
                                      at::dtype(teacher.dtype()).device(large ? at::Device(at::kCPU) : teacher.device()));
        const auto start = std::chrono::steady_clock::now();
        eachBatch(teacher, windows, control, "teacher", [&](std::int64_t, const at::Tensor& ids) { return forwardHidden(teacher, teacher.mixers(), ids, control); },
                  [&](std::int64_t from, const at::Tensor& ids, const at::Tensor& hidden) {
                      reference->hidden.narrow(0, from, ids.size(0)).copy_(hidden);
                  });
        reference->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        return reference;
    });
}

Result<Evaluation> evaluateChunked(const Model& model, const TokenWindows& windows, const TeacherReferencePtr& teacher,
                                   const Control& control) {
    return guarded([&] { return evaluateMixers(model, model.mixers(), windows, teacher.get(), control); });
}

Json evaluationToJson(const Evaluation& evaluation) {
    Json json = {{"loss", number(evaluation.loss)},
                 {"loss_se", number(evaluation.lossSe)},
                 {"perplexity", number(evaluation.perplexity)},
                 {"convention", evaluation.convention},
                 {"seq_len", evaluation.seqLen},
                 {"tokens", evaluation.tokens},
                 {"sequences", evaluation.sequences},
                 {"kl_to_teacher", number(evaluation.klToTeacher)},
                 {"kl_se", number(evaluation.klSe)},
                 {"top1_agreement", number(evaluation.top1Agreement)},
                 {"top1_se", number(evaluation.top1Se)},
                 {"seconds", evaluation.seconds}};
    if (evaluation.lossDifferenceSe)
        json["loss_difference_se"] = number(evaluation.lossDifferenceSe);
    if (evaluation.convention == "word")
        json["words"] = evaluation.words;
    return json;
}

Evaluation evaluationFromJson(const Json& json) {
    Evaluation evaluation;
    try {
        evaluation.loss = toNumber(json, "loss"), evaluation.lossSe = toNumber(json, "loss_se");
        evaluation.perplexity = toNumber(json, "perplexity");
        evaluation.convention = json.at("convention").get<std::string>();
        evaluation.seqLen = json.at("seq_len").get<std::int64_t>();
        evaluation.tokens = json.at("tokens").get<std::int64_t>();
        evaluation.sequences = json.value("sequences", std::int64_t{0});
        evaluation.words = json.value("words", std::int64_t{0});
        evaluation.klToTeacher = toOptional(json, "kl_to_teacher"), evaluation.klSe = toOptional(json, "kl_se");
        evaluation.top1Agreement = toOptional(json, "top1_agreement"), evaluation.top1Se = toOptional(json, "top1_se");
        evaluation.lossDifferenceSe = toOptional(json, "loss_difference_se");
        evaluation.seconds = json.value("seconds", 0.0);
    } catch (const Json::exception& error) {
        fail(ErrorCode::Malformed, std::string("an evaluation's JSON: ") + error.what());
    }
    return evaluation;
}

} // namespace linnet::core
