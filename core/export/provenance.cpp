#include "core/torch_pch.h"

#include "core/export/provenance.h"

#include "core/base/files.h"
#include "core/io/gguf_reader.h"
#include "core/io/weight_files.h"
#include "core/recipe/recipe.h"

#include <sstream>

namespace linnet::core {
namespace {

namespace fs = std::filesystem;
constexpr std::uintmax_t kLargestReadme = 4 << 20;

// "organisation/name", as the Hub writes it.
bool isHubName(const std::string& text) {
    const auto slash = text.find('/');
    const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.'; };
    return slash != text.npos && slash > 0 && slash + 1 < text.size() && text.front() != '.' && text.find('/', slash + 1) == text.npos &&
           std::ranges::all_of(text, [&](char c) { return c == '/' || plain(c); });
}

// The Hub's cache: models--organisation--name/snapshots/COMMIT.
std::string nameInHubCache(const fs::path& folder) {
    const auto entry = folder.parent_path().parent_path().filename().string();
    if (folder.parent_path().filename() != "snapshots" || !entry.starts_with("models--"))
        return {};
    const auto name = entry.substr(8);
    const auto between = name.find("--");
    return between == name.npos ? name : name.substr(0, between) + "/" + name.substr(between + 2);
}

void readFolderOrigin(const fs::path& folder, TeacherOrigin& origin) {
    std::error_code failed;
    if (const auto readme = folder / "README.md"; fs::file_size(readme, failed) <= kLargestReadme && !failed) {
        const auto text = readTextFile(readme);
        origin.license = frontMatterValue(text, "license");
        if (const auto named = frontMatterValue(text, "license_name"); origin.license == "other" && !named.empty())
            origin.license = named;
    }
    if (const auto cached = nameInHubCache(folder); !cached.empty()) {
        origin.name = cached.substr(cached.find('/') + 1);
        origin.baseModel = cached;
    } else if (fs::is_regular_file(folder / "config.json", failed)) {
        const Json config = readJsonFile(folder / "config.json");
        if (config.is_object() && config.contains("_name_or_path") && config["_name_or_path"].is_string())
            origin.baseModel = config["_name_or_path"];
    }
}

void readGgufOrigin(const fs::path& file, TeacherOrigin& origin) {
    const GgufFile gguf(file);
    const auto text = [&](const char* key) {
        const auto found = gguf.metadata().find(key);
        const auto* value = found == gguf.metadata().end() ? nullptr : std::get_if<std::string>(&found->second);
        return value ? *value : std::string();
    };
    origin.license = text("general.license");
    for (const char* key : {"general.repo_url", "general.base_model.0.repo_url"})
        if (const auto url = text(key); origin.baseModel.empty() && url.starts_with("https://huggingface.co/"))
            origin.baseModel = url.substr(std::strlen("https://huggingface.co/"));
}

std::string studentHash(const Model& model, const std::string& teacher) {
    std::string parts = teacher;
    for (const auto& [layer, mixer] : model.mixers()) {
        parts.append("\n").append(std::to_string(layer));
        if (mixer.kind == Mixer::Kind::SlidingWindow)
            parts += " window " + std::to_string(mixer.window) + " " + std::to_string(mixer.sinks);
        else if (mixer.kind == Mixer::Kind::Linear)
            mixer.linear.forEach([&](const std::string& name, const at::Tensor& tensor) {
                const at::Tensor host = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
                parts += " " + name + " " + hashBytes({static_cast<const char*>(host.const_data_ptr()), host.nbytes()});
            });
    }
    return hashBytes(parts);
}

template <class T> T valueOf(const Json& json, const char* key, const fs::path& file) {
    try {
        return json.at(key).get<T>();
    } catch (const nlohmann::json::exception& error) {
        fail(ErrorCode::Malformed, file.string() + ": key \"" + key + "\": " + error.what(), {{"file", file.string()}, {"key", key}});
    }
}

Json orNull(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

std::string textOr(const Json& json, const char* key, const fs::path& file) { // null: ""
    return json.is_object() && json.contains(key) && !json[key].is_null() ? valueOf<std::string>(json, key, file) : std::string();
}

} // namespace

std::string frontMatterValue(const std::string& readme, const std::string& key) {
    std::istringstream lines(readme);
    std::string line;
    if (!std::getline(lines, line) || !line.starts_with("---"))
        return {};
    while (std::getline(lines, line) && !line.starts_with("---")) {
        if (!line.starts_with(key + ":"))
            continue;
        auto value = line.substr(key.size() + 1);
        if (const auto comment = value.find(" #"); comment != value.npos)
            value.resize(comment);
        const auto from = value.find_first_not_of(" \t\r'\""), to = value.find_last_not_of(" \t\r'\"");
        return from == value.npos ? std::string() : value.substr(from, to - from + 1);
    }
    return {};
}

TeacherOrigin teacherOrigin(const fs::path& teacher, const std::string& hash) {
    const auto path = fs::absolute(teacher).lexically_normal();
    const auto trimmed = path.has_filename() ? path : path.parent_path();
    TeacherOrigin origin{trimmed.filename().string(), hash, {}, {}};
    std::error_code failed;
    if (fs::is_directory(trimmed, failed))
        readFolderOrigin(trimmed, origin);
    else
        readGgufOrigin(trimmed, origin);
    if (!isHubName(origin.baseModel))
        origin.baseModel.clear();
    return origin;
}

std::string teacherContents(const Model& model, const fs::path& student, const Control& control) {
    return fs::exists(student / kExportFile) ? readProvenance(student).teacher.contents : weightContents(model.files().path, control);
}

Provenance provenanceOf(const Model& model, const fs::path& student, const std::string& contents) {
    Provenance result;
    result.teacher = fs::exists(student / kExportFile) ? readProvenance(student).teacher : teacherOrigin(model.files().path, model.files().weights->hash());
    result.teacher.contents = contents;
    result.studentHash = studentHash(model, result.teacher.hash);
    if (fs::exists(student / "recipe.json"))
        if (const auto recipe = readRecipe(student / "recipe.json"); recipe)
            result.recipeHash = recipeHash(*recipe);
    result.layers = modelInfo(model).layerKinds;
    return result;
}

Json provenanceToJson(const Provenance& p) {
    return {{"schema", 1}, {"linnet", LINNET_VERSION}, {"format", p.format}, {"dtype", p.dtype}, {"fidelity", p.fidelity}, {"exact", p.exact}, {"notes", p.notes},
            {"teacher", {{"name", p.teacher.name}, {"hash", p.teacher.hash}, {"contents", orNull(p.teacher.contents)}, {"license", orNull(p.teacher.license)}, {"base_model", orNull(p.teacher.baseModel)}}},
            {"student", {{"hash", p.studentHash}}}, {"recipe", p.recipeHash.empty() ? Json(nullptr) : Json{{"hash", p.recipeHash}}}, {"layers", p.layers}};
}

Provenance readProvenance(const fs::path& folder) {
    const auto file = folder / kExportFile;
    const Json json = readJsonFile(file);
    if (const auto schema = valueOf<int>(json, "schema", file); schema != 1)
        fail(ErrorCode::Unsupported, file.string() + ": schema " + std::to_string(schema) + ", this release reads 1", {{"file", file.string()}, {"key", "schema"}});
    Provenance p;
    p.format = valueOf<std::string>(json, "format", file);
    p.dtype = valueOf<std::string>(json, "dtype", file);
    p.fidelity = valueOf<std::string>(json, "fidelity", file);
    p.exact = valueOf<bool>(json, "exact", file);
    p.notes = valueOf<std::vector<std::string>>(json, "notes", file);
    const auto teacher = valueOf<Json>(json, "teacher", file), student = valueOf<Json>(json, "student", file);
    p.teacher = {valueOf<std::string>(teacher, "name", file), valueOf<std::string>(teacher, "hash", file), textOr(teacher, "license", file), textOr(teacher, "base_model", file), textOr(teacher, "contents", file)};
    p.studentHash = valueOf<std::string>(student, "hash", file);
    p.recipeHash = textOr(json.value("recipe", Json()), "hash", file);
    p.layers = valueOf<std::vector<std::string>>(json, "layers", file);
    return p;
}

} // namespace linnet::core
