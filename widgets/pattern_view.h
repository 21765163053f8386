// Patterns of one text side by side in a Dear ImGui host, under one view: they zoom, pan and point at a row together.
#pragma once

#include "widgets/pattern_picture.h"
#include "widgets/theme.h"

#include <imgui.h>

namespace linnet::widgets {

class ImGuiHost;

class PatternView {
public:
    static constexpr double kLeastSpan = 8; // cells: as far as it zooms in
    static constexpr int kSources = 5;

    void setTokens(const QStringList& tokens); // one a row and column; the whole is shown again where their number differs
    void setPatterns(std::vector<Pattern> patterns) { m_patterns = std::move(patterns); }
    void setHiddenColumns(int columns) { m_hidden = columns; }
    void setLog(bool log) { m_log = log; }
    void draw(ImGuiHost& host, ImVec2 size, const PlotColors& colors, bool focused); // in a frame, at ImGui's cursor

    PatternPage page() const { return {{}, m_patterns, length(), m_tokens, m_window, m_log, m_hidden}; } // what is seen now
    int length() const { return int(m_tokens.size()); }
    PatternWindow window() const { return m_window; }
    void fit();
    void zoom(double factor, double x, double y); // above 1: nearer; the cell (x, y) keeps its place
    void zoom(double factor);                     // about the row that is pointed at, or the middle
    void pan(double columns, double rows);
    void moveRow(int by); // by keyboard
    int row() const { return m_hoverRow >= 0 ? m_hoverRow : m_row; } // pointed at: by the mouse, else by keyboard; -1: none
    void clearRow() { m_row = -1; }
    QString rowText(const Pattern& pattern) const; // its top sources, and the value of the cell under the mouse
    QString tokenText(int index) const;            // with its position: "12 “ cat”"
    QRectF square(int pattern) const;              // where it was drawn, host's logical pixels
    QSize imageSize(int pattern) const;            // of what was sent to the screen, texels

private:
    struct Drawn { // what an image was made of
        std::shared_ptr<const std::vector<float>> values;
        PatternWindow window;
        PatternStyle style;
        int pixels = 0;
        QSize size;
        QRectF cells, square;
    };
    void drawPattern(ImGuiHost& host, int index, ImVec2 at, float side, const PlotColors& colors, bool focused);
    void refreshImage(ImGuiHost& host, int index, int pixels, ColorMap map);
    void drawMarks(int index, ImVec2 at, float side, const PlotColors& colors) const;
    void drawScale(ImGuiHost& host, int index, ImVec2 at, float side, const PlotColors& colors) const;
    void drawRows(ImVec2 at, float side, float gutter, const PlotColors& colors) const;
    void takeMouse(ImVec2 at, float side);
    void keepInside();
    ImVec2 place(ImVec2 at, float side, double x, double y) const;
    QStringList m_tokens;
    std::vector<Pattern> m_patterns;
    std::vector<Drawn> m_drawn;
    PatternWindow m_window;
    int m_hidden = 0, m_row = -1, m_hoverRow = -1, m_hoverColumn = -1;
    bool m_log = false;
    int m_hatchPixels = 0; // of the hatching that the host has
    QColor m_hatchLine;
};

} // namespace linnet::widgets
