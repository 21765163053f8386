// What measuring a layer choice would take on this device, estimated beside the window; asked for as the controls move.
#pragma once

#include "core/convert/convert.h"

#include <QObject>
#include <QTimer>
#include <memory>

namespace linnet::app {

class MeasureCost : public QObject {
    Q_OBJECT
public:
    explicit MeasureCost(QObject* parent = nullptr);
    void ask(const core::Recipe& recipe, const core::ModelInfo& teacher); // with the rule as its keep
    void forget();
    std::optional<double> seconds() const { return m_seconds; } // of what was last asked for; nullopt: not known yet
    bool measured() const { return m_seconds && m_measured; }   // before: Measure shows it at once
    static QString text(double seconds);                        // "about 3 min"
Q_SIGNALS:
    void changed();

private:
    void start();
    QTimer m_settle;
    core::Recipe m_recipe;
    core::ModelInfo m_teacher;
    std::optional<double> m_seconds;
    bool m_measured = false;
    int m_asked = 0;
    std::shared_ptr<int> m_alive = std::make_shared<int>(0);
};

} // namespace linnet::app
