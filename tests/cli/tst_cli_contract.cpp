// The command line as scripts see it: every command's JSON keys and exit code, bad arguments and files, signals and kills.
#include "tests/support/oracle_process.h"

#include <QDir>
#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>

using linnet::tests::oraclePython;
using Json = nlohmann::ordered_json;

namespace {

struct Answer {
    int code = -1;
    bool crashed = false;
    QByteArray out, err;
    Json json() const { return Json::parse(out.toStdString(), nullptr, false); } // one object and nothing else, or discarded
    QByteArray said() const { return "exit " + QByteArray::number(code) + "\n" + out.right(1500) + "\n" + err.right(1500); }
};

void writeFile(const QString& path, const QByteArray& bytes) {
    QFile file(path);
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size())
        qFatal("can't write %s", qPrintable(path));
}

QByteArray readFile(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

// "evaluation.student.loss"; "rows.0.layer" looks into the first entry of a list.
const Json* find(const Json& json, const QString& dotted) {
    const Json* at = &json;
    for (const auto& part : dotted.split('.')) {
        bool number = false;
        const auto index = part.toULong(&number);
        if (number && at->is_array() && index < at->size())
            at = &(*at)[index];
        else if (!number && at->is_object() && at->contains(part.toStdString()))
            at = &(*at)[part.toStdString()];
        else
            return nullptr;
    }
    return at;
}

} // namespace

class TestCliContract : public QObject {
    Q_OBJECT

    QTemporaryDir m_folder;
    Json m_report; // of the undisturbed run

    QString path(const QString& name) const { return m_folder.filePath(name); }

    // An opening brace stands for m_folder/, a tilde for a space, '' for an empty argument.
    QStringList expand(const QString& line) const {
        QStringList result;
        for (QString part : line.split(' ', Qt::SkipEmptyParts)) {
            part.replace("{", m_folder.path() + "/");
            result << (part == "''" ? QString("") : part.replace('~', ' '));
        }
        return result;
    }
    void start(QProcess& process, const QStringList& arguments) const {
        auto environment = QProcessEnvironment::systemEnvironment();
        environment.insert("XDG_CACHE_HOME", path("cache"));
        environment.insert("OMP_NUM_THREADS", "1");
        process.setProcessEnvironment(environment);
        process.setWorkingDirectory(m_folder.path());
        process.start(qEnvironmentVariable("LINNET_CLI"), arguments);
    }
    Answer finish(QProcess& process) const {
        if (!process.waitForFinished(180000)) {
            process.kill();
            process.waitForFinished();
        }
        return {process.exitCode(), process.exitStatus() != QProcess::NormalExit, process.readAllStandardOutput(), process.readAllStandardError()};
    }
    Answer run(const QStringList& arguments) const {
        QProcess process;
        start(process, arguments);
        return finish(process);
    }
    Answer run(const QString& line) const { return run(expand(line)); }

