#include "app/panels/probe_sliders.h"

#include <QTimer>
#include <cmath>
#include <imgui.h>
#include <limits>

namespace linnet::app {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kDecays = 0.95, kNoDecay = 0.975; // of the half-life's way: the last octave ends, no decay begins
constexpr double kLeastLog = -1, kOctaves = 14, kLogOdds = 6.9, kScaleOctaves = 4, kMostGate = 4;
constexpr double kStep = 0.01, kPage = 0.1;
constexpr float kGroove = 4, kKnobHeight = 11, kUnder = 3, kMark = 3; // pixels: of the way, of the knob, below the text, of the mark of a value set by hand

double rounded(double value) {
    return QString::number(value, 'g', 3).toDouble();
}

ImU32 toImGui(QColor color, int alpha = 255) {
    return IM_COL32(color.red(), color.green(), color.blue(), alpha);
}

float rowHeight() { // the value stands above its slider, where no knob lies over it
    return ImGui::GetTextLineHeight() + kUnder + kKnobHeight + 1;
}

// Moves by Dear ImGui, drawn by us: its own knob is as high as the row.
bool moveSlider(float& position, float width) {
    constexpr ImGuiCol_ parts[] = {ImGuiCol_FrameBg, ImGuiCol_FrameBgHovered, ImGuiCol_FrameBgActive, ImGuiCol_SliderGrab, ImGuiCol_SliderGrabActive, ImGuiCol_Border};
    for (const auto part : parts)
        ImGui::PushStyleColor(part, IM_COL32_BLACK_TRANS);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {0, (rowHeight() - ImGui::GetFontSize()) / 2});
    ImGui::SetNextItemWidth(width);
    const bool moved = ImGui::SliderFloat("##target", &position, 0, 1, "", ImGuiSliderFlags_NoInput);
    ImGui::PopStyleVar();
    ImGui::PopStyleColor(std::size(parts));
    return moved;
}

} // namespace

double sliderPosition(TargetField field, double value) {
    double position = 0;
    switch (field) {
    case TargetField::HalfLife: position = std::isinf(value) ? 1 : std::min(kDecays, (std::log2(std::max(value, 1e-9)) - kLeastLog) / kOctaves * kDecays); break;
    case TargetField::Beta: position = value >= 1 ? 1 : 0.5 + std::log(std::max(value, 1e-9) / (1 - value)) / (2 * kLogOdds); break;
    case TargetField::ValueScale: position = 0.5 + std::log2(std::max(value, 1e-9)) / (2 * kScaleOctaves); break;
    case TargetField::OutputGate: position = std::sqrt(std::max(0.0, value) / kMostGate); break;
    }
    return std::clamp(position, 0.0, 1.0);
}

double sliderValue(TargetField field, double position) {
    position = std::clamp(position, 0.0, 1.0);
    switch (field) {
    case TargetField::HalfLife: return position > kNoDecay ? kNone : rounded(std::exp2(kLeastLog + std::min(1.0, position / kDecays) * kOctaves));
    case TargetField::Beta: return rounded(1 / (1 + std::exp(-(position - 0.5) * 2 * kLogOdds)));
    case TargetField::ValueScale: return rounded(std::exp2((position - 0.5) * 2 * kScaleOctaves));
    case TargetField::OutputGate: break;
    }
    return rounded(kMostGate * position * position);
}

QString sliderText(TargetField field, double value) {
    QString text = QStringLiteral("–");
    if (!std::isnan(value))
        text = field != TargetField::HalfLife ? QString::number(value, 'g', 3)
               : std::isinf(value)            ? ProbeModel::tr("none (no decay)")
                                              : ProbeModel::tr("%1 tokens").arg(QString::number(value, 'g', 3));
    return targetTitle(field) + QStringLiteral("  ") + text;
}

float ProbeSliders::height() const {
    return 4 * rowHeight() + 3 * ImGui::GetStyle().ItemSpacing.y;
}

void ProbeSliders::draw(float width, const widgets::PlotColors& colors, int focused) {
    for (std::size_t i = 0; i < kTargetFields.size(); ++i)
        drawOne(kTargetFields[i], width, colors, focused == static_cast<int>(i));
}

