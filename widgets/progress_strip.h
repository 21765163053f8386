// The running task in the status bar: what, how far, how much longer, and a way to stop it.
#pragma once

#include <QWidget>
#include <optional>

class QLabel;
class QProgressBar;
class QToolButton;

namespace linnet::widgets {

class ElidedLabel;

// "12 s", "3 min 20 s", "2 h 05 min": two units at most.
QString durationText(double seconds);

class ProgressStrip : public QWidget {
    Q_OBJECT

public:
    explicit ProgressStrip(QWidget* parent = nullptr);

    void start(const QString& task);
    // total <= 0: no measure of the whole, the bar only moves. etaSeconds: left to go, when known.
    void setProgress(qint64 done, qint64 total, std::optional<double> etaSeconds = {});
    void setTask(const QString& task);
    // What the button does at its next press: "Stop", then "Discard".
    void setStopAction(const QString& text, const QString& hint, bool enabled = true);
    void finish(const QString& message = {}); // hides bar, ETA and button

    bool isRunning() const { return m_running; }
    QString taskText() const;
    QString etaText() const;

Q_SIGNALS:
    void stopRequested();

private:
    ElidedLabel* m_task;
    QProgressBar* m_bar;
    QLabel* m_eta;
    QToolButton* m_stop;
    bool m_running = false;
};

} // namespace linnet::widgets