    // JSON is written with single quotes here: AutoMoc does not read raw strings.
    static QByteArray quoted(QByteArray text) { return text.replace('\'', '"'); }
    QByteArray recipe(const QByteArray& keep = "bypass:2", int steps = 16) const {
        return quoted("{'version': 1, 'teacher': {'source': 'llama'}, 'data': {'text': 'text.txt', 'seq_len': 32, 'calibration_tokens': 768, "
                      "'selection_tokens': 192, 'evaluation_tokens': 192}, 'keep': '" + keep + "', 'align': {'steps': " + QByteArray::number(steps) +
                      ", 'batch': 4}, 'device': 'cpu', 'seed': 3}");
    }
    QByteArray changed(const QByteArray& from, const QByteArray& to) const { return recipe().replace(quoted(from), quoted(to)); }
    void makeBadFiles() const {
        writeFile(path("recipe.json"), recipe());
        writeFile(path("torn.json"), recipe().left(120));
        writeFile(path("unknown.json"), changed("'seed'", "'sede'"));
        writeFile(path("preset.json"), changed("'seed': 3", "'preset': 'nave'"));
        writeFile(path("mixer.json"), changed("'seed': 3", "'mixer': 'gated_delta_nett'"));
        writeFile(path("type.json"), changed("'seq_len': 32", "'seq_len': 'many'"));
        writeFile(path("negative.json"), changed("'batch': 4", "'batch': -4"));
        writeFile(path("version.json"), changed("'version': 1", "'version': 99"));
        writeFile(path("twice.json"), changed("'seed': 3", "'seed': 3, 'seed': 4"));
        writeFile(path("noteacher.json"), changed("'llama'", "'lama'"));
        writeFile(path("notext.json"), changed("text.txt", "absent.txt"));
        writeFile(path("hungry.json"), changed("768", "76800000"));
        writeFile(path("manykept.json"), recipe("first:9"));
        writeFile(path("badlayer.json"), recipe("layers:0,44"));
        writeFile(path("greedy.json"), recipe("greedy:2"));
        writeFile(path("budget.json"), recipe("kl:ppl=1000"));
        writeFile(path("stages.json"), recipe("greedy:2", 4).replace(quoted("'batch': 4}"), quoted("'batch': 4, 'drift': 'refit'}, 'distill': {'steps': 2, 'batch': 2}, 'preset': 'linnet'")));
        writeFile(path("hash.json"), changed("'source': 'llama'", "'source': 'llama', 'hash': 'feedfeedfeedfeed'"));
        writeFile(path("head.json"), changed("'seed': 3", "'targets': {'1': {'70': {'beta': 0.5}}}"));
        writeFile(path("beta.json"), changed("'seed': 3", "'targets': {'1': {'0': {'beta': 1.5}}}"));
        writeFile(path("locked.json"), changed("'seed': 3", "'targets': {'1': {'0': {'locked': ['bta']}}}"));
        writeFile(path("word.json"), changed("'seed': 3", "'evaluate': {'convention': 'word'}"));
        writeFile(path("window.json"), changed("'seed': 3", "'evaluate': {'seq_len': 20}"));
        writeFile(path("deep.json"), QByteArray(100000, '['));
        writeFile(path("empty.json"), "");
        writeFile(path("empty.txt"), "");
        writeFile(path("short.txt"), "few words");
        writeFile(path("bad.jsonl"), "{\"text\": \"good\"}\n{\"txt\": 1}\n");
        QByteArray documents;
        const auto words = readFile(path("text.txt")).split(' ');
        for (qsizetype i = 0; i + 40 <= words.size(); i += 40)
            documents += "{\"text\": \"" + words.mid(i, 40).join(' ') + "\", \"genre\": \"words\"}\n";
        writeFile(path("study.jsonl"), documents);
        writeFile(path("rows.jsonl"), "{\"text\": \"Linear attention\"}\n\n{\"text\": \"state\"}\n");
        writeFile(path("garbage.gguf"), QByteArray(1000, 'x'));
        writeFile(path("torn.gguf"), QByteArray::fromHex("47475546030000000100000000000000ffffffffffffff7f"));
        writeFile(path("empty.gguf"), "");
        QDir().mkpath(path("hollow"));
        for (const char* broken : {"noweights", "torn weights", "huge header", "noconfig", "badconfig", "othermodel", "shape", "badtokenizer", "nonumber"}) {
            QDir().mkpath(path(broken));
            for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
                QFile::copy(path("llama/") + file, path(broken) + "/" + file);
        }
        const auto change = [&](const QString& file, const QByteArray& from, const QByteArray& to) {
            QByteArray bytes = readFile(path(file));
            if (!bytes.contains(from))
                qFatal("%s has no %s", qPrintable(file), from.constData());
            QFile::setPermissions(path(file), QFile::ReadOwner | QFile::WriteOwner);
            writeFile(path(file), bytes.replace(from, to));
        };
        QFile::remove(path("noweights/model.safetensors"));
        QFile::setPermissions(path("torn weights/model.safetensors"), QFile::ReadOwner | QFile::WriteOwner);
        writeFile(path("torn weights/model.safetensors"), readFile(path("llama/model.safetensors")).left(20000));
        QFile::setPermissions(path("huge header/model.safetensors"), QFile::ReadOwner | QFile::WriteOwner);
        writeFile(path("huge header/model.safetensors"), QByteArray(8, '\x7f') + "{}");
        QFile::remove(path("noconfig/config.json"));
        change("badconfig/config.json", "\"hidden_size\": 48", "\"hidden_size\": ");
        change("othermodel/config.json", "\"llama\"", "\"mamba\"");
        change("shape/config.json", "\"intermediate_size\": 64", "\"intermediate_size\": 65");
        change("badtokenizer/tokenizer.json", "\"merges\"", "\"mergers\"");
        change("nonumber/config.json", "\"num_hidden_layers\": 4", "\"num_hidden_layers\": -4");
    }
    void makeStrangeSlices() const { // a run of a teacher whose tokenizer has another vocabulary, and ids that no model has
        QDir().mkpath(path("other"));
        QDir().mkpath(path("strange"));
        for (const char* name : {"config.json", "model.safetensors", "tokenizer_config.json"})
            QFile::copy(path(QString("llama/") + name), path(QString("other/") + name));
        Json tokenizer = Json::parse(readFile(path("llama/tokenizer.json")).toStdString());
        tokenizer["model"]["merges"].erase(tokenizer["model"]["merges"].size() - 1);
        for (auto token = tokenizer["model"]["vocab"].begin(); token != tokenizer["model"]["vocab"].end(); ++token)
            if (token.value() == 297) { // of the last merge
                tokenizer["model"]["vocab"].erase(token);
                break;
            }
        writeFile(path("other/tokenizer.json"), QByteArray::fromStdString(tokenizer.dump()));
        writeFile(path("strange/recipe.json"), recipe().replace("\"llama\"", quoted("'" + path("other").toUtf8() + "'")));
        QFile::copy(path("run/samples.safetensors"), path("strange/samples.safetensors"));
        QByteArray header = quoted("{'evaluation': {'dtype': 'I32', 'shape': [1, 2], 'data_offsets': [0, 8]}}");
        const qint64 size = header.size();
        const qint32 ids[] = {1, 300};
        writeFile(path("beyond.safetensors"), QByteArray(reinterpret_cast<const char*>(&size), 8) + header + QByteArray(reinterpret_cast<const char*>(ids), 8));
    }
    // The numbers of a report without times, memory and the folder's name.
    static Json numbers(Json report) {
        report.erase("run");
        report.erase("peak_memory_bytes");
        for (auto& stage : report["stages"])
            stage.erase("seconds");
        for (auto& [name, evaluation] : report["evaluation"].items())
            evaluation.erase("seconds");
        return report;
    }
    // A conversion slow enough to be hit in its middle; ends it with `signal` once so many steps are written.
    Answer interrupted(const QString& folder, int signal, int lines) const {
        QProcess process;
        start(process, expand("convert {long.json --run " + folder + " --json --quiet --threads 1"));
        QElapsedTimer timer;
        timer.start();
        while (timer.elapsed() < 120000 && readFile(path(folder + "/metrics.jsonl")).count('\n') < lines && process.state() != QProcess::NotRunning)
            process.waitForFinished(5);
        ::kill(static_cast<pid_t>(process.processId()), signal);
        return finish(process);
    }

private Q_SLOTS:
    void initTestCase() {
        QVERIFY2(QFile::exists(qEnvironmentVariable("LINNET_CLI")), "LINNET_CLI names no program");
        if (oraclePython().isEmpty())
            QSKIP("LINNET_ORACLE_PYTHON is not set: no transformers to make a teacher with");
        const QString said = linnet::tests::runOracle("convert_oracle.py", {"models", m_folder.path()});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        makeBadFiles();
        const auto converted = run("convert {recipe.json --run run --json --quiet --threads 1");
        QVERIFY2(converted.code == 0, converted.said());
        m_report = converted.json();
        QVERIFY2(m_report.is_object(), converted.said());
        makeStrangeSlices();
        const auto exported = run("export run --out exported --json --quiet");
        QVERIFY2(exported.code == 0, exported.said());
    }

