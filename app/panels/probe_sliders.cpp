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

double rounded(double value) {
    return QString::number(value, 'g', 3).toDouble();
}

ImU32 toImGui(QColor color) {
    return IM_COL32(color.red(), color.green(), color.blue(), 255);
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
    return 4 * ImGui::GetFrameHeight() + 3 * ImGui::GetStyle().ItemSpacing.y;
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
    text.remove(QLatin1Char('%')); // it is a format, and has nothing to fill in
    float position = std::isnan(value) ? 0.F : static_cast<float>(sliderPosition(field, value));
    ImGui::PushID(targetKey(field));
    ImGui::SetNextItemWidth(width);
    ImGui::BeginDisabled(!free);
    const bool moved = ImGui::SliderFloat("##target", &position, 0, 1, text.toUtf8().constData(), ImGuiSliderFlags_NoInput);
    ImGui::EndDisabled();
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
    if (const double standing = m_model->standing(field); !std::isnan(standing)) { // a tick where the layer stands
        const float half = ImGui::GetStyle().GrabMinSize / 2 + 2;
        const float x = from.x + half + static_cast<float>(sliderPosition(field, standing)) * (to.x - from.x - 2 * half);
        list->AddRectFilled({x - 1, to.y - 4}, {x + 1, to.y}, toImGui(colors.text));
    }
    if (m_model->isSet(field)) // by hand: marked at the edge
        list->AddRectFilled({from.x, from.y}, {from.x + 3, to.y}, toImGui(colors.highlight));
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
