#include "core/torch_pch.h"

#include "core/export/bundle.h"

#include "core/base/files.h"
#include "core/data/text_data.h"
#include "core/export/hf_folder.h"
#include "core/export/tensor_plan.h"
#include "core/model/open_student.h"

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

bool identityTaps(const Model& model) {
    at::Tensor identity = at::zeros({kConvTaps});
    identity[kConvTaps - 1] = 1;
    for (const auto& [layer, mixer] : model.mixers())
        for (const auto* taps : {&mixer.linear.qConv, &mixer.linear.kConv, &mixer.linear.vConv})
            if (!at::equal(taps->to(at::kCPU, at::kFloat), identity.expand_as(*taps)))
                return false;
    return true;
}

double headNormEps(const Model& model) {
    const auto of = [&](const Mixer& mixer) { return model.linearShape(mixer).normEps; };
    const double eps = model.mixers().empty() ? model.config().rmsNormEps : of(model.mixers().begin()->second);
    for (const auto& [layer, mixer] : model.mixers())
        if (of(mixer) != eps)
            fail(ErrorCode::Unsupported, "export bundle: o_norm of layer " + std::to_string(layer) + " has eps " + Json(of(mixer)).dump() + ", that of others " + Json(eps).dump() +
                                             "; the student class has one for all", {{"layer", std::to_string(layer)}});
    return eps;
}

BundleFacts factsOf(const WriteJob& job, const Slices& slices) {
    BundleFacts facts;
    facts.student = identityTaps(job.model) ? "gdn_v4" : "gdn_v3";
    for (std::int64_t l = 0; l < job.model.config().layers; ++l)
        if (!job.model.mixers().contains(l))
            facts.kept.push_back(l);
    facts.headNormEps = headNormEps(job.model);
    facts.fromRun = fs::exists(job.student / "recipe.json");
    facts.recipe = facts.fromRun ? orFail(readRecipe(job.student / "recipe.json")) : defaultRecipe("cuda");
    facts.calibrationWindows = slices.calibration.sequences;
    facts.trainingWindows = slices.training.sequences;
    facts.seqLen = slices.calibration.sequences > 0 ? slices.calibration.seqLen : facts.recipe.seqLen;
    return facts;
}

// Keys of src/distill_model/config_distilled_student.py.
Json studentConfig(const WriteJob& job, const BundleFacts& facts) {
    const auto& c = job.model.config();
    Json common;
    addCommonKeys(common, job.model, job.options.dtype);
    Json config{{"model_type", "student"}, {"architectures", {"StudentForCausalLM"}}, {"student_name", facts.student}, {"keep_full_attention_layers", facts.kept},
                {"num_heads", c.heads}, {"num_kv_heads", c.kvHeads}, {"qkv_bias", c.qkvBias && !(c.qkNorm && facts.kept.empty())}, {"qk_norm", c.qkNorm}, {"window_size", nullptr}, {"rope_theta", c.rope.theta},
                {"norm_eps", c.rmsNormEps}, {"hidden_act", "swish"}, {"fuse_norm", true}, {"fuse_swiglu", true}, {"fuse_cross_entropy", true}};
    for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "head_dim", "max_position_embeddings", "tie_word_embeddings", "use_cache",
                            "torch_dtype", "dtype", "bos_token_id", "eos_token_id", "pad_token_id"})
        if (common.contains(key))
            config[key] = common[key];
    return config;
}

