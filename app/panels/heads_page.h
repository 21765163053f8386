#pragma once

#include "core/profile/profile.h"

#include <QWidget>
#include <array>
#include <functional>
#include <vector>

class QComboBox;
class QHBoxLayout;
class QLabel;
class QMenu;
class QPushButton;
class QSpinBox;

namespace linnet::widgets {
class HeadHeatMap;
}

namespace linnet::app {

class Session;

// Three linked heat maps of the profile, and the choice of the layers to convert.
class HeadsPage : public QWidget {
    Q_OBJECT
public:
    explicit HeadsPage(Session* session, QWidget* parent = nullptr);

Q_SIGNALS:
    void measuredChoiceRequested(); // of the layers, on its own page

protected:
    void changeEvent(QEvent* event) override; // texts carry colours of the theme

private:
    void makeTools(QHBoxLayout* row);
    void makePresets(QMenu* menu);
    void makeMaps(QHBoxLayout* row);
    void showProfile();
    void showScaleMode();
    void showLayers();
    void showSelection();
    void showHover();
    void showJob();
    void toggle(const QList<int>& layers, bool converted);
    std::vector<double> values(const std::function<double(const core::HeadProfile&)>& of) const; // not-a-number without a profile

    Session* m_session;
    QComboBox *m_scaleMode = nullptr, *m_concentration = nullptr;
    QSpinBox* m_keep = nullptr;
    QPushButton *m_profile = nullptr, *m_presets = nullptr;
    QLabel *m_summary, *m_warning;
    std::array<widgets::HeadHeatMap*, 3> m_maps{}; // distance, concentration, output scale
};

} // namespace linnet::app
