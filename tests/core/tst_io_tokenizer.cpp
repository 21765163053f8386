// Tokenizers against Hugging Face's `tokenizers` and `transformers`; what is refused.
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/io/model_files.h"
#include "core/io/unicode_text.h"

#include <QtTest>

#include <functional>

using namespace linnet::core;
using nlohmann::json;

class TokenizerTest : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void sameIds_data();
    void sameIds();
    void identity();
    void teacher();
    void generatedFiles_data();
    void generatedFiles();
    void longWords();
    void idsOutOfRange();
    void lossyUtf8();
    void refused_data();
    void refused();
    void refusedGguf_data();
    void refusedGguf();

private:
    bool runScript(const QStringList& arguments) const;
    std::string path(const QString& name) const { return m_folder.filePath(name).toStdString(); }
    std::unique_ptr<Tokenizer> open(const QString& name) const {
        return name.endsWith("_gguf") ? openGgufTokenizer(path(name) + "/model.gguf") : openTokenizerJson(path(name));
    }
    QTemporaryDir m_folder;
    QString m_python = qEnvironmentVariable("LINNET_ORACLE_PYTHON");
    QString m_text = qEnvironmentVariable("LINNET_TEXT");
};

namespace {

std::string bytesOf(const json& item) {
    return QByteArray::fromHex(QByteArray::fromStdString(item["hex"].get<std::string>())).toStdString();
}

// Compares every case and says which text differs.
void compareCases(const Tokenizer& tokenizer, const json& cases) {
    int failed = 0;
    for (const json& item : cases["cases"]) {
        const std::string text = bytesOf(item);
        const auto ids = tokenizer.encode(text, false);
        const bool same = json(ids) == item["ids"] && json(tokenizer.encode(text, true)) == item["with_special"] &&
                          tokenizer.decode(ids) == item["decoded"].get<std::string>() &&
                          (!item.contains("auto") || json(ids) == item["auto"]);
        if (same || ++failed > 5)
            continue;
        qWarning() << QByteArray::fromStdString(text) << "\nexpected" << item.dump().c_str() << "\nfound"
                   << json(ids).dump().c_str() << tokenizer.decode(ids).c_str();
    }
    QCOMPARE(failed, 0);
    for (const json& item : cases["pieces"])
        QCOMPARE(tokenizer.decode(item["ids"].get<std::vector<TokenId>>()), item["decoded"].get<std::string>());
    QVERIFY(cases["cases"].size() >= 500);
    QCOMPARE(tokenizer.vocabSize(), cases["size"].get<std::int64_t>());
}

} // namespace

bool TokenizerTest::runScript(const QStringList& arguments) const {
    QProcess process;
    process.setProcessChannelMode(QProcess::ForwardedErrorChannel);
    process.start(m_python,
                  QStringList{qEnvironmentVariable("LINNET_SOURCE") + "/tests/support/make_tokenizers.py"} + arguments);
    return process.waitForFinished(300000) && process.exitCode() == 0;
}

void TokenizerTest::initTestCase() {
    if (m_python.isEmpty() || m_text.isEmpty())
        QSKIP("LINNET_ORACLE_PYTHON or LINNET_TEXT is not set: no tokenizers to compare with");
    QVERIFY(runScript({"train", m_folder.path(), m_text}));
}

void TokenizerTest::sameIds_data() {
    QTest::addColumn<QString>("type");
    QTest::newRow("qwen2") << "bpe (qwen2)";
    QTest::newRow("llama3") << "bpe (llama-bpe)";
    QTest::newRow("smollm") << "bpe (smollm)";
    QTest::newRow("gpt2") << "bpe (gpt-2)";
    for (const char* name : {"prefix_space", "numbers", "removed", "previous", "next", "contiguous", "inverted", "literal"})
        QTest::newRow(name) << "bpe (custom)";
    for (const char* name : {"unknown", "unknown_each", "lacking"})
        QTest::newRow(name) << "bpe (qwen2)";
    QTest::newRow("qwen2_gguf") << "bpe (qwen2)";
    QTest::newRow("llama3_gguf") << "bpe (llama-bpe)";
    QTest::newRow("smollm_gguf") << "bpe (smollm)";
    QTest::newRow("gpt2_gguf") << "bpe (gpt-2)";
}

