#include "core/io/config_checks.h"

#include "core/base/result.h"

#include <charconv>
#include <cmath>

namespace linnet::core {

void checkModelConfig(const ModelConfig& config, const std::string& origin) {
    const auto refuse = [&](const std::string& key, const std::string& value, const std::string& why) {
        fail(ErrorCode::Malformed, origin + ": " + key + " is " + value + ", " + why,
             {{"file", origin}, {"key", key}, {"found", value}});
    };
    const auto number = [](std::int64_t value) { return std::to_string(value); };
    if (config.kvHeads > config.heads || config.heads % config.kvHeads != 0)
        refuse("the number of key/value heads", number(config.kvHeads),
               "which does not divide the number of heads (" + number(config.heads) + ")");
    if (config.headDim % 2 != 0)
        refuse("head_dim", number(config.headDim), "but rotary positions need an even number");
    const auto checkPositive = [&](const std::string& key, double value) {
        if (!std::isfinite(value) || value <= 0)
            refuse(key, std::to_string(value), "a finite number above 0 was expected");
    };
    checkPositive("rms_norm_eps", config.rmsNormEps);
    checkPositive("rope_theta", config.rope.theta);
    checkPositive("the rope scaling factor", config.rope.factor);
    if (config.rope.type == "llama3") {
        checkPositive("low_freq_factor", config.rope.lowFrequencyFactor);
        checkPositive("original_max_position_embeddings", config.rope.originalMaxPositions);
        if (!std::isfinite(config.rope.highFrequencyFactor) ||
            config.rope.highFrequencyFactor <= config.rope.lowFrequencyFactor)
            refuse("high_freq_factor", std::to_string(config.rope.highFrequencyFactor),
                   "which must be above low_freq_factor (" + std::to_string(config.rope.lowFrequencyFactor) + ")");
    }
    for (const double divisor : config.rope.frequencyDivisors)
        checkPositive("a value of rope_freqs.weight", divisor);
    const auto checkToken = [&](const std::string& key, std::int64_t token) {
        if (token < 0 || token >= config.vocabSize)
            refuse(key, number(token), "outside of the vocabulary of " + number(config.vocabSize) + " tokens");
    };
    if (config.bosToken)
        checkToken("bos_token_id", *config.bosToken);
    for (const auto token : config.endTokens)
        checkToken("eos_token_id", token);
}

double shortestDouble(double storedAsFloat) {
    char text[32];
    const auto written = std::to_chars(text, text + sizeof text, static_cast<float>(storedAsFloat));
    double value = storedAsFloat;
    std::from_chars(text, written.ptr, value);
    return value;
}

} // namespace linnet::core