void ProbeSliders::drawOne(TargetField field, float width, const widgets::PlotColors& colors, bool focused) {
    const bool free = m_model->canDrag(field);
    const double value = m_model->value(field);
    auto text = sliderText(field, value);
    if (m_model->locked(field))
        text += ProbeModel::tr(" (locked)");
    else if (m_model->view() && !m_model->effective(field))
        text += ProbeModel::tr(" (this mixer has none)");
    float position = std::isnan(value) ? 0.F : static_cast<float>(sliderPosition(field, value));
    ImGui::PushID(targetKey(field));
    ImGui::BeginDisabled(!free);
    const bool moved = moveSlider(position, width);
    ImGui::EndDisabled();
    const bool lively = free && (ImGui::IsItemHovered() || ImGui::IsItemActive());
    const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
    if (ImGui::IsItemActivated())
        m_escaped = false;
    if (moved && !m_escaped)
        m_model->drag(field, sliderValue(field, static_cast<double>(position)));
    if (ImGui::IsItemDeactivated())
        QTimer::singleShot(0, m_model, &ProbeModel::release); // an edit is not part of a frame
    if (free && ImGui::IsItemHovered() && ImGui::IsMouseClicked(ImGuiMouseButton_Right))
        QTimer::singleShot(0, m_model, [model = m_model, field] { model->makeAutomatic(field); });
    auto* list = ImGui::GetWindowDrawList();
    const int alpha = free ? 255 : 120;
    const float half = ImGui::GetStyle().GrabMinSize / 2 + 2, middle = to.y - kKnobHeight / 2 - 1;
    const auto place = [&](double at) { return from.x + half + static_cast<float>(at) * (to.x - from.x - 2 * half); };
    list->PushClipRect(from, to, true);
    list->AddText({from.x + kMark + 3, from.y}, toImGui(colors.text, alpha), text.toUtf8().constData());
    list->PopClipRect();
    list->AddRectFilled({from.x + 2, middle - kGroove / 2}, {to.x - 2, middle + kGroove / 2}, toImGui(colors.grid), kGroove / 2);
    if (const double standing = m_model->standing(field); !std::isnan(standing)) { // a tick where the layer stands
        const float x = place(sliderPosition(field, standing));
        list->AddRectFilled({x - 1, middle - kKnobHeight / 2 - 1}, {x + 1, middle + kKnobHeight / 2 + 1}, toImGui(colors.text, alpha));
    }
    if (!std::isnan(value)) {
        const float x = place(static_cast<double>(position)), wide = ImGui::GetStyle().GrabMinSize / 2;
        list->AddRectFilled({x - wide, middle - kKnobHeight / 2}, {x + wide, middle + kKnobHeight / 2}, toImGui(lively ? colors.highlight : colors.fill, alpha), 3);
    }
    if (m_model->isSet(field)) // by hand: marked at the edge
        list->AddRectFilled({from.x, from.y + 1}, {from.x + kMark, from.y + ImGui::GetTextLineHeight() - 1}, toImGui(colors.highlight));
    if (focused)
        list->AddRect({from.x - 1, from.y - 1}, {to.x + 1, to.y + 1}, toImGui(colors.fill), 2, 0, 2);
    ImGui::PopID();
}

bool ProbeSliders::step(TargetField field, int key, bool query) {
    double by = 0;
    switch (key) {
    case Qt::Key_Left:
    case Qt::Key_Minus: by = -kStep; break;
    case Qt::Key_Right:
    case Qt::Key_Plus: by = kStep; break;
    case Qt::Key_PageDown: by = -kPage; break;
    case Qt::Key_PageUp: by = kPage; break;
    case Qt::Key_Home: by = -1; break;
    case Qt::Key_End: by = 1; break;
    case Qt::Key_Delete:
        if (!query)
            m_model->makeAutomatic(field);
        return true;
    default: return false;
    }
    if (!query && m_model->canDrag(field)) {
        double position = sliderPosition(field, m_model->value(field));
        if (field == TargetField::HalfLife && by < 0 && position > kNoDecay && by > -1)
            position = kDecays - by; // from no decay to the longest half-life at once
        m_model->drag(field, sliderValue(field, position + by));
    }
    return true;
}

void ProbeSliders::escape() {
    m_escaped = true;
    m_model->giveUp();
}

} // namespace linnet::app
