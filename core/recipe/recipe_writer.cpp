// Recipe to canonical text: two recipes that mean the same are the same bytes, and a diff shows one value a line.
#include "core/recipe/recipe_json.h"

#include "core/base/files.h"

#include <charconv>
#include <cmath>

namespace linnet::core {
namespace {

// Shortest digits that read back to the same double; positional in the range that people read easily.
std::string numberText(double value) {
    if (!std::isfinite(value))
        return "null";
    const double magnitude = std::abs(value);
    const bool positional = magnitude == 0 || (magnitude >= 1e-5 && magnitude < 1e15);
    char text[64];
    const auto end =
        std::to_chars(text, text + sizeof text, value, positional ? std::chars_format::fixed : std::chars_format::scientific);
    return {text, end.ptr};
}

// Objects get a line for each key down to `lines` levels, everything below stands on one line.
void print(const Json& json, int level, int lines, std::string& out) {
    if (json.is_number_float()) {
        out += numberText(json.get<double>());
    } else if (!json.is_structured()) {
        out += json.dump();
    } else {
        const bool object = json.is_object(), broken = object && lines > 0 && !json.empty();
        const std::string indent(2 * (static_cast<std::size_t>(level) + 1), ' ');
        out += object ? "{" : "[";
        bool first = true;
        for (const auto& [key, value] : json.items()) {
            out += first ? "" : broken ? "," : ", ";
            first = false;
            if (broken)
                out += "\n" + indent;
            if (object)
                out += Json(key).dump() + ": ";
            print(value, level + 1, lines - 1, out);
        }
        if (broken)
            out += "\n" + indent.substr(2);
        out += object ? "}" : "]";
    }
}

Json orNull(double value) { // JSON has no infinity
    return std::isinf(value) ? Json(nullptr) : Json(value);
}

Json targetToJson(const HeadTarget& target) {
    Json json = Json::object();
    const auto put = [&](const char* key, const std::optional<double>& value) {
        if (value)
            json[key] = orNull(*value);
    };
    put("half_life", target.halfLife);
    put("beta", target.beta);
    put("value_scale", target.valueScale);
    put("output_gate", target.outputGate);
    if (!target.locked.empty())
        json["locked"] = target.locked;
    return json;
}

Json targetsToJson(const Recipe& recipe) {
    Json targets = Json::object();
    for (const auto& [layer, heads] : recipe.targets)
        for (const auto& [head, target] : heads)
            if (!target.empty())
                targets[std::to_string(layer)][std::to_string(head)] = targetToJson(target);
    return targets;
}

Json closedFormToJson(const ClosedFormSettings& closedForm) {
    Json halfLives = Json::array();
    for (const double halfLife : closedForm.halfLives)
        halfLives.push_back(orNull(halfLife));
    return {{"half_lives", halfLives},   {"betas", closedForm.betas}, {"sequences", closedForm.sequences},
            {"joint", closedForm.joint}, {"refine", closedForm.refine}, {"value_rms", closedForm.valueRms}, {"gate", closedForm.gate},
            {"gate_rounds", closedForm.gateRounds}, {"ridge", closedForm.ridge}, {"ridge_before_alignment", closedForm.ridgeBeforeAlignment}};
}

Json alignToJson(const AlignSettings& align) {
    return {{"steps", align.steps},
            {"batch", align.batch},
            {"lr", align.lr},
            {"lr_new", align.lrNew},
            {"schedule", align.schedule},
            {"warmup", align.warmup},
            {"train_output", align.trainOutput},
            {"loss", align.loss},
            {"early_stop", align.earlyStop},
            {"drift", align.drift},
            {"drift_steps", align.driftSteps},
            {"weight_decay", align.weightDecay},
            {"clip", align.clip},
            {"held_out", align.heldOut}};
}

Json distillToJson(const DistillSettings& distill) {
    return {{"steps", distill.steps},
            {"batch", distill.batch},
            {"lr", distill.lr},
            {"warmup", distill.warmup},
            {"schedule", distill.schedule},
            {"temperature", distill.temperature},
            {"kl_weight", distill.klWeight},
            {"cross_entropy_weight", distill.crossEntropyWeight},
            {"weight_decay", distill.weightDecay},
            {"clip", distill.clip},
            {"tokens", distill.tokens}};
}

} // namespace

std::string jsonLine(const Json& json) {
    std::string out;
    print(json, 0, 0, out);
    return out;
}

std::string joinNames(const std::vector<std::string>& names) {
    std::string all;
    for (const auto& name : names)
        all += (all.empty() ? "" : ", ") + name;
    return all;
}

Json recipeToJson(const Recipe& recipe) {
    Json json;
    json["version"] = recipe.version;
    json["teacher"] = {{"source", recipe.teacherSource}, {"hash", recipe.teacherHash}};
    json["data"] = {{"text", recipe.dataText.size() == 1 ? Json(recipe.dataText.front()) : Json(recipe.dataText)},
                    {"seq_len", recipe.seqLen},
                    {"calibration_tokens", recipe.calibrationTokens},
                    {"selection_tokens", recipe.selectionTokens},
                    {"evaluation_tokens", recipe.evaluationTokens}};
    json["mixer"] = recipe.mixer;
    json["preset"] = recipe.preset;
    json["keep"] = recipe.keep.text();
    json["targets"] = targetsToJson(recipe);
    json["closed_form"] = closedFormToJson(recipe.closedForm);
    json["align"] = alignToJson(recipe.align);
    json["distill"] = distillToJson(recipe.distill);
    json["window"] = {{"window", recipe.window}, {"sinks", recipe.sinks}};
    json["evaluate"] = {{"convention", recipe.convention}, {"seq_len", recipe.evaluateSeqLen}};
    json["device"] = recipe.device;
    json["dtype"] = recipe.dtype.empty() ? "auto" : recipe.dtype;
    json["memory_gib"] = recipe.memoryGib;
    json["seed"] = recipe.seed;
    json["treatment"] = {{"bias", recipe.biasTreatment}, {"qk_norm", recipe.qkNormTreatment}, {"rope", recipe.ropeTreatment}};
    json["pins"] = {{"never", recipe.never}, {"always", recipe.always}};
    return json;
}

std::string recipeToText(const Recipe& recipe) {
    constexpr int kLevels = 3; // targets, layer, head
    std::string out;
    print(recipeToJson(recipe), 0, kLevels, out);
    return out + "\n";
}

Result<void> writeRecipe(const std::filesystem::path& file, const Recipe& recipe) {
    return guarded([&] { writeFileAtomically(file, recipeToText(recipe)); });
}

} // namespace linnet::core
