#include "app/panels/export_wizard.h"

#include "app/guarded.h"
#include "app/models/session.h"
#include "app/panels/command_menu.h"
#include "app/panels/export_pages.h"

#include <QAbstractButton>
#include <QDir>
#include <QFileInfo>
#include <QPointer>

namespace linnet::app {

QString freeExportName(const QString& folder) {
    const auto taken = [](const QString& path) {
        const QDir dir(path);
        return QFileInfo::exists(path) && (!dir.exists() || !dir.isEmpty());
    };
    QString name = folder;
    for (int i = 2; taken(name); ++i)
        name = folder + QLatin1Char('-') + QString::number(i);
    return name;
}

ExportWizard::ExportWizard(Session* session, const QString& run, QWidget* parent) : QWizard(parent), m_session(session) {
    setObjectName(QStringLiteral("exportWizard"));
    setWindowTitle(tr("Export student"));
    setWizardStyle(QWizard::ModernStyle);
    setOptions(QWizard::NoBackButtonOnStartPage | QWizard::HaveCustomButton1);
    setButtonText(QWizard::CustomButton1, tr("Copy as command"));
    setButtonText(QWizard::FinishButton, tr("&Close"));
    button(QWizard::CustomButton1)->setToolTip(tr("The linnet-cli line that writes the same export"));
    m_plan.run = run;
    addPage(new ExportWhatPage(this));
    addPage(new ExportWherePage(this));
    addPage(new ExportVerifyPage(this));
    addPage(new ExportWritePage(this));
    setMinimumSize(720, 520);
    resize(840, 640); // the formats with their reasons
    connect(this, &QWizard::customButtonClicked, this, [this] {
        const auto folder = m_plan.folder.isEmpty() ? freeExportName(m_plan.run + QLatin1Char('-') + QString::fromStdString(m_plan.options.format)) : m_plan.folder;
        CommandMenu::copy(m_session, Commands::exporting(m_plan.run, folder, m_plan.options));
    });
    connect(this, &QWizard::currentIdChanged, this, [this] { setWriting(m_writing, m_written); }); // QWizard has enabled Back
    setRun(run);
}

void ExportWizard::setRun(const QString& run) {
    m_plan.run = run;
    m_plan.folder.clear();
    m_plan.student.reset();
    m_written = false;
    // headers only, but a large tokenizer takes longer than the window may stand still
    inBackground([wizard = QPointer(this), run] {
        auto info = core::readModelInfo(run.toStdString());
        QMetaObject::invokeMethod(qApp, [wizard, run, info = std::move(info)] {
            if (wizard)
                wizard->takeStudent(run, info);
        });
    });
}

void ExportWizard::takeStudent(const QString& run, const core::Result<core::ModelInfo>& info) {
    if (run != m_plan.run)
        return;
    if (info)
        m_plan.student = *info;
    Q_EMIT studentRead(info ? QString() : QString::fromStdString(info.error().message));
}

void ExportWizard::setWriting(bool writing, bool written) {
    m_writing = writing;
    m_written = written;
    if (writing || written)
        button(QWizard::BackButton)->setEnabled(false);
    button(QWizard::CancelButton)->setEnabled(!written);
}

void ExportWizard::reject() {
    if (m_writing)
        m_session->stop(); // the half-written folder goes; the last page says so
    else
        QWizard::reject();
}

} // namespace linnet::app