    void commands_data() {
        QTest::addColumn<QString>("line");
        QTest::addColumn<QString>("keys");
        QTest::newRow("info") << "info llama" << "model_type layers hidden_size heads kv_heads head_dim intermediate_size vocab_size parameters dtype tied_embeddings qk_norm qkv_bias rope.type rope.theta tokenizer.type tokenizer.vocab_size exports.0.format exports.0.exact exports.0.reason";
        QTest::newRow("info of a run") << "info run" << "layers layer_kinds.3";
        QTest::newRow("info of an export") << "info exported" << "layers layer_kinds.3";
        QTest::newRow("logits") << "logits llama --ids 1,2,3 --out l.safetensors" << "ids.2";
        QTest::newRow("logits of a prompt") << "logits run --prompt state --out p.safetensors" << "ids.0";
        QTest::newRow("tokenize") << "tokenize llama --text Linear~attention" << "ids.0 text";
        QTest::newRow("tokenize nothing") << "tokenize llama --text ''" << "ids text";
        QTest::newRow("tokenize a file") << "tokenize llama --file text.txt" << "ids.0 text";
        QTest::newRow("tokenize lines") << "tokenize llama --file rows.jsonl" << "rows.0.ids.0 rows.1.text";
        QTest::newRow("decode") << "tokenize llama --decode 40,41,42" << "ids.2 text";
        QTest::newRow("generate") << "generate run --prompt state --tokens 4" << "ids text tokens_per_second";
        QTest::newRow("sample") << "generate exported --prompt state --tokens 4 --temperature 0.8 --top-p 0.9 --top-k 20 --seed 5" << "ids text tokens_per_second";
        const QString head = "layers.3.heads.5.";
        QString keys = "schema model.name model.hash sample.tokens sample.sequences sample.seq_len layers.3.layer";
        for (const char* key : {"head", "kv_head", "distance.mean", "distance.se", "distance.p10", "distance.p50", "distance.p90", "distance_no_sink.mean", "distance_no_sink.se", "entropy.mean", "entropy.se", "concentration.layer", "concentration.absolute", "output_rms.pre_o", "output_rms.post_o", "sink_mass", "previous_mass", "self_mass", "histogram.edges.1", "histogram.mass.0"})
            keys += " " + head + key;
        QTest::newRow("profile") << "profile llama --data text.txt --tokens 256 --seq-len 32 --out profile.json" << keys;
        QTest::newRow("profile of a student") << "profile run --data text.txt --seq-len 32 --tokens 64 --out kept.json" << "layers.0.heads.5.distance.mean layers.2.heads.0.entropy.mean";
        QTest::newRow("select of a student") << "select run --keep 1 --data text.txt --seq-len 32 --tokens 64" << "ranking.0.layer kept_layers.0";
        QTest::newRow("recipe new") << "recipe new llama --keep uniform:2 --out new.json" << "version teacher.source data.text keep align.steps";
        QTest::newRow("recipe new, method") << "recipe new llama --out new2.json --preset paper" << "preset keep";
        QTest::newRow("recipe new, stages") << "recipe new llama --out new3.json --keep greedy:cache=64KiB@2048 --steps 5 --drift refit --distill-steps 3" << "align.drift distill.steps";
        QTest::newRow("recipe check") << "recipe check recipe.json" << "ok hash notes";
        QTest::newRow("recipe show") << "recipe show recipe.json" << "version teacher.source data.text data.seq_len data.calibration_tokens data.selection_tokens data.evaluation_tokens mixer preset keep targets align.steps align.batch align.lr align.lr_new align.schedule align.warmup align.train_output align.loss distill evaluate.convention evaluate.seq_len device dtype seed treatment pins";
        QTest::newRow("recipe diff") << "recipe diff recipe.json manykept.json" << "differences.0.key differences.0.left differences.0.right";
        QString evaluation;
        for (const char* name : {"teacher", "naive", "zero_gate", "student"})
            for (const char* key : {"loss", "loss_se", "perplexity", "convention", "seq_len", "tokens", "kl_to_teacher", "top1_agreement"})
                evaluation += QString(" evaluation.%1.%2").arg(name, key);
        QTest::newRow("resume a finished run") << "resume run" << "run kept_layers.0 converted_layers.0 stages.0.name stages.0.seconds stages.0.steps stages.0.tokens stages.0.loss_first stages.0.loss_last peak_memory_bytes" + evaluation;
        QTest::newRow("eval") << "eval llama --data text.txt --tokens 256 --seq-len 32" << "loss loss_se perplexity convention seq_len tokens kl_to_teacher top1_agreement";
        QTest::newRow("eval, teacher") << "eval run --teacher llama --data text.txt --tokens 256 --seq-len 32" << "kl_to_teacher top1_agreement";
        QTest::newRow("eval, word") << "eval exported --data short.txt --convention word --seq-len 32" << "loss perplexity convention tokens";
        QTest::newRow("eval, a run's slice") << "eval run --teacher llama --data run/samples.safetensors" << "loss kl_to_teacher top1_agreement seq_len tokens";
        QTest::newRow("eval, shorter windows of it") << "eval llama --data run/samples.safetensors --slice selection --seq-len 16 --tokens 64" << "loss seq_len tokens";
        QTest::newRow("profile, a run's slice") << "profile llama --data run/samples.safetensors" << "sample.tokens sample.sequences sample.seq_len";
        QTest::newRow("eval, own samples") << "eval llama --data self:2 --seq-len 32" << "loss perplexity";
        const QString chosen = "method unit ranking.1.layer ranking.1.score kept_layers curve teacher_perplexity cache_length "; // greedy and restore rank what they need
        const QString selection = chosen + "ranking.3.layer ranking.3.score ", curve = "curve.0.kept curve.0.perplexity curve.0.loss curve.0.kl curve.0.cache_bytes curve.4.kept";
        QTest::newRow("select") << "select llama --method bypass --keep 2 --data text.txt --tokens 128 --seq-len 32" << selection + "kept_layers.1";
        for (const char* method : {"kl", "greedy", "restore", "ga-s2"})
            QTest::addRow("select, %s", method) << QString("select llama --recipe recipe.json --method %1 --keep 2").arg(method) << chosen + curve + " kept_layers.1";
        QTest::newRow("select, starts only") << "select llama --recipe recipe.json --method kl --keep 1 --steps 0" << selection + curve + " kept_layers.0";
        QTest::newRow("select, score") << "select llama --recipe recipe.json --method score --keep 1 --tokens 64" << selection + "kept_layers.0";
        QTest::newRow("select, a recipe's rule") << "select llama --recipe greedy.json" << chosen + curve + " kept_layers.1";
        QTest::newRow("select, cache") << "select llama --recipe recipe.json --method bypass --max-cache 400KiB@2048" << selection;
        QTest::newRow("select, quality") << "select llama --recipe recipe.json --method kl --max-ppl 1000" << selection + curve;
        QTest::newRow("select, pins") << "select llama --recipe recipe.json --method kl --keep 2 --never 0 --always 3" << "ranking.1.layer kept_layers.1 curve.2.kept";
        for (const char* file : {"recipe", "budget", "stages"})
            QTest::addRow("estimate %s", file) << QString("estimate %1.json").arg(file) << "memory_bytes disk_bytes seconds tokens kept_layers converted_layers cache_bytes_at_32k";
        QTest::newRow("study") << "study --data study.jsonl --model llama --out study --quick --seeds 1" << "results tables rows timing.conversion.seconds timing.study";
        QTest::newRow("bench") << "bench gated_delta_rule" << "rows.0.op rows.0.shape rows.0.ms rows.0.tflops rows.0.gbps rows.0.share_of_floor";
        QTest::newRow("metrics") << "metrics run --csv curves.csv" << "rows.0.time rows.0.stage rows.0.layer rows.0.step rows.0.tokens rows.0.loss rows.0.lr rows.0.grad_norm rows.0.tokens_per_second";
        QTest::newRow("export") << "export run --format hf --out exported2 --dtype bf16" << "format files.0 parity.max_abs_logit parity.mean_kl parity.top1_agreement exact";
        QTest::newRow("export, shards") << "export run --out exported5 --shard-size 100KB" << "format dtype bytes files.0 hashes fidelity parity.max_abs_logit";
        QTest::newRow("export, adapter") << "export run --format adapter --out exported6" << "format notes.0 parity.greedy_same";
        QTest::newRow("export, not compared") << "export run --out exported3 --no-verify" << "format files.0 parity exact";
        QTest::newRow("verify") << "verify exported" << "parity.max_abs_logit parity.mean_kl parity.top1_agreement exact";
        QTest::newRow("doctor") << "doctor" << "version";
    }
    void commands() {
        QFETCH(QString, line);
        QFETCH(QString, keys);
        const auto answer = run(line + " --json --threads 1");
        QVERIFY2(answer.code == 0 && !answer.crashed, answer.said());
        const Json json = answer.json();
        QVERIFY2(json.is_object(), answer.said());
        for (const auto& key : keys.split(' ', Qt::SkipEmptyParts))
            QVERIFY2(find(json, key), key.toUtf8() + " is missing: " + answer.out.left(1500));
        // text instead of JSON, and silence on stderr with --quiet; commands that make a folder have made it by now
        if (!line.startsWith("export")) {
            const auto text = run(line + " --quiet --threads 1");
            QVERIFY2(text.code == 0, text.said());
            QVERIFY2(text.err.isEmpty() && (!text.out.isEmpty() || line.endsWith("''")), text.said());
        }
    }

