// Files that are wrong, one rule each: the error's code, that its message names the culprit, and that nothing crashes.
#include "core/base/result.h"
#include "core/io/gguf_reader.h"
#include "core/io/model_files.h"
#include "tests/support/file_builders.h"

#include <QTemporaryDir>
#include <QTest>

#include <functional>
#include <thread>

using namespace linnet::core;
using namespace linnet::tests;
namespace fs = std::filesystem;

namespace {

struct Case {
    std::string name;
    std::function<void(const fs::path& folder)> open; // makes its files in the folder and opens them
    ErrorCode code;
    std::string mentions;
};

const std::string kEntry = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

Case safetensors(const std::string& name, const std::string& bytes, const std::string& mentions,
                 ErrorCode code = ErrorCode::Malformed) {
    return {"safetensors: " + name,
            [bytes](const fs::path& folder) {
                writeBytes(folder / "x.safetensors", bytes);
                openSafetensorsFile(folder / "x.safetensors");
            },
            code, mentions};
}

// One entry "a" with 8 bytes of data.
Case entry(const std::string& name, const std::string& value, const std::string& mentions,
           ErrorCode code = ErrorCode::Malformed) {
    return safetensors(name, safetensorsBytes("{\"a\":" + value + "}", std::string(8, 'x')), mentions, code);
}

std::vector<Case> safetensorsCases() {
    const std::string eight(8, 'x');
    const std::string second = R"("b":{"dtype":"F32","shape":[1],"data_offsets":)";
    std::vector<Case> cases{
        safetensors("empty file", "", "0 bytes"),
        safetensors("seven bytes", "1234567", "7 bytes"),
        safetensors("header beyond the end", raw<std::uint64_t>(100) + "{}", "cut off"),
        safetensors("header above the cap", raw<std::uint64_t>(100'000'001) + "{}", "100000001"),
        safetensors("header length all ones", raw<std::uint64_t>(~0ull) + "{}", "18446744073709551615"),
        safetensors("no brace first", safetensorsBytes(" {" + kEntry + "}", eight), "does not start"),
        safetensors("header of length 0", safetensorsBytes("", ""), "does not start"),
        safetensors("not JSON", safetensorsBytes("{\"a\":", ""), "not valid JSON"),
        safetensors("not UTF-8", safetensorsBytes("{\"a\xff\":1}", ""), "UTF-8"),
        safetensors("text after the header", safetensorsBytes("{" + kEntry + "}x", eight), "not valid JSON"),
        safetensors("a name twice", safetensorsBytes("{" + kEntry + "," + kEntry + "}", eight), "\"a\" appears twice"),
        safetensors("deep nesting", safetensorsBytes("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", ""),
                    "deeper"),
        safetensors("metadata no object", safetensorsBytes("{\"__metadata__\":[]," + kEntry + "}", eight), "__metadata__"),
        safetensors("metadata number", safetensorsBytes("{\"__metadata__\":{\"k\":1}," + kEntry + "}", eight), "\"k\""),
        safetensors("trailing bytes", safetensorsBytes("{" + kEntry + "}", eight + "y"), "need 8 bytes"),
        safetensors("truncated data", safetensorsBytes("{" + kEntry + "}", "1234567"), "cut off"),
        safetensors("a hole", safetensorsBytes("{" + kEntry + "," + second + "[12,16]}}", eight + eight), "\"b\" starts at 12"),
        safetensors("an overlap", safetensorsBytes("{" + kEntry + "," + second + "[4,8]}}", eight), "\"b\" starts at 4"),
        safetensors("first offset not 0", safetensorsBytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight),
                    "expected 0"),
        safetensors("empty name", safetensorsBytes(R"({"":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", eight), "name"),
        safetensors("long name", safetensorsBytes("{\"" + std::string(5000, 'n') + "\":{}}", ""), "5000"),
        safetensors("too many names",
                    safetensorsBytes(
                        "{\"a\":\"" +
                            [] {
                                std::string quotes;
                                for (int i = 0; i < 300'000; ++i)
                                    quotes += "\\\"";
                                return quotes;
                            }() +
                            "\"}",
                        ""),
                    "too many"),
        entry("entry no object", "[]", "\"a\""),
        entry("no dtype", R"({"shape":[2],"data_offsets":[0,8]})", "\"a\""),
        entry("no shape", R"({"dtype":"F32","data_offsets":[0,8]})", "\"a\""),
        entry("no offsets", R"({"dtype":"F32","shape":[2]})", "\"a\""),
        entry("a fourth key", R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})", "\"a\""),
        entry("dtype no text", R"({"dtype":1,"shape":[2],"data_offsets":[0,8]})", "\"a\" has a dtype"),
        entry("unknown dtype", R"({"dtype":"F7","shape":[2],"data_offsets":[0,8]})", "\"F7\"", ErrorCode::Unsupported),
        entry("negative size", R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "-2"),
        entry("fractional size", R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", "2.0"),
        entry("shape no list", R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})", "\"a\" has a shape"),
        entry("nine dimensions", R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]})", "at most 8"),
        entry("product overflows", R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})", "too large"),
        entry("bits overflow", R"({"dtype":"F32","shape":[1152921504606846976],"data_offsets":[0,8]})", "too large"),
        entry("size above int64", R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]})",
              "18446744073709551615"),
        entry("half a byte", R"({"dtype":"F4","shape":[3],"data_offsets":[0,8]})", "whole bytes"),
        entry("end before start", R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "before its start"),
        entry("wrong size", R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", "call for 12"),
        entry("three offsets", R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,16]})", "data_offsets"),
        entry("negative offset", R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})", "data_offsets"),
        {"safetensors: no such file", [](const fs::path& folder) { openSafetensorsFile(folder / "none"); }, ErrorCode::NotFound,
         "none"},
        {"safetensors: a folder", [](const fs::path& folder) { openSafetensorsFile(folder); }, ErrorCode::Io, "is a folder"},
        {"safetensors: FP8 without scales",
         [](const fs::path& folder) {
             writeBytes(folder / "x",
                        safetensorsBytes(R"({"w":{"dtype":"F8_E4M3","shape":[2,4],"data_offsets":[0,8]}})", "12345678"));
             openSafetensorsFile(folder / "x");
         },
         ErrorCode::Unsupported, "\"w\""},
        {"safetensors: FP8 with scales of another shape",
         [](const fs::path& folder) {
             writeBytes(folder / "x", safetensorsBytes(R"({"w":{"dtype":"F8_E4M3","shape":[2,4],"data_offsets":[0,8]},)"
                                                       R"("w_scale_inv":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]}})",
                                                       "1234567812345678"));
             openSafetensorsFile(folder / "x");
         },
         ErrorCode::Malformed, "\"w_scale_inv\""},
        {"safetensors: a type that is not decoded",
         [](const fs::path& folder) {
             writeBytes(folder / "x",
                        safetensorsBytes(R"({"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", "12345678"));
             float value;
             openSafetensorsFile(folder / "x")->read("w", DType::F32, &value);
         },
         ErrorCode::Unsupported, "F64"},
        {"safetensors: no such tensor",
         [eight](const fs::path& folder) {
             writeBytes(folder / "x", safetensorsBytes("{" + kEntry + "}", eight));
             float values[2];
             openSafetensorsFile(folder / "x")->read("z", DType::F32, values);
         },
         ErrorCode::NotFound, "\"z\""},
    };
    return cases;
}

