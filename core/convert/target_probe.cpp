#include "core/torch_pch.h"

#include "core/convert/target_probe.h"

#include "core/convert/closed_form_score.h"
#include "core/evaluate/evaluate_model.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kForwardSequences = 4;

ProbedOption plain(const HeadTrial& trial) {
    const auto& option = trial.option;
    return {option.halfLife, option.beta, option.histogramTaps, option.foldRope, option.centredKeys, trial.residual};
}

} // namespace

struct TargetProbe::State {
    ModelPtr teacher;
    TokenWindows calibration;

    // One layer's; `hidden` is the stream that enters it, from which a later layer's forward goes on.
    std::int64_t layer = -1, sequences = 0;
    std::shared_ptr<const LayerWeights> weights;
    at::Tensor hidden;
    LayerCapture capture;
    InputMoments moments;
    at::Tensor distances; // undefined where there are none
    bool distancesKnown = false;
    std::map<std::int64_t, std::vector<HeadTrial>> known; // by head: an option's residual depends on the recipe's windows and value_rms only
    double valueRms = 0;

    void begin(std::int64_t count) {
        TokenWindows windows{{}, count, calibration.seqLen};
        windows.ids.assign(calibration.ids.begin(), calibration.ids.begin() + count * calibration.seqLen);
        hidden = teacher->embed(windowTensor(windows, teacher->device())).clone();
        sequences = count;
        layer = 0;
    }
    // `work` on a few sequences at a time; its rows take their place in the result.
    template <class F> at::Tensor inPieces(const at::Tensor& rows, const Control& control, const F& work) const {
        at::Tensor result;
        for (std::int64_t n = 0; n < sequences; n += kForwardSequences) {
            control.checkpoint();
            const auto count = std::min(kForwardSequences, sequences - n);
            const at::Tensor piece = work(rows.narrow(0, n, count));
            if (!result.defined())
                result = at::empty({sequences, piece.size(1), piece.size(2)}, piece.options());
            result.narrow(0, n, count).copy_(piece);
        }
        return result;
    }
    void captureLayer(std::int64_t wanted, std::int64_t count, const Control& control) {
        if (layer == wanted && sequences == count && capture.heads.defined())
            return;
        capture = {};
        distancesKnown = false;
        known.clear();
        if (layer < 0 || layer > wanted || sequences != count)
            begin(count);
        for (; layer < wanted; ++layer) {
            const auto block = teacher->layer(layer);
            hidden = inPieces(hidden, control, [&](const at::Tensor& rows) { return runBlock(*teacher, *block, nullptr, rows); });
        }
        weights = teacher->layer(layer);
        if (!weights->attention.qkv.defined())
            fail(ErrorCode::Unsupported, "layer " + std::to_string(layer) + " is converted already: it has no attention to start from", {{"layer", std::to_string(layer)}});
        capture.x = inPieces(hidden, control, [&](const at::Tensor& rows) { return attentionInput(*teacher, *weights, rows); });
        moments = inputMoments(capture.x);
        capture.heads = inPieces(capture.x, control, [&](const at::Tensor& rows) { return headOutputs(*teacher, *weights, rows); });
    }
};

TargetProbe::TargetProbe(ModelPtr teacher, const TokenWindows& calibration) : m_state(std::make_unique<State>()) {
    m_state->teacher = std::move(teacher);
    m_state->calibration = calibration;
}

TargetProbe::~TargetProbe() = default;

Result<ProbedHead> TargetProbe::probe(const Recipe& recipe, std::int64_t layer, std::int64_t head, const Control& control) {
    return guarded([&] {
        const at::NoGradGuard noGradients;
        State& state = *m_state;
        const auto& config = state.teacher->config();
        if (const auto errors = validateRecipe(recipe, config.layers, config.heads); !errors.empty())
            throw Failure{errors.front()};
        if (layer < 0 || layer >= config.layers || head < 0 || head >= config.heads)
            fail(ErrorCode::Usage, "layer " + std::to_string(layer) + ", head " + std::to_string(head) + ": the teacher has " + std::to_string(config.layers) + " layers of " +
                                       std::to_string(config.heads) + " heads");
        state.captureLayer(layer, std::min(recipe.closedForm.sequences, state.calibration.sequences), control);
        if (std::exchange(state.valueRms, recipe.closedForm.valueRms) != recipe.closedForm.valueRms)
            state.known.clear();
        LayerContext context{*state.teacher, *state.weights, layer, recipe, state.capture, state.moments, nullptr};
        context.control = &control;
        if (!std::exchange(state.distancesKnown, true))
            state.distances = attentionDistances(context);
        const HeadRows rows(context, state.distances);
        HeadScorer scorer(context, rows, {head}, control);
        auto& known = state.known[head];
        const auto score = [&](const std::vector<OptionRow>& wanted) {
            std::vector<OptionRow> fresh;
            const auto isKnown = [&](const OptionRow& row) { return std::ranges::find(known, row.options.front(), &HeadTrial::option) != known.end(); };
            std::ranges::remove_copy_if(wanted, std::back_inserter(fresh), isKnown);
            const auto measured = scorer.score(fresh);
            for (std::size_t r = 0; r < fresh.size(); ++r)
                known.push_back({fresh[r].options.front(), measured[r].front()});
            std::vector<std::vector<double>> residuals;
            for (const auto& row : wanted)
                residuals.push_back({std::ranges::find(known, row.options.front(), &HeadTrial::option)->residual});
            return residuals;
        };
        const auto turns = refinements(context, rows.distancesKnown());
        const auto with = [&](const HeadTarget& target) { return explore({optionSpace(context, rows.distancesKnown(), target)}, turns, score, bestTrials).front(); };
        ProbedHead result;
        const auto automatic = with({});
        result.automatic = plain({automatic.chosen, automatic.residual});
        const auto fit = with(targetOf(context, head));
        result.chosen = plain({fit.chosen, fit.residual});
        std::ranges::transform(fit.tried, std::back_inserter(result.tried), plain);
        return result;
    });
}

} // namespace linnet::core
