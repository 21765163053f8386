#include "widgets/export_widget.h"

#include <QClipboard>
#include <QContextMenuEvent>
#include <QFileDialog>
#include <QGuiApplication>
#include <QLocale>
#include <QMenu>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QRegularExpression>
#include <QSaveFile>
#include <QStandardPaths>
#include <QSvgGenerator>
#include <cmath>

namespace linnet::widgets {
namespace {

constexpr double kPixels = 2;  // of a PNG, for each of the widget's
constexpr int kPdfDpi = 96;

} // namespace

void ExportWidget::paintPicture(QPainter&, const PlotColors&) const {}

PlotColors ExportWidget::exportColors(ExportColors choice) const {
    if (choice == ExportColors::AsShown)
        return PlotColors::fromPalette(palette());
    auto colors = PlotColors::fromPalette(themePalette(Theme::Light));
    colors.background = Qt::white;
    return colors;
}

QPixmap ExportWidget::lightPicture() {
    const auto colors = exportColors(ExportColors::Light);
    QPixmap pixels(pictureSize() * kPixels);
    pixels.setDevicePixelRatio(kPixels);
    pixels.fill(colors.background);
    QPainter painter(&pixels);
    painter.setFont(font());
    paintPicture(painter, colors);
    return pixels;
}

bool ExportWidget::write(Format format, const QString& path, ExportColors choice) {
    const auto colors = exportColors(choice);
    const auto size = pictureSize();
    QSaveFile file(path);
    if (!file.open(QIODevice::WriteOnly))
        return false;
    const auto paint = [&](QPaintDevice& device, double scale) {
        QPainter painter;
        if (!painter.begin(&device))
            return false;
        painter.scale(scale, scale);
        painter.setFont(font());
        painter.fillRect(QRect(QPoint(), size), colors.background);
        paintPicture(painter, colors);
        return painter.end();
    };
    if (format == Format::Png) {
        QImage image(size * kPixels, QImage::Format_RGB32);
        image.setDevicePixelRatio(kPixels);
        return paint(image, 1) && image.save(&file, "PNG") && file.commit();
    }
    if (format == Format::Svg) {
        QSvgGenerator generator;
        generator.setOutputDevice(&file);
        generator.setSize(size);
        generator.setViewBox(QRect(QPoint(), size));
        generator.setTitle(accessibleName());
        return paint(generator, 1) && file.commit();
    }
    QPdfWriter writer(&file);
    writer.setResolution(kPdfDpi);
    writer.setPageSize(QPageSize(QSizeF(size) * 72 / kPdfDpi, QPageSize::Point, {}, QPageSize::ExactMatch));
    writer.setPageMargins({});
    writer.setTitle(accessibleName());
    return paint(writer, 1) && file.commit();
}

bool ExportWidget::saveCsv(const QString& path) const {
    QSaveFile file(path);
    return file.open(QIODevice::WriteOnly) && file.write(csv().toUtf8()) >= 0 && file.commit();
}

QString ExportWidget::csvNumber(double value) {
    return std::isfinite(value) ? QString::number(value, 'g', QLocale::FloatingPointShortest) : QString();
}

QString ExportWidget::csvText(const QString& text) {
    if (!text.contains(',') && !text.contains('"') && !text.contains('\n'))
        return text;
    return '"' + QString(text).replace('"', "\"\"") + '"';
}

bool ExportWidget::save(const QString& path) {
    const auto is = [&](const char* suffix) { return path.endsWith(QLatin1String(suffix), Qt::CaseInsensitive); };
    return is(".png") ? savePng(path) : is(".svg") ? saveSvg(path) : is(".pdf") ? savePdf(path) : is(".csv") && saveCsv(path);
}

void ExportWidget::fillExportMenu(QMenu* menu) {
    for (const char* suffix : {"png", "svg", "pdf", "csv"})
        menu->addAction(tr("Save as &%1…").arg(QString::fromLatin1(suffix).toUpper()), this, [this, suffix] { askAndSave(QString::fromLatin1(suffix)); })
            ->setObjectName(QStringLiteral("save_") + QLatin1String(suffix));
    menu->addSeparator();
    menu->addAction(tr("Copy p&icture"), this, &ExportWidget::copyPicture)->setObjectName(QStringLiteral("copyPicture"));
    menu->addAction(tr("Copy &data"), this, &ExportWidget::copyCsv)->setObjectName(QStringLiteral("copyData"));
}

void ExportWidget::copyPicture() {
    QGuiApplication::clipboard()->setPixmap(lightPicture());
    Q_EMIT saved(tr("Copied the picture"), true);
}

void ExportWidget::copyCsv() {
    QGuiApplication::clipboard()->setText(csv());
    Q_EMIT saved(tr("Copied the data as CSV"), true);
}

void ExportWidget::contextMenuEvent(QContextMenuEvent* event) {
    if (!hasPicture())
        return event->ignore();
    auto* menu = new QMenu(this);
    menu->setObjectName(QStringLiteral("plotMenu"));
    menu->setAttribute(Qt::WA_DeleteOnClose);
    fillExportMenu(menu);
    menu->popup(event->globalPos());
}

void ExportWidget::askAndSave(const QString& suffix) {
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
