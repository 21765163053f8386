#pragma once

#include "app/panels/export_wizard.h"

#include <QWizardPage>

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QProgressBar;
class QPushButton;
class QTableWidget;

namespace linnet::app {

class ExportPage : public QWizardPage {
    Q_OBJECT
public:
    explicit ExportPage(ExportWizard* wizard) : m_wizard(wizard) {}

protected:
    ExportPlan& plan() const { return m_wizard->plan(); }
    ExportWizard* m_wizard;
};

class ExportWhatPage : public ExportPage { // run, format, dtype, lift, tokenizer
    Q_OBJECT
public:
    explicit ExportWhatPage(ExportWizard* wizard);
    bool isComplete() const override;

private:
    void showStudent(const QString& error);
    const core::ExportChoice* chosen() const; // of the plan's format, where the student is known
    void fillFormats(const std::vector<core::ExportChoice>& choices);
    void chooseFormat();
    void showFormat(); // values, tokenizer and lift are the format's
    QComboBox *m_run, *m_dtype;
    QCheckBox* m_lift;
    QLabel *m_layers, *m_tokenizer, *m_cost;
    QTableWidget* m_formats;
};

class ExportWherePage : public ExportPage { // folder, space, overwrite rule
    Q_OBJECT
public:
    explicit ExportWherePage(ExportWizard* wizard);
    void initializePage() override;
    bool isComplete() const override { return m_problem.isEmpty(); }

protected:
    void changeEvent(QEvent* event) override;

private:
    void check();
    QLineEdit* m_folder;
    QLabel *m_space, *m_said;
    QPushButton* m_free = nullptr;
    QString m_problem = QStringLiteral("-");
};

class ExportVerifyPage : public ExportPage { // what is compared before it is called done
    Q_OBJECT
public:
    explicit ExportVerifyPage(ExportWizard* wizard);
    void initializePage() override;
    bool isComplete() const override;

private:
    QCheckBox* m_verify;
    QLabel *m_what, *m_busy;
};

class ExportWritePage : public ExportPage { // writes, and says what was written, where, and how it is loaded
    Q_OBJECT
public:
    explicit ExportWritePage(ExportWizard* wizard);
    void initializePage() override;
    bool isComplete() const override { return m_wizard->written(); }

private:
    void showJob();
    void exported(const core::ExportReport& report);
    void ended(const QString& text); // without a folder
    QProgressBar* m_bar;
    QLabel *m_state, *m_result;
    QPlainTextEdit* m_load;
    QPushButton *m_open, *m_copy;
};

// How each runtime loads it, and how linnet-cli does: ready to paste.
QString loadText(const core::ExportReport& report, bool biases);

} // namespace linnet::app
