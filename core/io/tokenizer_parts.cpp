#include "core/io/tokenizer_parts.h"

#include "core/base/result.h"

#include <algorithm>

namespace linnet::core {
namespace {

using nlohmann::json;

// One object of the file, with its path for messages ("model", "pre_tokenizer.pretokenizers[1]").
struct Section {
    const json& value;
    std::string path;
    const std::string& origin;

    [[noreturn]] void malformed(const std::string& key, const std::string& expected) const {
        const std::string name = path.empty() ? key : key.empty() ? path : path + "." + key;
        fail(ErrorCode::Malformed, origin + ": " + name + " must be " + expected, {{"file", origin}, {"key", name}});
    }
    [[noreturn]] void unsupported(const std::string& what) const {
        fail(ErrorCode::Unsupported, origin + ": " + path + ": " + what + " is not supported",
             {{"file", origin}, {"key", path}});
    }
    const json* find(const std::string& key) const { // null counts as absent
        const auto found = value.find(key);
        return found == value.end() || found->is_null() ? nullptr : &*found;
    }
    bool flag(const std::string& key, bool fallback) const {
        const json* found = find(key);
        if (found && !found->is_boolean())
            malformed(key, "true or false");
        return found ? found->get<bool>() : fallback;
    }
    std::string text(const std::string& key) const {
        const json* found = find(key);
        if (!found || !found->is_string())
            malformed(key, "a string");
        return found->get<std::string>();
    }
    Section object(const std::string& key) const {
        const json* found = find(key);
        if (!found || !found->is_object())
            malformed(key, "an object");
        return {*found, path.empty() ? key : path + "." + key, origin};
    }
    std::vector<Section> objects(const std::string& key) const {
        const json* found = find(key);
        if (!found || !found->is_array())
            malformed(key, "an array of objects");
        std::vector<Section> sections;
        for (std::size_t i = 0; i < found->size(); ++i) {
            sections.push_back({(*found)[i], (path.empty() ? key : path + "." + key) + "[" + std::to_string(i) + "]", origin});
            if (!sections.back().value.is_object())
                sections.back().malformed("", "an object");
        }
        return sections;
    }
    TokenId id(const std::string& key) const { return asId(find(key), key); }
    TokenId asId(const json* number, const std::string& key) const {
        if (!number || !number->is_number_integer() || *number < 0 || *number > 0x7FFFFFFF)
            malformed(key, "a token id (a whole number from 0 to 2147483647)");
        return number->get<TokenId>();
    }
};

void readNormalizer(const Section& section, std::vector<NormalForm>& forms) {
    const std::string type = section.text("type");
    if (type == "Sequence")
        for (const Section& part : section.objects("normalizers"))
            readNormalizer(part, forms);
    else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD")
        forms.push_back(type == "NFC"    ? NormalForm::C
                        : type == "NFD"  ? NormalForm::D
                        : type == "NFKC" ? NormalForm::KC
                                         : NormalForm::KD);
    else
        section.unsupported("normalizer \"" + type + "\"");
}

SplitBehavior readBehavior(const Section& section) {
    const std::string name = section.text("behavior");
    constexpr std::pair<const char*, SplitBehavior> kNames[] = {
        {"Isolated", SplitBehavior::Isolated},
        {"Removed", SplitBehavior::Removed},
        {"MergedWithPrevious", SplitBehavior::MergedWithPrevious},
        {"MergedWithNext", SplitBehavior::MergedWithNext},
        {"Contiguous", SplitBehavior::Contiguous},
    };
    for (const auto& [known, behavior] : kNames)
        if (name == known)
            return behavior;
    section.unsupported("split behavior \"" + name + "\"");
}

SplitStep readSplit(const Section& section) {
    const Section pattern = section.object("pattern");
    const std::string source =
        pattern.find("Regex") ? pattern.text("Regex") : Regex::escaped(pattern.text("String")); // the one or the other
    return {Regex(source, section.origin), readBehavior(section), section.flag("invert", false)};
}

// Steps in order, and in `signature` what tells the known pre-tokenisers apart.
void readPretokenizer(const Section& section, std::vector<Pretokenizer::Step>& steps, std::string& signature) {
    const std::string type = section.text("type");
    if (type == "Sequence") {
        for (const Section& part : section.objects("pretokenizers"))
            readPretokenizer(part, steps, signature);
    } else if (type == "Split") {
        steps.emplace_back(readSplit(section));
        const json& pattern = *section.find("pattern");
        signature += "split " + section.text("behavior") + (section.flag("invert", false) ? " inverted " : " ") +
                     (pattern.contains("Regex") ? pattern["Regex"].get<std::string>() : "(literal)") + "; ";
    } else if (type == "Digits") {
        const bool individual = section.flag("individual_digits", false);
        const auto behavior = individual ? SplitBehavior::Isolated : SplitBehavior::Contiguous;
        steps.emplace_back(SplitStep{Regex("\\p{N}", section.origin), behavior, false});
        signature += individual ? "digits; " : "numbers; ";
    } else if (type == "ByteLevel") {
        ByteLevelStep step;
        step.addPrefixSpace = section.flag("add_prefix_space", true);
        const bool useRegex = section.flag("use_regex", true);
        if (useRegex)
            step.regex.emplace_back(kGpt2Pattern, section.origin);
        signature += std::string("bytes") + (useRegex ? " with pattern" : "");
        signature += step.addPrefixSpace ? " after a space; " : "; ";
        steps.emplace_back(std::move(step));
    } else {
        section.unsupported("pre-tokenizer \"" + type + "\"");
    }
}

std::string kindOf(const std::string& signature) {
    if (signature == std::string("split Isolated ") + kQwen2Pattern + "; bytes; ")
        return "qwen2";
    if (signature == std::string("split Isolated ") + kLlama3Pattern + "; bytes; ")
        return "llama-bpe";
    if (signature == "digits; bytes with pattern; ")
        return "smollm";
    return signature == "bytes with pattern; " ? "gpt-2" : "custom";
}

// Finds what the post-processor puts before and behind the text; byte-level ones only move offsets.
void readPostProcessor(const Section& section, TokenizerParts& parts) {
    const std::string type = section.text("type");
    if (type == "Sequence") {
        for (const Section& part : section.objects("processors"))
            readPostProcessor(part, parts);
        return;
    }
    if (type == "ByteLevel")
        return;
    if (type != "TemplateProcessing")
        section.unsupported("post-processor \"" + type + "\"");
    std::vector<TokenId> before, behind;
    bool seenText = false;
    for (const Section& piece : section.objects("single")) {
        if (piece.find("Sequence")) {
            if (std::exchange(seenText, true))
                piece.unsupported("a template that repeats the text");
            continue;
        }
        const std::string name = piece.object("SpecialToken").text("id");
        const Section token = section.object("special_tokens").object(name);
        const json* ids = token.find("ids");
        if (!ids || !ids->is_array())
            token.malformed("ids", "an array of token ids");
        for (const json& id : *ids)
            (seenText ? behind : before).push_back(token.asId(&id, "ids"));
    }
    if (!seenText)
        section.malformed("single", "a template that contains the text (a \"Sequence\")");
    parts.prefix.insert(parts.prefix.begin(), before.begin(), before.end());
    parts.suffix.insert(parts.suffix.end(), behind.begin(), behind.end());
}

void checkDecoder(const Section& section) { // must turn byte characters into text and do nothing else
    const std::string type = section.text("type");
    if (type == "Sequence")
        for (const Section& part : section.objects("decoders"))
            checkDecoder(part);
    else if (type != "ByteLevel" && type != "Fuse")
        section.unsupported("decoder \"" + type + "\"");
}

std::vector<std::pair<std::string, std::string>> readMerges(const Section& model) {
    const json* merges = model.find("merges");
    if (!merges || !merges->is_array())
        model.malformed("merges", "an array");
    std::vector<std::pair<std::string, std::string>> pairs;
    pairs.reserve(merges->size());
    for (const json& merge : *merges) {
        const std::string key = "merges[" + std::to_string(pairs.size()) + "]";
        if (merge.is_string()) {
            const auto& text = merge.get_ref<const std::string&>();
            const auto space = text.find(' ');
            if (space == text.npos || text.find(' ', space + 1) != text.npos)
                model.malformed(key, "two tokens with one space between, found \"" + text + "\"");
            pairs.emplace_back(text.substr(0, space), text.substr(space + 1));
        } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
            pairs.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
        } else {
            model.malformed(key, "\"a b\" or [\"a\", \"b\"], found " + merge.dump());
        }
    }
    return pairs;
}

Bpe readModel(const Section& model) {
    if (const json* type = model.find("type"); type && *type != "BPE")
        model.unsupported("model " + type->dump());
    if (const json* dropout = model.find("dropout"); dropout && *dropout != 0.0)
        model.unsupported("dropout " + dropout->dump());
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
        if (const json* affix = model.find(key); affix && *affix != "")
            model.unsupported(std::string(key) + " " + affix->dump());
    if (model.flag("byte_fallback", false))
        model.unsupported("byte_fallback");
    BpeOptions options;
    if (model.find("unk_token"))
        options.unknownToken = model.text("unk_token");
    options.fuseUnknown = model.flag("fuse_unk", false);
    options.ignoreMerges = model.flag("ignore_merges", false);
    const Section vocabulary = model.object("vocab");
    TextMap<TokenId> ids;
    ids.reserve(vocabulary.value.size());
    for (const auto& [token, id] : vocabulary.value.items())
        ids.emplace(token, vocabulary.asId(&id, token));
    return Bpe(std::move(ids), readMerges(model), options, model.origin);
}

std::vector<AddedToken> readAddedTokens(const Section& root) {
    std::vector<AddedToken> tokens;
    if (!root.find("added_tokens"))
        return tokens;
    for (const Section& entry : root.objects("added_tokens")) {
        AddedToken token;
        token.id = entry.id("id");
        token.content = entry.text("content");
        token.special = entry.flag("special", false);
        token.singleWord = entry.flag("single_word", false);
        token.leftStrip = entry.flag("lstrip", false);
        token.rightStrip = entry.flag("rstrip", false);
        token.normalized = entry.flag("normalized", !token.special);
        tokens.push_back(std::move(token));
    }
    return tokens;
}

} // namespace

