#pragma once

#include "core/recipe/recipe.h"

#include <QWidget>

class QComboBox;
class QDoubleSpinBox;
class QHBoxLayout;
class QLabel;
class QPushButton;
class QSortFilterProxyModel;
class QSpinBox;
class QStackedLayout;
class QTableView;
class QVBoxLayout;

namespace linnet::widgets {
class KeepCurve;
}

namespace linnet::app {

class MeasureCost;

class LayerTableModel;
class Session;
enum class Pin;

// The choice of layers by measurement: a method and a goal, the ranking and its curve, and the pins. A point of the curve is a choice.
class LayersPage : public QWidget {
    Q_OBJECT
public:
    explicit LayersPage(Session* session, QWidget* parent = nullptr);
    core::KeepRule rule() const; // as the controls stand

private:
    void makeControls(QVBoxLayout* layout);
    void makeAmounts(QHBoxLayout* row);
    QWidget* makeTable();
    QWidget* makeCurve();
    void measure();
    void choose(int kept); // by the last ranking, at once
    void takeMeasured();   // what the last ranking would choose
    bool chosenByHand() const; // the recipe names layers that are no ranking's choice
    void pinSelected(Pin pin);
    void showTeacher();
    void showRecipe();
    void showMethod();
    void showGoal();
    void showCurve();
    void showChoice();
    void showJob();
    void showCost();

    Session* m_session;
    LayerTableModel* m_model;
    QSortFilterProxyModel* m_sorted;
    QComboBox *m_method, *m_goal, *m_quantity;
    QSpinBox *m_count, *m_cacheTokens;
    QDoubleSpinBox *m_cacheMib, *m_ratio;
    QPushButton *m_measure, *m_take;
    QLabel *m_hint, *m_summary, *m_note;
    QTableView* m_table;
    widgets::KeepCurve* m_curve = nullptr;
    QStackedLayout* m_stack;
    MeasureCost* m_cost = nullptr;
    bool m_choosing = false; // a measurement runs
    bool m_idle = true;      // no job, as showCost() knew it last
};

} // namespace linnet::app
