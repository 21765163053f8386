// What this program is made of, by version, and the device it found; one button copies it all for a report.
#pragma once

#include <QDialog>

class QTableWidget;

namespace linnet::app {

// Linnet with its commit, Qt, QCustomPlot, Dear ImGui: what is known at once.
QList<std::pair<QString, QString>> versions();

class AboutDialog : public QDialog {
    Q_OBJECT
public:
    explicit AboutDialog(QWidget* parent = nullptr);
    QString text() const; // a line for each fact

private:
    void add(const QString& name, const QString& value);
    QTableWidget* m_table;
};

} // namespace linnet::app
