// A small attention pattern: the whole of it, reduced by the largest magnitude of a block; a row can be pointed at by mouse or keys.
#pragma once

#include "widgets/export_widget.h"
#include "widgets/pattern_picture.h"

namespace linnet::widgets {

class PatternMap : public ExportWidget {
    Q_OBJECT

public:
    explicit PatternMap(QWidget* parent = nullptr);

    // values [length, length] as pattern_image.h has them; null or other sizes: the empty text. The style's range is set here.
    void setPattern(std::shared_ptr<const std::vector<float>> values, int length, ColorMap map);
    void setLog(bool log);
    void setHiddenColumns(int columns);
    void setEmptyText(const QString& text);
    void clear() { setPattern({}, 0, ColorMap::Viridis); }

    bool isEmpty() const { return m_length == 0; }
    bool hasPicture() const override { return !isEmpty(); }
    QString csv() const override { return patternCsv(page()); }
    int row() const { return m_hovered >= 0 ? m_hovered : m_row; } // -1: none
    QRect square() const;                                          // of the picture
    const PatternStyle& style() const { return m_style; } // its map as suits the theme

    QSize sizeHint() const override { return {260, 280}; }
    QSize minimumSizeHint() const override { return {160, 180}; }
    bool hasHeightForWidth() const override { return true; }
    int heightForWidth(int width) const override;

Q_SIGNALS:
    void rowChanged(int row);

protected:
    void paintEvent(QPaintEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void changeEvent(QEvent* event) override;
    QSize pictureSize() const override;
    void paintPicture(QPainter& painter, const PlotColors& colors) const override;

private:
    PatternPage page() const;
    void restyle();
    void point(int hovered, int row);
    int rowAt(const QPointF& position) const;
    void paintScale(QPainter& painter, const QRect& below) const;
    std::shared_ptr<const std::vector<float>> m_values;
    int m_length = 0, m_row = -1, m_hovered = -1;
    ColorMap m_map = ColorMap::Viridis; // as asked for
    PatternStyle m_style;
    bool m_empty = true; // nothing above 0
    QString m_emptyText;
    PatternImage m_image; // for m_pixels
    int m_pixels = 0;
};

} // namespace linnet::widgets