std::vector<PlannedTensor> studentPlan(const Model& model, const BundleFacts& facts, const std::string& type) {
    std::vector<PlannedTensor> plan;
    const auto copied = [&](const std::string& from, const std::string& to) {
        if (const auto* info = model.files().weights->find(from))
            plan.push_back({{to, type, info->shape}, [&model, from, shape = info->shape] {
                                at::Tensor values = at::empty(shape, at::kFloat);
                                model.files().weights->read(from, DType::F32, values.data_ptr());
                                return values;
                            }});
    };
    copied("model.embed_tokens.weight", "model.embeddings.weight");
    for (std::int64_t l = 0; l < model.config().layers; ++l) {
        const auto prefix = "model.layers." + std::to_string(l) + ".";
        copied(prefix + "input_layernorm.weight", prefix + "attn_norm.weight");
        copied(prefix + "post_attention_layernorm.weight", prefix + "mlp_norm.weight");
        for (const char* name : {"gate_proj", "up_proj", "down_proj"})
            copied(prefix + "mlp." + name + ".weight", prefix + "mlp." + name + ".weight");
        if (const auto* mixer = mixerAt(model.mixers(), l)) {
            mixer->linear.forEach([&](const std::string& name, const at::Tensor& tensor) {
                const bool taps = name.find("_conv1d.") != name.npos;
                auto shape = tensor.sizes().vec();
                if (taps)
                    shape.insert(shape.begin() + 1, 1);
                if (!taps || facts.student == "gdn_v3")
                    plan.push_back({{prefix + "attn." + name, type, shape}, [tensor] { return tensor; }});
            });
            continue;
        }
        for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "q_proj.bias", "k_proj.bias", "v_proj.bias", "q_norm.weight", "k_norm.weight"})
            copied(prefix + "self_attn." + name, prefix + "attn." + name);
    }
    copied("model.norm.weight", "model.norm.weight");
    if (!model.config().tiedEmbeddings)
        copied("lm_head.weight", "lm_head.weight");
    return plan;
}

} // namespace

std::string npyOf(const std::vector<TokenId>& ids) {
    std::string header = "{'descr': '<u4', 'fortran_order': False, 'shape': (" + std::to_string(ids.size()) + ",), }";
    header.append(64 - (10 + header.size() + 1) % 64, ' ').append("\n");
    std::string bytes("\x93NUMPY\x01\x00", 8);
    for (const auto value : {header.size() & 0xff, header.size() >> 8})
        bytes += static_cast<char>(value);
    bytes += header;
    bytes.reserve(bytes.size() + 4 * ids.size());
    for (const auto id : ids)
        for (int shift = 0; shift < 32; shift += 8)
            bytes += static_cast<char>((static_cast<std::uint32_t>(id) >> shift) & 0xff);
    return bytes;
}

WrittenFolder writeBundle(const WriteJob& job, const Control& control) {
    requireExpressible(job);
    const auto samples = job.student / "samples.safetensors";
    const Slices slices = fs::exists(samples) ? loadSlices(samples) : Slices{};
    const auto facts = factsOf(job, slices);
    WrittenFolder written{writeBesideWeights(job, studentConfig(job, facts)), true, bundleNotes(facts)};
    const auto put = [&](const std::string& name, const std::string& text) {
        fs::create_directories((job.folder / name).parent_path());
        writeFileAtomically(job.folder / name, text);
        written.files.push_back(name);
    };
    put(kBundleFile, Json{{"o_norm_eps", facts.headNormEps}, {"norm_eps", job.model.config().rmsNormEps}}.dump(1) + "\n");
    put("stage1.yaml", bundleStageYaml(facts, 1));
    put("stage2.yaml", bundleStageYaml(facts, 2));
    put("launch.py", bundleLaunchPython());
    put("TRAIN.md", bundleGuide(facts));
    put("run.sh", bundleRunScript(facts));
    fs::permissions(job.folder / "run.sh", fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec, fs::perm_options::add);
    if (facts.calibrationWindows > 0)
        put("data/stage1/all_tokens.npy", npyOf(slices.calibration.ids));
    if (facts.trainingWindows > 0)
        put("data/stage2/all_tokens.npy", npyOf(slices.training.ids));
    writeTensors(job, studentPlan(job.model, facts, storedTypeName(job.options.dtype)), written, control);
    return written;
}

} // namespace linnet::core
