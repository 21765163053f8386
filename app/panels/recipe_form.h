#pragma once

#include "core/recipe/recipe.h"

#include <QList>
#include <QWidget>
#include <functional>

class QComboBox;
class QFormLayout;
class QLineEdit;
class QSpinBox;

namespace linnet::app {

class Session;

// Rows that show fields of the recipe and edit them: every edit is one undoable command, named "Set <label>".
class RecipeForm : public QWidget {
    Q_OBJECT
public:
    struct Choice {
        std::string value; // as the recipe has it
        QString hint;      // what it does, in one line
    };
    template <class T> using Field = std::function<T&(core::Recipe&)>;

    explicit RecipeForm(Session* session, QWidget* parent = nullptr);
    QSpinBox* whole(const QString& label, const QString& name, int low, int high, Field<std::int64_t> field, const QString& hint = {});
    QLineEdit* real(const QString& label, const QString& name, double low, double high, Field<double> field, const QString& hint = {});
    QComboBox* choice(const QString& label, const QString& name, const QList<Choice>& choices, Field<std::string> field, const QString& hint = {});
    void row(const QString& label, QWidget* field);
    void heading(const QString& text);
    void setRowShown(QWidget* field, bool shown);
    void onShow(std::function<void(const core::Recipe&)> show); // called with the recipe now and when it changes
    void edit(const QString& what, const std::function<void(core::Recipe&)>& change);

private:
    void showRecipe();
    Session* m_session;
    QFormLayout* m_form;
    std::vector<std::function<void(const core::Recipe&)>> m_show; // one for each field
};

} // namespace linnet::app
