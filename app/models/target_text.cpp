#include "app/models/target_text.h"

#include <algorithm>
#include <map>

namespace linnet::app {
namespace {

constexpr int kHeadColumn = 0, kFieldColumn = 1, kUserColumn = 4; // of the table's text

std::optional<TargetField> fieldNamed(const QString& name) {
    for (const auto field : {TargetField::HalfLife, TargetField::Beta, TargetField::ValueScale, TargetField::OutputGate})
        if (name.trimmed() == QString::fromLatin1(targetKey(field)).replace(QLatin1Char('_'), QLatin1Char(' ')))
            return field;
    return {};
}

} // namespace

QList<TargetLine> targetLines(const QString& clipboard) {
    auto text = clipboard;
    text.remove(QLatin1Char('\r'));
    while (text.endsWith(QLatin1Char('\n')))
        text.chop(1);
    QList<TargetLine> lines;
    if (text.isEmpty())
        return lines;
    for (const auto& line : text.split(QLatin1Char('\n'))) {
        const auto cells = line.split(QLatin1Char('\t'));
        if (cells.front() == QLatin1String("head"))
            continue; // our own header line
        const auto field = cells.size() > kUserColumn ? fieldNamed(cells[kFieldColumn]) : std::nullopt;
        lines << (field ? TargetLine{cells[kHeadColumn], field, cells[kUserColumn]} : TargetLine{{}, {}, cells.front()});
    }
    return lines;
}

QList<PlacedTarget> placeTargets(const QList<TargetLine>& lines, const QList<TargetField>& fields) {
    QList<PlacedTarget> placed;
    const bool copied = !lines.isEmpty() && std::all_of(lines.begin(), lines.end(), [](const TargetLine& line) { return line.field.has_value(); });
    if (!copied) {
        for (int row = 0; row < fields.size() && (lines.size() == 1 || row < lines.size()); ++row)
            placed << PlacedTarget{row, lines[lines.size() == 1 ? 0 : row].text};
        return placed;
    }
    QStringList heads; // in the order of the lines
    std::map<std::pair<int, TargetField>, QString> values;
    for (const auto& line : lines) {
        if (!heads.contains(line.head))
            heads << line.head;
        values[{static_cast<int>(heads.indexOf(line.head)), *line.field}] = line.text;
    }
    std::map<TargetField, int> seen; // rows of this field so far: the next one belongs to the next head
    for (int row = 0; row < fields.size(); ++row) {
        const int head = heads.size() == 1 ? 0 : seen[fields[row]];
        ++seen[fields[row]];
        if (const auto found = values.find({head, fields[row]}); found != values.end())
            placed << PlacedTarget{row, found->second};
    }
    return placed;
}

} // namespace linnet::app