const std::string kShard = safetensorsBytes("{" + kEntry + "}", std::string(8, 'x'));

Case index(const std::string& name, const std::string& json, const std::string& mentions,
           ErrorCode code = ErrorCode::Malformed) {
    return {"index: " + name,
            [json](const fs::path& folder) {
                writeBytes(folder / "one.safetensors", kShard);
                writeBytes(folder / "two.safetensors", kShard);
                writeBytes(folder / "../outside.safetensors", kShard);
                fs::create_symlink("../outside.safetensors", folder / "link.safetensors");
                writeBytes(folder / "model.safetensors.index.json", json);
                openSafetensorsFolder(folder);
            },
            code, mentions};
}

Case quantisation(const std::string& method) {
    return {"config: " + method,
            [method](const fs::path& folder) {
                auto config = tinyConfig();
                config["quantization_config"] = {{"quant_method", method}};
                writeBytes(folder / "config.json", config.dump());
                openSafetensorsFolder(folder);
            },
            ErrorCode::Unsupported, method};
}

Case foreignTensor(const std::string& tensor, const std::string& format) {
    return {"folder: " + tensor,
            [tensor](const fs::path& folder) {
                writeBytes(
                    folder / "model.safetensors",
                    safetensorsBytes("{\"" + tensor + R"(":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})", "12345678"));
                openSafetensorsFolder(folder);
            },
            ErrorCode::Unsupported, format};
}

