#pragma once

#include <QPointer>
#include <QWidget>
#include <array>

class QHBoxLayout;
class QLabel;
class QMenu;
class QPushButton;
class QSpinBox;
class QStackedLayout;

namespace linnet::widgets {
class HeadHeatMap;
}

namespace linnet::app {

class MapControls;
class MapLink;
class Session;
class SingleMap;
class StudentNumbersModel;

// The heads of the teacher as maps, three at once or a large one, and the choice of the layers to convert.
class HeadsPage : public QWidget {
    Q_OBJECT
public:
    explicit HeadsPage(Session* session, QWidget* parent = nullptr);
    QSize sizeHint() const override { return {620, 480}; } // three maps would ask for a whole screen, and the docks shrink for it

Q_SIGNALS:
    void measuredChoiceRequested(); // of the layers, on its own page

protected:
    void showEvent(QShowEvent* event) override;
    void hideEvent(QHideEvent* event) override;
    void changeEvent(QEvent* event) override; // texts carry colours of the theme

private:
    void makeTools(QHBoxLayout* row);
    void makePresets(QMenu* menu);
    QWidget* makeOverview();
    void showMaps();
    void showOverview();
    void tellWants();
    void showLayers();
    void showJob();

    Session* m_session;
    QPointer<StudentNumbersModel> m_student; // null at the window's end: the session went first
    MapControls* m_controls;
    SingleMap* m_single;
    QStackedLayout* m_stack;
    QSpinBox* m_keep = nullptr;
    QPushButton *m_profile = nullptr, *m_presets = nullptr;
    QLabel *m_summary, *m_warning;
    std::array<widgets::HeadHeatMap*, 3> m_maps{}; // the overview: distance, concentration, output scale
    std::array<MapLink*, 3> m_links{};
};

} // namespace linnet::app
