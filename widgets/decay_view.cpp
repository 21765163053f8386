#include "widgets/decay_view.h"

#include "widgets/color_maps.h"
#include "widgets/distance_histogram.h"

#include <QCoreApplication>
#include <QString>
#include <algorithm>
#include <cmath>

namespace linnet::widgets {
namespace {

ImU32 toImGui(QColor color, double alpha = 1) {
    return IM_COL32(color.red(), color.green(), color.blue(), int(255 * alpha));
}

double octave(double distance) { // the distances below 1 take one of their own
    return distance >= 1 ? std::log2(distance) : distance - 1;
}

QString tr(const char* what) {
    return QCoreApplication::translate("linnet::widgets::DecayView", what);
}

void text(float x, float y, ImU32 color, const QString& what) {
    ImGui::GetWindowDrawList()->AddText({x, y}, color, what.toUtf8().constData());
}

float widthOf(const QString& what) {
    return ImGui::CalcTextSize(what.toUtf8().constData()).x;
}

} // namespace

void drawDecay(const DecayPicture& picture, ImVec2 size, const PlotColors& colors) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float line = ImGui::GetTextLineHeight();
    ImGui::Dummy(size);
    auto* list = ImGui::GetWindowDrawList();
    list->PushClipRect(at, {at.x + size.x, at.y + size.y}, true);
    const auto& edges = picture.edges;
    const bool known = !picture.mass.empty() && edges.size() == picture.mass.size() + 1;
    const QColor measured = colors.fill, kernel = runColor(1);
    if (!known) {
        text(at.x, at.y, toImGui(colors.axis), tr("Distances: not measured yet (profile the teacher)."));
        list->PopClipRect();
        return;
    }
    const auto decay = std::isfinite(picture.halfLife) && picture.halfLife > 0 ? decayKernelMass(edges, picture.halfLife) : std::vector<double>{};
    const auto legend = [&](float x, QColor color, const QString& what) {
        list->AddRectFilled({x, at.y + line / 2 - 4}, {x + 9, at.y + line / 2 + 5}, toImGui(color));
        text(x + 13, at.y, toImGui(colors.text), what);
        return x + 13 + widthOf(what) + 12;
    };
    const float next = legend(at.x, measured, tr("measured"));
    legend(next, kernel, decay.empty() ? tr("no decay") : tr("decay horizon"));
    const ImVec2 origin(at.x + 1, at.y + size.y - line - 3); // of the axes
    const float height = origin.y - at.y - line - 5, width = size.x - 2;
    const double left = octave(edges.front()), span = std::max(1e-9, octave(edges.back()) - left);
    const auto x = [&](double distance) { return origin.x + float((octave(distance) - left) / span) * width; };
    double most = 1e-12;
    for (std::size_t i = 0; i < picture.mass.size(); ++i)
        most = std::max({most, picture.mass[i], decay.empty() ? 0 : decay[i]});
    const auto y = [&](double mass) { return origin.y - std::max(0.F, height) * float(mass / most); };
    for (std::size_t i = 0; i < picture.mass.size(); ++i)
        list->AddRectFilled({x(edges[i]), y(picture.mass[i])}, {std::max(x(edges[i]) + 1, x(edges[i + 1]) - 1), origin.y}, toImGui(measured, 0.55));
    for (std::size_t i = 0; i < decay.size(); ++i) { // steps, 2 pixels
        const float level = y(decay[i]), before = i == 0 ? origin.y : y(decay[i - 1]);
        list->AddRectFilled({x(edges[i]) - 1, level - 1}, {x(edges[i + 1]) + 1, level + 1}, toImGui(kernel));
        list->AddRectFilled({x(edges[i]) - 1, std::min(level, before) - 1}, {x(edges[i]) + 1, std::max(level, before) + 1}, toImGui(kernel));
    }
    list->AddRectFilled({origin.x, origin.y}, {origin.x + width, origin.y + 1}, toImGui(colors.axis));
    float free = at.x; // labels that would touch are left out
    for (double distance = edges.front() < 1 ? 0 : std::exp2(std::ceil(left)); distance <= edges.back(); distance = distance < 1 ? 1 : 2 * distance) {
        const QString label = QString::number(distance);
        const float place = x(distance) - (distance < 1 ? 0 : widthOf(label) / 2);
        if (place < free || place + widthOf(label) > at.x + size.x)
            continue;
        text(place, origin.y + 2, toImGui(colors.axis), label);
        free = place + widthOf(label) + 8;
    }
    list->PopClipRect();
}

} // namespace linnet::widgets
