#include "widgets/plot_widget.h"

#include "widgets/plot_paint.h"

#include <QAbstractScrollArea>
#include <QSaveFile>
#include <QScrollBar>
#include <QSvgGenerator>
#include <QVBoxLayout>
#include <QWheelEvent>

namespace linnet::widgets {
namespace {

bool liesInScrolled(const QWidget& widget) {
    for (const auto* around = widget.parentWidget(); around; around = around->parentWidget())
        if (const auto* area = qobject_cast<const QAbstractScrollArea*>(around); area && area->verticalScrollBar()->minimum() < area->verticalScrollBar()->maximum())
            return true;
    return false;
}

} // namespace

PlotWidget::PlotWidget(QWidget* parent) : ExportWidget(parent), m_plot(new QCustomPlot(this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(m_plot);
    m_plot->setContextMenuPolicy(Qt::NoContextMenu); // ours, by propagation
    m_plot->setAttribute(Qt::WA_NoMousePropagation, false); // it lets no wheel through otherwise, whatever the filter says
    m_plot->installEventFilter(this);
    m_plot->setPlottingHint(QCP::phImmediateRefresh, false);
    m_plot->setMinimumSize(0, 0);
    connect(m_plot, &QCustomPlot::afterReplot, this, [this] { ++m_replots; });
    setMinimumSize(140, 110);
    setFocusPolicy(Qt::StrongFocus);
    new PaintStep(*m_plot, "overlay", [this](QCPPainter& painter) { // where the keyboard is: what Export plot and the menu key mean
        if (!hasFocus() || m_exporting)
            return;
        painter.setPen(QPen(m_colors.fill, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(m_plot->viewport().adjusted(0, 0, -1, -1));
    });
}

bool PlotWidget::eventFilter(QObject* watched, QEvent* event) {
    // QCustomPlot keeps every turn of the wheel. Where it does nothing with it, or a panel around it has something to scroll, that one gets it.
    if (watched == m_plot && event->type() == QEvent::Wheel &&
        (!(m_plot->interactions() & QCP::iRangeZoom) || (!(static_cast<QWheelEvent*>(event)->modifiers() & Qt::ControlModifier) && liesInScrolled(*this)))) {
        event->ignore();
        return true;
    }
    return ExportWidget::eventFilter(watched, event);
}

void PlotWidget::focusInEvent(QFocusEvent* event) {
    QWidget::focusInEvent(event);
    m_plot->layer("overlay")->replot();
}

void PlotWidget::focusOutEvent(QFocusEvent* event) {
    QWidget::focusOutEvent(event);
    m_plot->layer("overlay")->replot();
}

void PlotWidget::applyColors() {
    m_colors = PlotColors::fromPalette(palette());
    styleAxes();
    restyle();
    m_plot->replot(QCustomPlot::rpQueuedReplot);
}

void PlotWidget::styleAxes() {
    m_plot->setBackground(m_colors.background);
    const QPen line(m_colors.axis, 1), grid(m_colors.grid, 1);
    for (QCPAxis* axis : m_plot->axisRect()->axes()) {
        axis->setBasePen(line);
        axis->setTickPen(line);
        axis->setSubTickPen(line);
        axis->setTickLabelColor(m_colors.text);
        axis->setLabelColor(m_colors.text);
        axis->setTickLabelFont(font());
        axis->setLabelFont(font());
        axis->grid()->setPen(grid);
        axis->grid()->setSubGridPen(Qt::NoPen);
        axis->grid()->setZeroLinePen(grid);
    }
}

void PlotWidget::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange)
        applyColors();
}

template <class Write> bool PlotWidget::withExportColors(ExportColors choice, Write work) {
    m_exporting = true;
    if (choice == ExportColors::Light) {
        m_colors = PlotColors::fromPalette(themePalette(Theme::Light));
        m_colors.background = Qt::white;
        styleAxes();
        restyle();
    }
    const bool done = work();
    m_exporting = false;
    applyColors();
    return done;
}

bool PlotWidget::write(Format format, const QString& path, ExportColors colors) {
    return withExportColors(colors, [&] {
        return format == Format::Png ? m_plot->savePng(path, width(), height(), 2.0) : format == Format::Pdf ? m_plot->savePdf(path, width(), height()) : writeSvg(path);
    });
}

QPixmap PlotWidget::lightPicture() {
    QPixmap picture;
    withExportColors(ExportColors::Light, [&] {
        picture = m_plot->toPixmap(width(), height(), 2.0);
        return true;
    });
    return picture;
}

bool PlotWidget::writeSvg(const QString& path) {
    QSaveFile file(path);
    if (!file.open(QIODevice::WriteOnly))
        return false;
    QSvgGenerator generator;
    generator.setOutputDevice(&file);
    generator.setSize(size());
    generator.setViewBox(rect());
    generator.setTitle(accessibleName());
    QCPPainter painter;
    if (!painter.begin(&generator))
        return false;
    painter.setMode(QCPPainter::pmVectorized);
    painter.setMode(QCPPainter::pmNoCaching);
    painter.fillRect(rect(), m_colors.background);
    m_plot->toPainter(&painter, width(), height());
    return painter.end() && file.commit();
}

} // namespace linnet::widgets
