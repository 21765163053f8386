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

Q_SIGNALS:
    void stepRequested(const QString& id); // of the step rail: targets, layers, run

private:
    void refill();
    void add(QStyle::StandardPixmap icon, const QString& text, const QString& step = {}, HeadId head = {});
    void addUnusualTargets();
    void selectHeads();
    void jump(QListWidgetItem* item);
    Session* m_session;
    QListWidget* m_list;
    QStackedLayout* m_stack;
};

} // namespace linnet::app
