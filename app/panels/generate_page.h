#pragma once

#include <QWidget>
#include <array>

class QCheckBox;
class QComboBox;
class QDoubleSpinBox;
class QLabel;
class QLineEdit;
class QMenu;
class QPlainTextEdit;
class QPushButton;
class QSpinBox;
class QToolButton;

namespace linnet::widgets {
class TokenView;
}

namespace linnet::app {

struct GenerateSettings;
class GenerateModel;
class Session;

// A prompt, and what teacher and student make of it side by side, token by token; what each thinks of the other's words.
class GeneratePage : public QWidget {
    Q_OBJECT
public:
    explicit GeneratePage(Session* session, QWidget* parent = nullptr);
    void setStudent(const QString& folder); // a run or an exported folder

protected:
    bool eventFilter(QObject* watched, QEvent* event) override; // the prompt's keys

private:
    QWidget* makeForm();
    QWidget* makeOptions();
    QWidget* arrangeOptions();
    void makeReading(); // what is done with the texts: compare, shade, copy
    QWidget* makeSides();
    void listStudents();
    void listHistory();
    bool speaksForCurrent() const; // the chosen run has a student of the opened teacher
    QString studentFolder() const; // of the combo
    GenerateSettings settings() const;
    void fill(const GenerateSettings& settings); // the form
    void run(); // generate, or stop what is generating
    void stepHistory(int by);
    void restart();
    void append(int side);
    void shade();
    void point(int side, int token);
    void showState();
    QString details(int side, int token, bool rich) const;
    QString sideTitle(int side) const;
    void copy(const QString& text, const QString& what);

    Session* m_session;
    GenerateModel* m_model;
    QPlainTextEdit* m_prompt;
    QCheckBox* m_chat;
    QComboBox *m_student, *m_mode, *m_shade;
    QSpinBox *m_tokens, *m_topK;
    QDoubleSpinBox *m_temperature, *m_topP;
    QLineEdit* m_seed; // 64 bits: more than a spin box holds
    QPushButton *m_run, *m_judge, *m_toParting;
    QToolButton *m_historyButton, *m_settings, *m_copy;
    QMenu *m_history, *m_copyMenu;
    QLabel *m_parting, *m_details;
    std::array<QWidget*, 2> m_panes{};
    std::array<QLabel*, 2> m_titles{};
    std::array<widgets::TokenView*, 2> m_views{};
    std::array<int, 2> m_shown{};   // tokens that the views have
    std::array<int, 2> m_pointed{-1, -1}; // side, token
    int m_historyAt = -1;
    bool m_scrolling = false;
};

} // namespace linnet::app
