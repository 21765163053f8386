#include "app/models/run_store.h"

#include "core/base/json.h"

namespace linnet::app {
namespace {

QString text(const core::Json& json) {
    return QString::fromStdString(json.get<std::string>());
}

} // namespace

RunMemory readRunMemory(const QString& path) {
    RunMemory memory;
    const auto json = core::guarded([&] { return core::readJsonFile(path.toStdString()); });
    if (!json || !json->is_object())
        return memory;
    const auto each = [&](const char* key, auto&& take) { // an entry that makes no sense is left out, the others stay
        if (const auto found = json->find(key); found != json->end() && found->is_array())
            for (const auto& entry : *found)
                (void)core::guarded([&] { take(entry); });
    };
    each("runs", [&](const core::Json& entry) {
        memory.runs[text(entry.at("folder"))] = {QString::fromStdString(entry.value("name", std::string())), entry.value("look", -1), entry.value("shown", false)};
    });
    each("queue", [&](const core::Json& entry) { memory.queue.append({text(entry.at("folder")), core::recipeFromJson(entry.at("recipe"), path.toStdString())}); });
    each("added", [&](const core::Json& entry) { memory.added.append(text(entry)); });
    (void)core::guarded([&] { memory.baseline = QString::fromStdString(json->value("baseline", std::string())); });
    return memory;
}

std::string runMemoryText(const RunMemory& memory) {
    core::Json runs = core::Json::array(), queue = core::Json::array(), added = core::Json::array();
    for (auto run = memory.runs.begin(); run != memory.runs.end(); ++run)
        runs.push_back({{"folder", run.key().toStdString()}, {"name", run->name.toStdString()}, {"look", run->look}, {"shown", run->shown}});
    for (const auto& waiting : memory.queue)
        queue.push_back({{"folder", waiting.folder.toStdString()}, {"recipe", core::Json::parse(core::recipeToText(waiting.recipe))}});
    for (const auto& folder : memory.added)
        added.push_back(folder.toStdString());
    const core::Json json{{"runs", runs}, {"queue", queue}, {"added", added}, {"baseline", memory.baseline.toStdString()}};
    return json.dump(1) + "\n";
}

} // namespace linnet::app
