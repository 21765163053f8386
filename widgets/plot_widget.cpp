#include "widgets/plot_widget.h"

#include "widgets/plot_paint.h"

#include <QClipboard>
#include <QContextMenuEvent>
#include <QFileDialog>
#include <QGuiApplication>
#include <QMenu>
#include <QRegularExpression>
#include <QSaveFile>
#include <QStandardPaths>
#include <QSvgGenerator>
#include <QVBoxLayout>
#include <cmath>

namespace linnet::widgets {

PlotWidget::PlotWidget(QWidget* parent) : QWidget(parent), m_plot(new QCustomPlot(this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(m_plot);
    m_plot->setContextMenuPolicy(Qt::NoContextMenu); // ours, by propagation
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

template <class Write> bool PlotWidget::withExportColors(ExportColors choice, Write write) {
    m_exporting = true;
    if (choice == ExportColors::Light) {
        m_colors = PlotColors::fromPalette(themePalette(Theme::Light));
        m_colors.background = Qt::white;
        styleAxes();
        restyle();
    }
    const bool done = write();
    m_exporting = false;
    applyColors();
    return done;
}

bool PlotWidget::savePng(const QString& path, ExportColors colors) {
    return withExportColors(colors, [&] { return m_plot->savePng(path, width(), height(), 2.0); });
}

bool PlotWidget::savePdf(const QString& path, ExportColors colors) {
    return withExportColors(colors, [&] { return m_plot->savePdf(path, width(), height()); });
}

bool PlotWidget::saveSvg(const QString& path, ExportColors colors) {
    return withExportColors(colors, [&] {
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
    });
}

bool PlotWidget::saveCsv(const QString& path) const {
    QSaveFile file(path);
    return file.open(QIODevice::WriteOnly) && file.write(csv().toUtf8()) >= 0 && file.commit();
}

QString PlotWidget::csvNumber(double value) {
    return std::isfinite(value) ? QString::number(value, 'g', QLocale::FloatingPointShortest) : QString();
}

QString PlotWidget::csvText(const QString& text) {
    if (!text.contains(',') && !text.contains('"') && !text.contains('\n'))
        return text;
    return '"' + QString(text).replace('"', "\"\"") + '"';
}

bool PlotWidget::save(const QString& path) {
    const auto is = [&](const char* suffix) { return path.endsWith(QLatin1String(suffix), Qt::CaseInsensitive); };
    return is(".png") ? savePng(path) : is(".svg") ? saveSvg(path) : is(".pdf") ? savePdf(path) : is(".csv") && saveCsv(path);
}

void PlotWidget::fillExportMenu(QMenu* menu) {
    for (const char* suffix : {"png", "svg", "pdf", "csv"})
        menu->addAction(tr("Save as &%1…").arg(QString::fromLatin1(suffix).toUpper()), this, [this, suffix] { askAndSave(QString::fromLatin1(suffix)); })
            ->setObjectName(QStringLiteral("save_") + QLatin1String(suffix));
    menu->addSeparator();
    menu->addAction(tr("Copy p&icture"), this, &PlotWidget::copyPicture)->setObjectName(QStringLiteral("copyPicture"));
    menu->addAction(tr("Copy &data"), this, &PlotWidget::copyCsv)->setObjectName(QStringLiteral("copyData"));
}

void PlotWidget::copyPicture() {
    withExportColors(ExportColors::Light, [&] {
        QGuiApplication::clipboard()->setPixmap(m_plot->toPixmap(width(), height(), 2.0));
        return true;
    });
    Q_EMIT saved(tr("Copied the picture"), true);
}

void PlotWidget::copyCsv() {
    QGuiApplication::clipboard()->setText(csv());
    Q_EMIT saved(tr("Copied the data as CSV"), true);
}

void PlotWidget::contextMenuEvent(QContextMenuEvent* event) {
    auto* menu = new QMenu(this);
    menu->setObjectName(QStringLiteral("plotMenu"));
    menu->setAttribute(Qt::WA_DeleteOnClose);
    fillExportMenu(menu);
    menu->popup(event->globalPos());
}

void PlotWidget::askAndSave(const QString& suffix) {
    static QString folder = QStandardPaths::writableLocation(QStandardPaths::PicturesLocation); // of the last save in this session
    auto name = accessibleName().toLower();
    name.replace(QRegularExpression(QStringLiteral("[^\\p{L}\\p{N}]+")), QStringLiteral("-"));
    auto* dialog = new QFileDialog(this, tr("Save as %1").arg(suffix.toUpper()), folder, QStringLiteral("*.") + suffix);
    dialog->setObjectName(QStringLiteral("savePlotDialog"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setAcceptMode(QFileDialog::AcceptSave);
    dialog->setDefaultSuffix(suffix); // by the dialog: it asks before a file is replaced
    dialog->selectFile((name.isEmpty() ? QStringLiteral("plot") : name) + QLatin1Char('.') + suffix);
    connect(dialog, &QFileDialog::fileSelected, this, [this, dialog](const QString& path) {
        folder = dialog->directory().path();
        const bool done = save(path);
        Q_EMIT saved(done ? tr("Saved %1").arg(path) : tr("Could not write %1: check the folder and the free space").arg(path), done);
    });
    dialog->open();
}

} // namespace linnet::widgets
