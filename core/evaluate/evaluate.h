// How good a model is: perplexity in two named conventions, KL to the teacher, top-1 agreement; each with n and standard error.
#pragma once

#include "core/base/control.h"
#include "core/base/json.h"
#include "core/data/text_data.h"
#include "core/model/model_api.h"

#include <optional>
#include <string>
#include <vector>

namespace linnet::core {

struct Evaluation {
    // Nats a token; standard errors over windows (chunked) or documents (word), NaN (null in JSON) with only one.
    double loss = 0, lossSe = 0;
    double perplexity = 0; // exp(loss); word: exp(-log likelihood / words)
    std::string convention = "chunked";
    std::int64_t seqLen = 0, tokens = 0, sequences = 0; // tokens = predictions scored; sequences = windows or documents
    std::int64_t words = 0;                             // word convention only
    std::optional<double> klToTeacher, klSe, top1Agreement, top1Se; // KL(teacher || student), nats a token
    std::optional<double> lossDifferenceSe; // of loss less the teacher's, over the same windows: pairs, far less noisy than either alone
    double seconds = 0;
};

Json evaluationToJson(const Evaluation& evaluation);
Evaluation evaluationFromJson(const Json& json);

// The teacher's final hidden states over the windows, kept so that several students are compared with one teacher forward.
struct TeacherReference; // torch inside
using TeacherReferencePtr = std::shared_ptr<const TeacherReference>;
Result<TeacherReferencePtr> teacherReference(const Model& teacher, const TokenWindows& windows, const Control& control = {});

// `chunked`: cold windows, the seqLen - 1 predictions of each; loss, KL and agreement are means over the same positions.
Result<Evaluation> evaluateChunked(const Model& model, const TokenWindows& windows,
                                   const TeacherReferencePtr& teacher = nullptr, const Control& control = {});
// `word`: lm-eval's wikitext convention: each document rolled in windows of seqLen with one token of context, the first
// token conditioned on the prefix token (BOS, or end of text where there is none); the last window reaches back, so that it is
// full. Words are counted as lm-eval does, the pieces between runs of whitespace (Python's re.split(r"\s+", document)), in the
// documents as given: pass the original ones. Documents without a token add their words and nothing else.
Result<Evaluation> evaluateWord(const Model& model, const std::vector<std::string>& documents, std::int64_t seqLen,
                                const Control& control = {});

} // namespace linnet::core
