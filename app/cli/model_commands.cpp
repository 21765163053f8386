#include "app/cli/commands.h"

#include "core/base/files.h"
#include "core/convert/convert.h"
#include "core/io/safetensors_writer.h"

#include <sstream>

namespace linnet::app {
namespace {

using namespace core;

std::vector<TokenId> parseIds(const std::string& text, const std::string& option, std::int64_t vocabSize) {
    std::vector<TokenId> ids;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, ',');) {
        std::size_t used = 0;
        long long id = -1;
        try {
            id = std::stoll(part, &used);
        } catch (const std::exception&) {
        }
        if (used == 0 || part.find_first_not_of(" ", used) != part.npos)
            fail(ErrorCode::Usage, option + ": \"" + part + "\" is no token id", {{"option", option}, {"value", part}});
        if (id < 0 || id >= vocabSize)
            fail(ErrorCode::Usage, option + ": token id " + part + " is outside 0.." + std::to_string(vocabSize - 1), {{"option", option}, {"value", part}});
        ids.push_back(static_cast<TokenId>(id));
    }
    if (ids.empty())
        fail(ErrorCode::Usage, option + ": no token ids", {{"option", option}});
    return ids;
}

void info(Cli& cli, const std::string& model) {
    const auto info = orFail(readModelInfo(modelPath(model)));
    const auto& c = info.config;
    Json exports = Json::array();
    for (const auto& choice : info.exports)
        exports.push_back({{"format", choice.format}, {"available", choice.available()}, {"exact", choice.exact()}, {"fidelity", fidelityName(choice.fidelity)},
                           {"fidelity_16_bits", fidelityName(choice.in16Bits)}, {"reason", choice.reason}});
    Json convertible = Json::array();
    for (std::int64_t l = 0; l < c.layers; ++l)
        if (static_cast<std::size_t>(l) >= info.layerKinds.size() || info.layerKinds[static_cast<std::size_t>(l)] == "softmax")
            convertible.push_back(l);
    Json json{{"path", info.path.string()}, {"hash", info.hash}, {"model_type", c.modelType}, {"layers", c.layers}, {"hidden_size", c.hiddenSize}, {"heads", c.heads},
              {"kv_heads", c.kvHeads}, {"head_dim", c.headDim}, {"intermediate_size", c.intermediateSize}, {"vocab_size", c.vocabSize}, {"max_positions", c.maxPositions},
              {"parameters", info.parameters}, {"dtype", c.storedDType}, {"tied_embeddings", c.tiedEmbeddings}, {"qk_norm", c.qkNorm}, {"qkv_bias", c.qkvBias},
              {"rope", {{"type", c.rope.type}, {"theta", c.rope.theta}, {"factor", c.rope.factor}}}, {"rms_norm_eps", c.rmsNormEps},
              {"tokenizer", {{"type", info.tokenizerType}, {"vocab_size", info.tokenizerVocabSize}}}, {"layer_kinds", info.layerKinds}, {"convertible_layers", convertible},
              {"memory", {{"weight_bytes", info.weightBytes}, {"cache_bytes_per_token", info.cacheBytesPerToken}, {"state_bytes", info.stateBytes}}},
              {"exports", exports}, {"warnings", info.warnings}};
    std::ostringstream text;
    text << info.path.string() << "\n"
         << "  " << c.modelType << ", " << c.layers << " layers, hidden " << c.hiddenSize << ", " << c.heads << " query and " << c.kvHeads << " key/value heads of "
         << c.headDim << ", MLP " << c.intermediateSize << "\n"
         << "  " << info.parameters << " parameters, stored as " << c.storedDType << (c.tiedEmbeddings ? ", tied embeddings" : "") << (c.qkNorm ? ", QK-norm" : "")
         << (c.qkvBias ? ", q/k/v bias" : "") << "\n"
         << "  RoPE " << c.rope.type << ", theta " << c.rope.theta << "; context " << c.maxPositions << "\n"
         << "  tokenizer " << info.tokenizerType << ", " << info.tokenizerVocabSize << " tokens\n"
         << "  memory: weights " << byteCount(info.weightBytes) << ", cache " << byteCount(info.cacheBytesPerToken) << " a token, states " << byteCount(info.stateBytes) << "\n"
         << "  " << convertible.size() << " layers can be converted\n";
    std::vector<std::vector<std::string>> formats{{"  export", "f32", "16 bits", "what reads it, or why not"}};
    for (const auto& choice : info.exports)
        formats.push_back({"  " + choice.format, fidelityName(choice.fidelity), fidelityName(choice.in16Bits), choice.reason});
    for (const auto& line : table(formats, false))
        text << line << "\n";
    for (const auto& warning : info.warnings)
        text << "  note: " << warning << "\n";
    cli.console.result(json, text.str());
}

