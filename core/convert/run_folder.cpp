#include "core/torch_pch.h"

#include "core/convert/run_folder.h"

#include "core/base/files.h"
#include "core/convert/run_watch.h"
#include "core/convert/tensor_file.h"

#include <ctime>
#include <fcntl.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace linnet::core {
namespace {

std::string alignName(std::int64_t layer) {
    return "checkpoints/align_" + std::to_string(layer);
}

// Tensors of one LinearLayer under a prefix, in the order of names().
void appendLayer(NamedTensors& tensors, const std::string& prefix, const LinearLayer& layer) {
    layer.forEach([&](const std::string& name, const at::Tensor& tensor) { tensors.emplace_back(prefix + name, tensor); });
}

LinearLayer takeLayer(const std::map<std::string, at::Tensor>& tensors, const std::string& prefix) {
    LinearLayer layer;
    layer.forEach([&](const std::string& name, at::Tensor& tensor) { tensor = tensors.at(prefix + name); });
    return layer;
}

constexpr int kLockTries = 10;
constexpr const char* kDistillName = "checkpoints/distill";

void appendMoments(NamedTensors& tensors, const std::string& prefix, const std::vector<at::Tensor>& first, const std::vector<at::Tensor>& second) {
    const auto names = LinearLayer::names();
    for (std::size_t i = 0; i < names.size(); ++i) {
        tensors.emplace_back(prefix + "first." + names[i], first[i]);
        tensors.emplace_back(prefix + "second." + names[i], second[i]);
    }
}

std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>> takeMoments(const std::map<std::string, at::Tensor>& tensors, const std::string& prefix) {
    std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>> moments;
    for (const auto& name : LinearLayer::names()) {
        moments.first.push_back(tensors.at(prefix + "first." + name));
        moments.second.push_back(tensors.at(prefix + "second." + name));
    }
    return moments;
}

std::map<std::string, at::Tensor> tensorsByName(const std::filesystem::path& file, at::Device device) {
    std::map<std::string, at::Tensor> tensors;
    for (auto& [name, tensor] : loadTensors(file, device))
        tensors[name] = tensor;
    return tensors;
}

// What a kill leaves of a write: "state.json.part.1234".
bool isPart(const std::filesystem::path& file) {
    return file.filename().string().find(".part.") != std::string::npos;
}

// Anything but what a kill before recipe.json was there leaves behind.
bool holdsSomething(const std::filesystem::path& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (!(isPart(entry.path()) || (entry.path().filename() == "checkpoints" && std::filesystem::is_empty(entry.path()))))
            return true;
    return false;
}

void removeParts(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> parts;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.is_regular_file() && isPart(entry.path()))
            parts.push_back(entry.path());
    std::error_code ignored;
    for (const auto& part : parts)
        std::filesystem::remove(part, ignored);
}

// The recipe that the run began with, less where it lies.
Json frozen(const Recipe& recipe) {
    return Json::parse(recipeToText(recipe));
}

void checkState(const Json& state, const std::filesystem::path& file) {
    const auto refuse = [&](const std::string& key, const Json& found, const char* expected) {
        fail(ErrorCode::Malformed, file.string() + ": " + (key.empty() ? std::string("it") : "key \"" + key + "\"") + " is " + found.dump().substr(0, 80) + ", expected " + expected,
             {{"file", file.string()}, {"key", key}, {"expected", expected}});
    };
    if (!state.is_object())
        refuse({}, state, "an object");
    for (const char* key : {"stages", "evaluation", "selection", "spent", "align", "recipe"})
        if (const auto found = state.find(key); found != state.end() && !found->is_object() && !found->is_null())
            refuse(key, *found, "an object");
    if (const auto stages = state.find("stages"); stages != state.end())
        for (const auto& [name, stage] : stages->items())
            if (!stage.is_object())
                refuse("stages." + name, stage, "an object");
    if (const auto seconds = state.find("seconds"); seconds != state.end() && !seconds->is_number())
        refuse("seconds", *seconds, "a number");
    if (const auto kept = state.find("kept_layers"); kept != state.end())
        if (!kept->is_array() || !std::ranges::all_of(*kept, [](const Json& l) { return l.is_number_integer() && l >= 0; }))
            refuse("kept_layers", *kept, "a list of layers");
}

