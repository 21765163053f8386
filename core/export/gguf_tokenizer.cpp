#include "core/export/gguf_tokenizer.h"

#include "core/base/json.h"
#include "core/base/result.h"
#include "core/io/bpe.h"

#include <algorithm>
#include <optional>
#include <set>

namespace linnet::core {
namespace {

enum TokenType : std::int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 }; // values of tokenizer.ggml.token_type

[[noreturn]] void refuse(const std::string& what) {
    fail(ErrorCode::Unsupported, "export gguf: " + what, {{"option", "--format"}, {"value", "gguf"}});
}

struct Vocabulary {
    std::vector<std::string> texts;
    std::vector<std::int32_t> types;

    std::optional<std::uint32_t> find(const std::string& text) const {
        const auto found = std::ranges::find(texts, text);
        return found == texts.end() ? std::nullopt : std::optional(static_cast<std::uint32_t>(found - texts.begin()));
    }
};

// Rows of the embedding that no token has get a text of their own: llama.cpp wants as many tokens as rows.
Vocabulary vocabularyOf(const nlohmann::json& tokenizer, const ModelConfig& config, std::vector<std::string>& notes) {
    Vocabulary all;
    all.texts.resize(static_cast<std::size_t>(config.vocabSize));
    all.types.assign(all.texts.size(), kUnused);
    const auto put = [&](std::size_t id, const std::string& text, std::int32_t type) {
        if (id >= all.texts.size())
            refuse("token " + std::to_string(id) + " has no row in the embedding (" + std::to_string(config.vocabSize) + " rows)");
        all.texts[id] = text;
        all.types[id] = type;
    };
    for (const auto& [text, id] : tokenizer.at("model").at("vocab").items())
        put(id.get<std::size_t>(), text, kNormal);
    std::string stripping;
    for (const auto& token : tokenizer.value("added_tokens", nlohmann::json::array())) {
        const auto text = token.at("content").get<std::string>();
        put(token.at("id").get<std::size_t>(), text, token.value("special", false) ? kControl : kUserDefined);
        if (token.value("lstrip", false) || token.value("rstrip", false) || token.value("single_word", false))
            stripping += (stripping.empty() ? "" : ", ") + text;
    }
    if (!stripping.empty())
        notes.push_back("GGUF can't say that these tokens take the white space or word limits beside them: " + stripping);
    for (std::size_t id = 0; id < all.texts.size(); ++id)
        if (all.texts[id].empty())
            all.texts[id] = "[PAD" + std::to_string(id) + "]";
    return all;
}

std::vector<std::string> mergesOf(const nlohmann::json& model) { // "a b", or in newer files ["a", "b"]
    std::vector<std::string> merges;
    for (const auto& merge : model.at("merges"))
        merges.push_back(merge.is_string() ? merge.get<std::string>() : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
    return merges;
}

// A token that its own text's merges do not lead to: with ignore_merges a word may be it, without it never is. "" where there is none.
std::string unmergedToken(const nlohmann::json& tokenizer, const std::vector<std::string>& merges) {
    TextMap<TokenId> vocabulary;
    for (const auto& [text, id] : tokenizer.at("model").at("vocab").items())
        vocabulary.emplace(text, id.get<TokenId>());
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const auto& merge : merges)
        pairs.emplace_back(merge.substr(0, merge.find(' ')), merge.substr(merge.find(' ') + 1));
    std::set<std::string> added; // found as such
    for (const auto& token : tokenizer.value("added_tokens", nlohmann::json::array()))
        added.insert(token.at("content").get<std::string>());
    const Bpe bpe(vocabulary, pairs, {}, "tokenizer.json");
    std::string first;
    for (const auto& [text, id] : vocabulary) {
        std::vector<TokenId> ids;
        bpe.encodeWord(text, ids);
        if (ids != std::vector{id} && !added.contains(text) && (first.empty() || text < first))
            first = text;
    }
    return first;
}

// llama.cpp's src/llama-vocab.cpp: of the pre-tokenisers here only llama-bpe takes a word that is a token whole; dbrx has the same words and merges.
std::string withMergesAsHere(std::string pre, const nlohmann::json& tokenizer, const std::vector<std::string>& merges) {
    const bool ignores = tokenizer.at("model").value("ignore_merges", false);
    if (ignores == (pre == "llama-bpe"))
        return pre;
    const auto token = unmergedToken(tokenizer, merges);
    if (!token.empty() && ignores)
        refuse("model.ignore_merges of tokenizer.json is true, llama.cpp's pre-tokeniser " + pre + " goes by the merges, and they don't lead to token " + token + ": it would cut text otherwise");
    return token.empty() ? pre : "dbrx";
}

// What the post-processor puts before and behind a text.
std::pair<std::optional<TokenId>, std::optional<TokenId>> surroundings(const Tokenizer& tokenizer) {
    const auto plain = tokenizer.encode("a", false), whole = tokenizer.encode("a", true);
    const auto at = std::search(whole.begin(), whole.end(), plain.begin(), plain.end());
    const auto before = at - whole.begin(), behind = std::ssize(whole) - before - std::ssize(plain);
    if (before > 1 || behind > 1)
        refuse("the tokenizer adds " + std::to_string(before) + " tokens before and " + std::to_string(behind) + " behind a text, one each has a place there");
    return {before ? std::optional(whole.front()) : std::nullopt, behind ? std::optional(whole.back()) : std::nullopt};
}

void addSpecialTokens(GgufMetadata& keys, const Tokenizer& tokenizer, const ModelConfig& config, const Vocabulary& vocabulary, std::vector<std::string>& notes) {
    const Json names = parseJson(tokenizer.tokenizerConfigJson(), "tokenizer_config.json");
    const auto named = [&](const char* name) -> std::optional<std::uint32_t> {
        const auto found = names.find(name);
        if (found == names.end() || found->is_null())
            return std::nullopt;
        return vocabulary.find(found->is_object() ? found->value("content", std::string()) : found->is_string() ? found->get<std::string>() : std::string());
    };
    const auto add = [&](const std::string& key, std::optional<std::uint32_t> id) {
        if (id)
            keys.emplace_back("tokenizer.ggml." + key, *id);
        return id;
    };
    const auto [before, behind] = surroundings(tokenizer);
    std::optional<std::uint32_t> bos = named("bos_token");
    if (!bos && config.bosToken)
        bos = static_cast<std::uint32_t>(*config.bosToken);
    add("bos_token_id", before ? std::optional(static_cast<std::uint32_t>(*before)) : bos);
    std::vector<std::uint32_t> ends; // the tokenizer's own first
    for (const auto id : {behind ? std::optional(static_cast<std::uint32_t>(*behind)) : std::nullopt, named("eos_token")})
        if (id)
            ends.push_back(*id);
    for (const auto id : config.endTokens)
        ends.push_back(static_cast<std::uint32_t>(id));
    std::vector<std::uint32_t> once;
    for (const auto id : ends)
        if (std::ranges::find(once, id) == once.end())
            once.push_back(id);
    const char* const kEnds[] = {"eos_token_id", "eot_token_id", "eom_token_id"};
    for (std::size_t i = 0; i < std::min(once.size(), std::size(kEnds)); ++i)
        add(kEnds[i], once[i]);
    std::string dropped;
    for (std::size_t i = std::size(kEnds); i < once.size(); ++i)
        dropped += (dropped.empty() ? "" : ", ") + vocabulary.texts[once[i]] + " (" + std::to_string(once[i]) + ")";
    if (!dropped.empty())
        notes.push_back("GGUF has three end tokens, this model more: it does not say that these end a text, too: " + dropped);
    add("unknown_token_id", named("unk_token"));
    add("padding_token_id", named("pad_token"));
    keys.emplace_back("tokenizer.ggml.add_bos_token", before.has_value()); // always: llama.cpp's default differs by pre-tokeniser
    keys.emplace_back("tokenizer.ggml.add_eos_token", behind.has_value());
}

} // namespace

