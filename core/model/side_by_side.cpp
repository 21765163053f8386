#include "core/torch_pch.h"

#include "core/model/side_by_side.h"

#include "core/model/decoder.h"
#include "core/model/opened_model.h"

#include <c10/core/InferenceMode.h>

namespace linnet::core {

struct Speaker {
    ModelPtr model;
    std::optional<Mixers> mixers; // in place of the model's own

    const Mixers& used() const { return mixers ? *mixers : model->mixers(); }
};

namespace {

constexpr std::int64_t kScoreRows = 64; // rows of logits in float64 at once

const char* dtypeName(at::ScalarType dtype) {
    return dtype == at::kFloat ? "f32" : dtype == at::kBFloat16 ? "bf16" : "f16";
}

double probability(const at::Tensor& logits, TokenId id) { // [1, V] float32 on the host
    const float* values = logits.const_data_ptr<float>();
    const double largest = *std::max_element(values, values + logits.numel());
    double sum = 0;
    for (std::int64_t i = 0; i < logits.numel(); ++i)
        sum += std::exp(values[i] - largest);
    return std::exp(values[id] - largest) / sum;
}

void checkVocabulary(const Speaker& one, const ModelConfig& other) {
    const auto& c = one.model->config();
    if (c.vocabSize != other.vocabSize)
        fail(ErrorCode::Usage,
             one.model->files().path.string() + " has a vocabulary of " + std::to_string(c.vocabSize) + " tokens, the teacher one of " + std::to_string(other.vocabSize) +
                 ": they can't be compared token by token",
             {{"found", std::to_string(c.vocabSize)}, {"expected", std::to_string(other.vocabSize)}});
}

// log p of the next token at the last `count` positions [count, V], float64.
at::Tensor logProbabilities(const Speaker& speaker, const at::Tensor& hidden, std::int64_t row, std::int64_t count) {
    return at::log_softmax(hostLogits(*speaker.model, hidden.narrow(0, row, count)).to(at::kDouble), -1);
}

std::vector<TokenChoice> topOf(const Tokenizer& tokenizer, const at::Tensor& logP) { // [V]
    const auto [values, ids] = logP.topk(std::min(kScoreTop, logP.size(0)));
    std::vector<TokenChoice> choices;
    for (std::int64_t i = 0; i < ids.size(0); ++i) {
        const auto id = static_cast<TokenId>(ids[i].item<std::int64_t>());
        choices.push_back({id, id < tokenizer.vocabSize() ? tokenizer.decode({id}) : std::string(), std::exp(values[i].item<double>())});
    }
    return choices;
}

} // namespace

SpeakerPtr speaker(ModelPtr model) {
    return std::make_shared<const Speaker>(Speaker{std::move(model), std::nullopt});
}

bool sharesWeights(const Speaker& speaker, const Model& teacher) {
    return speaker.model.get() == &teacher;
}

Result<SpeakerPtr> openSpeaker(const std::filesystem::path& path, const ModelPtr& teacher, const Control& control) {
    return guarded([&]() -> SpeakerPtr {
        const auto opened = openFiles(path);
        const bool separate = opened.student && opened.student != opened.files.weights; // a run: the converted layers only
        if (separate && opened.files.weights->hash() == teacher->hash()) {
            checkContents(opened, control);
            return std::make_shared<const Speaker>(
                Speaker{teacher, mixersOf(opened, teacher->device(), teacher->dtype())});
        }
        if (!opened.student && opened.files.weights->hash() == teacher->hash())
            return speaker(teacher);
        RunOptions options;
        options.device = teacher->device().str();
        options.dtype = dtypeName(teacher->dtype());
        options.streamed = teacher->streamed();
        auto other = speaker(orFail(openModel(path, options, control)));
        checkVocabulary(*other, teacher->config());
        return other;
    });
}

Result<std::vector<Generation>> continueSideBySide(const std::vector<SpeakerPtr>& speakers, const std::vector<TokenId>& prompt, const GenerateOptions& options,
                                                   const std::function<void(const SpokenToken&)>& onToken, const Control& control) {
    return guarded([&] {
        checkOptions(options);
        const c10::InferenceMode inference;
        std::vector<Decoder> decoders;
        decoders.reserve(speakers.size());
        for (const auto& each : speakers) {
            checkIds(*each->model, prompt);
            decoders.emplace_back(*each->model, each->used(), options).prefill(prompt, control);
        }
        const auto say = [&](std::size_t i, const Decoder::Step& step, double p, bool rest) {
            const auto& made = decoders[i].made();
            if (onToken)
                onToken({i, step.id, rest ? decoders[i].flush() : step.piece, p, made.endOfText, made.prefillSeconds, tokensPerSecond(made)});
        };
        for (bool going = true; going;) {
            going = false;
            for (std::size_t i = 0; i < decoders.size(); ++i) {
                if (decoders[i].done())
                    continue;
                control.checkpoint();
                const at::Tensor before = decoders[i].logits();
                const auto step = decoders[i].step(control);
                const bool last = decoders[i].done(); // its text may end inside a character
                say(i, step, probability(before, step.id), last && step.piece.empty());
                going = going || !last;
            }
        }
        std::vector<Generation> made;
        for (const auto& decoder : decoders)
            made.push_back(decoder.finished());
        return made;
    });
}

Result<std::vector<TokenScore>> scoreContinuation(const Speaker& teacher, const Speaker& student, const std::vector<TokenId>& prompt,
                                                  const std::vector<TokenId>& ids, const Control& control) {
    return guarded([&] {
        std::vector<TokenScore> scores;
        if (ids.empty())
            return scores;
        checkVocabulary(student, teacher.model->config());
        std::vector<TokenId> all = prompt;
        all.insert(all.end(), ids.begin(), ids.end() - 1); // the last one predicts nothing
        checkIds(*teacher.model, prompt);
        checkIds(*teacher.model, ids);
        const c10::InferenceMode inference;
        const auto first = static_cast<std::int64_t>(prompt.size()) - 1, count = static_cast<std::int64_t>(ids.size());
        const auto hidden = [&](const Speaker& one) { return forwardHidden(*one.model, one.used(), idTensor(all), control).squeeze(0).narrow(0, first, count); };
        const at::Tensor ofTeacher = hidden(teacher), ofStudent = hidden(student);
        for (std::int64_t row = 0; row < count; row += kScoreRows) {
            control.checkpoint();
            const std::int64_t rows = std::min(kScoreRows, count - row);
            const at::Tensor p = logProbabilities(teacher, ofTeacher, row, rows), q = logProbabilities(student, ofStudent, row, rows);
            const at::Tensor kl = (p.exp() * (p - q)).sum(-1);
            for (std::int64_t i = 0; i < rows; ++i) {
                const auto id = static_cast<std::int64_t>(ids[static_cast<std::size_t>(row + i)]);
                scores.push_back({std::exp(p[i][id].item<double>()), std::exp(q[i][id].item<double>()), kl[i].item<double>(),
                                  topOf(modelTokenizer(*teacher.model), p[i]), topOf(modelTokenizer(*student.model), q[i])});
            }
        }
        return scores;
    });
}

} // namespace linnet::core
