// Two models continue one prompt, and what each thinks of the other's words. Torch-free: what the window sees.
#pragma once

#include "core/model/model_api.h"

namespace linnet::core {

// Something that continues text: an opened model, or a run's student on the weights of the teacher that is open already.
struct Speaker; // torch inside
using SpeakerPtr = std::shared_ptr<const Speaker>;

SpeakerPtr speaker(ModelPtr model);
// `path`: run, exported or model folder, .gguf file. The student of a run of `teacher` shares its weights (they are not read again);
// anything else is opened beside it, on the same device in the same dtype. Usage where its vocabulary is of another size.
Result<SpeakerPtr> openSpeaker(const std::filesystem::path& path, const ModelPtr& teacher, const Control& control = {});
bool sharesWeights(const Speaker& speaker, const Model& teacher);

struct SpokenToken {
    std::size_t speaker = 0;  // index
    TokenId id = 0;
    std::string text;         // UTF-8, what became whole with this token: "" while a character is open and at the end of text
    double probability = 0;   // by the speaker itself, of its whole distribution (temperature 1, neither top-k nor top-p)
    bool endOfText = false;
    double prefillSeconds = 0, tokensPerSecond = 0; // of the speaker so far; 0: not known yet
};

// All continue `prompt` (ids), a token each in turn, each with a sampler of the same seed, so that what differs is the models.
// Speed and times count the speaker's own work only. Cancelled: what `onToken` was given stands.
Result<std::vector<Generation>> continueSideBySide(const std::vector<SpeakerPtr>& speakers, const std::vector<TokenId>& prompt, const GenerateOptions& options,
                                                   const std::function<void(const SpokenToken&)>& onToken = {}, const Control& control = {});

struct TokenChoice {
    TokenId id = 0;
    std::string text;
    double probability = 0;
};
struct TokenScore { // of one token after the tokens before it, by both models
    double teacher = 0, student = 0; // its probability
    double kl = 0;                   // KL(teacher || student) of the whole distributions there, nats
    std::vector<TokenChoice> teacherTop, studentTop; // the most likely ones, kScoreTop at most, descending
};
inline constexpr std::int64_t kScoreTop = 3;

// Scores `ids` as the continuation of `prompt`: one forward of each model over both, softmax in float64. One score per id.
Result<std::vector<TokenScore>> scoreContinuation(const Speaker& teacher, const Speaker& student, const std::vector<TokenId>& prompt,
                                                  const std::vector<TokenId>& ids, const Control& control = {});

} // namespace linnet::core
