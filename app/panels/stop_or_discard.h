// Stop and what a second press offers: the first stops and saves; while that goes on, the same button asks whether to discard the run.
#pragma once

class QWidget;

namespace linnet::app {

class Session;

bool offersDiscard(Session& session); // a run is executed here, and is not to be removed already
bool stopMeansDiscard(Session& session); // the next press of Stop
void stopOrDiscard(Session* session, QWidget* parent);
void askToDiscard(Session* session, QWidget* parent);

} // namespace linnet::app
