// What is lost against what is kept: a point for each number of softmax layers, the teacher's level as a line, and the choice, which a
// click, a drag or the arrow keys move from point to point. It shows what its owner sets and reports what a person asks for.
#pragma once

#include "widgets/plot_widget.h"

#include <limits>
#include <optional>
#include <vector>

class QCPGraph;
class QCPLayer;
class QCPPainter;

namespace linnet::widgets {

struct KeepPoint {
    int kept = 0;
    double value = std::numeric_limits<double>::quiet_NaN(); // not finite: not measured, a gap
};

struct KeepCurveData {
    std::vector<KeepPoint> points; // in any order
    QString quantity, unit;        // "perplexity", ""; "KL", "nats a token"
    std::optional<double> teacher; // level of the teacher
    bool bytes = false;            // values are shown as 16.0 MiB
};

class KeepCurve : public PlotWidget {
    Q_OBJECT

public:
    explicit KeepCurve(QWidget* parent = nullptr);

    void setData(const KeepCurveData& data);
    void setChoice(std::optional<int> kept); // nullopt: none
    void setEmptyText(const QString& text);

    bool isEmpty() const { return m_data.points.empty(); }
    std::optional<int> choice() const { return m_choice; }
    bool isLogarithmic() const { return m_log; } // where the values are far apart
    QString readout(int kept) const;             // "15 kept: 23.8, 1.12 x the teacher's"; "" where there is no point
    QPoint pointPosition(int kept) const;        // widget pixels, after the first layout
    QString csv() const override;                // kept,value

    QSize sizeHint() const override { return {360, 300}; }

Q_SIGNALS:
    void picked(int kept); // another point than the choice

protected:
    void restyle() override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

private:
    const KeepPoint* find(int kept) const;
    const KeepPoint* nearest(const QPointF& position) const;
    void pick(int kept);
    void refill();
    void updateTicks();
    void setHover(std::optional<int> kept);
    QString valueText(double value) const;
    QString ratioText(double value) const; // "1.12 x the teacher's", "" where the teacher has no level
    void paintLevel(QCPPainter& painter) const;
    void paintChoice(QCPPainter& painter) const;

    KeepCurveData m_data; // points by kept, ascending, finite ones only
    std::optional<int> m_choice, m_hover;
    QString m_emptyText;
    bool m_log = false;
    QCPGraph* m_line = nullptr;
    QCPLayer* m_choiceLayer = nullptr;
};

} // namespace linnet::widgets