void logits(Cli& cli, const std::string& name, const std::string& idText, const std::string& prompt, const std::string& out) {
    if (idText.empty() == prompt.empty())
        fail(ErrorCode::Usage, "logits takes either --ids or --prompt", {{"option", "--ids"}});
    const auto model = cli.open(name);
    const auto vocab = modelInfo(*model).config.vocabSize;
    const auto ids = idText.empty() ? modelTokenizer(*model).encode(prompt, true) : parseIds(idText, "--ids", vocab);
    if (ids.empty())
        fail(ErrorCode::Usage, "--prompt: the text gives no tokens", {{"option", "--prompt"}});
    const auto values = orFail(sequenceLogits(*model, ids, cli.console.control()));
    if (const auto wrong = std::ranges::find_if(values, [](float v) { return !std::isfinite(v); }); wrong != values.end())
        fail(ErrorCode::Malformed, name + " gives logits that are not finite, first at token " + std::to_string((wrong - values.begin()) / vocab) +
                                       ": a weight is not finite, or too large for the dtype (try --dtype f32)", {{"file", name}});
    SafetensorsWriter writer(out, {{"logits", "F32", {static_cast<std::int64_t>(ids.size()), vocab}}});
    writer.write("logits", values.data(), values.size() * sizeof(float));
    writer.finish();
    std::string text;
    for (const auto id : ids)
        text += (text.empty() ? "" : ",") + std::to_string(id);
    cli.console.result({{"ids", ids}, {"out", out}, {"shape", {ids.size(), vocab}}}, text);
}

// A line of a .jsonl file that is no object with a string `text` is an error that names the line.
std::vector<std::string> jsonlTexts(const std::string& file) {
    std::vector<std::string> texts;
    std::istringstream lines(readTextFile(file));
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        if (line.find_first_not_of(" \t\r") == line.npos)
            continue;
        const std::string origin = file + ", line " + std::to_string(number);
        const Json json = parseJson(line, origin);
        if (!json.is_object() || !json.contains("text") || !json["text"].is_string())
            fail(ErrorCode::Malformed, origin + ": an object with a string under the key \"text\" was expected", {{"file", file}, {"line", std::to_string(number)}, {"key", "text"}});
        texts.push_back(json["text"].get<std::string>());
    }
    return texts;
}

std::shared_ptr<const Tokenizer> tokenizerOf(const std::string& model) {
    return openTokenizer(modelPath(model));
}

void tokenize(Cli& cli, const std::string& model, const CLI::Option* textOption, const std::string& text, const std::string& file, const std::string& decode) {
    const int given = (textOption->count() > 0) + !file.empty() + !decode.empty();
    if (given != 1)
        fail(ErrorCode::Usage, "tokenize takes one of --text, --file and --decode", {{"option", "--text"}});
    const auto tokenizer = tokenizerOf(model);
    const auto row = [&](const std::string& value) {
        const auto ids = tokenizer->encode(value, true);
        return Json{{"ids", ids}, {"text", tokenizer->decode(ids)}};
    };
    const auto idLine = [](const Json& json) {
        std::string line;
        for (const auto& id : json["ids"])
            line += (line.empty() ? "" : ",") + id.dump();
        return line;
    };
    if (!decode.empty()) {
        const auto ids = parseIds(decode, "--decode", tokenizer->vocabSize());
        const auto decoded = tokenizer->decode(ids);
        cli.console.result({{"ids", ids}, {"text", decoded}}, decoded);
    } else if (file.ends_with(".jsonl")) {
        Json rows = Json::array();
        std::string lines;
        for (const auto& value : jsonlTexts(file)) {
            rows.push_back(row(value));
            lines += idLine(rows.back()) + "\n";
        }
        cli.console.result({{"rows", rows}}, lines);
    } else {
        const Json json = row(file.empty() ? text : readTextFile(file));
        cli.console.result(json, idLine(json));
    }
}

