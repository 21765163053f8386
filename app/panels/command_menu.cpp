#include "app/panels/command_menu.h"

#include "app/models/session.h"

#include <QClipboard>
#include <QGuiApplication>

namespace linnet::app {
CommandMenu::CommandMenu(Session* session, QWidget* parent) : QMenu(tr("&Copy as command"), parent), m_session(session) {
    setObjectName(QStringLiteral("commandMenu"));
    setToolTipsVisible(true);
    connect(this, &QMenu::aboutToShow, this, &CommandMenu::refresh);
    refresh();
}

void CommandMenu::copy(Session* session, const Command& command) {
    if (command.text.isEmpty()) {
        Q_EMIT session->failed(tr("There is no command to copy"), {core::ErrorCode::Usage, command.why.toStdString(), {}});
        return;
    }
    if (const auto written = Commands::prepare(command); !written) {
        Q_EMIT session->failed(tr("The recipe that the command names can't be written"), written.error());
        return;
    }
    QGuiApplication::clipboard()->setText(command.text);
    Q_EMIT session->notice(tr("Copied: %1").arg(QString(command.text).replace(QLatin1Char('\n'), QLatin1String("  ↵  "))) +
                           (command.note.isEmpty() ? QString() : QStringLiteral("  (") + command.note + QLatin1Char(')')));
}

QAction* CommandMenu::addTo(QMenu* menu, Session* session, const QString& title, std::function<Command()> make) {
    auto* action = menu->addAction(title, menu, [session, make] { copy(session, make()); });
    const auto now = make();
    action->setEnabled(!now.text.isEmpty());
    action->setToolTip(now.text.isEmpty() ? now.why : now.note.isEmpty() ? now.text : now.text + QLatin1Char('\n') + now.note);
    return action;
}

void CommandMenu::attach(QWidget* button, Session* session, std::function<Command()> make, const QString& title) {
    auto* action = new QAction(title, button);
    connect(action, &QAction::triggered, button, [session, make = std::move(make)] { copy(session, make()); });
    button->addAction(action);
    button->setContextMenuPolicy(Qt::ActionsContextMenu);
}

void CommandMenu::fillRun(QMenu* menu, Session* session, const QString& run) {
    addTo(menu, session, tr("&Resume run"), [run] { return Commands::resume(run); })->setObjectName(QStringLiteral("copyResume"));
    addTo(menu, session, tr("&Evaluate run"), [session, run] { return Commands::evaluate(*session, run); })->setObjectName(QStringLiteral("copyEvaluate"));
    addTo(menu, session, tr("E&xport run"), [run] { return Commands::exporting(run, run + QStringLiteral("-hf"), {}); })->setObjectName(QStringLiteral("copyExport"));
}

void CommandMenu::addRun(QMenu* menu, Session* session, const QString& run) {
    auto* commands = menu->addMenu(tr("&Copy as command"));
    commands->setToolTipsVisible(true);
    fillRun(commands, session, run);
}

void CommandMenu::refresh() { // what each would copy changes with recipe, teacher and run
    clear();
    auto* session = m_session;
    const auto current = session->currentRun();
    const auto run = current && current->hasBegun() ? current->folder : QString();
    addTo(this, session, tr("&Profile teacher"), [session] { return Commands::profile(*session); })->setObjectName(QStringLiteral("copyProfile"));
    addTo(this, session, tr("Choose &layers"), [session] { return Commands::select(*session, session->recipe()->recipe().keep); })->setObjectName(QStringLiteral("copySelect"));
    addTo(this, session, tr("Run &conversion"), [session] { return Commands::convert(*session); })->setObjectName(QStringLiteral("copyConvert"));
    addSeparator();
    fillRun(this, session, run);
    addSeparator();
    addTo(this, session, tr("&Generate"), [session] { return Commands::generate(*session, session->generation()->settings()); })->setObjectName(QStringLiteral("copyGenerate"));
}

} // namespace linnet::app
