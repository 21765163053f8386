// The legend of CurvePlot: above the axes, beside the title, so that it covers no curve. What the names of some curves begin with
// (their run) is said once; what does not fit is counted, and stands in the tooltip.
#include "widgets/curve_plot_p.h"

#include <QHash>
#include <QHelpEvent>
#include <QToolTip>
#include <algorithm>

namespace linnet::widgets {
namespace {

constexpr int kSwatch = 22, kSwatchGap = 4, kGap = 12, kTitleGap = 14; // pixels
constexpr int kLeastName = 40;
constexpr int kTwoLines = 150, kThreeLines = 230; // heights of a plot that can spare them
constexpr int kTop = 2, kBelow = 4, kUsualMargin = 15; // the last is QCustomPlot's own

QString shortName(const QString& name, const QString& group) {
    const auto start = group + QStringLiteral(", ");
    return !group.isEmpty() && name.startsWith(start) ? name.mid(start.size()) : name;
}

} // namespace

std::vector<CurvePlot::LegendEntry> CurvePlot::legendEntries() const {
    std::vector<LegendEntry> entries;
    std::vector<const Curve*> shown;
    for (const auto& curve : m_curves)
        if (curve->visible && curve->look.legend)
            shown.push_back(curve.get());
    QHash<QString, qsizetype> places; // a run's curves stand together, in the order of the runs
    for (const auto* curve : shown)
        if (!places.contains(curve->look.group))
            places.insert(curve->look.group, places.size());
    std::stable_sort(shown.begin(), shown.end(), [&](const Curve* a, const Curve* b) { return places[a->look.group] < places[b->look.group]; });
    QString group;
    for (const auto* curve : shown) {
        const auto& own = curve->look.group;
        if (!own.isEmpty() && own != group && curve->name != own)
            entries.push_back({own + QLatin1Char(':'), nullptr});
        group = own;
        entries.push_back({shortName(curve->name, own), curve});
    }
    return entries;
}

// Entries from left to right, line by line, the first beside the title; what is left over is counted on the last line.
std::vector<CurvePlot::LegendEntry> CurvePlot::flowLegend(double left, double right, int most) const {
    const QFontMetrics metrics(m_small);
    auto entries = legendEntries();
    std::vector<LegendEntry> placed;
    const auto moreText = [&](size_t from) {
        const auto left_ = std::count_if(entries.begin() + std::ptrdiff_t(from), entries.end(), [](const auto& entry) { return entry.curve != nullptr; });
        return tr("… and %1 more").arg(left_);
    };
    const double note = m_clip ? metrics.horizontalAdvance(clippedNote()) + kGap : 0;
    double x = left + (m_title.isEmpty() ? 0 : metrics.horizontalAdvance(m_title) + kTitleGap);
    int line = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
        auto& entry = entries[i];
        const double swatch = entry.curve ? kSwatch + kSwatchGap : 0;
        const double width = swatch + metrics.horizontalAdvance(entry.text), withNext = !entry.curve && i + 1 < entries.size() ? width + kGap + kSwatch + kLeastName : width;
        const auto end = [&] { return right - (line == 0 ? note : 0) - (line + 1 == most && i + 1 < entries.size() ? kGap + metrics.horizontalAdvance(moreText(i + 1)) : 0); };
        if (x + withNext > end() && x > left && line + 1 < most) {
            ++line;
            x = left;
        }
        const double room = end() - x - swatch;
        if (room < kLeastName || (x + width > end() && x > left)) { // the rest is counted
            if (const bool heading = !placed.empty() && !placed.back().curve; heading)
                placed.pop_back();
            const double at = placed.empty() ? x : placed.back().place.right() + kGap;
            const auto text = moreText(i);
            placed.push_back({text, nullptr, QRectF(at, kTop + line * (metrics.height() + 1), metrics.horizontalAdvance(text) + 1, metrics.height())});
            break;
        }
        entry.text = metrics.elidedText(entry.text, Qt::ElideRight, int(room));
        entry.place = QRectF(x, kTop + line * (metrics.height() + 1), swatch + metrics.horizontalAdvance(entry.text) + 1, metrics.height());
        x = entry.place.right() + kGap;
        placed.push_back(entry);
    }
    return placed;
}

int CurvePlot::legendLines() const {
    return height() < kTwoLines ? 1 : height() < kThreeLines ? 2 : 3;
}

void CurvePlot::rebuildLegend() {
    m_legendStale = false;
    const QFontMetrics metrics(m_small);
    const auto area = plot().axisRect()->rect();
    const auto placed = flowLegend(std::max(area.left(), 40), std::max(area.right(), width() - kUsualMargin), legendLines());
    const int bottom = std::max(m_title.isEmpty() && !m_clip ? 0 : kTop + metrics.height(), placed.empty() ? 0 : int(placed.back().place.bottom()));
    plot().axisRect()->setMinimumMargins({kUsualMargin, std::max(kUsualMargin, bottom + kBelow), kUsualMargin, kUsualMargin});
    QStringList names;
    for (const auto& curve : m_curves)
        if (curve->visible && curve->look.legend)
            names << curve->name;
    setAccessibleDescription(names.join(QStringLiteral("; ")));
}

void CurvePlot::paintLegend(QCPPainter& painter) {
    const QRectF area(plot().axisRect()->rect());
    painter.setFont(m_small);
    const QFontMetrics metrics(m_small);
    painter.setPen(colors().text);
    painter.drawText(QRectF(area.left(), kTop, area.width(), metrics.height()), Qt::AlignLeft | Qt::AlignVCenter, m_title);
    if (m_clipped && !m_curves.empty())
        painter.drawText(QRectF(area.left(), kTop, area.width(), metrics.height()), Qt::AlignRight | Qt::AlignVCenter, clippedNote());
    for (const auto& entry : flowLegend(area.left(), area.right(), legendLines())) {
        auto text = entry.place;
        if (entry.curve) {
            const auto& look = entry.curve->look;
            const double middle = text.center().y();
            painter.setPen(QPen(look.color, std::max(1.2, look.width), look.style));
            painter.drawLine(QPointF(text.left(), middle), QPointF(text.left() + kSwatch, middle));
            painter.setPen(QPen(look.color, 1));
            painter.setBrush(look.color);
            paintMarker(painter, look.marker, {text.left() + kSwatch / 2.0, middle}, 6);
            painter.setBrush(Qt::NoBrush);
            text.setLeft(text.left() + kSwatch + kSwatchGap);
        }
        painter.setPen(colors().text);
        painter.drawText(text, Qt::AlignLeft | Qt::AlignVCenter, entry.text);
    }
}

void CurvePlot::tellLegend(const QHelpEvent& event) {
    if (event.pos().y() >= plot().axisRect()->top() || accessibleDescription().isEmpty())
        return QToolTip::hideText();
    QToolTip::showText(event.globalPos(), accessibleDescription().replace(QStringLiteral("; "), QStringLiteral("\n")), this);
}

QString CurvePlot::clippedNote() const {
    return tr("outliers clipped");
}

} // namespace linnet::widgets
