#include "core/convert/run_saves.h"

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/result.h"

#include <sstream>

namespace linnet::core {

std::vector<SavePoint> readSavePoints(const std::filesystem::path& run) {
    std::vector<SavePoint> points;
    std::istringstream in;
    (void)guarded([&] { in.str(readTextFile(run / "checkpoints" / "saves.jsonl")); }); // none yet
    for (std::string line; std::getline(in, line);)
        (void)guarded([&] { // a line that a kill tore is none
            const Json json = Json::parse(line);
            SavePoint point{json.at("stage").get<std::string>(), json.at("layer").get<std::int64_t>(), json.at("step").get<std::int64_t>(), json.at("time").get<double>()};
            std::erase_if(points, [&](const SavePoint& each) { return each.stage == point.stage && each.layer == point.layer && each.step == point.step; });
            points.push_back(std::move(point));
        });
    return points;
}

} // namespace linnet::core
