#pragma once

#include "core/recipe/recipe.h"

#include <QDialog>
#include <optional>

class QComboBox;
class QLabel;
class QTableWidget;
class QTableWidgetItem;

namespace linnet::app {

class Session;

// The recipe in the window against that of a run or of a file: only the keys that differ. A line of a head selects it.
class RecipeDiffDialog : public QDialog {
    Q_OBJECT
public:
    explicit RecipeDiffDialog(Session* session, QWidget* parent = nullptr);
    void compareWith(const QString& folderOrFile); // a run's folder or a recipe file

private:
    void fillRuns();
    void chooseFile();
    void refresh();
    void copy() const;
    void selectHeads();
    void take(); // the other recipe into the window, as one undo step
    Session* m_session;
    QComboBox* m_other;
    QLabel* m_summary;
    QTableWidget* m_table;
    QWidget* m_take;
    std::optional<core::Recipe> m_recipe; // the other one
};

} // namespace linnet::app