    void values() {
        const auto ids = run("tokenize llama --text Linear~attention~has --json").json()["ids"];
        QStringList list;
        for (const auto& id : ids)
            list << QString::number(id.get<int>());
        QCOMPARE(run("tokenize llama --json --decode " + list.join(',')).json()["text"].get<std::string>(), std::string("Linear attention has"));
        const Json greedy = run("generate run --prompt state --tokens 6 --json").json(), again = run("generate exported --greedy --prompt state --tokens 6 --json").json();
        QCOMPARE(greedy["ids"].dump(), again["ids"].dump());
        const Json eval = run("eval llama --data text.txt --tokens 256 --seq-len 32 --json").json();
        QCOMPARE(eval["tokens"].get<int>(), 8 * 31);
        QVERIFY(eval["kl_to_teacher"].is_null() && eval["top1_agreement"].is_null());
        QVERIFY(linnet::tests::closeTo(eval["perplexity"], std::exp(eval["loss"].get<double>()), 1e-9));
        const Json self = run("eval llama --teacher llama --data text.txt --tokens 256 --seq-len 32 --json").json();
        QVERIFY(std::abs(self["kl_to_teacher"].get<double>()) < 1e-6 && self["top1_agreement"].get<double>() == 1);
        const auto csv = readFile(path("curves.csv"));
        if (!csv.isEmpty())
            QCOMPARE(csv.count('\n'), 1 + 32);
        QCOMPARE(Json::parse(readFile(path("run/report.json")).toStdString()).dump(), m_report.dump());
        const auto threads = run("logits llama --ids 5,6,7 --out a.safetensors --threads 1"), other = run("logits exported --ids 5,6,7 --out b.safetensors --threads 1");
        QVERIFY2(threads.code == 0 && other.code == 0, other.said());
        QVERIFY(readFile(path("a.safetensors")) != readFile(path("b.safetensors")));
    }