std::vector<Case> folderCases() {
    return {
        index("no weight_map", "{}", "weight_map"),
        index("weight_map a list", R"({"weight_map":[]})", "weight_map"),
        index("shard no text", R"({"weight_map":{"a":1}})", "\"a\""),
        index("parent folder", R"({"weight_map":{"a":"../outside.safetensors"}})", "../outside.safetensors"),
        index("absolute path", R"({"weight_map":{"a":"/etc/passwd"}})", "/etc/passwd"),
        index("dots", R"({"weight_map":{"a":".."}})", "\"..\""),
        index("NUL in the name", R"({"weight_map":{"a":"one.safetensors\u0000"}})", "\\x00"),
        index("a link that leaves", R"({"weight_map":{"a":"link.safetensors"}})", "link.safetensors"),
        index("missing shard", R"({"weight_map":{"a":"three.safetensors"}})", "three.safetensors", ErrorCode::NotFound),
        index("tensor not in its shard", R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})", "\"b\""),
        index("tensor not in the index", R"({"weight_map":{"b":"one.safetensors"}})", "\"a\""),
        index("tensor in two shards", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})", "two.safetensors"),
        index("a tensor twice", R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})", "\"a\" appears twice"),
        index("total_size wild", R"({"metadata":{"total_size":99999},"weight_map":{"a":"one.safetensors"}})", "99999"),
        index("total_size negative", R"({"metadata":{"total_size":-8},"weight_map":{"a":"one.safetensors"}})", "-8"),
        index("total_size text", R"({"metadata":{"total_size":"8"},"weight_map":{"a":"one.safetensors"}})", "total_size"),
        index("metadata a list", R"({"metadata":[],"weight_map":{"a":"one.safetensors"}})", "metadata"),
        quantisation("gptq"),
        quantisation("awq"),
        quantisation("bitsandbytes"),
        quantisation("compressed-tensors"),
        foreignTensor("l.qweight", "GPTQ"),
        foreignTensor("l.weight_packed", "compressed-tensors"),
        foreignTensor("l.weight.absmax", "bitsandbytes"),
        {"folder: pickled weights only",
         [](const fs::path& folder) {
             writeBytes(folder / "pytorch_model.bin", "x");
             openSafetensorsFolder(folder);
         },
         ErrorCode::NotFound, "pytorch_model.bin"},
        {"folder: an adapter",
         [](const fs::path& folder) {
             writeBytes(folder / "adapter_config.json", "{}");
             openSafetensorsFolder(folder);
         },
         ErrorCode::NotFound, "adapter"},
        {"model: no such path", [](const fs::path& folder) { openModelFiles(folder / "gone"); }, ErrorCode::NotFound, "gone"},
        {"model: no config.json", [](const fs::path& folder) { openModelFiles(folder); }, ErrorCode::NotFound, "config.json"},
        {"model: no tokenizer.json",
         [](const fs::path& folder) {
             writeBytes(folder / "config.json", tinyConfig().dump());
             openModelFiles(folder);
         },
         ErrorCode::NotFound, "tokenizer.json"},
        {"model: another file",
         [](const fs::path& folder) {
             writeBytes(folder / "model.onnx", "x");
             openModelFiles(folder / "model.onnx");
         },
         ErrorCode::Unsupported, "model.onnx"},
    };
}

Case config(const std::string& key, const Json& value, ErrorCode code, const std::string& mentions = {}) {
    return {"config: " + key + " = " + value.dump(),
            [key, value](const fs::path& folder) {
                auto json = tinyConfig();
                json[key] = value;
                writeBytes(folder / "config.json", json.dump());
                readHfConfig(folder / "config.json");
            },
            code, mentions.empty() ? key : mentions};
}

