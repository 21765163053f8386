#include "app/models/measure_cost.h"

#include "app/guarded.h"
#include "core/convert/run_selection.h"

#include <QCoreApplication>
#include <cmath>

namespace linnet::app {
namespace {

constexpr int kSettleMs = 250;

} // namespace

MeasureCost::MeasureCost(QObject* parent) : QObject(parent) {
    m_settle.setSingleShot(true);
    m_settle.setInterval(kSettleMs);
    connect(&m_settle, &QTimer::timeout, this, &MeasureCost::start);
}

void MeasureCost::ask(const core::Recipe& recipe, const core::ModelInfo& teacher) {
    if (recipe == m_recipe && teacher.hash == m_teacher.hash && (m_seconds || m_settle.isActive()))
        return;
    m_recipe = recipe;
    m_teacher = teacher;
    ++m_asked;
    m_seconds.reset();
    m_settle.start();
}

void MeasureCost::forget() {
    ++m_asked;
    m_settle.stop();
    m_recipe = {};
    m_seconds.reset();
}

void MeasureCost::start() {
    inBackground([this, alive = std::weak_ptr<int>(m_alive), asked = m_asked, recipe = m_recipe, teacher = m_teacher] {
        const auto known = core::knownSelection(recipe, core::cacheFolder() / "banks");
        const bool measured = known && known->whole;
        const auto estimate = measured ? core::Estimate() : core::estimateSelection(recipe, teacher);
        QMetaObject::invokeMethod(QCoreApplication::instance(), [=, this] {
            if (alive.expired() || asked != m_asked || !estimate)
                return;
            m_measured = measured;
            m_seconds = estimate->seconds;
            Q_EMIT changed();
        });
    });
}

QString MeasureCost::text(double seconds) {
    if (seconds < 10)
        return tr("some seconds");
    if (seconds < 90)
        return tr("about %1 s").arg(10 * std::lround(seconds / 10));
    if (seconds < 5400)
        return tr("about %1 min").arg(std::lround(seconds / 60));
    return tr("about %1 h").arg(std::lround(seconds / 3600));
}

} // namespace linnet::app