void TokenizerTest::sameIds() {
    QFETCH(QString, type);
    const QString name = QTest::currentDataTag();
    const auto tokenizer = open(name);
    compareCases(*tokenizer, parseLargeJson(readTextFile(path(name) + "/cases.json"), "cases"));
    QCOMPARE(QString::fromStdString(tokenizer->type()), type);
}

void TokenizerTest::identity() {
    const auto folder = open("qwen2"), gguf = open("qwen2_gguf");
    QCOMPARE(folder->tokenizerJson(), readTextFile(path("qwen2/tokenizer.json")));
    QCOMPARE(folder->tokenizerConfigJson(), readTextFile(path("qwen2/tokenizer_config.json")));
    QCOMPARE(folder->chatTemplate(), std::string("{{ bos_token }}"));
    QCOMPARE(folder->applyChatTemplate({{"user", "hello"}}, true), std::string("<|im_start|>"));
    QCOMPARE(gguf->applyChatTemplate({{"user", "hello"}}, true), std::string("<|im_start|>hello"));
    const auto ends = [](const Tokenizer& tokenizer) {
        QStringList found;
        for (TokenId id = 0; id < tokenizer.vocabSize(); ++id)
            if (tokenizer.isEndOfText(id))
                found << QString::fromStdString(tokenizer.tokenText(id));
        return found.join(' ');
    };
    // token 5 by generation_config.json, <r> as eos_token, the others by their names; in the GGUF <|end|> is its eot token
    const QString fifth = QString::fromStdString(folder->tokenText(5));
    QCOMPARE(ends(*folder), fifth + " <|endoftext|> <|im_end|> <r>");
    QCOMPARE(ends(*gguf), QString("<|endoftext|> <|im_end|> <|end|> <r>"));

    // a template in a file of its own travels in the configuration
    writeFileAtomically(path("qwen2/chat_template.jinja"), "{{ eos_token }}\n");
    const auto withFile = open("qwen2");
    QCOMPARE(withFile->applyChatTemplate({}, false), std::string("<r>"));
    QCOMPARE(parseJson(withFile->tokenizerConfigJson(), "config")["chat_template"].get<std::string>(),
             withFile->chatTemplate());
    QVERIFY(QFile::remove(m_folder.filePath("qwen2/chat_template.jinja")));
}

void TokenizerTest::teacher() {
    const QString file = qEnvironmentVariable("LINNET_TEACHER");
    if (file.isEmpty())
        QSKIP("LINNET_TEACHER is not set: no real teacher to compare with");
    QVERIFY(QDir(m_folder.path()).mkdir("teacher"));
    QVERIFY(runScript({"teacher", m_folder.filePath("teacher"), file, m_text}));
    const auto tokenizer = openGgufTokenizer(file.toStdString());
    const json cases = parseLargeJson(readTextFile(path("teacher/cases.json")), "cases");
    compareCases(*tokenizer, cases);
    QCOMPARE(QString::fromStdString(tokenizer->type()), QString("bpe (smollm)"));
    const std::string text = readTextFile(m_text.toStdString());
    const auto ids = tokenizer->encode(text, true);
    QVERIFY(json(ids) == cases["text_ids"]); // a whole book
    QCOMPARE(tokenizer->decode(ids), replaceInvalidUtf8(text));
    QVERIFY(tokenizer->isEndOfText(2) && !tokenizer->isEndOfText(3));
}

void TokenizerTest::generatedFiles_data() {
    QTest::addColumn<QString>("name");
    for (const char* name : {"qwen2_gguf", "llama3_gguf", "smollm_gguf", "gpt2_gguf"})
        QTest::newRow(name) << name;
}

// AutoTokenizer must read what is made from GGUF metadata as the same tokenizer.
void TokenizerTest::generatedFiles() {
    QFETCH(QString, name);
    const auto tokenizer = open(name);
    writeFileAtomically(path(name + "/tokenizer.json"), tokenizer->tokenizerJson());
    writeFileAtomically(path(name + "/tokenizer_config.json"), tokenizer->tokenizerConfigJson());
    QVERIFY(runScript({"reload", m_folder.filePath(name)}));
    const json cases = parseLargeJson(readTextFile(path(name + "/cases.json")), "cases")["cases"];
    const json reloaded = parseLargeJson(readTextFile(path(name + "/reloaded.json")), "reloaded");
    for (std::size_t i = 0; i < cases.size(); ++i)
        QVERIFY2(reloaded["ids"][i] == cases[i]["with_special"], cases[i].dump().c_str());
    QCOMPARE(tokenizer->tokenText(reloaded["bos"].get<TokenId>()), std::string("<|im_start|>"));
    QCOMPARE(tokenizer->tokenText(reloaded["eos"].get<TokenId>()), std::string("<r>"));
    QCOMPARE(tokenizer->tokenText(reloaded["pad"].get<TokenId>()), std::string("<pad>"));
    QCOMPARE(reloaded["chat_template"].get<std::string>(), tokenizer->chatTemplate());
    const auto again = openTokenizerJson(path(name)); // and so must we
    for (const json& item : cases)
        QVERIFY(json(again->encode(bytesOf(item), true)) == item["with_special"]);
    QCOMPARE(again->type(), tokenizer->type());
}

