// What a TargetProbe keeps between questions, and the search of one head's start; not a public header.
#pragma once

#include "core/convert/closed_form_score.h"
#include "core/convert/head_view.h"

namespace linnet::core {

struct TargetProbe::State {
    ModelPtr teacher;
    TokenWindows calibration;

    // One layer's; `hidden` is the stream that enters it, from which a later layer's forward goes on.
    std::int64_t layer = -1, sequences = 0;
    std::shared_ptr<const LayerWeights> weights;
    at::Tensor hidden;
    LayerCapture capture; // x and heads of `sequences` windows
    InputMoments moments;
    at::Tensor distances; // undefined where there are none
    std::map<std::int64_t, std::vector<HeadTrial>> known; // by head: an option's residual depends on the recipe's windows and value_rms only
    double valueRms = 0;
    std::map<std::int64_t, TopMass> topMass; // by head

    // A person's text: the stream that enters layer `textLayer`.
    std::vector<TokenId> text;
    std::int64_t textLayer = -1;
    at::Tensor textHidden;

    // Everything that is asked of a layer starts here; throws Failure where recipe or place do not fit the teacher.
    void prepare(const Recipe& recipe, std::int64_t wantedLayer, std::int64_t head, const Control& control);
    LayerContext context(const Recipe& recipe, const Control& control) const;
    at::Tensor inputOf(const std::vector<TokenId>& ids, const Control& control); // of the prepared layer's token mixer [1, T, hidden]

private:
    void begin(std::int64_t count);
    void captureLayer(const Recipe& recipe, std::int64_t wanted, const Control& control);
    template <class F> at::Tensor inPieces(const at::Tensor& rows, const Control& control, const F& work) const;
};

// What a head would choose by its own residual. The context must outlive it.
class HeadSearch {
public:
    HeadSearch(TargetProbe::State& state, const LayerContext& context, std::int64_t head);
    HeadFit best(const HeadTarget& target);
    const HeadRows& rows() const { return m_rows; }

private:
    std::vector<std::vector<double>> score(const std::vector<OptionRow>& wanted);
    const LayerContext& m_context;
    HeadRows m_rows;
    HeadScorer m_scorer;
    std::vector<HeadTrial>& m_known;
};

} // namespace linnet::core