std::vector<Case> configCases() {
    std::vector<Case> cases{
        config("model_type", "gemma3", ErrorCode::Unsupported, "gemma3"),
        config("model_type", nullptr, ErrorCode::Malformed),
        config("architectures", {"LlamaForSequenceClassification"}, ErrorCode::Unsupported, "LlamaForSequenceClassification"),
        config("hidden_act", "gelu", ErrorCode::Unsupported, "gelu"),
        config("use_sliding_window", true, ErrorCode::Unsupported),
        config("layer_types", {"sliding_attention"}, ErrorCode::Unsupported, "sliding_attention"),
        config("num_attention_heads", 0, ErrorCode::Malformed),
        config("num_attention_heads", 3, ErrorCode::Malformed),
        config("num_attention_heads", -2, ErrorCode::Malformed),
        config("num_attention_heads", 1u << 30, ErrorCode::Malformed),
        config("num_key_value_heads", 0, ErrorCode::Malformed),
        config("num_key_value_heads", 4, ErrorCode::Malformed, "key/value heads is 4"),
        config("num_hidden_layers", 100000, ErrorCode::Malformed),
        config("num_hidden_layers", "two", ErrorCode::Malformed),
        config("num_hidden_layers", 1.5, ErrorCode::Malformed),
        config("hidden_size", 18446744073709551615u, ErrorCode::Malformed),
        config("intermediate_size", nullptr, ErrorCode::Malformed),
        config("vocab_size", 1 << 30, ErrorCode::Malformed),
        config("head_dim", 5, ErrorCode::Malformed),
        config("head_dim", 4096, ErrorCode::Malformed),
        config("rms_norm_eps", 0, ErrorCode::Malformed),
        config("rms_norm_eps", "small", ErrorCode::Malformed),
        config("tie_word_embeddings", 1, ErrorCode::Malformed),
        config("bos_token_id", 6, ErrorCode::Malformed),
        config("eos_token_id", {1, 700}, ErrorCode::Malformed, "700"),
        config("eos_token_id", -1, ErrorCode::Malformed),
        config("eos_token_id", "</s>", ErrorCode::Malformed),
        config("rope_theta", -1, ErrorCode::Malformed),
        config("partial_rotary_factor", 0.5, ErrorCode::Unsupported),
        config("rope_scaling", {{"type", "yarn"}, {"factor", 4}}, ErrorCode::Unsupported, "yarn"),
        config("rope_scaling", {{"rope_type", "linear"}}, ErrorCode::Malformed, "rope_scaling.factor"),
        config("rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}, ErrorCode::Malformed, "factor"),
        config("rope_scaling", "linear", ErrorCode::Malformed),
        config("rope_parameters", {{"rope_type", "longrope"}}, ErrorCode::Unsupported, "longrope"),
        config("rope_parameters", {{"rope_type", "llama3"}, {"factor", 8}}, ErrorCode::Malformed, "low_freq_factor"),
        config("rope_parameters", {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}},
               ErrorCode::Malformed, "high_freq_factor"),
        config("quantization_config", {{"quant_method", "fp8"}}, ErrorCode::Unsupported, "weight_block_size"),
        config("quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {0, 128}}}, ErrorCode::Malformed,
               "weight_block_size"),
    };
    cases.push_back({"config: no object",
                     [](const fs::path& folder) {
                         writeBytes(folder / "config.json", "[]");
                         readHfConfig(folder / "config.json");
                     },
                     ErrorCode::Malformed, "config.json"});
    cases.push_back({"config: not UTF-8",
                     [](const fs::path& folder) {
                         writeBytes(folder / "config.json", "{\"model_type\": \"ll\xff\"}");
                         readHfConfig(folder / "config.json");
                     },
                     ErrorCode::Malformed, "config.json"});
    return cases;
}

Case gguf(const std::string& name, const std::string& bytes, const std::string& mentions,
          ErrorCode code = ErrorCode::Malformed) {
    return {"GGUF: " + name,
            [bytes](const fs::path& folder) {
                writeBytes(folder / "x.gguf", bytes);
                GgufFile file(folder / "x.gguf");
            },
            code, mentions};
}

Case ggufTensor(const std::string& name, const std::vector<std::int64_t>& dims, std::uint32_t type, const std::string& mentions,
                ErrorCode code = ErrorCode::Malformed, const std::string& tensor = "t") {
    return gguf(name, GgufBuilder().tensor(tensor, dims, type, zeros(64)).bytes(), mentions, code);
}

template <class Change> std::string changed(Change change) {
    GgufBuilder builder;
    change(builder);
    return builder.bytes();
}

std::string array(std::uint32_t type, std::uint64_t count, const std::string& data = {}) {
    return raw(type) + raw(count) + data;
}