    void aRunsOwnNumbersAgain() { // its held-out windows: the very numbers of its report
        const auto answer = run("eval run --teacher llama --data run/samples.safetensors --slice evaluation --json --quiet --threads 1");
        QVERIFY2(answer.code == 0, answer.said());
        Json found = answer.json();
        const Json& expected = m_report["evaluation"]["student"]; // it may tell more: a run knows its teacher's losses too
        found.erase("seconds");
        for (const auto& [key, value] : found.items())
            QVERIFY2(expected.at(key) == value, (key + ": " + found.dump() + " / " + expected.dump()).c_str()); // to the last bit
        const auto text = run("eval run --teacher llama --data text.txt --tokens 192 --seq-len 32 --json --quiet --threads 1"); // other windows, other numbers
        QVERIFY(text.json()["tokens"] == found["tokens"] && text.json()["loss"] != found["loss"]);
        const auto teacher = run("eval llama --data run/samples.safetensors --json --quiet --threads 1");
        QVERIFY(teacher.json()["loss"] == m_report["evaluation"]["teacher"]["loss"]);
        const auto profiled = run("profile llama --data run/samples.safetensors --slice selection --json --quiet");
        QCOMPARE(profiled.json()["sample"]["sequences"].get<int>(), 6); // 192 tokens in windows of 32
    }

    void selections() {
        const auto json = [&](const QString& line) { return run("select llama --recipe recipe.json --json --quiet " + line).json(); };
        const Json greedy = json("--method greedy --keep 2"), again = json("--method greedy --keep 2");
        QCOMPARE(greedy.dump(), again.dump());
        QCOMPARE(greedy["curve"].size(), std::size_t(5));
        for (std::size_t i = 0; i < 5; ++i)
            QCOMPARE(greedy["curve"][i]["kept"].get<std::size_t>(), 4 - i);
        QVERIFY(linnet::tests::closeTo(greedy["curve"][0]["perplexity"], greedy["teacher_perplexity"], 1e-9)); // nothing is converted
        QVERIFY(greedy["curve"][0]["cache_bytes"].get<double>() > greedy["curve"][4]["cache_bytes"].get<double>());
        const Json pins = json("--method kl --keep 2 --never 0 --always 3");
        QCOMPARE(pins["kept_layers"][0].get<int>(), 0);
        QCOMPARE(pins["kept_layers"].size(), std::size_t(2));
        QVERIFY(pins["kept_layers"][1] != 3);
        QCOMPARE(json("--method kl --max-ppl 100000")["kept_layers"].size(), std::size_t(0));
        // keys and values of 2048 tokens: 2 * 2 * 8 * 2048 * 4 = 256 KiB a layer; a state with its convolutions is 3264 bytes
        QCOMPARE(json("--method bypass --max-cache 600KiB@2048")["kept_layers"].size(), std::size_t(2));
        const auto text = run("select llama --recipe recipe.json --method greedy --keep 2 --quiet");
        QVERIFY2(text.code == 0 && text.out.contains("of teacher") && text.out.count("*") == 2, text.said());
        QVERIFY2(!QFile::exists(path("cache/linnet/banks/select")), text.said());
    }

    // All stages in one report, and the commands that go with it.
    void stages() {
        const auto converted = run("convert {stages.json --run stages --quiet --threads 1");
        QVERIFY2(converted.code == 0, converted.said());
        for (const char* said : {"chosen by greedy", "drift", "distill", "residual folded", "rope", "peak memory"})
            QVERIFY2(converted.out.contains(said), said);
        const Json report = Json::parse(readFile(path("stages/report.json")).toStdString());
        for (const char* key : {"selection.curve.4.cache_bytes", "selection.ranking.1.score", "treatments.0.part", "treatments.0.residual_folded", "treatments.0.residual_dropped"})
            QVERIFY2(find(report, key), key);
        QStringList names;
        for (const auto& stage : report["stages"])
            names << QString::fromStdString(stage["name"]);
        QCOMPARE(names, QStringList({"data", "align", "select", "drift", "distill", "evaluate"}));
        const auto made = run("recipe new llama --out made.json --keep greedy:2 --steps 7 --drift align --distill-steps 9 --json");
        const Json json = made.json();
        QVERIFY2(json["align"]["steps"] == 7 && json["align"]["drift"] == "align" && json["distill"]["steps"] == 9 && json["keep"] == "greedy:2", made.said());
        const Json plain = run("estimate recipe.json --json").json(), more = run("estimate stages.json --json").json(), budget = run("estimate budget.json --json").json();
        QVERIFY(more["tokens"].get<double>() > plain["tokens"].get<double>());
        QCOMPARE(budget["kept_layers"].get<int>(), 0); // not known before it is measured: the most work
    }

