#pragma once

#include "app/models/selection_model.h"

#include <QStyle>
#include <QWidget>

class QListWidget;
class QListWidgetItem;
class QStackedLayout;

namespace linnet::app {

class Session;

// What stands in the way of a run, targets that are unusual or known to cost much, and what to know about the teacher. Selected lines
// select their heads; Enter or a double click goes where it can be put right.
class ProblemsPanel : public QWidget {
    Q_OBJECT
public:
    explicit ProblemsPanel(Session* session, QWidget* parent = nullptr);
    qsizetype count() const { return m_lines.size(); }

Q_SIGNALS:
    void counted();
    void stepRequested(const QString& id); // of the step rail: targets, layers, run

private:
    struct Line {
        QStyle::StandardPixmap icon;
        QString text, step;
        HeadId head;
        bool operator==(const Line&) const = default;
    };
    QList<Line> lines() const;
    void addUnusualTargets(QList<Line>& lines) const;
    void refill();
    void selectHeads();
    void jump(QListWidgetItem* item);
    Session* m_session;
    QList<Line> m_lines; // as listed
    QListWidget* m_list;
    QStackedLayout* m_stack;
};

} // namespace linnet::app