std::vector<Case> ggufCases() {
    const auto one = GgufBuilder().text("k", "v").tensor("t", {4}, 0, zeros(4)).bytes();
    std::vector<Case> cases{
        gguf("empty", "", "magic"),
        gguf("another magic", changed([](auto& b) { b.magic = 1; }), "GGUF"),
        gguf("version 0", changed([](auto& b) { b.version = 0; }), "version 0", ErrorCode::Unsupported),
        gguf("version 1", changed([](auto& b) { b.version = 1; }), "version 1", ErrorCode::Unsupported),
        gguf("version 4", changed([](auto& b) { b.version = 4; }), "version 4", ErrorCode::Unsupported),
        gguf("big-endian", changed([](auto& b) { b.version = 0x03000000; }), "big-endian", ErrorCode::Unsupported),
        gguf("tensor count huge", changed([](auto& b) { b.extraTensors = std::int64_t{1} << 60; }), "1152921504606846976"),
        gguf("tensor count negative", changed([](auto& b) { b.extraTensors = -1; }), "18446744073709551615"),
        gguf("key count huge", changed([](auto& b) { b.extraKeys = std::int64_t{1} << 60; }), "1152921504606846976"),
        gguf("a key announced and not there", one.substr(0, 24), "too large"),
        gguf("cut inside a value", GgufBuilder().u32("a key of some length", 7).bytes().substr(0, 54), "ends inside"),
        gguf("cut inside the data", one.substr(0, one.size() - 20), "\"t\""),
        gguf("empty key", GgufBuilder().text("", "v").bytes(), "key"),
        gguf("key not UTF-8", GgufBuilder().text("a\xff", "v").bytes(), "\\xff"),
        gguf("key twice", GgufBuilder().text("k", "v").u32("k", 1).bytes(), "\"k\" appears twice"),
        gguf("key longer than allowed", GgufBuilder().u32(std::string(70000, 'k'), 1).bytes(), "70000"),
        gguf("string longer than the file", GgufBuilder().key("k", 8, raw<std::uint64_t>(1 << 20)).bytes(), "\"k\""),
        gguf("string length all ones", GgufBuilder().key("k", 8, raw<std::uint64_t>(~0ull)).bytes(), "\"k\""),
        gguf("unknown value type", GgufBuilder().key("k", 13, raw<std::uint64_t>(0)).bytes(), "type 13"),
        gguf("array of arrays", GgufBuilder().key("k", 9, array(9, 1, array(4, 0))).bytes(), "nested"),
        gguf("array of an unknown type", GgufBuilder().key("k", 9, array(99, 0)).bytes(), "99"),
        gguf("array longer than the file", GgufBuilder().key("k", 9, array(4, 1000)).bytes(), "1000"),
        gguf("array length overflows", GgufBuilder().key("k", 9, array(10, std::uint64_t{1} << 61)).bytes(), "\"k\""),
        gguf("array of strings cut off",
             GgufBuilder().key("k", 9, array(8, 3, ggufString("a") + std::string(20, '\xff'))).bytes(), "\"k\""),
        gguf("alignment 0", GgufBuilder().u32("general.alignment", 0).bytes(), "general.alignment"),
        gguf("alignment 33", GgufBuilder().u32("general.alignment", 33).bytes(), "33"),
        gguf("alignment huge", GgufBuilder().u32("general.alignment", 1u << 31).bytes(), "2147483648"),
        gguf("alignment of another type", GgufBuilder().key("general.alignment", 10, raw<std::uint64_t>(32)).bytes(), "uint32"),
        ggufTensor("five dimensions", {1, 1, 1, 1, 1}, 0, "5 dimensions"),
        ggufTensor("negative dimension", {-4}, 0, "-4"),
        ggufTensor("element count overflows", {1ll << 40, 1ll << 40}, 0, "\"t\""),
        ggufTensor("byte count overflows", {1ll << 62}, 0, "\"t\" needs more bytes"),
        ggufTensor("larger than the file", {1000}, 0, "\"t\""),
        ggufTensor("removed type", {32}, 4, "number 4", ErrorCode::Unsupported),
        ggufTensor("type out of range", {32}, 0xffffffffu, "4294967295", ErrorCode::Unsupported),
        ggufTensor("row no multiple of the block", {33}, 2, "Q4_0"),
        ggufTensor("long tensor name", {4}, 0, "64 bytes", ErrorCode::Malformed, std::string(64, 'n')),
        ggufTensor("empty tensor name", {4}, 0, "tensor name", ErrorCode::Malformed, ""),
        gguf("tensor twice", GgufBuilder().tensor("t", {4}, 0, zeros(4)).tensor("t", {4}, 0, zeros(4)).bytes(),
             "\"t\" appears twice"),
        gguf("overlapping tensors", GgufBuilder().tensor("t", {8}, 0, zeros(8)).tensor("u", {8}, 0, zeros(8), 0).bytes(),
             "\"u\" starts at 0"),
        gguf("a hole between tensors", GgufBuilder().tensor("t", {8}, 0, zeros(8)).tensor("u", {8}, 0, zeros(8), 64).bytes(),
             "\"u\" starts at 64"),
        gguf("offset beyond the file", GgufBuilder().tensor("t", {8}, 0, zeros(8), 1ll << 62).bytes(), "\"t\""),
    };
    return cases;
}