    void shippedRecipes() {
        const QDir folder(qEnvironmentVariable("LINNET_SOURCE") + "/docs/recipes");
        const auto files = folder.entryList({"*.json"});
        QCOMPARE(files.size(), qsizetype(7));
        const bool teacher = QFile::exists(qEnvironmentVariable("LINNET_TEACHER")); // which they are made for
        for (const auto& file : files) {
            const auto shown = run({"recipe", "show", folder.filePath(file)});
            QVERIFY2(shown.code == 0 && shown.out == readFile(folder.filePath(file)), (file.toUtf8() + " is not canonical: run tests/study/make_recipes.sh " + shown.said()).constData());
            if (teacher) {
                const auto checked = run({"recipe", "check", folder.filePath(file), "--json"});
                QVERIFY2(checked.code == 0, checked.said());
            }
        }
        if (!teacher)
            QSKIP("LINNET_TEACHER names no file: the shipped recipes were read, not checked for their teacher");
    }

    void help() {
        for (const char* line : {"--help", "--version", "convert --help", "recipe new --help", "select --help", "study --help"}) {
            const auto answer = run(QString(line));
            QVERIFY2(answer.code == 0 && answer.out.size() > 5 && answer.err.isEmpty(), answer.said());
        }
    }

    void bad_data() {
        QTest::addColumn<QString>("line");
        QTest::addColumn<int>("code");
        QTest::addColumn<QString>("culprit"); // in the message
        const auto row = [](const char* name, const QString& line, int code, const QString& culprit) { QTest::newRow(name) << line << code << culprit; };
        row("no command", "", 2, "subcommand");
        row("unknown command", "transmogrify x", 2, "transmogrify");
        row("near command", "convrt x", 2, "did you mean \"convert\"");
        row("unknown subcommand", "recipe shw x", 2, "shw");
        row("no argument", "info", 2, "MODEL");
        row("unknown option", "info llama --frobnicate", 2, "--frobnicate");
        row("too many arguments", "info llama other", 2, "other");
        row("no such model", "info nowhere/model", 1, "nowhere/model");
        row("hollow folder", "info hollow", 1, "hollow");
        row("no weights", "info noweights", 1, "noweights");
        row("torn weights", "logits torn~weights --ids 1 --out x", 1, "torn weights");
        row("huge header", "info huge~header", 1, "huge header");
        row("no config", "info noconfig", 1, "noconfig");
        row("bad config", "info badconfig", 1, "badconfig/config.json");
        row("other model", "info othermodel", 1, "mamba");
        row("other shape", "info shape", 1, "mlp");
        row("negative layers", "info nonumber", 1, "num_hidden_layers");
        row("bad tokenizer", "tokenize badtokenizer --text a", 1, "badtokenizer");
        row("garbage gguf", "info garbage.gguf", 1, "garbage.gguf");
        row("torn gguf", "info torn.gguf", 1, "torn.gguf");
        row("empty gguf", "info empty.gguf", 1, "empty.gguf");
        row("text as model", "info text.txt", 1, "text.txt");
        row("device", "logits llama --ids 1 --out x --device tpu", 2, "tpu");
        row("device number", "logits llama --ids 1 --out x --device cuda:77", -1, "cuda:77");
        row("dtype", "logits llama --ids 1 --out x --dtype f8", 2, "f8");
        row("threads", "logits llama --ids 1 --out x --threads -3", 2, "-3");
        row("seed", "generate llama --prompt a --seed many", 2, "many");
        row("no ids", "logits llama --out x", 2, "--ids");
        row("both", "logits llama --ids 1 --prompt a --out x", 2, "--ids");
        row("id no number", "logits llama --ids 1,two --out x", 2, "two");
        row("id out of range", "logits llama --ids 1,300 --out x", 2, "300");
        row("id negative", "logits llama --ids=-1 --out x", 2, "-1");
        row("id enormous", "logits llama --ids 99999999999999999999 --out x", 2, "99999999999999999999");
        row("out in no folder", "logits llama --ids 1 --out no/such/x.safetensors", 1, "no/such");
        row("decode out of range", "tokenize llama --decode 5000", 2, "5000");
        row("decode nothing", "tokenize llama --decode ,", 2, "--decode");
        row("tokenize what", "tokenize llama", 2, "--text");
        row("tokenize two", "tokenize llama --text a --file text.txt", 2, "--text");
        row("tokenize no file", "tokenize llama --file absent.txt", 1, "absent.txt");
        row("jsonl line", "tokenize llama --file bad.jsonl", 1, "line 2");
        row("generate no prompt", "generate llama", 2, "--prompt");
        row("generate tokens", "generate llama --prompt a --tokens 0", 2, "0");
        row("temperature", "generate llama --prompt a --temperature -1", 2, "-1");
        row("top-p", "generate llama --prompt a --top-p 1.5", 2, "1.5");
        row("top-k", "generate llama --prompt a --top-k -5", 2, "-5");
        row("greedy and sampling", "generate llama --prompt a --greedy --top-k 5", 2, "--greedy");
        row("chat without template", "generate llama --prompt a --chat", 1, "template");
        row("profile no text", "profile llama --data absent.txt", 1, "absent.txt");
        row("profile short text", "profile llama --data short.txt --seq-len 512", 2, "512");
        row("profile empty text", "profile llama --data empty.txt --seq-len 32", 2, "32");
        row("profile seq-len", "profile llama --data text.txt --seq-len 1", 2, "1");
        row("profile tokens", "profile llama --data text.txt --tokens -5", 2, "-5");
        row("bad line of text", "profile llama --data bad.jsonl --seq-len 4", 1, "bad.jsonl");
        row("self what", "eval llama --data self:x --seq-len 32", 2, "self:x");
        row("self none", "eval llama --data self:0 --seq-len 32", 2, "self:0");
        row("eval convention", "eval llama --data text.txt --convention letters", 2, "letters");
        row("eval word tokens", "eval llama --data text.txt --convention word --tokens 5", 2, "--tokens");
        row("eval no teacher", "eval llama --teacher absent --data text.txt", 1, "absent");
        row("select method", "select llama --method magic --keep 2 --data text.txt --seq-len 32", 2, "magic");
        row("select no number", "select llama --data text.txt", 2, "--keep");
        row("select two numbers", "select llama --keep 2 --max-ppl 1.1 --data text.txt", 2, "--max-ppl");
        row("select cache", "select llama --max-cache many@2048 --data text.txt", 2, "many");
        row("select cache tokens", "select llama --max-cache 64MiB --data text.txt", 2, "BYTES@TOKENS");
        row("select quality", "select llama --method kl --max-ppl 0.5 --data text.txt", 2, "0.5");
        row("select unreachable cache", "select llama --recipe recipe.json --method bypass --max-cache 1@2048", 2, "1@2048");
        row("select pins", "select llama --recipe recipe.json --keep 2 --never few", 2, "--never");
        row("select both pins", "select llama --recipe recipe.json --keep 2 --never 1 --always 1", -1, "pins");
        row("select pin", "select llama --recipe recipe.json --keep 2 --never 9", -1, "9");
        row("select preset", "select llama --keep 2 --preset nave", 2, "nave");
        row("select preset and recipe", "select llama --recipe recipe.json --keep 2 --preset naive", 2, "--preset");
        row("select no recipe", "select llama --recipe absent.json --keep 2", 1, "absent.json");
        row("eval absent slice", "eval run --data run/samples.safetensors --slice training", 1, "samples.safetensors: tensor training");
        row("eval unknown slice", "eval run --data run/samples.safetensors --slice test", 2, "--slice");
        row("eval slice of text", "eval llama --data text.txt --slice evaluation", 2, "--slice");
        row("eval slice beside text", "eval llama --data text.txt --data run/samples.safetensors", 2, "samples.safetensors");
        row("eval slice by words", "eval llama --data run/samples.safetensors --convention word", 2, "chunked");
        row("eval no slices", "eval llama --data llama/model.safetensors", 1, "calibration");
        row("eval slice too short", "eval run --data run/samples.safetensors --seq-len 4096", 2, "tensor evaluation");
        row("profile absent slices", "profile llama --data run/nothing.safetensors", 1, "nothing.safetensors");
        row("eval another vocabulary", "eval run --data strange/samples.safetensors", 2, "297"); // its teacher's tokenizer has one token less
        row("eval beyond the vocabulary", "eval run --data beyond.safetensors", 2, "token 300");
        row("study no text", "study --model llama --out x", 2, "--data");
        row("study nowhere", "study --model llama --data study.jsonl", 2, "--out");
        row("study short text", "study --model llama --data rows.jsonl --out refused --quick", 2, "rows.jsonl");
        row("study absent text", "study --model llama --data absent.jsonl --out refused --quick", 1, "absent.jsonl");
        row("study of a student", "study --model run --data study.jsonl --out refused --quick", 1, "--model");
        row("select keep", "select llama --keep 9 --data text.txt --seq-len 32 --tokens 64", 2, "9");
        row("recipe new preset", "recipe new llama --preset nave --out x.json", 2, "nave");
        row("recipe new mixer", "recipe new llama --mixer magic --out x.json", 2, "magic");
        row("recipe new rule", "recipe new llama --keep some:2 --out x.json", 2, "some");
        row("recipe new rule count", "recipe new llama --keep uniform:five --out x.json", 2, "five");
        row("recipe new too many", "recipe new llama --keep uniform:40 --out x.json", 2, "40");
        row("recipe new drift", "recipe new llama --drift much --out x.json", 2, "much");
        row("recipe new budget", "recipe new llama --keep greedy:cash=5@6 --out x.json", 2, "cache");
        row("recipe new nowhere", "recipe new llama --out no/such/x.json", 1, "no/such");
        row("recipe which", "recipe", 2, "subcommand");
        row("recipe missing", "recipe show absent.json", 1, "absent.json");
        for (const auto& [file, culprit] : std::vector<std::pair<const char*, const char*>>{
                 {"torn", "torn.json"}, {"unknown", "sede"}, {"preset", "nave"}, {"mixer", "gated_delta_nett"}, {"type", "seq_len"}, {"negative", "batch"}, {"version", "99"}, {"twice", "seed"},
                 {"noteacher", "lama"}, {"manykept", "9"}, {"badlayer", "44"}, {"hash", "feedfeedfeedfeed"}, {"head", "70"}, {"beta", "beta"}, {"locked", "bta"}, {"deep", "deep.json"}, {"empty", "empty.json"}}) {
            row(qPrintable(QString("check ") + file), QString("recipe check %1.json").arg(file), -1, culprit);
            row(qPrintable(QString("convert ") + file), QString("convert %1.json --run refused").arg(file), -1, culprit);
        }
        row("convert missing", "convert absent.json --run refused", 1, "absent.json");
        row("convert no run", "convert recipe.json", 2, "--run");
        row("convert no text", "convert notext.json --run refused", 1, "absent.txt");
        row("convert too few tokens", "convert hungry.json --run refused", 2, "calibration_tokens");
        row("convert word", "convert word.json --run refused", 1, "evaluate.convention");
        row("convert window", "convert window.json --run refused", 1, "evaluate.seq_len");
        row("convert into a run", "convert recipe.json --run run", 2, "run");
        row("convert into a file", "convert recipe.json --run text.txt", 2, "text.txt");
        row("resume nothing", "resume absent", 1, "absent");
        row("resume a model", "resume llama", 1, "llama");
        row("metrics nothing", "metrics absent", 1, "absent");
        row("metrics csv", "metrics run --csv no/such/file.csv", 1, "no/such/file.csv");
        row("export format", "export run --format onnx --out x", 2, "onnx");
        row("export with a lift unasked", "export run --format qwen3.5 --out x", 1, "--lift");
        row("export dtype of another format", "export run --format hf --out x --dtype q8_0", 2, "q8_0");
        row("export shard size", "export run --out x --shard-size 5XB", 2, "5XB");
        row("export no shard size", "export run --out x --shard-size 0", 2, "--shard-size");
        row("export occupied", "export run --out llama", 2, "llama");
        row("export no run", "export absent --out x", 1, "absent");
        row("export dtype", "export run --out x --dtype q4", 2, "q4");
        row("verify a teacher", "verify llama", 1, "llama");
        row("verify nothing", "verify absent", 1, "absent");
        row("bench what", "bench juggling", 2, "juggling");
        row("estimate missing", "estimate absent.json", 1, "absent.json");
    }
    void bad() {
        QFETCH(QString, line);
        QFETCH(int, code);
        QFETCH(QString, culprit);
        QDir(path("refused")).removeRecursively();
        const auto answer = run(line + " --json");
        QVERIFY2(!answer.crashed, answer.said());
        QVERIFY2(code >= 0 ? answer.code == code : answer.code == 1 || answer.code == 2, answer.said());
        const Json json = answer.json();
        QVERIFY2(json.is_object() && json.size() == 1 && find(json, "error.code") && find(json, "error.context"), answer.said());
        QVERIFY2(find(json, "error.message") && QString::fromStdString(json["error"]["message"]).contains(culprit), answer.said());
        QCOMPARE(json["error"]["code"] == "usage", answer.code == 2);
        if (!line.contains("hungry")) // the text must be tokenised before its length is known
            QVERIFY(!QFile::exists(path("refused")));
        QDir(path("refused")).removeRecursively();
        const auto text = run(line);
        QVERIFY2(text.code == answer.code && text.err.contains(culprit.toUtf8()) && text.out.isEmpty(), text.said());
    }

