// results.json to results.md: every value in it is computed here, from the raw rows.
#include "core/study/study.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace linnet::core {
namespace {

// Seeds of one method and one set of layers.
struct Cell {
    std::vector<double> ratios, errors, divergences;
};

double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values)
        sum += value;
    return sum / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) { // of the sample
    const double centre = mean(values);
    double sum = 0;
    for (const double value : values)
        sum += (value - centre) * (value - centre);
    return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double orNaN(const Json& value) {
    return value.is_number() ? value.get<double>() : NAN;
}

// Three decimals while they say something; a number no student has is no harm to read.
std::string shown(double value) {
    if (!std::isfinite(value))
        return "-";
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", std::abs(value) < 10 ? 3 : std::abs(value) < 1000 ? 1 : 0, value);
    return text;
}

std::string cellText(const Cell* cell) {
    if (!cell)
        return "-";
    std::string text = shown(mean(cell->ratios)) + " ± " + shown(mean(cell->errors));
    if (cell->ratios.size() > 1)
        text += " [" + shown(deviation(cell->ratios)) + "]";
    return text + "; " + shown(mean(cell->divergences));
}

using Cells = std::map<std::string, Cell>;

std::string cellKey(const std::string& method, const std::string& layers, std::int64_t share) {
    return method + "/" + layers + "/" + std::to_string(share);
}

Cells cellsOf(const Json& rows) {
    Cells cells;
    for (const auto& row : rows) {
        auto& cell = cells[cellKey(row.at("method"), row.at("layers"), row.at("share"))];
        cell.ratios.push_back(orNaN(row.at("ratio")));
        cell.errors.push_back(orNaN(row.at("log_ratio_se")));
        cell.divergences.push_back(orNaN(row.at("kl")));
    }
    return cells;
}

std::string line(const std::vector<std::string>& values) {
    std::string text = "|";
    for (const auto& value : values)
        text += " " + value + " |";
    return text + "\n";
}

std::string rule(std::size_t columns) {
    std::string text = "|";
    for (std::size_t i = 0; i < columns; ++i)
        text += "---|";
    return text + "\n";
}

std::string tableText(const Json& table, const Cells& cells, const Json& selections) {
    std::vector<std::string> titles{"kept"};
    for (const auto& column : table.at("columns"))
        titles.push_back(column.at("title"));
    const bool timed = std::ranges::any_of(table.at("rows"), [](const Json& row) { return row.contains("selection"); });
    if (timed)
        titles.push_back("seconds");
    std::string text = "## " + table.at("title").get<std::string>() + "\n\n" + table.at("note").get<std::string>() + "\n\n" + line(titles) + rule(titles.size());
    for (const auto& row : table.at("rows")) {
        std::vector<std::string> values{row.at("label")};
        for (const auto& column : table.at("columns")) {
            if (column.at("layers") == "all") {
                values.push_back("1"); // nothing is converted
                continue;
            }
            const std::string layers = row.contains("layers") && column.at("share") != 0 ? row.at("layers") : column.at("layers");
            const auto found = cells.find(cellKey(row.at("method"), layers, column.at("share")));
            values.push_back(cellText(found == cells.end() ? nullptr : &found->second));
        }
        if (timed) {
            const auto selection = row.contains("selection") ? selections.find(row.at("selection").get<std::string>()) : selections.end();
            values.push_back(selection == selections.end() ? "-" : shown(selection->at("seconds").get<double>()));
        }
        text += line(values);
    }
    return text + "\n";
}

std::string headText(const Json& head, const Json& rows) {
    const auto& teacher = head.at("teacher");
    const auto& scale = head.at("scale");
    const auto named = [&](const char* key) { return head.at(key).is_string() ? head.at(key).get<std::string>() : head.at(key).dump(); };
    std::string text = "# Study\n\nMade by `linnet-cli study`; every number is computed from results.json beside this file.\n\n";
    text += "- teacher: " + teacher.at("name").get<std::string>() + ", hash " + teacher.at("hash").get<std::string>() + ", " + teacher.at("layers").dump() + " layers, " +
            teacher.at("parameters").dump() + " parameters, in " + named("dtype") + "\n";
    for (const auto& row : rows)
        if (row.at("layers") == "all")
            text += "- its perplexity in windows of " + row.at("seq_len").dump() + ": " + shown(orNaN(row.at("perplexity"))) + " (" + row.at("predictions").dump() + " predictions)\n";
    text += "- text: " + named("data") + ", hash " + head.at("corpus").at("hash").get<std::string>() + "\n";
    for (const auto& region : head.at("corpus").at("regions")) {
        text += "  - " + region.at("name").get<std::string>() + ": " + region.at("documents").dump() + " documents, " + region.at("tokens").dump() + " tokens;";
        const char* comma = " ";
        for (const auto& [genre, count] : region.at("genres").items()) {
            text += comma + genre + " " + count.dump();
            comma = ", ";
        }
        text += "\n";
    }
    text += "- windows of " + scale.at("seq_len").dump() + " tokens but for the table of longer ones; " + head.at("seeds").dump() + " seeds\n";
    text += "- device: " + named("device") + "; linnet " + named("linnet") + ", LibTorch " + named("libtorch") + "; " + named("date") + "\n";
    text += "- command: `" + named("command") + "`\n\n";
    text += "A value is the perplexity over the teacher's on the same tokens ± standard error of the logarithm of that ratio (over blocks of " + scale.at("block").dump() +
            " neighbouring windows of " + scale.at("seq_len").dump() + " tokens) [standard deviation of the ratio over seeds, where there are several: then the other numbers are means]; KL to the teacher, nats a "
            "token. In brackets above: how many layers stay softmax. A dash: not measured.\n\n";
    return text;
}

std::string timingText(const Json& timing, const Json& banks) {
    std::string text = "## Times\n\n";
    if (const auto found = timing.find("conversion"); found != timing.end()) {
        const auto& recipe = found->at("recipe");
        text += "A whole conversion in the same process, text to evaluation: preset " + recipe.at("preset").get<std::string>() + ", " + recipe.at("steps").dump() + " steps, keep " +
                recipe.at("keep").get<std::string>() + ".\n\n" + line({"stage", "seconds"}) + rule(2);
        for (const auto& stage : found->at("stages"))
            text += line({stage.at("name"), shown(stage.at("seconds").get<double>())});
        text += line({"in all", shown(found->at("seconds").get<double>())}) + "\n";
        const auto& evaluation = found->at("evaluation");
        if (evaluation.contains("student") && evaluation.contains("teacher"))
            text += "Its student's perplexity is " + shown(orNaN(evaluation["student"]["perplexity"])) + ", the teacher's " + shown(orNaN(evaluation["teacher"]["perplexity"])) +
                    " (evaluation windows dealt from all of the text, as a conversion does).\n\n";
    }
    text += "Banks: all layers from the teacher's forward to the file, start-steps-window-recipe.\n\n" + line({"bank", "seconds"}) + rule(2);
    for (const auto& [name, seconds] : banks.items())
        text += line({name, shown(seconds.get<double>())});
    if (const auto found = timing.find("study"); found != timing.end())
        text += "\nThe study took " + shown(found->get<double>()) + " seconds.\n";
    return text;
}

} // namespace

std::string studyTables(const Json& results) {
    const auto cells = cellsOf(results.at("rows"));
    std::string text = headText(results.at("head"), results.at("rows"));
    for (const auto& table : results.at("tables"))
        text += tableText(table, cells, results.at("selections"));
    return text + timingText(results.at("timing"), results.at("banks"));
}

} // namespace linnet::core
