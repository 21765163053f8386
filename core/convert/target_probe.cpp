#include "core/torch_pch.h"

#include "core/convert/target_probe_state.h"

#include "core/evaluate/evaluate_model.h"

namespace linnet::core {
namespace {

constexpr std::int64_t kForwardSequences = 4;

ProbedOption plain(const HeadTrial& trial) {
    const auto& option = trial.option;
    return {option.halfLife, option.beta, option.histogramTaps, option.foldRope, option.centredKeys, trial.residual};
}

} // namespace

void TargetProbe::State::begin(std::int64_t count) {
    TokenWindows windows{{}, count, calibration.seqLen};
    windows.ids.assign(calibration.ids.begin(), calibration.ids.begin() + count * calibration.seqLen);
    hidden = teacher->embed(windowTensor(windows, teacher->device())).clone();
    sequences = count;
    layer = 0;
}

// `work` on a few sequences at a time; its rows take their place in the result.
template <class F> at::Tensor TargetProbe::State::inPieces(const at::Tensor& rows, const Control& control, const F& work) const {
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

void TargetProbe::State::captureLayer(const Recipe& recipe, std::int64_t wanted, const Control& control) {
    const auto count = std::min(recipe.closedForm.sequences, calibration.sequences);
    if (layer == wanted && sequences == count && capture.heads.defined())
        return;
    capture = {};
    known.clear();
    topMass.clear();
    if (layer < 0 || layer > wanted || sequences != count)
        begin(count);
    for (; layer < wanted; ++layer) {
        const auto block = teacher->layer(layer);
        hidden = inPieces(hidden, control, [&](const at::Tensor& rows) { return runBlock(*teacher, *block, mixerAt(teacher->mixers(), layer), rows); });
    }
    weights = teacher->layer(layer);
    if (teacher->mixers().contains(layer))
        fail(ErrorCode::Unsupported, "layer " + std::to_string(layer) + " is converted already: it has no attention to start from", {{"layer", std::to_string(layer)}});
    capture.x = inPieces(hidden, control, [&](const at::Tensor& rows) { return attentionInput(*teacher, *weights, rows); });
    moments = inputMoments(capture.x);
    const at::Tensor heads = inPieces(capture.x, control, [&](const at::Tensor& rows) { return headOutputs(*teacher, *weights, rows); });
    distances = attentionDistances(context(recipe, control));
    capture.heads = heads; // last: a stop before this leaves nothing that looks complete
}

void TargetProbe::State::prepare(const Recipe& recipe, std::int64_t wantedLayer, std::int64_t head, const Control& control) {
    const auto& config = teacher->config();
    if (const auto errors = validateRecipe(recipe, config.layers, config.heads); !errors.empty())
        throw Failure{errors.front()};
    if (wantedLayer < 0 || wantedLayer >= config.layers || head < 0 || head >= config.heads)
        fail(ErrorCode::Usage, "layer " + std::to_string(wantedLayer) + ", head " + std::to_string(head) + ": the teacher has " + std::to_string(config.layers) +
                                   " layers of " + std::to_string(config.heads) + " heads");
    captureLayer(recipe, wantedLayer, control);
    if (std::exchange(valueRms, recipe.closedForm.valueRms) != recipe.closedForm.valueRms)
        known.clear();
}

LayerContext TargetProbe::State::context(const Recipe& recipe, const Control& control) const {
    LayerContext context{*teacher, *weights, layer, recipe, capture, moments, nullptr};
    context.control = &control;
    return context;
}

at::Tensor TargetProbe::State::inputOf(const std::vector<TokenId>& ids, const Control& control) {
    const auto length = std::ssize(ids);
    if (length <= calibration.seqLen && sequences > 0 && std::equal(ids.begin(), ids.end(), calibration.ids.begin()))
        return capture.x.narrow(0, 0, 1).narrow(1, 0, length); // the first window: causal, so a shorter text is its beginning
    if (textLayer < 0 || textLayer > layer || ids != text) {
        textLayer = -1;
        text = ids;
        textHidden = teacher->embed(windowTensor({ids, 1, length}, teacher->device()));
        textLayer = 0;
    }
    for (; textLayer < layer; ++textLayer) {
        control.checkpoint();
        textHidden = runBlock(*teacher, *teacher->layer(textLayer), mixerAt(teacher->mixers(), textLayer), textHidden);
    }
    return attentionInput(*teacher, *weights, textHidden);
}

HeadSearch::HeadSearch(TargetProbe::State& state, const LayerContext& context, std::int64_t head)
    : m_context(context), m_rows(context, state.distances), m_scorer(context, m_rows, {head}, *context.control), m_known(state.known[head]) {}

std::vector<std::vector<double>> HeadSearch::score(const std::vector<OptionRow>& wanted) {
    std::vector<OptionRow> fresh;
    const auto isKnown = [&](const OptionRow& row) { return std::ranges::find(m_known, row.options.front(), &HeadTrial::option) != m_known.end(); };
    std::ranges::remove_copy_if(wanted, std::back_inserter(fresh), isKnown);
    const auto measured = m_scorer.score(fresh);
    for (std::size_t r = 0; r < fresh.size(); ++r)
        m_known.push_back({fresh[r].options.front(), measured[r].front()});
    std::vector<std::vector<double>> residuals;
    for (const auto& row : wanted)
        residuals.push_back({std::ranges::find(m_known, row.options.front(), &HeadTrial::option)->residual});
    return residuals;
}

HeadFit HeadSearch::best(const HeadTarget& target) {
    const auto score = [this](const std::vector<OptionRow>& rows) { return this->score(rows); };
    const auto turns = refinements(m_context, m_rows.distancesKnown());
    return explore({optionSpace(m_context, m_rows.distancesKnown(), target)}, turns, score, bestTrials).front();
}

TargetProbe::TargetProbe(ModelPtr teacher, const TokenWindows& calibration) : m_state(std::make_unique<State>()) {
    m_state->teacher = std::move(teacher);
    m_state->calibration = calibration;
}

TargetProbe::~TargetProbe() = default;

Result<ProbedHead> TargetProbe::probe(const Recipe& recipe, std::int64_t layer, std::int64_t head, const Control& control) {
    return guarded([&] {
        const at::NoGradGuard noGradients;
        m_state->prepare(recipe, layer, head, control);
        const auto context = m_state->context(recipe, control);
        HeadSearch search(*m_state, context, head);
        ProbedHead result;
        const auto automatic = search.best({});
        result.automatic = plain({automatic.chosen, automatic.residual});
        const auto fit = search.best(targetOf(context, head));
        result.chosen = plain({fit.chosen, fit.residual});
        std::ranges::transform(fit.tried, std::back_inserter(result.tried), plain);
        return result;
    });
}

} // namespace linnet::core
