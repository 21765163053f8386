#include "core/torch_pch.h"

#include "core/model/model_api.h"

#include "core/model/decoder.h"

#include <c10/core/InferenceMode.h>

namespace linnet::core {
namespace {

constexpr std::int64_t kLogitRows = 256; // rows of logits made at once

} // namespace

Result<std::vector<float>> sequenceLogits(const Model& model, const std::vector<TokenId>& ids, const Control& control) {
    return guarded([&] {
        checkIds(model, ids);
        const c10::InferenceMode inference;
        const at::Tensor hidden = forwardHidden(model, model.mixers(), idTensor(ids), control).squeeze(0);
        const auto rows = static_cast<std::int64_t>(ids.size()), vocabulary = model.config().vocabSize;
        std::vector<float> values(static_cast<std::size_t>(rows * vocabulary));
        const at::Tensor out = at::from_blob(values.data(), {rows, vocabulary}, at::TensorOptions().dtype(at::kFloat));
        for (std::int64_t row = 0; row < rows; row += kLogitRows) {
            control.checkpoint();
            const std::int64_t count = std::min(kLogitRows, rows - row);
            out.narrow(0, row, count).copy_(model.logits(hidden.narrow(0, row, count)));
        }
        return values;
    });
}

Result<Generation> generate(const Model& model, const std::vector<TokenId>& prompt, const GenerateOptions& options,
                            const std::function<void(const std::string&)>& onToken, const Control& control) {
    return guarded([&] {
        checkIds(model, prompt);
        checkOptions(options);
        const c10::InferenceMode inference;
        Decoder decoder(model, model.mixers(), options);
        const auto give = [&](const std::string& piece) {
            if (onToken && !piece.empty())
                onToken(piece);
        };
        decoder.prefill(prompt, control);
        while (!decoder.done())
            give(decoder.step(control).piece);
        give(decoder.flush());
        return decoder.finished();
    });
}

// All sequences grow together, from the beginning-of-text token (end of text where the model has none), which isn't kept.
Result<std::vector<TokenId>> sampleSequences(const Model& model, std::int64_t count, std::int64_t length, std::uint64_t seed,
                                             const Control& control) {
    return guarded([&] {
        if (count < 1 || length < 1)
            fail(ErrorCode::Usage, "sampling needs at least one sequence of at least one token");
        const c10::InferenceMode inference;
        const ModelConfig& c = model.config();
        const std::int64_t first = c.bosToken.value_or(c.endTokens.empty() ? 0 : c.endTokens.front());
        constexpr std::int64_t kBatch = 8;
        std::vector<TokenId> all(static_cast<std::size_t>(count * length));
        for (std::int64_t row = 0; row < count; row += kBatch) {
            const std::int64_t batch = std::min(kBatch, count - row);
            std::vector<Sampler> samplers; // one per sequence: a sequence doesn't depend on how many there are
            for (std::int64_t b = 0; b < batch; ++b)
                samplers.emplace_back(GenerateOptions{.greedy = false, .seed = seed + static_cast<std::uint64_t>(row + b)});
            Cache cache(model);
            at::Tensor ids = at::full({batch, 1}, first, at::kLong);
            for (std::int64_t t = 0; t < length; ++t) {
                control.report("sample", static_cast<double>(row * length + t * batch), static_cast<double>(count * length));
                const at::Tensor logits = hostLogits(model, forwardHidden(model, model.mixers(), ids, control, &cache).select(1, 0));
                ids = at::empty({batch, 1}, at::kLong);
                for (std::int64_t b = 0; b < batch; ++b) {
                    const float* values = logits.const_data_ptr<float>() + b * c.vocabSize;
                    const std::int64_t id = samplers[static_cast<std::size_t>(b)].pick(values, c.vocabSize);
                    ids.mutable_data_ptr<std::int64_t>()[b] = id;
                    all[static_cast<std::size_t>((row + b) * length + t)] = static_cast<TokenId>(id);
                }
            }
        }
        return all;
    });
}

} // namespace linnet::core
