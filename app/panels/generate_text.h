// What the Generate page says about tokens, sides and the place where they part.
#pragma once

#include "app/models/generate_model.h"

#include <QCoreApplication>

namespace linnet::app {

class GenerateText {
    Q_DECLARE_TR_FUNCTIONS(GenerateText)
public:
    static QString elided(const QString& prompt);               // one line for a menu
    static QString shown(const QString& token);                 // “ the”, with control characters spelled out
    static QString side(const Side& side);                      // "12 tokens, end of text · 31.2 tokens/s · prefill 0.41 s"
    static QString parting(const GenerateModel& model);         // where they part, as far as they have come
    // Of one token: probabilities of both models, KL, their first choices. rich: for a tool tip, as HTML.
    static QString token(const GenerateModel& model, std::size_t side, std::size_t index, bool rich);
    // Tab-separated, a line for each token of each side; what was not measured is empty.
    static QString table(const GenerateModel& model);
};

} // namespace linnet::app
