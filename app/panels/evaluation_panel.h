#pragma once

#include <QWidget>

class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QPushButton;
class QTableWidget;

namespace linnet::app {

class Session;

// Perplexity, KL and agreement of the current run's models, and a place to try the teacher.
class EvaluationPanel : public QWidget {
    Q_OBJECT
public:
    explicit EvaluationPanel(Session* session, QWidget* parent = nullptr);

private:
    void refill();
    void showTreatments();
    Session* m_session;
    QLabel *m_caption, *m_layers, *m_treatmentCaption;
    QTableWidget *m_table, *m_treatments;
    QLineEdit* m_prompt;
    QPushButton* m_generate;
    QPlainTextEdit* m_output;
};

} // namespace linnet::app
