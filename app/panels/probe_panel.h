// The probe dock: one head on one text, its attention and what the student's recurrence makes of it, with sliders that redraw it at once; and
// a page with timings. Dear ImGui draws it (widgets/imgui_host.h); what is pressed and typed outside of the picture is Qt.
#pragma once

#include "app/models/job_timings.h"
#include "app/panels/probe_sliders.h"
#include "widgets/export_widget.h"
#include "widgets/pattern_view.h"

#include <QPointer>

class QActionGroup;
class QComboBox;
class QLabel;
class QLineEdit;
class QStackedWidget;
class QToolBar;

namespace linnet::widgets {
class EmptyState;
}

namespace linnet::app {

class Session;

class ProbePanel : public widgets::ExportWidget {
    Q_OBJECT
public:
    enum Page { Pattern, Timings };
    static constexpr int kFirstTokens = 4; // the sinks, as the profile counts them

    explicit ProbePanel(Session* session, QWidget* parent = nullptr, bool software = false);
    widgets::ImGuiHost* host() const { return m_host; }
    ProbeModel* model() { return &m_model; }
    const widgets::PatternView& patterns() const { return m_view; }
    QRectF sliderArea() const { return m_sliderArea; } // of all four, host's logical pixels
    void setPage(Page page);
    QSize sizeHint() const override { return {680, 380}; }
    bool hasPicture() const override;
    QString csv() const override; // of the cells in view

protected:
    QSize pictureSize() const override;
    void paintPicture(QPainter& painter, const widgets::PlotColors& colors) const override;
    void contextMenuEvent(QContextMenuEvent* event) override;
    bool event(QEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;
    void showEvent(QShowEvent* event) override;
    void hideEvent(QHideEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    void makeHeader();
    void makeTools(QToolBar* tools);
    void makeHost(bool software);
    void setSeen(bool seen);
    void makeRoom();
    void refresh();         // of the state, the tokens and the runs
    void refreshPatterns();
    void refreshRuns();
    void refreshTimings();
    QString emptyTitle() const; // "" where there is something to draw
    void draw();
    void drawPattern();
    void drawAside(ImVec2 at, ImVec2 size);
    void drawReadout(float lineHeight, float width);
    widgets::PatternPage page() const;
    QString subject() const;
    QString extent() const; // of the text
    bool key(const QKeyEvent& event, bool query);
    bool patternKey(int key, bool query);
    bool stepFocus(bool next);
    Session* m_session;
    QPointer<HeadViewModel> m_views;
    ProbeModel m_model;
    ProbeSliders m_sliders{&m_model};
    widgets::PatternView m_view;
    widgets::PlotColors m_colors;
    widgets::ImGuiHost* m_host = nullptr;
    widgets::EmptyState* m_empty = nullptr;
    QStackedWidget* m_stack = nullptr;
    QLineEdit* m_text = nullptr;
    QComboBox* m_run = nullptr;
    QLabel* m_note = nullptr;
    QAction *m_patternPage = nullptr, *m_timingsPage = nullptr;
    QAction *m_teacher = nullptr, *m_student = nullptr, *m_difference = nullptr, *m_hide = nullptr, *m_log = nullptr;
    QList<QAction*> m_pictureTools; // without effect on the timings
    QTimer m_textTimer, m_releaseTimer; // typing and key steps end a moment after the last key
    std::vector<widgets::Pattern> m_shown;
    HeadViewModel::ViewPtr m_tokensOf;
    std::vector<TimingTable> m_tables;
    QStringList m_device;
    QRectF m_sliderArea;
    bool m_seen = false;
    int m_focus = 0; // 0: patterns, then the sliders
};

} // namespace linnet::app
