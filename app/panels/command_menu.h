// "Copy as command": menus whose entries put the linnet-cli line of what the window does on the clipboard.
#pragma once

#include "app/models/command_lines.h"

#include <QMenu>

namespace linnet::app {

// Of everything: the Run menu's. What can't be done now is greyed, with the reason as tool tip.
class CommandMenu : public QMenu {
    Q_OBJECT
public:
    explicit CommandMenu(Session* session, QWidget* parent = nullptr);

    // One entry "Copy as command" for a context menu or a button; `make` is called when it is chosen.
    static QAction* addTo(QMenu* menu, Session* session, const QString& title, std::function<Command()> make);
    // In the context menu of a button that does it (by mouse or by the menu key).
    static void attach(QWidget* button, Session* session, std::function<Command()> make, const QString& title = tr("Copy as command"));
    // A submenu with the entries of one run: resume, evaluate, export.
    static void addRun(QMenu* menu, Session* session, const QString& run);
    // On the clipboard, the recipe that it names written; the session says what became of it.
    static void copy(Session* session, const Command& command);

private:
    static void fillRun(QMenu* menu, Session* session, const QString& run);
    void refresh();
    Session* m_session;
};

} // namespace linnet::app
