// transformers' Qwen3_5ForCausalLM as the teacher with converted layers that it was written from (core/io/qwen35_source.h). Ours of a teacher
// without QK-norm carry, in config.json,
//     "linnet_lift": {"teacher_type": "llama" | "qwen2", "qkv_bias": false, "output_bias": false}
// and open as that teacher (core/io/eps_lift.h).
#include "core/torch_pch.h"

#include "core/model/opened_model.h"

#include "core/base/result.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/hf_config.h"
#include "core/io/qwen35_source.h"
#include "core/mixers/gated_delta_net.h"

namespace linnet::core {
namespace {

namespace fs = std::filesystem;

struct Lift {
    std::string teacherType = "qwen3";
    bool lifted = false, qkvBias = false, outputBias = false;
};

class Reader {
public:
    Reader(const fs::path& folder) : m_folder(folder), m_file(folder / "config.json"), m_config(readJsonFile(m_file)), m_lift(lift()) {}

    OpenedModel open() {
        const auto types = layerTypes();
        checkLinear(std::ranges::find(types, kLinear) != types.end());
        if (std::ranges::find(types, "full_attention") != types.end())
            checkSoftmax();
        Json config = m_config;
        config["model_type"] = m_lift.teacherType;
        for (const char* theirs : {"architectures", "layer_types"})
            config.erase(theirs);
        if (m_lift.lifted)
            config.erase("attention_bias"); // of all four projections or none
        OpenedModel opened;
        opened.files.path = m_folder;
        opened.files.config = hfConfigFromJson(config, m_file);
        if (m_lift.lifted) {
            opened.files.config.qkvBias = m_lift.qkvBias;
            opened.files.config.outputBias = m_lift.outputBias;
        }
        opened.files.weights = qwen35Source(openFolderWeights(m_folder, opened.files.config.tiedEmbeddings, opened.files.warnings), opened.files.config);
        opened.files.tokenizer = openTokenizerJson(tokenizerFolder(m_folder));
        opened.student = opened.files.weights;
        opened.mixer = "gated_delta_net";
        checkTensors(opened, types);
        return opened;
    }

private:
    static constexpr const char* kLinear = "linear_attention";

    const Json& member(const char* key) const {
        if (!m_config.is_object() || !m_config.contains(key))
            fail(ErrorCode::Malformed, m_file.string() + ": key \"" + key + "\" is missing", {{"file", m_file.string()}, {"key", key}});
        return m_config[key];
    }
    [[noreturn]] void refuse(const std::string& key, const Json& found, const Json& expected) const {
        fail(ErrorCode::Unsupported, m_file.string() + ": key \"" + key + "\" is " + found.dump() + ", only " + expected.dump() + " is supported",
             {{"file", m_file.string()}, {"key", key}, {"found", found.dump()}, {"expected", expected.dump()}});
    }

    Lift lift() const {
        Lift lift;
        if (!m_config.contains("linnet_lift"))
            return lift;
        const Json& given = m_config["linnet_lift"];
        const auto value = [&](const char* key) { return given.is_object() && given.contains(key) ? given[key] : Json(); };
        const Json type = value("teacher_type");
        if (type != "llama" && type != "qwen2")
            refuse("linnet_lift.teacher_type", type, {"llama", "qwen2"});
        for (const auto& [key, flag] : {std::pair("qkv_bias", &lift.qkvBias), std::pair("output_bias", &lift.outputBias)}) {
            if (!value(key).is_boolean())
                refuse(std::string("linnet_lift.") + key, value(key), "true or false");
            *flag = value(key).get<bool>();
        }
        lift.lifted = true;
        lift.teacherType = type.get<std::string>();
        return lift;
    }

    std::vector<std::string> layerTypes() const {
        const Json& types = member("layer_types");
        std::vector<std::string> list;
        for (const Json& type : types.is_array() ? types : Json::array({types})) {
            if (type != kLinear && type != "full_attention")
                refuse("layer_types", types, Json::array({kLinear, "full_attention"}));
            list.push_back(type.get<std::string>());
        }
        return list;
    }

    void checkLinear(bool any) const {
        if (!any)
            return;
        for (const char* heads : {"linear_num_key_heads", "linear_num_value_heads"})
            if (member(heads) != member("num_attention_heads"))
                refuse(heads, member(heads), member("num_attention_heads"));
        for (const char* size : {"linear_key_head_dim", "linear_value_head_dim"})
            if (member(size) != member("head_dim"))
                refuse(size, member(size), member("head_dim"));
        if (member("linear_conv_kernel_dim") != kConvTaps)
            refuse("linear_conv_kernel_dim", member("linear_conv_kernel_dim"), kConvTaps);
    }

    // What the class takes for granted where config.json is silent is not what we have.
    void checkSoftmax() const {
        const Json rope = m_config.value("rope_parameters", Json());
        if (!m_config.contains("partial_rotary_factor") && !(rope.is_object() && rope.contains("partial_rotary_factor")))
            refuse("rope_parameters.partial_rotary_factor", "missing, which is 0.25 in this class", 1.0);
        if (const auto gate = m_config.find("attn_output_gate"); gate != m_config.end() && !gate->is_null() && *gate != true)
            refuse("attn_output_gate", *gate, true);
    }

    void checkTensors(const OpenedModel& opened, const std::vector<std::string>& types) const {
        std::set<std::int64_t> listed;
        for (std::size_t l = 0; l < types.size(); ++l)
            if (types[l] == kLinear)
                listed.insert(static_cast<std::int64_t>(l));
        if (std::ssize(types) != opened.files.config.layers || listed != opened.convertedLayers())
            fail(ErrorCode::Malformed, m_file.string() + ": layer_types does not fit the layers that the tensors are there for", {{"file", m_file.string()}, {"key", "layer_types"}});
    }

    fs::path m_folder, m_file;
    Json m_config;
    Lift m_lift;
};

} // namespace

OpenedModel openQwen35(const fs::path& folder) {
    return Reader(folder).open();
}

} // namespace linnet::core