void TokenizerTest::longWords() { // a megabyte without a place to cut: a quadratic merge would take hours
    const auto tokenizer = open("qwen2");
    std::string word;
    for (unsigned i = 0; word.size() < 1'000'000; ++i)
        word += static_cast<char>('a' + (i * i + i / 7) % 26);
    for (const std::string& text : {word, std::string(300'000, ' '), std::string(300'000, '\n'), std::string(300'000, '=')})
        QCOMPARE(tokenizer->decode(tokenizer->encode(text, false)), text);
}

void TokenizerTest::idsOutOfRange() {
    const auto tokenizer = open("gpt2");
    for (const TokenId id : {-1, static_cast<TokenId>(tokenizer->vocabSize())}) {
        const auto text = guarded([&] { return tokenizer->decode({0, id}); });
        QVERIFY(!text);
        QCOMPARE(text.error().context.at("id"), std::to_string(id));
        QVERIFY(text.error().message.find("token id " + std::to_string(id) + " is out of range") != std::string::npos);
    }
}

void TokenizerTest::lossyUtf8() { // examples of the Unicode standard, section 3.9, tables 3-8 to 3-11
    const std::string r = "\xEF\xBF\xBD";
    QCOMPARE(replaceInvalidUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
    QCOMPARE(replaceInvalidUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
    QCOMPARE(replaceInvalidUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
    QCOMPARE(replaceInvalidUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

using Change = std::function<void(json&)>;
Q_DECLARE_METATYPE(Change)

void TokenizerTest::refused_data() {
    QTest::addColumn<Change>("change");
    QTest::addColumn<bool>("unsupported"); // else malformed
    QTest::addColumn<QString>("names");
    const auto row = [](const char* name, bool unsupported, const char* names, Change change) {
        QTest::newRow(name) << change << unsupported << names;
    };
    row("normalizer", true, "normalizer \"Lowercase\"", [](json& j) { j["normalizer"] = {{"type", "Lowercase"}}; });
    row("pre-tokenizer", true, "pre-tokenizer \"Metaspace\"",
        [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["type"] = "Metaspace"; });
    row("no bytes", true, "only byte-level BPE", [](json& j) { j["pre_tokenizer"]["pretokenizers"].erase(1); });
    row("behavior", true, "split behavior \"Odd\"",
        [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Odd"; });
    row("word class", true, "uses \\w", [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+"; });
    row("pattern", true, "does not compile",
        [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; });
    row("post-processor", true, "post-processor \"BertProcessing\"", [](json& j) {
        j["post_processor"] = {{"type", "BertProcessing"}};
    });
    row("decoder", true, "decoder \"WordPiece\"", [](json& j) { j["decoder"] = {{"type", "WordPiece"}}; });
    row("model", true, "model \"Unigram\"", [](json& j) { j["model"]["type"] = "Unigram"; });
    row("dropout", true, "dropout 0.1", [](json& j) { j["model"]["dropout"] = 0.1; });
    row("byte fallback", true, "byte_fallback", [](json& j) { j["model"]["byte_fallback"] = true; });
    row("prefix", true, "continuing_subword_prefix \"##\"", [](json& j) { j["model"]["continuing_subword_prefix"] = "##"; });
    row("suffix", true, "end_of_word_suffix", [](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; });
    row("unknown token", false, "the unknown token \"<?>\"", [](json& j) { j["model"]["unk_token"] = "<?>"; });
    row("no decoder", false, "decoder must be an object", [](json& j) { j["decoder"] = nullptr; });
    row("merge of strangers", false, "names \"qqqq\"", [](json& j) { j["model"]["merges"].push_back("qqqq a"); });
    row("merge into nothing", false, "names \"zqzq\"", [](json& j) {
        j["model"]["vocab"]["zq"] = 2000;
        j["model"]["merges"].push_back(json::array({"zq", "zq"}));
    });
    row("merge twice", false, "comes twice", [](json& j) { j["model"]["merges"].push_back(j["model"]["merges"][3]); });
    row("merge of three", false, "merges[0] must be two tokens", [](json& j) { j["model"]["merges"][0] = "a b c"; });
    row("merge of one", false, "merges[0] must be \"a b\" or", [](json& j) { j["model"]["merges"][0] = json::array({"a"}); });
    row("id twice", false, "id 7 is given to two tokens", [](json& j) { j["model"]["vocab"]["zzzz"] = 7; });
    row("negative id", false, "model.vocab.zzzz must be a token id", [](json& j) { j["model"]["vocab"]["zzzz"] = -1; });
    row("text as id", false, "model.vocab.zzzz must be a token id", [](json& j) { j["model"]["vocab"]["zzzz"] = "9"; });
    row("huge id", false, "ids from 0 to", [](json& j) { j["model"]["vocab"]["zzzz"] = 2147483647; });
    row("empty", false, "the vocabulary is empty", [](json& j) {
        j["model"]["vocab"] = json::object();
        j["model"]["merges"] = json::array();
    });
    row("added id", false, "also the id of", [](json& j) { j["added_tokens"].back()["id"] = 3; });
    row("added twice", false, "comes twice", [](json& j) {
        j["added_tokens"].push_back(json(j["added_tokens"].back()));
        j["added_tokens"].back()["id"] = 3000;
    });
    row("added elsewhere", false, "but the vocabulary gives it id 40", [](json& j) {
        j["model"]["vocab"] = json(j["model"]["vocab"]);
        for (const auto& [token, id] : j["model"]["vocab"].items())
            if (id == 40)
                j["added_tokens"][0]["content"] = token;
    });
    row("flag", false, "added_tokens[1].special must be true or false", [](json& j) { j["added_tokens"][1]["special"] = 1; });
    row("not an object", false, "a JSON object is expected", [](json& j) { j = json::array(); });
}

void TokenizerTest::refused() {
    QFETCH(Change, change);
    QFETCH(bool, unsupported);
    QFETCH(QString, names);
    json tokenizer = parseLargeJson(readTextFile(path("qwen2/tokenizer.json")), "qwen2");
    change(tokenizer);
    const QTemporaryDir folder;
    const std::string file = folder.filePath("tokenizer.json").toStdString();
    writeFileAtomically(file, tokenizer.dump());
    const auto opened = guarded([&] { return openTokenizerJson(folder.path().toStdString()); });
    QVERIFY(!opened);
    const std::string& message = opened.error().message;
    QCOMPARE(opened.error().code, unsupported ? ErrorCode::Unsupported : ErrorCode::Malformed);
    QVERIFY2(message.starts_with(file + ": "), message.c_str());
    QVERIFY2(QString::fromStdString(message).contains(names), message.c_str());
}

void TokenizerTest::refusedGguf_data() {
    QTest::addColumn<QString>("names");
    QTest::newRow("model") << "tokenizer.ggml.model is \"llama\"";
    QTest::newRow("pre") << "tokenizer.ggml.pre is \"falcon\"";
    QTest::newRow("types") << "token_type: one entry for each of the 3 tokens is expected, found 2";
    QTest::newRow("type") << "token 1 has the unknown type 9";
    QTest::newRow("duplicate") << "\"a\" comes twice, as token 0 and 2";
    QTest::newRow("empty") << "token 1 is empty";
    QTest::newRow("bos") << "bos_token_id: id 3 is out of range";
    QTest::newRow("no bos") << "there is no tokenizer.ggml.bos_token_id";
    QTest::newRow("merge") << "names \"c\"";
}

void TokenizerTest::refusedGguf() {
    QFETCH(QString, names);
    const QString file = m_folder.filePath(QString(QTest::currentDataTag()).replace(' ', '_') + ".gguf");
    QVERIFY(runScript({"broken", file, QTest::currentDataTag()}));
    const auto opened = guarded([&] { return openGgufTokenizer(file.toStdString()); });
    QVERIFY(!opened);
    QVERIFY2(QString::fromStdString(opened.error().message).contains(names), opened.error().message.c_str());
    QVERIFY2(QString::fromStdString(opened.error().message).startsWith(file), opened.error().message.c_str());
}

QTEST_APPLESS_MAIN(TokenizerTest)
#include "tst_io_tokenizer.moc"