// A whole tiny model with one key changed, opened as a model's weights.
Case ggufModel(const std::string& name, const std::string& without, const std::function<void(GgufBuilder&)>& add,
               ErrorCode code, const std::string& mentions, const std::string& architecture = "llama") {
    return {"GGUF model: " + name,
            [=](const fs::path& folder) {
                auto builder = tinyGgufKeys(without, architecture);
                add(builder);
                addTinyTensors(builder, without);
                writeBytes(folder / "x.gguf", builder.bytes());
                const auto weights = openGguf(folder / "x.gguf");
                checkTeacherTensors(readGgufConfig(folder / "x.gguf"), *weights);
            },
            code, mentions};
}

Case ggufKey(const std::string& key, std::uint32_t value, ErrorCode code) {
    return ggufModel(
        key + " = " + std::to_string(value), key, [=](auto& b) { b.u32("llama." + key, value); }, code, key);
}

std::vector<Case> ggufModelCases() {
    const auto nothing = [](GgufBuilder&) {};
    std::vector<Case> cases{
        ggufKey("attention.head_count", 0, ErrorCode::Malformed),
        ggufKey("attention.head_count", 3, ErrorCode::Malformed),
        ggufKey("attention.head_count", 0xffffffffu, ErrorCode::Malformed),
        ggufKey("attention.head_count_kv", 0, ErrorCode::Malformed),
        ggufKey("block_count", 513, ErrorCode::Malformed),
        ggufKey("block_count", 0, ErrorCode::Malformed),
        ggufKey("embedding_length", 0xffffffffu, ErrorCode::Malformed),
        ggufKey("attention.key_length", 0, ErrorCode::Malformed),
        ggufKey("attention.value_length", 8, ErrorCode::Unsupported),
        ggufKey("rope.dimension_count", 2, ErrorCode::Unsupported),
        ggufKey("expert_count", 8, ErrorCode::Unsupported),
        ggufKey("attention.sliding_window", 4096, ErrorCode::Unsupported),
        ggufModel("no block_count", "block_count", nothing, ErrorCode::Malformed, "llama.block_count"),
        ggufModel("no epsilon", "attention.layer_norm_rms_epsilon", nothing, ErrorCode::Malformed, "rms_epsilon"),
        ggufModel(
            "head count of wrong type", "attention.head_count", [](auto& b) { b.text("llama.attention.head_count", "2"); },
            ErrorCode::Malformed, "llama.attention.head_count"),
        ggufModel(
            "head counts by layer", "attention.head_count",
            [](auto& b) { b.key("llama.attention.head_count", 9, array(4, 1, raw<std::uint32_t>(2))); }, ErrorCode::Unsupported,
            "differs by layer"),
        ggufModel(
            "yarn", "", [](auto& b) { b.text("llama.rope.scaling.type", "yarn"); }, ErrorCode::Unsupported, "yarn"),
        ggufModel("another architecture", "", nothing, ErrorCode::Unsupported, "gemma3", "gemma3"),
        ggufModel(
            "a part of a split model", "", [](auto& b) { b.u32("split.count", 2); }, ErrorCode::Unsupported, "split.count"),
        ggufModel(
            "more tokens than rows", "",
            [](auto& b) {
                b.texts("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f", "g"});
            },
            ErrorCode::Malformed, "tokenizer.ggml.tokens"),
        ggufModel(
            "token id out of range", "", [](auto& b) { b.u32("tokenizer.ggml.eos_token_id", 6); }, ErrorCode::Malformed,
            "eos_token_id"),
        ggufModel("no embedding", "token_embd.weight", nothing, ErrorCode::Malformed, "token_embd.weight"),
        ggufModel("a tensor missing", "blk.0.ffn_up.weight", nothing, ErrorCode::Malformed,
                  "model.layers.0.mlp.up_proj.weight"),
        ggufModel(
            "a tensor of another shape", "blk.0.ffn_up.weight",
            [](auto& b) {
                b.tensor("blk.0.ffn_up.weight", {16, 8}, 0, zeros(128));
            },
            ErrorCode::Malformed, "[8, 16]"),
        ggufModel(
            "a layer too many", "",
            [](auto& b) {
                b.tensor("blk.1.attn_q.weight", {8, 8}, 0, zeros(64));
            },
            ErrorCode::Unsupported, "blk.1.attn_q.weight"),
        ggufModel(
            "a negative layer", "",
            [](auto& b) {
                b.tensor("blk.-1.attn_q.weight", {8, 8}, 0, zeros(64));
            },
            ErrorCode::Unsupported, "blk.-1.attn_q.weight"),
        ggufModel(
            "an unknown tensor", "", [](auto& b) { b.tensor("blk.0.ssm_a", {8}, 0, zeros(8)); }, ErrorCode::Unsupported,
            "blk.0.ssm_a"),
        ggufModel(
            "QK norms in a Llama", "", [](auto& b) { b.tensor("blk.0.attn_q_norm.weight", {4}, 0, zeros(4)); },
            ErrorCode::Unsupported, "q_norm"),
        ggufModel(
            "rope_freqs of another length", "", [](auto& b) { b.tensor("rope_freqs.weight", {3}, 0, zeros(3)); },
            ErrorCode::Malformed, "rope_freqs.weight"),
        ggufModel(
            "rope_freqs of zeros", "", [](auto& b) { b.tensor("rope_freqs.weight", {2}, 0, zeros(2)); }, ErrorCode::Malformed,
            "rope_freqs.weight"),
    };
    const std::vector<std::tuple<std::uint32_t, std::string, std::int64_t>> kOther{
        {23, "IQ4_XS", 256}, {20, "IQ4_NL", 32}, {39, "MXFP4", 32}, {40, "NVFP4", 64}, {34, "TQ1_0", 256}, {28, "F64", 8}};
    for (const auto& [type, typeName, elements] : kOther)
        for (const auto& mentions : {typeName, std::string("blk.0.attn_q.bias")})
            cases.push_back(ggufModel(
                typeName + " names " + mentions, "",
                [=](auto& b) {
                    const auto& info = *findGgufType(type);
                    b.tensor("blk.0.attn_q.bias", {elements}, type,
                             std::string(static_cast<std::size_t>(elements) / info.blockElements * info.blockBytes, '\0'));
                },
                ErrorCode::Unsupported, mentions));
    return cases;
}

