#include "core/base/json.h"

#include "core/base/regular_file.h"
#include "core/base/result.h"

#include <algorithm>
#include <set>

namespace linnet::core {
namespace {

constexpr int kMaxDepth = 64;

std::string lineAndColumn(std::string_view text, std::size_t byte) {
    const auto before = text.substr(0, std::min(byte, text.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const auto lastBreak = before.rfind('\n');
    const auto column = before.size() - (lastBreak == before.npos ? 0 : lastBreak + 1);
    return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

template <class Value> Value parseChecked(std::string_view text, const std::string& origin) {
    std::vector<std::set<std::string>> keys; // of each open object
    const auto check = [&](int depth, typename Value::parse_event_t event, Value& parsed) {
        if (depth > kMaxDepth)
            fail(ErrorCode::Malformed, origin + ": JSON is nested deeper than " + std::to_string(kMaxDepth), {{"file", origin}});
        if (event == Value::parse_event_t::object_start)
            keys.emplace_back();
        else if (event == Value::parse_event_t::object_end)
            keys.pop_back();
        else if (event == Value::parse_event_t::key && !keys.back().insert(parsed.template get<std::string>()).second)
            fail(ErrorCode::Malformed, origin + ": key \"" + parsed.template get<std::string>() + "\" appears twice",
                 {{"file", origin}, {"key", parsed.template get<std::string>()}});
        return true;
    };
    try {
        return Value::parse(text, check);
    } catch (const nlohmann::json::parse_error& error) {
        std::string what = error.what();
        if (const auto colon = what.rfind("syntax error"); colon != what.npos)
            what = what.substr(colon);
        for (char& byte : what) // it quotes the text, which may be no UTF-8; a message must be
            if (static_cast<unsigned char>(byte) >= 0x80)
                byte = '?';
        fail(ErrorCode::Malformed, origin + ": not valid JSON at " + lineAndColumn(text, error.byte) + ": " + what,
             {{"file", origin}, {"line", lineAndColumn(text, error.byte)}});
    } catch (const nlohmann::json::out_of_range& error) { // a number beyond double
        const std::string what = error.what();
        fail(ErrorCode::Malformed, origin + ": not valid JSON: " + what.substr(what.find("] ") + 2), {{"file", origin}});
    }
}

} // namespace

Json parseJson(std::string_view text, const std::string& origin) {
    return parseChecked<Json>(text, origin);
}

nlohmann::json parseLargeJson(std::string_view text, const std::string& origin) {
    return parseChecked<nlohmann::json>(text, origin);
}

Json readJsonFile(const std::filesystem::path& file) {
    return parseJson(readRegularFile(file, kMostJsonBytes), file.string());
}

std::string nearestName(std::string_view name, const std::vector<std::string>& known) {
    std::string best;
    std::size_t bestDistance = std::max<std::size_t>(2, name.size() / 3) + 1;
    for (const auto& candidate : known) {
        std::vector<std::size_t> row(candidate.size() + 1);
        for (std::size_t j = 0; j < row.size(); ++j)
            row[j] = j;
        for (std::size_t i = 1; i <= name.size(); ++i) {
            std::size_t diagonal = row[0];
            row[0] = i;
            for (std::size_t j = 1; j < row.size(); ++j) {
                const std::size_t above = row[j];
                row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1)});
                diagonal = above;
            }
        }
        if (row.back() < bestDistance) {
            bestDistance = row.back();
            best = candidate;
        }
    }
    return best;
}

} // namespace linnet::core