// A run whose recipe is another one now would contradict itself.
void checkRecipe(const Json& began, const Recipe& now, const std::filesystem::path& file) {
    const auto changes = diffRecipes(recipeFromJson(began, "state.json"), now);
    if (changes.empty())
        return;
    const auto& first = changes.front();
    fail(ErrorCode::Usage, file.string() + " was changed after the run had begun: " + first.key + " is " + first.right + ", the run has " + first.left +
             (changes.size() > 1 ? " (and " + std::to_string(changes.size() - 1) + " more)" : "") + "; put it back, or convert into another folder",
         {{"file", file.string()}, {"key", first.key}, {"found", first.right}, {"expected", first.left}});
}

} // namespace

RunFolder::RunFolder(std::filesystem::path path) : m_path(std::filesystem::absolute(std::move(path))) {
    const auto lockFile = file(".lock");
    m_lock = ::open(lockFile.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (m_lock < 0)
        fail(ErrorCode::Io, "can't write in run folder " + m_path.string(), {{"file", m_path.string()}});
    for (int tries = 0; ::flock(m_lock, LOCK_EX | LOCK_NB) != 0; ++tries) {
        if (tries < kLockTries) { // who only looks (runProcess) holds it for an instant
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            continue;
        }
        ::close(m_lock);
        m_lock = -1;
        fail(ErrorCode::Usage, "run folder " + m_path.string() + " is in use by another process", {{"file", m_path.string()}});
    }
    const auto who = runProcessText();
    if (::ftruncate(m_lock, 0) != 0 || ::pwrite(m_lock, who.data(), who.size(), 0) != static_cast<ssize_t>(who.size()))
        fail(ErrorCode::Io, "can't write " + lockFile.string(), {{"file", lockFile.string()}});
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : m_path(std::move(other.m_path)), m_state(std::move(other.m_state)), m_lock(std::exchange(other.m_lock, -1)),
      m_earlierSeconds(other.m_earlierSeconds), m_lastSaved(std::move(other.m_lastSaved)), m_begin(other.m_begin), m_metrics(std::move(other.m_metrics)), m_log(std::move(other.m_log)) {}

RunFolder::~RunFolder() {
    if (m_lock >= 0)
        ::close(m_lock);
}

RunFolder RunFolder::create(const std::filesystem::path& path, const Recipe& recipe) {
    std::error_code failed;
    if (path.empty())
        fail(ErrorCode::Usage, "run folder: found \"\", expected a path", {{"option", "--run"}});
    if (std::filesystem::exists(path) && (!std::filesystem::is_directory(path) || holdsSomething(path)))
        fail(ErrorCode::Usage, "run folder " + path.string() + " exists and is not empty; choose another, or resume it",
             {{"option", "--run"}, {"file", path.string()}});
    std::filesystem::create_directories(path / "checkpoints", failed);
    if (failed)
        fail(ErrorCode::Io, "can't make run folder " + path.string() + ": " + failed.message(), {{"file", path.string()}});
    orFail(writeRecipe(path / "recipe.json", recipe));
    return open(path);
}

RunFolder RunFolder::open(const std::filesystem::path& path) {
    if (!std::filesystem::exists(path / "recipe.json"))
        fail(ErrorCode::NotFound, path.string() + " is no run folder: it has no recipe.json", {{"file", (path / "recipe.json").string()}});
    RunFolder run(path);
    std::filesystem::create_directories(run.file("checkpoints"));
    for (const auto& folder : {run.path(), run.file("checkpoints")})
        removeParts(folder);
    const Recipe recipe = run.recipe();
    if (std::filesystem::exists(run.file("state.json"))) {
        run.m_state = readJsonFile(run.file("state.json"));
        checkState(run.m_state, run.file("state.json"));
        run.m_earlierSeconds = run.m_state.value("seconds", 0.0);
    }
    if (const auto began = run.m_state.find("recipe"); began != run.m_state.end() && began->is_object())
        checkRecipe(*began, recipe, run.file("recipe.json"));
    else
        run.m_state["recipe"] = frozen(recipe);
    run.m_state["seconds"] = run.m_earlierSeconds; // here, so that save() adds no key: a new one moves the others, and references to them
    run.m_log.open(run.file("log.txt"), std::ios::app);
    run.m_metrics.open(run.file("metrics.jsonl"), std::ios::app);
    return run;
}

Recipe RunFolder::recipe() const {
    return orFail(readRecipe(file("recipe.json")));
}

void RunFolder::replaceRecipe(const Recipe& recipe) {
    m_state.erase("recipe"); // so that a kill in between leaves no contradiction
    save();
    orFail(writeRecipe(file("recipe.json"), recipe));
    m_state["recipe"] = frozen(recipe);
    save();
}

double RunFolder::secondsSoFar() const {
    return m_earlierSeconds + std::chrono::duration<double>(std::chrono::steady_clock::now() - m_begin).count();
}

void RunFolder::save() {
    m_state["seconds"] = secondsSoFar();
    writeFileAtomically(file("state.json"), m_state.dump(1) + "\n");
}

void RunFolder::log(const std::string& line) {
    const std::time_t now = std::time(nullptr);
    char stamp[32];
    std::strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S ", std::localtime(&now));
    m_log << stamp << line << std::endl;
}

void RunFolder::appendMetric(const MetricRow& row) {
    m_metrics << metricToJson(row).dump() << std::endl;
}

void RunFolder::dropMetrics(std::int64_t layer, std::int64_t fromStep, const std::string& stage) {
    m_metrics.close();
    std::string kept;
    for (const auto& row : orFail(readMetrics(m_path)))
        if (row.stage != stage || (layer >= 0 && row.layer != layer) || row.step < fromStep)
            kept += metricToJson(row).dump() + "\n";
    writeFileAtomically(file("metrics.jsonl"), kept);
    m_metrics.open(file("metrics.jsonl"), std::ios::app);
}

// Tensors first, then the small file that names them, then the tensors of before go: a kill in between leaves a whole pair.
void RunFolder::saveCheckpoint(const std::string& name, std::int64_t step, const NamedTensors& tensors, Json small) {
    const auto tensorsName = name + "_" + std::to_string(step) + ".safetensors";
    saveTensors(file(tensorsName), tensors);
    const auto smallFile = file(name + ".json");
    const std::string previous = std::filesystem::exists(smallFile) ? readJsonFile(smallFile).at("tensors").get<std::string>() : "";
    small["tensors"] = tensorsName;
    small["step"] = step;
    writeFileAtomically(smallFile, small.dump(1) + "\n");
    if (!previous.empty() && previous != tensorsName)
        std::filesystem::remove(file(previous));
    save();
}

void RunFolder::removeCheckpoint(const std::string& name) {
    const auto small = file(name + ".json");
    if (!std::filesystem::exists(small))
        return;
    const auto tensors = readJsonFile(small).at("tensors").get<std::string>();
    std::filesystem::remove(small); // the small file first: without it the tensors are never looked for
    std::filesystem::remove(file(tensors));
}

void RunFolder::noteSave(const std::string& stage, std::int64_t layer, std::int64_t step) {
    if (const auto what = stage + " " + std::to_string(step); std::exchange(m_lastSaved, what) == what && step >= 0)
        return;
    std::ofstream(file("checkpoints/saves.jsonl"), std::ios::app) << Json{{"stage", stage}, {"layer", layer}, {"step", step}, {"time", secondsSoFar()}}.dump() + "\n";
}

void RunFolder::noteAligned(std::int64_t layer, std::pair<double, double> losses, std::int64_t keptStep, std::optional<double> heldOutLoss) {
    m_state["align"][std::to_string(layer)] = {losses.first, losses.second, keptStep, heldOutLoss ? Json(*heldOutLoss) : Json(nullptr)};
}

void RunFolder::saveAlign(std::int64_t layer, const AlignState& state) {
    NamedTensors tensors;
    appendLayer(tensors, "parameters.", state.parameters);
    appendLayer(tensors, "best.", state.best);
    appendMoments(tensors, "", state.first, state.second);
    if (state.lockNorms.defined())
        tensors.emplace_back("lock_norms", state.lockNorms);
    saveCheckpoint(alignName(layer), state.step, tensors,
                   {{"best_step", state.bestStep}, {"best_loss", state.bestLoss}, {"loss_first", state.lossFirst}, {"loss_last", state.lossLast}});
    noteSave("align", layer, state.step);
}

bool RunFolder::loadAlign(std::int64_t layer, at::Device device, AlignState& state) const {
    const auto small = file(alignName(layer) + ".json");
    if (!std::filesystem::exists(small))
        return false;
    const Json json = readJsonFile(small);
    const auto tensors = tensorsByName(file(json.at("tensors").get<std::string>()), device);
    state.parameters = takeLayer(tensors, "parameters.");
    state.best = takeLayer(tensors, "best.");
    std::tie(state.first, state.second) = takeMoments(tensors, "");
    if (const auto norms = tensors.find("lock_norms"); norms != tensors.end())
        state.lockNorms = norms->second;
    state.step = json.at("step").get<std::int64_t>();
    state.bestStep = json.at("best_step").get<std::int64_t>();
    state.bestLoss = json.at("best_loss").get<double>();
    state.lossFirst = json.at("loss_first").get<double>();
    state.lossLast = json.at("loss_last").get<double>();
    return true;
}

void RunFolder::removeAlign(std::int64_t layer) {
    removeCheckpoint(alignName(layer));
    noteSave("align", layer, -1); // whole, among the finished ones
}

void RunFolder::saveDistill(const DistillState& state) {
    NamedTensors tensors;
    std::vector<std::int64_t> layers;
    for (const auto& [layer, parameters] : state.parameters) {
        const std::string prefix = std::to_string(layer) + ".";
        layers.push_back(layer);
        appendLayer(tensors, prefix + "parameters.", parameters);
        appendMoments(tensors, prefix, state.first.at(layer), state.second.at(layer));
    }
    saveCheckpoint(kDistillName, state.step, tensors, {{"layers", layers}, {"loss_first", state.lossFirst}, {"loss_last", state.lossLast}});
    noteSave("distill", -1, state.step);
}

bool RunFolder::loadDistill(at::Device device, DistillState& state) const {
    const auto small = file(std::string(kDistillName) + ".json");
    if (!std::filesystem::exists(small))
        return false;
    const Json json = readJsonFile(small);
    const auto tensors = tensorsByName(file(json.at("tensors").get<std::string>()), device);
    for (const auto layer : json.at("layers").get<std::vector<std::int64_t>>()) {
        const std::string prefix = std::to_string(layer) + ".";
        state.parameters[layer] = takeLayer(tensors, prefix + "parameters.");
        std::tie(state.first[layer], state.second[layer]) = takeMoments(tensors, prefix);
    }
    state.step = json.at("step").get<std::int64_t>();
    state.lossFirst = json.at("loss_first").get<double>();
    state.lossLast = json.at("loss_last").get<double>();
    return true;
}

void RunFolder::removeDistill() {
    removeCheckpoint(kDistillName);
    noteSave("distill", -1, -1);
}

void RunFolder::saveClosedForm(std::int64_t layer, const Json& fit) {
    writeFileAtomically(file("checkpoints/closed_form_" + std::to_string(layer) + ".json"), fit.dump() + "\n");
}

Json RunFolder::closedForm() const {
    Json all = Json::array();
    std::map<std::int64_t, std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(file("checkpoints")))
        if (const auto name = entry.path().stem().string(); name.starts_with("closed_form_") && entry.path().extension() == ".json")
            files[std::stoll(name.substr(12))] = entry.path();
    for (const auto& [layer, path] : files)
        all.push_back(readJsonFile(path));
    return all;
}

} // namespace linnet::core