const std::vector<Case>& allCases() {
    static const std::vector<Case> cases = [] {
        std::vector<Case> all;
        for (const auto& part : {safetensorsCases(), folderCases(), configCases(), ggufCases(), ggufModelCases()})
            all.insert(all.end(), part.begin(), part.end());
        return all;
    }();
    return cases;
}

} // namespace

class TestIoMalformed : public QObject {
    Q_OBJECT

private slots:
    void refused_data() {
        QTest::addColumn<int>("number");
        for (std::size_t i = 0; i < allCases().size(); ++i)
            QTest::newRow(allCases()[i].name.c_str()) << static_cast<int>(i);
        QVERIFY(allCases().size() > 60);
    }

    void refused() {
        QFETCH(int, number);
        const auto& tested = allCases()[static_cast<std::size_t>(number)];
        QTemporaryDir folder;
        const auto inner = fs::path(folder.path().toStdString()) / "inner";
        fs::create_directories(inner);
        const auto result = guarded([&] { tested.open(inner); });
        QVERIFY2(!result, "it was taken");
        const auto message = QString::fromStdString(result.error().message);
        QVERIFY2(message.contains(QString::fromStdString(tested.mentions)), qPrintable(message));
        QVERIFY2(result.error().code == tested.code, qPrintable(QString(errorCodeName(result.error().code)) + ": " + message));
        QVERIFY2(message.toUtf8() == QByteArray::fromStdString(result.error().message), "the message is not UTF-8");
    }

