// A GGUF file's tokenizer: its metadata rewritten as a tokenizer.json, which is then read like any other, so that what an
// export writes is what was used. Keys: ggml's docs/gguf.md, "Tokenizer".
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/io/gguf_reader.h"
#include "core/io/model_files.h"
#include "core/io/tokenizer_parts.h"

namespace linnet::core {
namespace {

using nlohmann::json;

constexpr std::int64_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4; // values of tokenizer.ggml.token_type

struct Metadata {
    const GgufFile& file;
    std::string origin;
    const std::vector<std::string>& tokens;

    [[noreturn]] void malformed(const std::string& key, const std::string& what) const {
        fail(ErrorCode::Malformed, origin + ": tokenizer.ggml." + key + ": " + what,
             {{"file", origin}, {"key", "tokenizer.ggml." + key}});
    }
    std::optional<TokenId> id(const std::string& key) const {
        const auto* value = file.find<std::int64_t>("tokenizer.ggml." + key);
        if (!value)
            return std::nullopt;
        if (*value < 0 || *value >= static_cast<std::int64_t>(tokens.size()))
            malformed(key, "id " + std::to_string(*value) + " is out of range: the file has " + std::to_string(tokens.size()) +
                               " tokens");
        return static_cast<TokenId>(*value);
    }
    const std::string& text(TokenId token) const { return tokens[static_cast<std::size_t>(token)]; }
};

struct Preset { // what a value of tokenizer.ggml.pre stands for
    json normalizer, preTokenizer;
    bool ignoreMerges = false;
    bool addBos = false; // unless tokenizer.ggml.add_bos_token says otherwise
};

json byteLevel(bool useRegex) {
    return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", useRegex}};
}

json sequence(json first, json second) {
    return {{"type", "Sequence"}, {"pretokenizers", json::array({std::move(first), std::move(second)})}};
}

json split(const char* pattern) {
    return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Preset presetOf(const std::string& pre, const std::string& origin) {
    if (pre == "qwen2")
        return {{{"type", "NFC"}}, sequence(split(kQwen2Pattern), byteLevel(false)), false, false};
    if (pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3")
        return {nullptr, sequence(split(kLlama3Pattern), byteLevel(false)), true, true};
    if (pre == "dbrx" || pre == "smaug-bpe") // Llama 3's words, but the merges count
        return {nullptr, sequence(split(kLlama3Pattern), byteLevel(false)), false, false};
    if (pre == "smollm")
        return {nullptr, sequence({{"type", "Digits"}, {"individual_digits", true}}, byteLevel(true)), false, false};
    if (pre == "gpt-2" || pre == "default") // files without a name come from before the names: GPT-2's
        return {nullptr, byteLevel(true), false, false};
    fail(ErrorCode::Unsupported,
         origin + ": tokenizer.ggml.pre is \"" + pre +
             "\"; supported are qwen2, llama-bpe (llama3, llama-v3), dbrx (smaug-bpe), smollm, gpt-2 and default",
         {{"file", origin}, {"key", "tokenizer.ggml.pre"}, {"found", pre}});
}

json vocabularyOf(const Metadata& metadata) {
    json vocabulary = json::object();
    for (std::size_t id = 0; id < metadata.tokens.size(); ++id) {
        const auto& token = metadata.tokens[id];
        if (token.empty() || replaceInvalidUtf8(token) != token)
            metadata.malformed("tokens", "token " + std::to_string(id) + (token.empty() ? " is empty" : " is not valid UTF-8"));
        if (!vocabulary.emplace(token, id).second)
            metadata.malformed("tokens", "\"" + token + "\" comes twice, as token " + vocabulary[token].dump() + " and " +
                                             std::to_string(id));
    }
    return vocabulary;
}

json addedTokensOf(const Metadata& metadata) {
    json added = json::array();
    const auto* types = metadata.file.find<std::vector<std::int64_t>>("tokenizer.ggml.token_type");
    if (!types)
        return added;
    if (types->size() != metadata.tokens.size())
        metadata.malformed("token_type", "one entry for each of the " + std::to_string(metadata.tokens.size()) +
                                             " tokens is expected, found " + std::to_string(types->size()));
    for (std::size_t id = 0; id < types->size(); ++id) {
        const std::int64_t type = (*types)[id];
        if (type == kUnknown || type == kControl || type == kUserDefined)
            added.push_back({{"id", id},
                             {"content", metadata.tokens[id]},
                             {"single_word", false},
                             {"lstrip", false},
                             {"rstrip", false},
                             {"normalized", false},
                             {"special", type != kUserDefined}});
        else if (type < kNormal || type > 6)
            metadata.malformed("token_type", "token " + std::to_string(id) + " has the unknown type " + std::to_string(type));
    }
    return added;
}

// BOS before and EOS behind the text, where the file asks for them.
json postProcessorOf(const Metadata& metadata, bool addBosByDefault) {
    json single = json::array(), special = json::object();
    const auto add = [&](const std::string& flag, const std::string& key, bool fallback) {
        const bool* asked = metadata.file.find<bool>("tokenizer.ggml." + flag);
        if (!(asked ? *asked : fallback))
            return;
        const auto id = metadata.id(key);
        if (!id && !asked)
            return;
        if (!id)
            metadata.malformed(flag, "is true, but there is no tokenizer.ggml." + key);
        const std::string& text = metadata.text(*id);
        single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
        special[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
    };
    add("add_bos_token", "bos_token_id", addBosByDefault);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    add("add_eos_token", "eos_token_id", false);
    if (single.size() == 1)
        return nullptr;
    json pair = single;
    for (const json& piece : single) {
        pair.push_back(piece);
        auto& body = pair.back().begin().value();
        body["type_id"] = 1;
        if (pair.back().contains("Sequence"))
            body["id"] = "B";
    }
    return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

json tokenizerOf(const Metadata& metadata, const Preset& preset) {
    json model = {{"type", "BPE"},
                  {"dropout", nullptr},
                  {"unk_token", nullptr},
                  {"continuing_subword_prefix", nullptr},
                  {"end_of_word_suffix", nullptr},
                  {"fuse_unk", false},
                  {"byte_fallback", false},
                  {"ignore_merges", preset.ignoreMerges},
                  {"vocab", vocabularyOf(metadata)},
                  {"merges", metadata.file.require<std::vector<std::string>>("tokenizer.ggml.merges")}};
    json decoder = byteLevel(true);
    decoder["add_prefix_space"] = true;
    decoder["trim_offsets"] = true;
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", addedTokensOf(metadata)},
            {"normalizer", preset.normalizer},
            {"pre_tokenizer", preset.preTokenizer},
            {"post_processor", postProcessorOf(metadata, preset.addBos)},
            {"decoder", std::move(decoder)},
            {"model", std::move(model)}};
}

std::string configText(const TokenizerIdentity& identity) {
    Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
    for (const auto& [name, token] : identity.specialTokens)
        config[name] = token;
    if (!identity.chatTemplate.empty())
        config["chat_template"] = identity.chatTemplate;
    return config.dump(2) + "\n";
}

} // namespace

std::unique_ptr<Tokenizer> openGgufTokenizer(const std::filesystem::path& gguf) {
    const GgufFile file(gguf);
    const std::string origin = gguf.string();
    const auto& model = file.require<std::string>("tokenizer.ggml.model");
    if (model != "gpt2")
        fail(ErrorCode::Unsupported,
             origin + ": tokenizer.ggml.model is \"" + model + "\"; only byte-level BPE (\"gpt2\") is supported",
             {{"file", origin}, {"key", "tokenizer.ggml.model"}, {"expected", "gpt2"}, {"found", model}});
    const Metadata metadata{file, origin, file.require<std::vector<std::string>>("tokenizer.ggml.tokens")};
    const auto* pre = file.find<std::string>("tokenizer.ggml.pre");
    const json tokenizer = tokenizerOf(metadata, presetOf(pre ? *pre : "default", origin));

    TokenizerIdentity identity;
    identity.origin = origin;
    TokenizerParts parts = readTokenizerParts(tokenizer, origin);
    identity.tokenizerJson = tokenizer.dump() + "\n";
    if (const auto* source = file.find<std::string>("tokenizer.chat_template"))
        identity.chatTemplate = replaceInvalidUtf8(*source);
    constexpr std::pair<const char*, const char*> kSpecial[] = {{"bos_token", "bos_token_id"},
                                                                {"eos_token", "eos_token_id"},
                                                                {"unk_token", "unknown_token_id"},
                                                                {"pad_token", "padding_token_id"}};
    for (const auto& [name, key] : kSpecial)
        if (const auto id = metadata.id(key))
            identity.specialTokens[name] = metadata.text(*id);
    for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"})
        if (const auto id = metadata.id(key))
            identity.endOfText.insert(*id);
    addTurnEnds(parts.added, identity.endOfText);
    identity.tokenizerConfigJson = configText(identity);
    return std::make_unique<BpeTokenizer>(std::move(parts), std::move(identity));
}

} // namespace linnet::core
