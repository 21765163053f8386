// Attention mass by distance on a log-2 axis, with what a constant decay of a given half-life would spread instead.
#pragma once

#include "widgets/plot_widget.h"

#include <limits>
#include <optional>
#include <vector>

class QCPGraph;
class QCPPainter;

namespace linnet::widgets {

// Share of a geometric decay in each bin, for whole distances s >= 0 in [edges[i], edges[i+1]):
//   weight(s) = (1 - a) a^s with a = 2^(-1/halfLife), so mass = a^ceil(low) - a^ceil(high).  halfLife in tokens, > 0.
// It leaves out the delta rule's erase term: a horizon of the decay, not a prediction of the student's attention.
std::vector<double> decayKernelMass(const std::vector<double>& edges, double halfLife);

struct DistanceData {
    std::vector<double> edges; // tokens, ascending, first >= 0; bins.size() + 1
    std::vector<double> mass;  // share of attention in each bin, sums to about 1
    double p10 = std::numeric_limits<double>::quiet_NaN(); // tokens; not-a-number: no marker
    double p50 = std::numeric_limits<double>::quiet_NaN();
    double p90 = std::numeric_limits<double>::quiet_NaN();
    QString title;
};

class DistanceHistogram : public PlotWidget {
    Q_OBJECT

public:
    explicit DistanceHistogram(QWidget* parent = nullptr);

    // Edges and masses that don't fit together show the empty state.
    void setData(const DistanceData& data);
    void setDecayHalfLife(std::optional<double> tokens);
    void setTarget(std::optional<double> distance, bool automatic = false); // a marker of its own, named by whose it is
    void setEmptyText(const QString& text);
    void clear() { setData({}); }

    bool isEmpty() const { return m_data.mass.empty(); }
    const std::vector<double>& kernelMass() const { return m_kernel; }
    // from,to,mass,cumulative,decay
    QString csv() const override;

    QSize sizeHint() const override { return {320, 200}; }

protected:
    void restyle() override;
    void resizeEvent(QResizeEvent* event) override;

private:
    double position(double distance) const; // on the log-2 axis; 0 has a bin of its own left of 1
    void refill();
    void updateTicks();
    void paint(QCPPainter& painter) const;

    DistanceData m_data;
    std::optional<double> m_halfLife, m_target;
    bool m_automatic = false;
    std::vector<double> m_kernel;
    QString m_emptyText;
    QCPGraph *m_bars = nullptr, *m_decay = nullptr, *m_cumulative = nullptr;
};

} // namespace linnet::widgets
