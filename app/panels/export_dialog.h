#pragma once

#include "core/export/export.h"

#include <QDialog>

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QProgressBar;
class QPushButton;

namespace linnet::app {

class Session;

// Writes a finished run as a folder that Hugging Face transformers loads; tells where, how large, and what the check found.
class ExportDialog : public QDialog {
    Q_OBJECT
public:
    ExportDialog(Session* session, const QString& runFolder, QWidget* parent = nullptr);

private:
    void update();
    void begin();
    Session* m_session;
    QString m_run, m_written;
    QLineEdit* m_folder;
    QComboBox* m_dtype;
    QCheckBox* m_verify;
    QLabel *m_space, *m_result;
    QProgressBar* m_bar;
    QPushButton *m_export, *m_close;
    bool m_running = false;
};

} // namespace linnet::app
