// What can be saved and copied: a picture and its numbers, through File > Export plot and the context menu.
#pragma once

#include "widgets/theme.h"

#include <QWidget>

class QMenu;
class QPainter;

namespace linnet::widgets {

class ExportWidget : public QWidget {
    Q_OBJECT

public:
    // Pictures are for paper and slides: light colours unless the caller asks for what the screen shows.
    enum class ExportColors { Light, AsShown };

    // Each writes the picture in its own size (PNG at twice the pixels) and returns whether the file is complete.
    bool savePng(const QString& path, ExportColors colors = ExportColors::Light) { return write(Format::Png, path, colors); }
    bool saveSvg(const QString& path, ExportColors colors = ExportColors::Light) { return write(Format::Svg, path, colors); }
    bool savePdf(const QString& path, ExportColors colors = ExportColors::Light) { return write(Format::Pdf, path, colors); }
    bool saveCsv(const QString& path) const;
    bool save(const QString& path); // by its ending: png, svg, pdf or csv

    // Asks for a file and saves; `suffix` without a dot. The answer comes as saved().
    void askAndSave(const QString& suffix);
    void copyPicture(); // to the clipboard, in light colours at twice the pixels
    void copyCsv();
    void fillExportMenu(QMenu* menu); // save as ..., copy ...

    // RFC 4180 with '.' decimals that round-trip; a value that was not measured is an empty field.
    virtual QString csv() const = 0;
    virtual bool hasPicture() const { return true; } // false: there is nothing to export now

Q_SIGNALS:
    // The answer to askAndSave() and the copies, as one sentence for the status bar.
    void saved(const QString& message, bool succeeded);

protected:
    enum class Format { Png, Svg, Pdf };
    explicit ExportWidget(QWidget* parent) : QWidget(parent) {}

    // Of widgets that paint themselves: the picture, from the painter's (0, 0). Others write files and pixels in their own way.
    virtual QSize pictureSize() const { return size(); }
    virtual void paintPicture(QPainter& painter, const PlotColors& colors) const;
    virtual bool write(Format format, const QString& path, ExportColors colors);
    virtual QPixmap lightPicture();
    PlotColors exportColors(ExportColors colors) const;

    void contextMenuEvent(QContextMenuEvent* event) override; // by mouse or by the menu key

    static QString csvNumber(double value);
    static QString csvText(const QString& text);
};

} // namespace linnet::widgets
