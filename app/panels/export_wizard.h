// Four pages from a finished run to a folder that other runtimes load: what, where, how it is checked, the writing itself.
#pragma once

#include "core/export/export.h"

#include <QWizard>
#include <memory>
#include <optional>

namespace linnet::app {

class Session;

struct ExportPlan { // what the pages fill in
    QString run, folder; // folder-to-be; appears whole or not at all
    core::ExportOptions options;
    std::optional<core::ModelInfo> student; // of the run, once its headers are read
};

class ExportWizard : public QWizard {
    Q_OBJECT
public:
    ExportWizard(Session* session, const QString& run, QWidget* parent = nullptr);
    ExportPlan& plan() { return m_plan; }
    Session& session() { return *m_session; }
    void setRun(const QString& run);      // reads what it is, in the background
    bool writing() const { return m_writing; }
    bool written() const { return m_written; }
    void setWriting(bool writing, bool written);

Q_SIGNALS:
    void studentRead(const QString& error); // "" where plan().student is there

protected:
    void reject() override; // while it writes: stops, and stays to say so

private:
    void takeStudent(const QString& run, const core::Result<core::ModelInfo>& info);
    Session* m_session;
    ExportPlan m_plan;
    bool m_writing = false, m_written = false;
};

QString freeExportName(const QString& folder); // itself, or with -2, -3, ... until nothing is there

} // namespace linnet::app
