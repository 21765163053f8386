#pragma once

#include <QWidget>

class QLabel;
class QTableWidget;

namespace linnet::app {

class Session;

// Perplexity, KL and agreement of the current run's models.
class EvaluationPanel : public QWidget {
    Q_OBJECT
public:
    explicit EvaluationPanel(Session* session, QWidget* parent = nullptr);

private:
    void refill();
    void showBaseline();
    void showTreatments();
    Session* m_session;
    QLabel *m_caption, *m_layers, *m_treatmentCaption, *m_baselineNote;
    QTableWidget *m_table, *m_treatments;
};

} // namespace linnet::app