GgufMetadata ggufTokenizer(const Tokenizer& tokenizer, const ModelConfig& config, std::vector<std::string>& notes) {
    std::string pre = tokenizer.type(); // "bpe (qwen2)"
    pre = pre.substr(std::min(pre.size(), std::string("bpe (").size()), pre.size() - std::min(pre.size(), std::string("bpe ()").size()));
    if (pre != "qwen2" && pre != "llama-bpe" && pre != "smollm" && pre != "gpt-2")
        refuse("the tokenizer's pre-tokeniser has no name in GGUF that we know (qwen2, llama-bpe, smollm and gpt-2 have)");
    const auto json = parseLargeJson(tokenizer.tokenizerJson(), "tokenizer.json");
    auto merges = mergesOf(json.at("model"));
    pre = withMergesAsHere(pre, json, merges);
    auto vocabulary = vocabularyOf(json, config, notes);
    GgufMetadata keys{{"tokenizer.ggml.model", std::string("gpt2")}, {"tokenizer.ggml.pre", pre}};
    addSpecialTokens(keys, tokenizer, config, vocabulary, notes);
    keys.emplace_back("tokenizer.ggml.tokens", std::move(vocabulary.texts));
    keys.emplace_back("tokenizer.ggml.token_type", std::move(vocabulary.types));
    keys.emplace_back("tokenizer.ggml.merges", std::move(merges));
    if (const auto chat = tokenizer.chatTemplate(); !chat.empty())
        keys.emplace_back("tokenizer.chat_template", chat);
    if (json.contains("normalizer") && !json["normalizer"].is_null())
        notes.push_back("llama.cpp does not normalise text: where a text is not in the Unicode form that the tokenizer brings it to, its tokens differ there");
    return keys;
}

} // namespace linnet::core