    // The unchanged files of the tables above open: the refusals are due to the change.
    void tinyModelOpens() {
        QTemporaryDir folder;
        const auto file = fs::path(folder.path().toStdString()) / "x.gguf";
        auto builder = tinyGgufKeys();
        addTinyTensors(builder);
        writeBytes(file, builder.bytes());
        const auto result = guarded([&] { checkTeacherTensors(readGgufConfig(file), *openGguf(file)); });
        QVERIFY2(result, result ? "" : result.error().message.c_str());
        writeBytes(file.parent_path() / "config.json", tinyConfig().dump());
        const auto config = guarded([&] { return readHfConfig(file.parent_path() / "config.json"); });
        QVERIFY2(config, config ? "" : config.error().message.c_str());
        writeBytes(file.parent_path() / "one.safetensors", kShard);
        writeBytes(file.parent_path() / "model.safetensors.index.json",
                   R"({"metadata":{"total_size":8},"weight_map":{"a":"one.safetensors"}})");
        const auto shards = guarded([&] { return openSafetensorsFolder(file.parent_path()); });
        QVERIFY2(shards, shards ? "" : shards.error().message.c_str());
    }

    // The hub's cache keeps files as links to blobs/ beside snapshots/.
    void hubCacheOpens() {
        QTemporaryDir folder;
        const auto root = fs::path(folder.path().toStdString());
        writeBytes(root / "blobs/0123", kShard);
        writeBytes(root / "snapshots/abc/model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors"}})");
        fs::create_symlink("../../blobs/0123", root / "snapshots/abc/one.safetensors");
        const auto shards = guarded([&] { return openSafetensorsFolder(root / "snapshots/abc"); });
        QVERIFY2(shards, shards ? "" : shards.error().message.c_str());
    }

    void everyPrefixIsRefused() {
        QTemporaryDir folder;
        const auto file = fs::path(folder.path().toStdString()) / "x.gguf";
        auto builder = tinyGgufKeys();
        addTinyTensors(builder);
        const auto bytes = builder.bytes();
        for (std::size_t size = 0; size < bytes.size(); size += 7) {
            writeBytes(file, std::string_view(bytes).substr(0, size));
            QVERIFY2(!guarded([&] { return openGguf(file); }), qPrintable(QString::number(size)));
        }
    }

    void shrunkFileIsAnError() {
        QTemporaryDir folder;
        const auto file = fs::path(folder.path().toStdString()) / "x.safetensors";
        writeBytes(file, kShard);
        const auto source = openSafetensorsFile(file);
        fs::resize_file(file, 20);
        float values[2];
        const auto result = guarded([&] { source->read("a", DType::F32, values); });
        QVERIFY(!result);
        QCOMPARE(static_cast<int>(result.error().code), static_cast<int>(ErrorCode::Io));
        QVERIFY2(result.error().message.find("shrunk") != std::string::npos, result.error().message.c_str());
    }

    // Truncated by another thread in the midst of the copies: any outcome but a crash.
    void shrinkingFileDoesNotCrash() {
        QTemporaryDir folder;
        const auto file = fs::path(folder.path().toStdString()) / "x.safetensors";
        constexpr std::int64_t kFloats = 8 << 20;
        std::vector<float> values(kFloats);
        int failures = 0;
        for (int delay = 0; delay < 20; ++delay) {
            writeBytes(file, safetensorsBytes(R"({"a":{"dtype":"F32","shape":[64,131072],"data_offsets":[0,33554432]}})", ""));
            fs::resize_file(file, fs::file_size(file) + kFloats * 4);
            const auto source = openSafetensorsFile(file);
            std::jthread other([&] {
                std::this_thread::sleep_for(std::chrono::microseconds(200 * delay));
                fs::resize_file(file, 4096);
            });
            const auto result = guarded([&] { source->read("a", DType::F32, values.data()); });
            failures += !result && result.error().code == ErrorCode::Io;
        }
        QVERIFY(failures > 0);
    }
};

QTEST_APPLESS_MAIN(TestIoMalformed)
#include "tst_io_malformed.moc"
