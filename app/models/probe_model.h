// The sliders and pictures of the probe dock, on top of the head's view: a slider that moves changes the picture only; its release is one
// edit of the recipe.
#pragma once

#include "app/models/head_view_model.h"
#include "app/models/pattern_thread.h"

#include <array>

namespace linnet::app {

inline constexpr std::array kTargetFields{TargetField::HalfLife, TargetField::Beta, TargetField::ValueScale, TargetField::OutputGate};
QString targetTitle(TargetField field); // "half-life", ...

class ProbeModel : public QObject {
    Q_OBJECT
public:
    ProbeModel(RecipeModel* recipe, HeadViewModel* views, QObject* parent = nullptr);

    HeadId head() const { return m_views->head(); }
    const core::HeadView* view() const { return m_view.get(); } // also of older targets, while a newer one is made; null: none yet

    double value(TargetField field) const;    // shown: dragged, else the recipe's, else as the layer stands; NaN without a view
    double standing(TargetField field) const; // of the layer of the view
    bool locked(TargetField field) const;
    bool effective(TargetField field) const;  // the mixer has it
    bool canDrag(TargetField field) const { return m_view && effective(field) && !locked(field); }
    bool isSet(TargetField field) const { return targetValue(m_recipe->target(head()), field).has_value(); } // by a person, in the recipe

    void drag(TargetField field, double value); // a preview; refused where !canDrag
    bool dragging() const { return m_dragged.has_value(); }
    void release(); // the preview becomes one edit of the recipe
    void giveUp();  // the preview goes
    void makeAutomatic(TargetField field); // the recipe's value goes; refused where locked

    int hiddenColumns() const { return m_hidden; }
    void setHiddenColumns(int columns); // first tokens, left out of pictures and ranges
    PatternValues teacher() const { return m_teacher; }
    PatternValues student() const { return m_patterns.student; } // null until computed
    PatternValues difference() const { return m_patterns.difference; }
    // Magnitudes at the end of the colours; they stay while a slider moves, so that a scale is seen to act.
    double teacherRange() const { return m_ranges[0]; }
    double studentRange() const { return m_ranges[1]; }
    double differenceRange() const { return m_ranges[2]; }
    double patternMs() const { return m_patterns.milliseconds; } // of the last pattern

Q_SIGNALS:
    void changed();         // view, sliders
    void patternsChanged();

private:
    struct Dragged {
        TargetField field;
        double value;
    };
    void refresh();
    void compute();
    void takePatterns(const PatternResult& result);
    void measureRanges();
    core::HeadSliders sliders() const;
    RecipeModel* m_recipe;
    HeadViewModel* m_views;
    PatternThread m_thread;
    HeadViewModel::ViewPtr m_view;
    core::HeadTarget m_viewTarget; // the recipe's when the view came
    std::optional<Dragged> m_dragged;
    int m_hidden = 0;
    PatternValues m_teacher;
    PatternResult m_patterns;
    quint64 m_first = 0; // the view's first request: answers to earlier ones are of another
    bool m_rangesStale = true;
    std::array<double, 3> m_ranges{1, 1, 1};
};

} // namespace linnet::app