    void interruptAndKill_data() {
        QTest::addColumn<int>("signal");
        QTest::addColumn<int>("lines");
        QTest::newRow("SIGINT, first layer") << SIGINT << 40;
        QTest::newRow("SIGTERM, second layer") << SIGTERM << 250;
        QTest::newRow("SIGKILL, first layer") << SIGKILL << 60;
        QTest::newRow("SIGKILL, second layer") << SIGKILL << 240;
    }
    void interruptAndKill() {
        QFETCH(int, signal);
        QFETCH(int, lines);
        writeFile(path("long.json"), recipe("layers:0,2", 200));
        if (!QFile::exists(path("whole/report.json"))) {
            const auto whole = run("convert {long.json --run whole --json --quiet --threads 1");
            QVERIFY2(whole.code == 0, whole.said());
        }
        const QString folder = QString("ended %1 %2").arg(signal).arg(lines).replace(' ', '_');
        const auto ended = interrupted(folder, signal, lines);
        QVERIFY2(!QFile::exists(path(folder + "/report.json")), "it was finished before the signal came");
        if (signal == SIGKILL) {
            QVERIFY(ended.crashed);
        } else {
            QVERIFY2(!ended.crashed && ended.code == 130, ended.said());
            QCOMPARE(ended.json()["error"]["code"].get<std::string>(), std::string("cancelled"));
        }
        const auto resumed = run("resume " + folder + " --json --threads 1 --seed 77 --dtype bf16"); // what a run can't take is said
        QVERIFY2(resumed.code == 0, resumed.said());
        QVERIFY2(resumed.err.contains("--seed 77 has no effect") && resumed.err.contains("--dtype bf16 has no effect"), resumed.said());
        QCOMPARE(numbers(resumed.json()).dump(), numbers(Json::parse(readFile(path("whole/report.json")).toStdString())).dump());
        QVERIFY(readFile(path(folder + "/checkpoints/student.safetensors")) == readFile(path("whole/checkpoints/student.safetensors")));
        QCOMPARE(readFile(path(folder + "/metrics.jsonl")).count('\n'), readFile(path("whole/metrics.jsonl")).count('\n'));
    }

