#include "app/panels/export_dialog.h"

#include "app/models/session.h"
#include "core/base/files.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
#include <QProgressBar>
#include <QPushButton>
#include <QToolButton>
#include <QVBoxLayout>

namespace linnet::app {

ExportDialog::ExportDialog(Session* session, const QString& runFolder, QWidget* parent) : QDialog(parent), m_session(session), m_run(runFolder) {
    setObjectName(QStringLiteral("exportDialog"));
    setWindowTitle(tr("Export student"));
    m_folder = new QLineEdit(QFileInfo(runFolder).absoluteFilePath() + QStringLiteral("-hf"));
    m_folder->setObjectName(QStringLiteral("folderEdit"));
    m_folder->setMinimumWidth(420);
    auto* browse = new QToolButton;
    browse->setText(tr("Browse..."));
    auto* folderRow = new QHBoxLayout;
    folderRow->addWidget(m_folder, 1);
    folderRow->addWidget(browse);
    m_dtype = new QComboBox;
    m_dtype->addItem(tr("f32 (the student's own values)"), QStringLiteral("f32"));
    m_dtype->addItem(tr("bf16 (half the size, rounded)"), QStringLiteral("bf16"));
    m_dtype->addItem(tr("f16 (half the size, rounded)"), QStringLiteral("f16"));
    m_verify = new QCheckBox(tr("Reload the folder and compare logits before it is called done"));
    m_verify->setChecked(true);
    m_space = new QLabel;
    m_space->setWordWrap(true);
    m_result = new QLabel;
    m_result->setWordWrap(true);
    m_result->setObjectName(QStringLiteral("resultLabel"));
    m_result->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_bar = new QProgressBar;
    m_bar->setRange(0, 1000);
    m_bar->hide();
    m_export = new QPushButton(tr("Export"));
    m_export->setObjectName(QStringLiteral("doExportButton"));
    m_export->setDefault(true);
    m_close = new QPushButton(tr("Close"));
    auto* form = new QFormLayout;
    form->addRow(tr("Format"), new QLabel(tr("Hugging Face folder, loads with trust_remote_code")));
    form->addRow(tr("Folder"), folderRow);
    form->addRow(tr("Values"), m_dtype);
    form->addRow({}, m_verify);
    form->addRow({}, m_space);
    auto* buttons = new QHBoxLayout;
    buttons->addStretch(1);
    buttons->addWidget(m_export);
    buttons->addWidget(m_close);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(form);
    layout->addWidget(m_bar);
    layout->addWidget(m_result);
    layout->addLayout(buttons);

    connect(browse, &QToolButton::clicked, this, [this] {
        const auto parentFolder = QFileDialog::getExistingDirectory(this, tr("Folder to make the export in"), QFileInfo(m_folder->text()).path());
        if (!parentFolder.isEmpty())
            m_folder->setText(parentFolder + QLatin1Char('/') + QFileInfo(m_folder->text()).fileName());
    });
    connect(m_folder, &QLineEdit::textChanged, this, &ExportDialog::update);
    connect(m_export, &QPushButton::clicked, this, &ExportDialog::begin);
    connect(m_close, &QPushButton::clicked, this, [this] {
        if (m_running)
            m_session->stop(); // nothing half-written stays
        else
            close();
    });
    connect(session, &Session::jobChanged, this, &ExportDialog::update);
    connect(session, &Session::exported, this, [this](const core::ExportReport& report) {
        QString text = tr("<b>Written to %1</b>").arg(QString::fromStdString(report.folder.string()).toHtmlEscaped());
        if (report.verified)
            text += tr("<br>Reloaded and compared over %1 tokens: largest logit difference %2, KL %3, top-1 agreement %4.")
                        .arg(report.parity.tokens).arg(report.parity.maxAbsLogit, 0, 'g', 3).arg(report.parity.meanKl, 0, 'g', 3).arg(report.parity.top1Agreement, 0, 'f', 4);
        m_result->setText(text);
        m_written = m_folder->text();
        update();
    });
    connect(session, &Session::failed, this, [this](const QString&, const core::Error& error) {
        if (m_running)
            m_result->setText(QString::fromStdString(error.message).toHtmlEscaped());
    });
    update();
}

void ExportDialog::begin() {
    m_running = true;
    m_result->clear();
    core::ExportOptions options;
    options.dtype = m_dtype->currentData().toString().toStdString();
    options.verify = m_verify->isChecked();
    m_session->exportRun(m_run, m_folder->text(), options);
    update();
}

void ExportDialog::update() {
    const bool idle = m_session->jobState() == JobState::Idle;
    if (idle)
        m_running = false;
    const QDir folder(m_folder->text());
    const bool taken = folder.exists() && !folder.isEmpty();
    const auto free = static_cast<qint64>(core::freeDiskBytes(m_folder->text().toStdString()));
    m_space->setText(m_folder->text() == m_written ? QString() : taken ? tr("This folder exists and is not empty: choose another name.") : tr("%1 free").arg(QLocale().formattedDataSize(free)));
    m_export->setEnabled(idle && !taken && !m_folder->text().isEmpty());
    m_close->setText(m_running ? tr("Cancel") : tr("Close"));
    m_bar->setVisible(m_running);
    const double fraction = m_session->jobFraction();
    m_bar->setRange(0, fraction < 0 ? 0 : 1000);
    m_bar->setValue(qRound(fraction * 1000));
}

} // namespace linnet::app
