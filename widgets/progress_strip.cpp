#include "widgets/progress_strip.h"

#include "widgets/elided_label.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QToolButton>
#include <algorithm>
#include <cmath>

namespace linnet::widgets {

QString durationText(double seconds) {
    if (!std::isfinite(seconds) || seconds < 0)
        return QStringLiteral("–");
    const auto whole = qint64(std::llround(std::min(seconds, 1e9)));
    const auto pair = [](qint64 big, const QString& bigUnit, qint64 small, const QString& smallUnit) {
        return QStringLiteral("%1 %2 %3 %4").arg(big).arg(bigUnit).arg(small, 2, 10, QLatin1Char('0')).arg(smallUnit);
    };
    if (whole < 60)
        return QStringLiteral("%1 s").arg(whole);
    if (whole < 3600)
        return pair(whole / 60, "min", whole % 60, "s");
    if (whole < 86400)
        return pair(whole / 3600, "h", whole % 3600 / 60, "min");
    return pair(whole / 86400, "d", whole % 86400 / 3600, "h");
}

ProgressStrip::ProgressStrip(QWidget* parent)
    : QWidget(parent), m_task(new ElidedLabel({}, this)), m_bar(new QProgressBar(this)), m_eta(new QLabel(this)),
      m_stop(new QToolButton(this)) {
    setAccessibleName(tr("Progress of the running task"));
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(4, 0, 4, 0);
    layout->setSpacing(8);
    layout->addWidget(m_task, 1);
    layout->addWidget(m_bar);
    layout->addWidget(m_eta);
    layout->addWidget(m_stop);
    m_task->setMinimumWidth(60);
    m_task->setElideMode(Qt::ElideRight);
    m_bar->setFixedWidth(140);
    m_bar->setMaximumHeight(fontMetrics().height() + 2);
    m_bar->setAccessibleName(tr("Share done"));
    m_stop->setToolButtonStyle(Qt::ToolButtonTextOnly);
    setMinimumHeight(m_stop->sizeHint().height()); // the window does not jump when a task begins
    connect(m_stop, &QToolButton::clicked, this, &ProgressStrip::stopRequested);
    finish();
}

void ProgressStrip::start(const QString& task) {
    m_running = true;
    m_task->setText(task);
    m_bar->setRange(0, 0);
    m_eta->clear();
    setStopAction(tr("Stop"), tr("Finish the current step, save, then stop"));
    for (QWidget* part : std::initializer_list<QWidget*>{m_bar, m_eta, m_stop})
        part->setVisible(true);
}

void ProgressStrip::setProgress(qint64 done, qint64 total, std::optional<double> etaSeconds) {
    if (!m_running)
        return;
    if (total <= 0) {
        m_bar->setRange(0, 0);
    } else {
        m_bar->setRange(0, 1000); // any count fits, however large
        m_bar->setValue(int(1000.0 * double(std::clamp<qint64>(done, 0, total)) / double(total)));
    }
    m_eta->setText(etaSeconds ? tr("%1 left").arg(durationText(*etaSeconds)) : QString());
}

void ProgressStrip::setTask(const QString& task) { m_task->setText(task); }

void ProgressStrip::setStopAction(const QString& text, const QString& hint, bool enabled) {
    m_stop->setText(text);
    m_stop->setToolTip(hint);
    m_stop->setEnabled(enabled);
}

void ProgressStrip::finish(const QString& message) {
    m_running = false;
    m_task->setText(message);
    m_eta->clear();
    for (QWidget* part : std::initializer_list<QWidget*>{m_bar, m_eta, m_stop})
        part->setVisible(false);
}

QString ProgressStrip::taskText() const { return m_task->text(); }
QString ProgressStrip::etaText() const { return m_eta->text(); }

} // namespace linnet::widgets
