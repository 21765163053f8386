#include "core/torch_pch.h"

#include "core/model/open_adapter.h"

#include "core/model/config_keys.h"
#include "core/model/model.h"

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

// Where it may be, each place once.
std::vector<fs::path> placesOf(const fs::path& folder, const std::string& name, const fs::path& source) {
    const auto home = fs::absolute(folder).lexically_normal();
    std::vector<fs::path> places;
    const auto add = [&](const fs::path& place) {
        if (std::ranges::find(places, place.lexically_normal()) == places.end())
            places.push_back(place.lexically_normal());
    };
    if (!name.empty() && name != "." && name != ".." && name.find('/') == name.npos) {
        add(home / name);
        add((home.has_filename() ? home : home.parent_path()).parent_path() / name);
    }
    if (!source.empty())
        add(source.is_absolute() ? source : home / source);
    return places;
}

struct Wanted {
    std::string name, hash, source;
};

[[noreturn]] void refuseTeacher(const fs::path& folder, const Wanted& wanted, const fs::path& place, const std::string& found, const std::string& tried) {
    fail(ErrorCode::Malformed, place.string() + " is not the teacher that adapter " + folder.string() + " was made from: hash " + found + ", expected " + wanted.hash + " (" + wanted.name +
                                   "); give the right one by --teacher PATH" + (tried.empty() ? "" : ". Tried: " + tried), {{"file", place.string()}, {"found", found}, {"expected", wanted.hash}});
}

[[noreturn]] void missTeacher(const fs::path& folder, const Wanted& wanted, const std::string& tried) {
    fail(ErrorCode::NotFound, "adapter " + folder.string() + " needs its teacher " + wanted.name + " (hash " + wanted.hash + "), which is not at " + tried +
                                  "; give it by --teacher PATH or the environment's " + kTeacherVariable, {{"file", tried}, {"expected", wanted.hash}});
}

OpenedModel openTeacher(const fs::path& folder, const Wanted& wanted, int links) {
    std::error_code ignored;
    if (const char* const given = std::getenv(kTeacherVariable); given && *given) {
        if (!fs::exists(given, ignored) || fs::equivalent(given, folder, ignored))
            missTeacher(folder, wanted, given);
        auto teacher = openFiles(given, links + 1);
        if (const auto hash = teacher.files.weights->hash(); hash != wanted.hash)
            refuseTeacher(folder, wanted, given, hash, {});
        return teacher;
    }
    std::string tried, found;
    fs::path where;
    for (const auto& place : placesOf(folder, wanted.name, wanted.source)) {
        tried += (tried.empty() ? "" : ", ") + place.string();
        if (!fs::exists(place, ignored))
            continue;
        if (fs::equivalent(place, folder, ignored)) {
            tried += " (the adapter)";
            continue;
        }
        auto teacher = guarded([&] { return openFiles(place, links + 1); });
        if (!teacher && teacher.error().context.contains(kEndlessLinks))
            throw Failure{teacher.error()};
        if (!teacher) {
            tried += " (" + teacher.error().message + ")";
            continue;
        }
        if (teacher->files.weights->hash() == wanted.hash)
            return std::move(*teacher);
        found = teacher->files.weights->hash(), where = place;
        tried += " (hash " + found + ")";
    }
    if (!where.empty())
        refuseTeacher(folder, wanted, where, found, tried);
    missTeacher(folder, wanted, tried);
}

// Each converted layer as its tensors and the mixer have it; the recipe beside it must not speak of another mixer.
void checkKinds(const OpenedModel& opened, const Json& config, const fs::path& file) {
    const auto windows = layersWith(*opened.student, kSlidingWindow);
    std::set<std::int64_t> listed;
    for (const auto& [layer, kind] : byLayer(config, "layers", file)) {
        listed.insert(layer);
        if (const std::string expected = windows.contains(layer) ? kSlidingWindow : opened.mixer; kind != expected)
            refuseKey(file, "layers", "says that layer " + std::to_string(layer) + " is " + kind.dump().substr(0, 80) + ", its tensors and \"mixer\" say " + expected);
    }
    if (listed != opened.convertedLayers())
        refuseKey(file, "layers", "names other layers than the tensors are there for");
    const Json recipe = config.value("recipe", Json());
    if (recipe.is_object() && recipe.contains("mixer") && listed != windows && recipe["mixer"] != opened.mixer)
        refuseKey(file, "recipe", "has mixer " + recipe["mixer"].dump().substr(0, 80) + ", the layers are " + opened.mixer);
}

} // namespace

bool isAdapter(const fs::path& folder) {
    std::error_code ignored;
    const auto file = folder / kAdapterFile;
    if (!fs::is_regular_file(file, ignored) || fs::exists(folder / "config.json", ignored))
        return false;
    const Json json = readJsonFile(file); // PEFT's adapters have a file of that name, too
    return json.is_object() && json.contains("linnet_adapter");
}

OpenedModel openAdapter(const fs::path& folder, int links) {
    const auto file = folder / kAdapterFile;
    const Json config = readJsonFile(file);
    if (member(config, "linnet_adapter", file) != 1)
        refuseKey(file, "linnet_adapter", "is " + config["linnet_adapter"].dump().substr(0, 80) + ", this release reads 1");
    const auto& teacher = member(config, "teacher", file);
    if (!teacher.is_object())
        refuseKey(file, "teacher", "is no object");
    const Wanted wanted{textMember(teacher, "name", file), textMember(teacher, "hash", file), textMember(teacher, "source", file)};
    const auto contents = textMember(teacher, "contents", file), mixer = mixerMember(config, file);
    auto opened = openTeacher(folder, wanted, links);
    opened.student = openSafetensorsFile(folder / (std::string(kAdapterWeights) + ".safetensors"));
    opened.mixer = mixer;
    opened.contents = contents;
    opened.headNormEps = headNormEpsOf(config, layersWith(*opened.student, kLinearModule), file);
    checkKinds(opened, config, file);
    return opened;
}

} // namespace linnet::core
