#pragma once

#include "app/panels/recipe_form.h"

namespace linnet::app {

// How layers are converted: treatments of what the mixer cannot hold, alignment, distillation, memory.
class MethodSection : public RecipeForm {
    Q_OBJECT
public:
    explicit MethodSection(Session* session, QWidget* parent = nullptr);

private:
    void makeTreatments();
    void makeAlignment();
    void makeDistillation();
    void showTeacher();
    Session* m_session;
    QWidget *m_bias = nullptr, *m_qkNorm = nullptr;
};

QString presetHint(const std::string& preset); // what a layer starts from, in one line

} // namespace linnet::app
