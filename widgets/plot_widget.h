// What every plot of ours shares: one QCustomPlot inside, colours that follow the palette, and its export.
#pragma once

#include "widgets/export_widget.h"

class QCustomPlot;

namespace linnet::widgets {

class PlotWidget : public ExportWidget {
    Q_OBJECT

public:
    int replotCount() const { return m_replots; }

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
    bool eventFilter(QObject* watched, QEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

    bool write(Format format, const QString& path, ExportColors colors) override;
    QPixmap lightPicture() override;

private:
    template <class Write> bool withExportColors(ExportColors colors, Write work);
    bool writeSvg(const QString& path);
    void styleAxes();

    QCustomPlot* m_plot;
    PlotColors m_colors;
    int m_replots = 0;
    bool m_exporting = false;
};

} // namespace linnet::widgets
