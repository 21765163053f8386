// Live curves over steps, tokens or time. Appending is cheap: the picture is redrawn at most about 30 times a second.
#pragma once

#include "widgets/curve_series.h"
#include "widgets/plot_widget.h"
#include "widgets/run_look.h"

#include <QElapsedTimer>
#include <QTimer>
#include <memory>
#include <optional>
#include <vector>

class QCPGraph;
class QCPLayer;
class QCPPainter;
class QHelpEvent;
class QMouseEvent;

namespace linnet::widgets {

struct CurveLook {
    QColor color;
    Qt::PenStyle style = Qt::SolidLine;
    double width = 1.5;           // 0: no line, the edge of a band for example
    Marker marker = Marker::Disc; // on a few points of the line; on each where there are few
    bool smooth = true;           // false: drawn as measured, whatever the smoothing
    bool legend = true;
    QString group; // what the name begins with, before ", ": the legend says it once for all curves of a run
};

struct CurveValue { // of the point nearest to a cursor
    QString id, name;
    CurveLook look;
    double x = 0, y = 0, smoothed = 0;
};

class CurvePlot : public PlotWidget {
    Q_OBJECT

public:
    static constexpr size_t kPointsShown = 4000; // a curve with more points in view is drawn as its min/max envelope

    explicit CurvePlot(QWidget* parent = nullptr);
    ~CurvePlot() override;

    // An id that exists already only changes its looks. Curves are drawn in the order of their addition.
    void addCurve(const QString& id, const QString& name, const CurveLook& look);
    void addCurve(const QString& id, const QString& name, const QColor& color, Qt::PenStyle style = Qt::SolidLine);
    void setBand(const QString& lowId, const QString& highId); // tinted between two curves
    void removeCurve(const QString& id);
    // Unknown ids are ignored. y that is not finite (or, on a log axis, not positive) leaves a gap. See CurveSeries::append.
    void append(const QString& id, double x, double y);
    void append(const QString& id, const std::vector<double>& x, const std::vector<double>& y);
    void clear();                        // curves and marks
    void clearPoints(const QString& id); // keeps the curve
    void setCurveVisible(const QString& id, bool visible);
    bool hasCurve(const QString& id) const { return find(id) != nullptr; }
    size_t pointCount(const QString& id) const;

    void setAxisLabels(const QString& x, const QString& y);
    void setTitle(const QString& title); // above the plot
    void setEmptyText(const QString& text);
    void setLogY(bool log);
    void setWholeX(bool whole); // ticks at whole numbers only: x counts things
    void setSmoothing(double weight); // 0..0.99; the raw line stays behind at a quarter of its strength
    void setClipOutliers(bool clip);  // y follows the 2 to 98 % quantiles of what is in view, and says so
    void addMark(double x, const QString& label, bool small = false); // small: a tick at the lower edge, without label; dense ones are thinned
    void clearMarks();
    size_t markCount() const { return m_marks.size(); }
    void setCursor(std::optional<double> x); // one cursor shared by plots with the same x
    std::optional<double> cursor() const { return m_cursor; }
    std::vector<CurveValue> valuesAt(double x) const; // of the visible curves that reach over x
    void setView(double xFrom, double xTo, double yFrom, double yTo);
    void setXView(double from, double to); // y fits what is in it
    bool reachesInto(double from, double to) const; // a visible curve has points on both sides of it, or in it
    void resetView(); // follows the data again
    bool followsData() const { return m_follows; }

    struct View {
        double xFrom, xTo, yFrom, yTo;
    };
    View view() const;

    // curve,x,value,smoothed: the raw points of the visible curves in the visible range of x.
    QString csv() const override;

    QSize sizeHint() const override { return {520, 300}; }

Q_SIGNALS:
    void pointHovered(const QString& id, double x, double y);
    void hoverLeft();
    void cursorMoved(double x);
    void viewChangedByUser();
    void xViewChangedByUser(double from, double to); // afterwards
    void viewResetByUser();

protected:
    void restyle() override;
    bool eventFilter(QObject* watched, QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override; // arrows: cursor (Shift: pan); + and - zoom, 0 resets
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

private:
    struct Curve;
    struct Mark {
        double x;
        QString label;
        bool small;
    };
    struct Hover {
        QString name;
        double x, y, shown; // shown: the smoothed value
        QColor color;
        bool smooth; // of its look: else the value is shown as it is
    };

    Curve* find(const QString& id) const;
    struct LegendEntry {
        QString text;
        const Curve* curve = nullptr; // nullptr: the name of a run, or how many more there are
        QRectF place{};
    };
    std::vector<LegendEntry> legendEntries() const;
    std::vector<LegendEntry> flowLegend(double left, double right, int most) const;
    int legendLines() const;
    QString clippedNote() const;
    void tellLegend(const QHelpEvent& event);
    void schedule();
    void refresh();
    void follow();
    void fitTicks();
    void fill(Curve& curve, double from, double to);
    void draw(Curve& curve, QCPGraph* graph, bool smoothed, double from, double to);
    void style(Curve& curve) const;
    std::pair<double, double> quantiles(double from, double to) const;
    void userMoved();
    void resetByUser();
    void rebuildLegend();
    void hoverAt(const QPointF& position);
    void endHover();
    void paintLegend(QCPPainter& painter);
    void paintMarks(QCPPainter& painter) const;
    void paintHover(QCPPainter& painter) const;

    std::vector<std::unique_ptr<Curve>> m_curves;
    std::vector<Mark> m_marks;
    std::optional<Hover> m_hover;
    std::optional<double> m_cursor;
    QTimer m_timer;
    QElapsedTimer m_sinceRefresh;
    QString m_emptyText, m_title;
    QFont m_small;
    double m_smoothing = 0;
    bool m_log = false, m_clip = false, m_clipped = false, m_follows = true, m_fitsY = false, m_setting = false, m_refreshing = false, m_legendStale = false;
    QCPLayer* m_overlay = nullptr;
};

} // namespace linnet::widgets
