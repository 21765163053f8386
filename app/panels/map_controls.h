#pragma once

#include "app/models/head_metrics.h"
#include "widgets/color_maps.h"
#include "widgets/color_range.h"

#include <QWidget>
#include <map>
#include <optional>
#include <utility>

class QComboBox;
class QHBoxLayout;
class QLabel;
class QLineEdit;
class QPushButton;

namespace linnet::app {

class Session;

// Which numbers the maps show and in which colours. Every view (a metric of a source) has its own fixed range; typed ranges, and all
// choices, are settings.
class MapControls : public QWidget {
    Q_OBJECT
public:
    using Range = std::pair<double, double>;
    explicit MapControls(Session* session, QWidget* parent = nullptr);
    QWidget* chooser() const { return m_chooser; } // view, metric and source: a row of its own, for the owner to place

    bool single() const; // one large map, not the overview
    bool absoluteConcentration() const;
    Metric overviewDistance() const; // with or without sinks
    Metric metric() const;
    Source source() const;
    widgets::ColorMap colorMap() const;                     // of magnitudes
    widgets::ScaleMode mode(Metric metric, Source source) const; // Fixed without a range yet: the whole one
    widgets::ColorScale scale(Metric metric, Source source) const;

    void freeze(Metric metric, Source source, Range range); // the fixed range where none was given
    void setShown(std::optional<Range> range);              // of the single map, in the fields
    void setRange(double low, double high);                 // of the single map: typed, dragged or pasted
    void resetRange();                                      // global again
    void refresh();                                         // what there is to choose

Q_SIGNALS:
    void changed();

private:
    void makeChooser();
    void makeColors(QHBoxLayout* row);
    QComboBox* combo(const QString& name, const QStringList& items, const QString& hint);
    void restore();
    void store() const;
    void typed();
    void copyRange() const;
    void pasteRange();
    Session* m_session;
    QWidget* m_chooser;
    QComboBox *m_view, *m_metric, *m_source, *m_mode, *m_axis, *m_map, *m_concentration, *m_distance;
    QLineEdit *m_low, *m_high;
    QLabel *m_dash, *m_coloursLabel;
    QPushButton* m_rangeMenu;
    std::map<QString, Range> m_ranges; // by view
    std::optional<Range> m_shown;
};

} // namespace linnet::app
