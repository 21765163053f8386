// The linnet-cli lines that do what the window does: for "Copy as command".
#pragma once

#include "app/models/generate_model.h"

#include <QCoreApplication>
#include <QStringList>

namespace linnet::app {

class Session;

struct Command {
    QString text{};     // one line or more; "" = there is nothing to do the like of
    QString why{};      // then: what is missing
    QString note{};     // what the line does otherwise than the window, "" where nothing
    QString file{};     // recipe that the text names, to be written first; "" where none
    std::string recipe{}; // its text
};

class Commands {
    Q_DECLARE_TR_FUNCTIONS(Commands)
public:
    static QString quoted(const QString& word);    // for a POSIX shell; plain words stay as they are
    static QString line(const QStringList& words); // linnet-cli and the words, quoted

    static Command profile(Session& session);
    static Command select(Session& session, const core::KeepRule& rule); // the measured choice of layers
    static Command convert(Session& session);                            // a new run of the recipe
    static Command resume(const QString& run);
    static Command evaluate(Session& session, const QString& run);       // against the teacher
    static Command generate(Session& session, const GenerateSettings& settings); // one line for each model
    static Command exporting(const QString& run, const QString& out, const core::ExportOptions& options);

    // Writes the recipe that the text names, if it names one.
    static core::Result<void> prepare(const Command& command);
};

} // namespace linnet::app