    void realTeacher() { // cheap commands only
        const QString teacher = qEnvironmentVariable("LINNET_TEACHER");
        if (!QFile::exists(teacher))
            QSKIP("LINNET_TEACHER names no file: the real teacher is not installed");
        const auto info = run({"info", teacher, "--json"});
        QVERIFY2(info.code == 0, info.said());
        QCOMPARE(info.json()["layers"].get<int>(), 30);
        QCOMPARE(info.json()["heads"].get<int>(), 9);
        QCOMPARE(info.json()["kv_heads"].get<int>(), 3);
        const auto tokens = run({"tokenize", teacher, "--text", "The capital of France is", "--json"});
        QCOMPARE(tokens.json()["text"].get<std::string>(), std::string("The capital of France is"));
        const auto made = run({"generate", teacher, "--prompt", "The capital of France is", "--tokens", "8", "--json"});
        QVERIFY2(made.code == 0, made.said());
        QVERIFY2(QString::fromStdString(made.json()["text"]).contains("Paris"), made.said());
        const auto logits = run({"logits", teacher, "--prompt", "The capital of France is", "--out", path("real.safetensors"), "--json"});
        QVERIFY2(logits.code == 0, logits.said());
        QCOMPARE(logits.json()["ids"].dump(), tokens.json()["ids"].dump());
        QVERIFY(QFileInfo(path("real.safetensors")).size() > qint64(tokens.json()["ids"].size()) * info.json()["vocab_size"].get<qint64>() * 4);
    }
};

QTEST_APPLESS_MAIN(TestCliContract)
#include "tst_cli_contract.moc"