struct GenerateArguments {
    std::string model, prompt;
    GenerateOptions options;
    bool greedy = false, chat = false;
};

void generateText(Cli& cli, const GenerateArguments& a, bool sampled) {
    if (a.greedy && sampled)
        fail(ErrorCode::Usage, "--greedy and --temperature, --top-p or --top-k exclude each other", {{"option", "--greedy"}});
    const auto model = cli.open(a.model);
    const auto& tokenizer = modelTokenizer(*model);
    const auto prompt = a.chat ? tokenizer.encode(tokenizer.applyChatTemplate({{"user", a.prompt}}, true), false) : tokenizer.encode(a.prompt, true);
    if (prompt.empty())
        fail(ErrorCode::Usage, "--prompt: the text gives no tokens", {{"option", "--prompt"}});
    GenerateOptions options = a.options;
    options.greedy = !sampled;
    options.seed = cli.options.seed;
    const bool live = !cli.options.json;
    const auto print = [&](const std::string& piece) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
    };
    const auto made = orFail(generate(*model, prompt, options, live ? std::function(print) : std::function<void(const std::string&)>(), cli.console.control()));
    if (live) {
        std::fputs("\n", stdout);
        cli.console.note(number(made.tokensPerSecond, 1) + " tokens per second");
        return;
    }
    cli.console.result({{"ids", made.ids}, {"text", made.text}, {"tokens_per_second", made.tokensPerSecond}, {"prompt_tokens", prompt.size()}, {"end_of_text", made.endOfText}}, "");
}

} // namespace

void addModelCommands(Cli& cli, CLI::App& app) {
    {
        auto model = std::make_shared<std::string>();
        auto* c = cli.add(app, "info", "architecture, sizes, tokenizer, memory, what can be exported", [&cli, model] { info(cli, *model); });
        c->add_option("MODEL", *model, "folder, .gguf file, run folder or default")->required();
        cli.addTeacher(*c);
    }
    {
        struct Arguments {
            std::string model, ids, prompt, out;
        };
        auto a = std::make_shared<Arguments>();
        auto* c = cli.add(app, "logits", "logits of one sequence as safetensors", [&cli, a] { logits(cli, a->model, a->ids, a->prompt, a->out); });
        c->add_option("MODEL", a->model)->required();
        c->add_option("--ids", a->ids, "token ids, separated by commas");
        c->add_option("--prompt", a->prompt, "text instead of ids");
        c->add_option("--out", a->out, "file to write")->required();
        cli.addTeacher(*c);
    }
    {
        struct Arguments {
            std::string model, text, file, decode;
            CLI::Option* textOption = nullptr;
        };
        auto a = std::make_shared<Arguments>();
        auto* c = cli.add(app, "tokenize", "token ids of a text, or back", [&cli, a] { tokenize(cli, a->model, a->textOption, a->text, a->file, a->decode); });
        c->add_option("MODEL", a->model)->required();
        a->textOption = c->add_option("--text", a->text);
        c->add_option("--file", a->file, "a text file, or a .jsonl file with a row each line");
        c->add_option("--decode", a->decode, "token ids, separated by commas");
        cli.addTeacher(*c);
    }
    {
        auto a = std::make_shared<GenerateArguments>();
        auto sampling = std::make_shared<std::vector<CLI::Option*>>();
        auto* c = cli.add(app, "generate", "continue a text", [&cli, a, sampling] {
            generateText(cli, *a, std::any_of(sampling->begin(), sampling->end(), [](auto* option) { return option->count() > 0; }));
        });
        c->add_option("MODEL", a->model)->required();
        c->add_option("--prompt", a->prompt)->required();
        c->add_option("--tokens", a->options.tokens, "at most so many new tokens")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))->capture_default_str();
        c->add_flag("--greedy", a->greedy, "the most likely token each time (the default)");
        sampling->push_back(c->add_option("--temperature", a->options.temperature)->check(CLI::Range(1e-3, 100.0)));
        sampling->push_back(c->add_option("--top-p", a->options.topP)->check(CLI::Range(1e-6, 1.0)));
        sampling->push_back(c->add_option("--top-k", a->options.topK)->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30)));
        c->add_flag("--chat", a->chat, "the model's chat template around the prompt");
        cli.addTeacher(*c);
    }
}

} // namespace linnet::app