TokenizerParts readTokenizerParts(const json& tokenizer, const std::string& origin) {
    if (!tokenizer.is_object())
        fail(ErrorCode::Malformed, origin + ": a JSON object is expected", {{"file", origin}});
    const Section root{tokenizer, "", origin};
    std::vector<NormalForm> forms;
    if (root.find("normalizer"))
        readNormalizer(root.object("normalizer"), forms);
    std::vector<Pretokenizer::Step> steps;
    std::string signature;
    readPretokenizer(root.object("pre_tokenizer"), steps, signature);
    const auto byteLevel = [](const auto& step) { return std::holds_alternative<ByteLevelStep>(step); };
    if (std::count_if(steps.begin(), steps.end(), byteLevel) != 1 || !byteLevel(steps.back()))
        fail(ErrorCode::Unsupported,
             origin + ": pre_tokenizer: only byte-level BPE is supported: one ByteLevel step, at the end, is expected",
             {{"file", origin}, {"key", "pre_tokenizer"}});
    checkDecoder(root.object("decoder"));
    TokenizerParts parts{
        kindOf(signature), std::move(forms), std::move(steps), readModel(root.object("model")), readAddedTokens(root), {}, {}};
    if (root.find("post_processor"))
        readPostProcessor(root.object("post_processor"), parts);
    return parts;
}

void addTurnEnds(const std::vector<AddedToken>& tokens, std::set<TokenId>& endOfText) {
    const std::set<std::string> ends = {"<|im_end|>", "<|eot_id|>", "<|endoftext|>"};
    for (const AddedToken& token : tokens)
        if (token.special && ends.contains(token.content))
            endOfText.insert(token.id);
}

} // namespace linnet::core
