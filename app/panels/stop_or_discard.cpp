#include "app/panels/stop_or_discard.h"

#include "app/models/session.h"

#include <QMessageBox>
#include <QPushButton>

namespace linnet::app {

bool offersDiscard(Session& session) {
    const auto run = session.library()->running();
    return run && !run->toDiscard;
}

bool stopMeansDiscard(Session& session) {
    return session.jobState() == JobState::Stopping && offersDiscard(session);
}

void stopOrDiscard(Session* session, QWidget* parent) {
    if (stopMeansDiscard(*session))
        askToDiscard(session, parent);
    else
        session->stop();
}

void askToDiscard(Session* session, QWidget* parent) {
    const auto run = session->library()->running();
    auto* window = parent->window();
    if (auto* open = window->findChild<QMessageBox*>(QStringLiteral("discardBox")); !run || open) { // pressed a third time
        if (open)
            open->raise();
        return;
    }
    auto* box = new QMessageBox(QMessageBox::Warning, Session::tr("Discard the run?"),
                                Session::tr("%1 is stopped and its folder is removed with its checkpoints, metrics and log:\n%2\n\nThis can't be undone. Stop and save keeps everything.").arg(run->name, run->folder),
                                QMessageBox::Cancel, window);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setObjectName(QStringLiteral("discardBox"));
    auto* accept = box->addButton(Session::tr("Discard"), QMessageBox::DestructiveRole);
    box->setDefaultButton(QMessageBox::Cancel);
    QObject::connect(accept, &QPushButton::clicked, session, [session, folder = run->folder] { session->library()->discard(folder); });
    box->open();
}

} // namespace linnet::app
