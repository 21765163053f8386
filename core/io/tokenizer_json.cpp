// A Hugging Face folder's tokenizer: tokenizer.json, and from its neighbours the special tokens and the chat template.
#include "core/base/json.h"
#include "core/base/regular_file.h"
#include "core/base/result.h"
#include "core/io/model_files.h"
#include "core/io/tokenizer_parts.h"

namespace linnet::core {
namespace {

std::string textAt(const Json& object, const char* key) { // "" where there is no string of that name
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// "bos_token": "<s>" or {"content": "<s>", ...}
std::string tokenContent(const Json& value) {
    if (value.is_string())
        return value.get<std::string>();
    return value.is_object() ? textAt(value, "content") : std::string();
}

Json readIfThere(const std::filesystem::path& file) {
    if (!std::filesystem::exists(file))
        return Json::object();
    Json value = readJsonFile(file);
    if (!value.is_object())
        fail(ErrorCode::Malformed, file.string() + ": a JSON object is expected", {{"file", file.string()}});
    return value;
}

// A list of named templates is an old form; transformers takes the one called "default".
std::string templateOf(const Json& config) {
    const auto found = config.find("chat_template");
    if (found == config.end())
        return {};
    if (found->is_string())
        return found->get<std::string>();
    if (found->is_array())
        for (const Json& entry : *found)
            if (entry.is_object() && textAt(entry, "name") == "default")
                return textAt(entry, "template");
    return {};
}

class IdFinder {
public:
    explicit IdFinder(const TokenizerParts& parts) : m_parts(parts) {}
    std::optional<TokenId> operator()(const std::string& content) const {
        for (const AddedToken& token : m_parts.added)
            if (token.content == content)
                return token.id;
        return m_parts.bpe.find(content);
    }

private:
    const TokenizerParts& m_parts;
};

std::set<TokenId> endTokens(const TokenizerParts& parts, const std::map<std::string, std::string>& special,
                            const std::filesystem::path& folder) {
    std::set<TokenId> ids;
    if (const auto eos = special.find("eos_token"); eos != special.end())
        if (const auto id = IdFinder(parts)(eos->second))
            ids.insert(*id);
    const Json generation = readIfThere(folder / "generation_config.json");
    if (const auto eos = generation.find("eos_token_id"); eos != generation.end() && !eos->is_null())
        for (const Json& id : eos->is_array() ? *eos : Json::array({*eos})) {
            if (!id.is_number_integer())
                fail(ErrorCode::Malformed,
                     (folder / "generation_config.json").string() + ": eos_token_id must be a token id or an array of them",
                     {{"file", (folder / "generation_config.json").string()}, {"key", "eos_token_id"}});
            ids.insert(id.get<TokenId>());
        }
    addTurnEnds(parts.added, ids);
    return ids;
}

} // namespace

std::unique_ptr<Tokenizer> openTokenizerJson(const std::filesystem::path& folder) {
    const auto file = folder / "tokenizer.json";
    TokenizerIdentity identity;
    identity.origin = file.string();
    identity.tokenizerJson = readRegularFile(file, kMostJsonBytes);
    TokenizerParts parts = readTokenizerParts(parseLargeJson(identity.tokenizerJson, file.string()), file.string());

    const auto configFile = folder / "tokenizer_config.json";
    Json config = readIfThere(configFile);
    const Json map = readIfThere(folder / "special_tokens_map.json");
    for (const char* name : {"bos_token", "eos_token", "unk_token", "pad_token"})
        for (const Json* source : {&map, &std::as_const(config)}) // the config's word is the last
            if (const auto found = source->find(name); found != source->end())
                if (const auto content = tokenContent(*found); !content.empty())
                    identity.specialTokens[name] = content;

    const bool named = !textAt(config, "tokenizer_class").empty();
    if (!named) // else AutoTokenizer goes by the model's type, whose class may cut text in its own way
        config["tokenizer_class"] = "PreTrainedTokenizerFast";
    const auto templateFile = folder / "chat_template.jinja";
    if (std::filesystem::exists(templateFile)) {
        // whoever gets the config alone must get the template with it
        identity.chatTemplate = readRegularFile(templateFile, kMostJsonBytes);
        config["chat_template"] = identity.chatTemplate;
        identity.tokenizerConfigJson = config.dump(2) + "\n";
    } else {
        identity.chatTemplate = templateOf(config);
        identity.tokenizerConfigJson = named ? readRegularFile(configFile, kMostJsonBytes) : config.dump(2) + "\n";
    }
    identity.endOfText = endTokens(parts, identity.specialTokens, folder);
    return std::make_unique<BpeTokenizer>(std::move(parts), std::move(identity));
}

} // namespace linnet::core
