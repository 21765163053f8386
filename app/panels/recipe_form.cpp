#include "app/panels/recipe_form.h"

#include "app/models/session.h"

#include <QComboBox>
#include <QDoubleValidator>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QSignalBlocker>
#include <QSpinBox>

namespace linnet::app {
namespace {

constexpr int kDigits = 6;

} // namespace

RecipeForm::RecipeForm(Session* session, QWidget* parent) : QWidget(parent), m_session(session) {
    m_form = new QFormLayout(this);
    m_form->setContentsMargins(0, 0, 0, 0);
    m_form->setRowWrapPolicy(QFormLayout::DontWrapRows);
    m_form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    connect(session->recipe(), &RecipeModel::changed, this, &RecipeForm::showRecipe);
}

void RecipeForm::edit(const QString& what, const std::function<void(core::Recipe&)>& change) {
    core::Recipe recipe = m_session->recipe()->recipe();
    change(recipe);
    m_session->recipe()->replace(recipe, what);
}

void RecipeForm::row(const QString& label, QWidget* field) {
    m_form->addRow(label, field);
    if (auto* made = m_form->labelForField(field))
        made->setToolTip(field->toolTip());
}

void RecipeForm::heading(const QString& text) {
    auto* label = new QLabel(QStringLiteral("<b>%1</b>").arg(text));
    m_form->addRow(label);
}

void RecipeForm::setRowShown(QWidget* field, bool shown) {
    m_form->setRowVisible(field, shown);
}

void RecipeForm::onShow(std::function<void(const core::Recipe&)> show) {
    show(m_session->recipe()->recipe());
    m_show.push_back(std::move(show));
}

void RecipeForm::showRecipe() {
    for (const auto& show : m_show)
        show(m_session->recipe()->recipe());
}

QSpinBox* RecipeForm::whole(const QString& label, const QString& name, int low, int high, Field<std::int64_t> field, const QString& hint) {
    auto* box = new QSpinBox;
    box->setObjectName(name);
    box->setRange(low, high);
    box->setKeyboardTracking(false);
    box->setGroupSeparatorShown(true);
    box->setMinimumWidth(90); // not the width of the largest value: the panel is narrow
    box->setToolTip(hint);
    row(label, box);
    connect(box, &QSpinBox::valueChanged, this, [this, label, field](int value) { edit(tr("Set %1").arg(label), [&](core::Recipe& r) { field(r) = value; }); });
    onShow([box, field](const core::Recipe& recipe) {
        const QSignalBlocker quiet(box);
        auto copy = recipe;
        box->setValue(static_cast<int>(field(copy)));
        if (auto* line = box->findChild<QLineEdit*>()) // what it shows is the recipe's: undo is the recipe's too
            line->setModified(false);
    });
    return box;
}

QLineEdit* RecipeForm::real(const QString& label, const QString& name, double low, double high, Field<double> field, const QString& hint) {
    auto* line = new QLineEdit;
    line->setObjectName(name);
    line->setMinimumWidth(60);
    line->setToolTip(hint);
    auto* validator = new QDoubleValidator(low, high, 12, line);
    validator->setLocale(QLocale::c());
    line->setValidator(validator);
    row(label, line);
    connect(line, &QLineEdit::editingFinished, this, [this, label, field, line] {
        if (line->isModified()) // not by leaving the field: it shows fewer digits than the recipe has
            edit(tr("Set %1").arg(label), [&](core::Recipe& r) { field(r) = QLocale::c().toDouble(line->text()); });
        line->setModified(false);
    });
    onShow([line, field](const core::Recipe& recipe) {
        auto copy = recipe;
        line->setText(QString::number(field(copy), 'g', kDigits));
    });
    return line;
}

QComboBox* RecipeForm::choice(const QString& label, const QString& name, const QList<Choice>& choices, Field<std::string> field, const QString& hint) {
    auto* box = new QComboBox;
    box->setObjectName(name);
    box->setMinimumWidth(90);
    QString hints = hint;
    for (const auto& each : choices) {
        const auto text = QString::fromStdString(each.value);
        box->addItem(text);
        box->setItemData(box->count() - 1, each.hint, Qt::ToolTipRole);
        hints += QStringLiteral("%1<b>%2</b>: %3").arg(hints.isEmpty() ? QString() : QStringLiteral("<br>"), text, each.hint);
    }
    box->setToolTip(hints);
    row(label, box);
    connect(box, &QComboBox::textActivated, this, [this, label, field](const QString& value) {
        edit(tr("Set %1").arg(label), [&](core::Recipe& r) { field(r) = value.toStdString(); });
    });
    onShow([box, field](const core::Recipe& recipe) {
        auto copy = recipe;
        box->setCurrentIndex(box->findText(QString::fromStdString(field(copy)))); // -1: a value that the problems panel names
    });
    return box;
}

} // namespace linnet::app
