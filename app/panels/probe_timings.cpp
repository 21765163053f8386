#include "app/panels/probe_timings.h"

#include <QCoreApplication>
#include <imgui.h>

namespace linnet::app {
namespace {

QString tr(const char* what) {
    return QCoreApplication::translate("linnet::app::ProbeTimings", what);
}

void say(const QString& text) {
    ImGui::PushTextWrapPos(0);
    ImGui::TextUnformatted(text.toUtf8().constData());
    ImGui::PopTextWrapPos();
}

void dimmed(const QString& text) {
    ImGui::PushStyleColor(ImGuiCol_Text, ImGui::GetStyleColorVec4(ImGuiCol_TextDisabled));
    say(text);
    ImGui::PopStyleColor();
}

QString number(const std::optional<double>& value) { // a dash for what was not measured
    if (!value)
        return QStringLiteral("–");
    return *value >= 1000 ? QString::number(*value, 'f', 0) : QString::number(*value, 'g', 3);
}

void cell(const QString& text, bool right) {
    ImGui::TableNextColumn();
    const auto bytes = text.toUtf8();
    if (right) {
        const float free = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(bytes.constData()).x;
        ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.F, free));
    }
    ImGui::TextUnformatted(bytes.constData());
}

void drawTable(const TimingTable& table, int index) {
    constexpr auto kFlags = ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingFixedFit;
    ImGui::PushID(index);
    if (ImGui::BeginTable("timings", 6, kFlags)) {
        const float digits = ImGui::CalcTextSize("00000000 /s").x;
        ImGui::TableSetupColumn(tr("what ran").toUtf8().constData(), ImGuiTableColumnFlags_WidthStretch, 2);
        for (const auto& name : {tr("ms"), tr("ms a step"), tr("tokens/s"), tr("GB/s")})
            ImGui::TableSetupColumn(name.toUtf8().constData(), ImGuiTableColumnFlags_WidthFixed, digits);
        ImGui::TableSetupColumn(tr("note").toUtf8().constData(), ImGuiTableColumnFlags_WidthStretch, 2);
        ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
        int column = 0;
        for (const auto& name : {tr("what ran"), tr("ms"), tr("ms a step"), tr("tokens/s"), tr("GB/s"), tr("note")}) {
            cell(name, column > 0 && column < 5);
            ++column;
        }
        for (const auto& row : table.rows) {
            ImGui::TableNextRow();
            cell(row.what, false);
            for (const auto& value : {row.milliseconds, row.perStep, row.tokensPerSecond, row.gigabytesPerSecond})
                cell(number(value), true);
            cell(row.note, false);
        }
        ImGui::EndTable();
    }
    ImGui::PopID();
}

} // namespace

void drawTimings(const QStringList& device, const std::vector<TimingTable>& tables) {
    ImGui::BeginChild("timings", {0, 0}, false, ImGuiWindowFlags_NoNav);
    dimmed(device.join(QStringLiteral("   ·   ")));
    for (std::size_t i = 0; i < tables.size(); ++i) {
        ImGui::Spacing();
        say(tables[i].title + (tables[i].facts.isEmpty() ? QString() : QStringLiteral("   ·   ") + tables[i].facts.join(QStringLiteral("   ·   "))));
        if (tables[i].rows.empty())
            dimmed(tables[i].empty);
        else
            drawTable(tables[i], static_cast<int>(i));
    }
    ImGui::EndChild();
}

} // namespace linnet::app
