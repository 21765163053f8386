// What the probe dock draws in each frame, and the same for paper.
#include "app/panels/probe_panel.h"

#include "app/panels/probe_timings.h"
#include "widgets/decay_view.h"
#include "widgets/imgui_host.h"

#include <QAction>
#include <QContextMenuEvent>
#include <algorithm>

namespace linnet::app {
namespace {

constexpr float kNarrow = 420, kHistogram = 120; // logical pixels
constexpr int kExportSide = 420;                 // pixels of a pattern on paper

} // namespace

void ProbePanel::draw() {
    if (m_patternPage->isChecked())
        return drawPattern();
    auto facts = m_device;
    facts << tr("probe: pattern %1 ms, frame %2 ms, drawn by %3")
                 .arg(m_model.patternMs() > 0 ? QString::number(m_model.patternMs(), 'f', 1) : QStringLiteral("–"))
                 .arg(m_host->lastFrameMs(), 0, 'f', 1)
                 .arg(m_host->rendererName());
    drawTimings(facts, m_tables);
}

QString ProbePanel::subject() const {
    const auto head = m_views->head();
    const auto state = m_views->stateText();
    const auto what = tr("layer %1, head %2").arg(head.layer).arg(head.head);
    return state.isEmpty() ? what : what + QStringLiteral(" · ") + state;
}

QString ProbePanel::extent() const {
    const auto* view = m_model.view();
    return view->textTokens > view->length ? tr("first %1 of %2 tokens").arg(view->length).arg(view->textTokens) : tr("%1 tokens").arg(view->length);
}

void ProbePanel::drawPattern() {
    const ImVec2 space = ImGui::GetContentRegionAvail(), at = ImGui::GetCursorScreenPos();
    if (!m_model.view()) {
        ImGui::TextUnformatted(subject().toUtf8().constData());
        return;
    }
    const float line = ImGui::GetTextLineHeightWithSpacing();
    const float readout = line * static_cast<float>(std::max<std::size_t>(1, m_shown.size())) + 4;
    const float height = space.y - readout, sliders = m_sliders.height();
    const bool beside = space.x >= kNarrow || height < sliders + kHistogram + 150;
    const bool focused = m_host->hasFocus() && m_focus == 0;
    if (beside) {
        const float aside = std::clamp(space.x * 0.3F, 170.F, 300.F);
        m_view.draw(*m_host, {space.x - aside - 12, height}, m_colors, focused);
        drawAside({at.x + space.x - aside, at.y}, {aside, height});
    } else {
        const float below = sliders + kHistogram + 2 * line;
        m_view.draw(*m_host, {space.x, height - below}, m_colors, focused);
        drawAside({at.x, at.y + height - below}, {space.x, below});
    }
    ImGui::SetCursorScreenPos({at.x, at.y + height + 2});
    drawReadout(line, space.x);
}

void ProbePanel::drawAside(ImVec2 at, ImVec2 size) {
    const float line = ImGui::GetTextLineHeightWithSpacing();
    ImGui::SetCursorScreenPos(at);
    ImGui::PushClipRect(at, {at.x + size.x, at.y + size.y}, true);
    const auto what = subject().toUtf8(), length = extent().toUtf8();
    const float indent = ImGui::CalcTextSize(what.constData()).x + 10;
    const bool together = indent + ImGui::CalcTextSize(length.constData()).x <= size.x;
    const float head = together ? line : 2 * line;
    ImGui::TextUnformatted(what.constData());
    ImGui::GetWindowDrawList()->AddText({at.x + (together ? indent : 0), at.y + head - line}, ImGui::GetColorU32(ImGuiCol_TextDisabled), length.constData());
    const float sliders = m_sliders.height(), histogram = size.y - sliders - head - 12;
    if (histogram > 50) {
        ImGui::SetCursorScreenPos({at.x, at.y + head});
        widgets::drawDecay({m_model.view()->distanceEdges, m_model.view()->distanceMass, m_model.value(TargetField::HalfLife)}, {size.x, histogram}, m_colors);
    }
    ImGui::PopClipRect();
    const float top = std::max(at.y + line, at.y + size.y - sliders - 2);
    ImGui::SetCursorScreenPos({at.x, top});
    m_sliderArea = QRectF(double(at.x), double(top), double(size.x), double(sliders));
    ImGui::BeginGroup(); // so that each starts below the other, not at the window's edge
    m_sliders.draw(size.x, m_colors, m_host->hasFocus() ? m_focus - 1 : -1);
    ImGui::EndGroup();
}

void ProbePanel::drawReadout(float lineHeight, float width) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    auto* list = ImGui::GetWindowDrawList();
    list->PushClipRect(at, {at.x + width, at.y + lineHeight * 4}, true);
    const auto say = [&](int line, const QString& what, bool dim) {
        list->AddText({at.x, at.y + lineHeight * static_cast<float>(line)}, ImGui::GetColorU32(dim ? ImGuiCol_TextDisabled : ImGuiCol_Text), what.toUtf8().constData());
    };
    if (m_model.dragging())
        say(0, tr("preview: letting go (Enter) makes it one edit of the recipe, Esc takes it back"), true);
    else if (m_view.row() < 0)
        say(0, tr("Point at a row for its top sources; wheel zooms, drag moves. Right click on a slider: automatic again."), true);
    else
        for (std::size_t i = 0; i < m_shown.size(); ++i)
            say(static_cast<int>(i), m_view.rowText(m_shown[i]), false);
    list->PopClipRect();
}

// ---- export -----------------------------------------------------------------------------------------------------------------

bool ProbePanel::hasPicture() const { // of the patterns; timings are text
    return m_seen && m_patternPage->isChecked() && m_model.view() && !m_shown.empty();
}

widgets::PatternPage ProbePanel::page() const {
    auto page = m_view.page();
    page.title = m_model.view() ? tr("layer %1, head %2").arg(m_views->head().layer).arg(m_views->head().head) + QStringLiteral(", ") + extent() : QString();
    return page;
}

QString ProbePanel::csv() const {
    return patternCsv(page());
}

QSize ProbePanel::pictureSize() const {
    return patternPageSize(page(), kExportSide, font());
}

void ProbePanel::paintPicture(QPainter& painter, const widgets::PlotColors& colors) const {
    paintPatterns(painter, page(), kExportSide, colors);
}

void ProbePanel::contextMenuEvent(QContextMenuEvent* event) { // a right click on a slider makes it automatic
    const QPoint at = m_host->mapFrom(this, event->pos());
    if (event->reason() == QContextMenuEvent::Mouse && (!m_host->rect().contains(at) || m_sliderArea.contains(at)))
        return event->ignore();
    ExportWidget::contextMenuEvent(event);
}

} // namespace linnet::app
