// How well a head's student can follow the teacher on the recipe's own data, where it cannot, and what the head looks far for. Torch-free.
#pragma once

#include "core/convert/head_view.h"

namespace linnet::core {

enum class TokenClass { SentenceStart, WordStart, Continuation, Digit, Punctuation, Space };
inline constexpr int kTokenClasses = 6;
const char* tokenClassName(TokenClass kind); // "sentence start", ...
// Of each text piece, by its first character that is no space: a digit; a sign (no letter in it); else a word, which begins a sentence at the
// start, after . ! ? (quotes and brackets between) or a line end, begins within a sentence after a space or a sign, or goes on.
std::vector<TokenClass> tokenClasses(const std::vector<std::string>& pieces);

struct ErrorBucket {
    std::int64_t from = 0, to = 0; // by position: from <= t < to; by class: its number in from
    std::int64_t tokens = 0;
    // Of all tokens in the bucket; NaN without one. Standard errors over windows, NaN with fewer than two.
    double relativeError = 0, relativeErrorSe = 0; // squared error / square of the teacher's
    double cosine = 0, cosineSe = 0;
};
struct TextSpot {
    std::string before, piece, after; // a few tokens around
    std::int64_t window = 0, position = 0; // of the calibration windows
};
struct AttentionJump {
    TextSpot from, to; // from: the token that looks, to: what it looks at
    std::int64_t distance = 0;
    double weight = 0; // of the row's attention
};
struct ErrorSpot {
    TextSpot at;
    double error = 0; // squared error / mean square of the teacher's output
};

inline constexpr double kJumpWeight = 0.2;
inline constexpr std::int64_t kJumpSinks = 4;

// Outputs are compared as W_O sees them (its columns of the head): teacher W A V, student W B' z with z the head's normed readout (of a trained
// or copied layer also gated) and B the ridge regression of A V on z over the same windows: the layer's o_proj may mix as it likes.
struct HeadEvidence {
    std::int64_t layer = 0, head = 0, windows = 0, windowTokens = 0;
    double relativeError = 0, cosine = 0; // over all tokens; the former is the own residual of closed_form.h
    std::vector<ErrorBucket> byPosition;  // 0, 1, 2 - 3, 4 - 7, ... up to the window's end
    std::vector<ErrorBucket> byClass;     // kTokenClasses
    std::vector<AttentionJump> jumps;     // furthest first: sources beyond the first kJumpSinks tokens that get kJumpWeight or more of a row
    std::vector<ErrorSpot> errors;        // largest first
    bool trained = false;
};

Result<HeadEvidence> headEvidence(TargetProbe& probe, const Recipe& recipe, const HeadRequest& request, const Control& control = {});

} // namespace linnet::core
