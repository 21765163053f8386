// What every plot of ours shares: one QCustomPlot inside, colours that follow the palette, export and its context menu.
#pragma once

#include "widgets/theme.h"

#include <QWidget>

class QCustomPlot;
class QMenu;

namespace linnet::widgets {

class PlotWidget : public QWidget {
    Q_OBJECT

public:
    // Pictures are for paper and slides: light colours unless the caller asks for what the screen shows.
    enum class ExportColors { Light, AsShown };

    // Each writes the picture in the widget's size (PNG at twice the pixels) and returns whether the file is complete.
    bool savePng(const QString& path, ExportColors colors = ExportColors::Light);
    bool saveSvg(const QString& path, ExportColors colors = ExportColors::Light);
    bool savePdf(const QString& path, ExportColors colors = ExportColors::Light);
    bool saveCsv(const QString& path) const;
    bool save(const QString& path); // by its ending: png, svg, pdf or csv

    // Asks for a file and saves; `suffix` without a dot. The answer comes as saved().
    void askAndSave(const QString& suffix);
    void copyPicture(); // to the clipboard, in light colours at twice the pixels
    void copyCsv();
    void fillExportMenu(QMenu* menu); // save as ..., copy ...

    // RFC 4180 with '.' decimals that round-trip; a value that was not measured is an empty field.
    virtual QString csv() const = 0;

    int replotCount() const { return m_replots; }

Q_SIGNALS:
    // The answer to askAndSave() and the copies, as one sentence for the status bar.
    void saved(const QString& message, bool succeeded);

protected:
    explicit PlotWidget(QWidget* parent);

    QCustomPlot& plot() const { return *m_plot; }
    const PlotColors& colors() const { return m_colors; }
    bool isExporting() const { return m_exporting; } // pictures show neither pointer nor focus
    // Colour the own items from colors(); axes, text and background are done already. No replot in it.
    virtual void restyle() {}
    // Once at the end of a derived constructor (the virtual call is not possible in ours).
    void applyColors();

    void changeEvent(QEvent* event) override;
    void contextMenuEvent(QContextMenuEvent* event) override; // by mouse or by the menu key
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

    static QString csvNumber(double value);
    static QString csvText(const QString& text);

private:
    template <class Write> bool withExportColors(ExportColors colors, Write write);
    void styleAxes();

    QCustomPlot* m_plot;
    PlotColors m_colors;
    int m_replots = 0;
    bool m_exporting = false;
};

} // namespace linnet::widgets
