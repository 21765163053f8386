// Teachers without QK-norm as transformers' own Qwen3_5ForCausalLM: q and k so small that its norm is a constant. Same logits, same tokens; read
// back as what they were.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/io/eps_lift.h"
#include "tests/support/export_fixtures.h"

#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

ExportOptions lifted(const std::string& dtype = "f32", bool verify = true) {
    ExportOptions options;
    options.format = "qwen3.5", options.dtype = dtype, options.verify = verify;
    options.lift = true;
    return options;
}

std::vector<TokenId> someTokens(std::size_t count, TokenId step) {
    std::vector<TokenId> ids(count);
    for (std::size_t i = 0; i < count; ++i)
        ids[i] = static_cast<TokenId>((7 + i * static_cast<std::size_t>(step)) % 290 + 2);
    return ids;
}
// The last is longer than a chunk of the delta rule and than the length from which llama3 scales.
const std::vector<std::vector<TokenId>> kPrompts{{5, 17, 200, 31, 8, 99, 140, 3, 61, 254}, {77, 4, 120}, someTokens(131, 53)};
const std::vector<std::vector<TokenId>> kLong{someTokens(200, 53), someTokens(200, 71)};

struct Case {
    const char *name, *kind, *keep; // keep "": the teacher itself
    const char* type = "llama";     // as it opens again
    bool biases = false;
    bool kept() const { return keep != std::string("first:0"); }
};
const Case kCases[] = {{"qwen2: biases, untied", "qwen2", "layers:0,2", "qwen2", true}, {"llama3: scaled rope, tied", "llama3", "layers:1"},
                       {"smollm2: 9 heads of 24", "smollm2", "layers:0,3"},             {"biased: o_proj too", "biased", "layers:1,2", "llama", true},
                       {"nothing converted", "qwen2", "", "qwen2", true},                {"nothing kept", "smollm2", "first:0"}};

struct Answer { // of transformers
    Json json;
    std::map<std::string, at::Tensor> logits;
};

// Asks transformers about many folders in one process.
class Questions {
public:
    void add(const fs::path& folder, Json request) {
        const auto name = folder.string() + "." + std::to_string(m_arguments.size());
        request["text"] = "a state";
        writeFileAtomically(name + ".request", request.dump());
        m_arguments << folder.c_str() << QString::fromStdString(name + ".request") << QString::fromStdString(name);
    }
    QString ask() const { return runOracle("export_oracle.py", m_arguments); }
    Answer answer(const fs::path& folder, int nth = 0) const { // to the nth question about it
        for (qsizetype i = 0; i < m_arguments.size(); i += 3)
            if (m_arguments[i] == folder.c_str() && nth-- == 0)
                return {readJsonFile(m_arguments[i + 2].toStdString() + ".json"), tensorsOf(m_arguments[i + 2].toStdString() + ".safetensors")};
        fail(ErrorCode::Internal, folder.string() + " was not asked about");
    }

private:
    QStringList m_arguments;
};

at::Tensor inBfloat16(const at::Tensor& values) {
    return values.to(at::kBFloat16).to(at::kFloat);
}

// RMSNorm as every runtime computes it, of rows stored times 2^-shift: what comes out of w in float32.
at::Tensor normOf(const at::Tensor& q, int shift, const at::Tensor& w, double eps) {
    const at::Tensor stored = q * std::ldexp(1.0, -shift);
    return stored * at::rsqrt(stored.square().mean(-1, true) + eps) * w;
}

} // namespace

class TestExportLift : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    TinyStudents m_students{m_teachers};
    Questions m_questions;
    fs::path at(const std::string& name) const { return m_students.at(name); }
    fs::path source(const Case& c) { return *c.keep ? m_students.run(c.kind, c.keep) : m_teachers.path(c.kind); }

    void compare(const Answer& answer, const Model& model, double allowed, const std::vector<std::vector<TokenId>>& prompts = kPrompts) {
        QCOMPARE(QString::fromStdString(answer.json["class"]), QString("Qwen3_5ForCausalLM"));
        GenerateOptions greedy;
        greedy.tokens = 20;
        for (std::size_t i = 0; i < prompts.size(); ++i) {
            LINNET_NEAR(answer.logits.at("logits_" + std::to_string(i)), logitsOf(model, prompts[i]), allowed);
            for (const char* way : {"cached", "uncached"})
                QVERIFY2(answer.json[way][i].get<std::vector<TokenId>>() == orFail(generate(model, prompts[i], greedy)).ids, way);
        }
    }
    // A written folder to spoil.
    fs::path copyOf(const QString& kind) {
        const auto whole = at("whole " + kind.toStdString()), folder = at("spoilt");
        if (!fs::exists(whole))
            orFail(exportModel(m_teachers.path(kind), whole, lifted("f32", false), kOneThread));
        fs::remove_all(folder);
        fs::copy(whole, folder, fs::copy_options::recursive);
        return folder;
    }

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        if (oraclePython().isEmpty())
            QSKIP("LINNET_ORACLE_PYTHON is not set: no transformers to compare with");
        const QString said = m_teachers.add({"qwen2", "llama3", "smollm2", "biased", "qwen3", "qwen3_5", "qwen3_5_biased"});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        for (const auto& c : kCases) {
            auto options = lifted();
            options.lift = c.kept(); // without softmax layers there is nothing to lift
            const auto report = exportModel(source(c), at(c.name), options, kOneThread);
            QVERIFY2(report, qPrintable(messageOf(report)));
            QVERIFY(report->exact && report->verified && report->parity.meanKl < 1e-9 && report->parity.greedySame == report->parity.greedyTokens);
            QCOMPARE(report->fidelity, std::string(c.kept() ? "lifted" : "exact"));
            QCOMPARE(report->notes.size(), std::size_t(c.kept() ? c.biases ? 4 : 3 : 0));
            m_questions.add(at(c.name), {{"ids", kPrompts}, {"cache", c.kept()}});
        }
        m_questions.add(at(kCases[1].name), {{"ids", {kPrompts[1]}}, {"greedy", false}, {"save", at("saved").string()}});
        for (const char* kind : {"qwen2", "smollm2"}) {
            const auto report = exportModel(m_teachers.path(kind), at(std::string("bf16 ") + kind), lifted("bf16"), kOneThread);
            QVERIFY2(report, qPrintable(messageOf(report)));
            for (const auto& folder : {m_teachers.path(kind), at(std::string("bf16 ") + kind)})
                m_questions.add(folder, {{"ids", kLong}, {"greedy", false}, {"dtype", "bfloat16"}});
        }
        for (const char* kind : {"qwen3_5", "qwen3_5_biased"}) {
            auto options = lifted();
            options.lift = false;
            const auto report = exportModel(m_teachers.path(kind), at(kind), options, kOneThread);
            QVERIFY2(report && report->fidelity == "exact" && report->exact, qPrintable(messageOf(report)));
            for (const auto& folder : {m_teachers.path(kind), at(kind)})
                m_questions.add(folder, {{"ids", kPrompts}});
        }
        const QString asked = m_questions.ask();
        QVERIFY2(asked.isEmpty(), qPrintable(asked));
    }

    // By hand: |W| = 5, so that q is 5 sqrt(2) long at most, and 5 more with the bias; over two dims.
    void bound() {
        const std::vector<float> rows{3, 0, 0, 4, 1, 0, 0, 1}, bias{3, 4, 0, 0}, ones{1, 1}, two{2, 2};
        QCOMPARE(largestMeanSquare({rows, {}, ones, 2}), 25.0);
        QCOMPARE(largestMeanSquare({rows, {}, two, 2}), 100.0);
        QCOMPARE(largestMeanSquare({rows, bias, ones, 2}), std::pow(5 * std::sqrt(2.0) + 5, 2) / 2);
        QVERIFY(std::isnan(largestMeanSquare({std::vector<float>{1, NAN, 1, 1}, {}, ones, 2})));
        QVERIFY_THROWS_EXCEPTION(Failure, epsLiftShift(NAN, 1e-6));
        QCOMPARE(epsLiftShift(1, 0x1p-20), 22); // 2^-44 = 2^-24 2^-20
        QCOMPARE(epsLiftShift(1.01, 0x1p-20), 23);
        QCOMPARE(epsLiftShift(0, 1e-6), 16);
    }

    // The norm of the largest q that there can be and of small ones is q: in float32 to rounding, in bfloat16 digit by digit.
    void normIsConstant() {
        auto generator = at::detail::createCPUGenerator(3);
        for (const double eps : {1e-5, 1e-6, 1e-8, static_cast<double>(1e-5f)})
            for (const double size : {1e-3, 1.0, 50.0, 3000.0}) {
                const int shift = epsLiftShift(size * size, eps);
                const at::Tensor random = at::randn({64, 24}, generator), q = random / random.square().mean(-1, true).sqrt() * size * at::logspace(-6, 0, 64).unsqueeze(1);
                const at::Tensor w = at::full({24}, epsLiftNorm(shift, eps), at::kDouble), full = (w - 1).to(at::kFloat) + 1, half = inBfloat16((w - 1).to(at::kFloat)) + 1;
                QVERIFY2(((normOf(q, shift, full, eps) - q).abs() / q.abs()).max().item<double>() < 6e-7, qPrintable(QString::number(eps)));
                QVERIFY(((normOf(q, shift - 6, full, eps) - q).abs() / q.abs()).max().item<double>() > 6e-7); // so the shift is needed
                const at::Tensor short16 = inBfloat16(q);
                QVERIFY2(at::equal(inBfloat16(normOf(short16, shift, half, eps)), short16), qPrintable(QString::number(eps)));
            }
    }

    void shiftIsFoundAgain() {
        for (const double eps : {1e-5, 1e-6, 3.7e-7, static_cast<double>(1e-5f)})
            for (int shift = 16; shift <= 60; ++shift) {
                const at::Tensor less = at::full({24}, epsLiftNorm(shift, eps) - 1, at::kDouble).to(at::kFloat);
                for (at::Tensor w : {less + 1, inBfloat16(less) + 1}) {
                    const std::span<float> values(w.mutable_data_ptr<float>(), 24);
                    QCOMPARE(epsLiftShiftOf(values, eps), std::optional(shift));
                    for (const float other : {values[7] * 1.01f, -values[7], 2 * values[7], NAN, 0.0f, INFINITY}) {
                        const float own = std::exchange(values[7], other);
                        QCOMPARE(epsLiftShiftOf(values, eps), std::nullopt);
                        std::swap(values[0], values[7]);
                        QCOMPARE(epsLiftShiftOf(values, eps), std::nullopt);
                        std::swap(values[0], values[7]);
                        values[7] = own;
                    }
                    QCOMPARE(epsLiftShiftOf(std::span<const float>(values).first(0), eps), std::nullopt);
                    QCOMPARE(epsLiftShiftOf(values, 2 * eps), std::nullopt);
                }
            }
    }

    void transformersAgrees_data() {
        QTest::addColumn<int>("index");
        for (int i = 0; i < static_cast<int>(std::size(kCases)); ++i)
            QTest::newRow(kCases[i].name) << i;
    }
    void transformersAgrees() {
        QFETCH(int, index);
        const Case& c = kCases[index];
        const auto folder = at(c.name);
        const auto card = QString::fromStdString(readTextFile(folder / "README.md"));
        QVERIFY(card.contains("vllm serve") && card.contains("sglang") != (c.biases && c.kept()) && card.contains("lifted: q and k") == c.kept());
        const auto original = orFail(openModel(source(c), kOneThread)), back = orFail(openModel(folder, kOneThread));
        const Json config = readJsonFile(folder / "config.json");
        QVERIFY(config["head_dim"] == original->config().headDim && config["partial_rotary_factor"] == 1.0 && config["attention_bias"] == c.biases);
        QCOMPARE(back->config().modelType, std::string(c.type));
        QCOMPARE(back->config().headDim, original->config().headDim);
        QCOMPARE(modelInfo(*back).layerKinds, modelInfo(*original).layerKinds);
        QCOMPARE(modelInfo(*back).parameters, modelInfo(*original).parameters);
        for (const auto& ids : kPrompts)
            QVERIFY(at::equal(logitsOf(*back, ids), logitsOf(*original, ids)));
        compare(m_questions.answer(folder), *original, 1e-4);
    }

    void realSmolLM2() { // all of its layers lifted
        const auto teacher = qEnvironmentVariable("LINNET_TEACHER");
        if (teacher.isEmpty())
            QSKIP("LINNET_TEACHER is not set");
        const auto original = orFail(openModel(teacher.toStdString(), kOneThread));
        const auto& tokenizer = modelTokenizer(*original);
        const std::vector<std::vector<TokenId>> prompts{tokenizer.encode("The capital of France is", true), tokenizer.encode("To mend a broken vase, first gather every piece of it and", true)};
        Questions questions;
        for (const char* dtype : {"f32", "bf16"}) {
            const auto report = exportModel(teacher.toStdString(), at(dtype), lifted(dtype, false), kOneThread);
            QVERIFY2(report, qPrintable(messageOf(report)));
            questions.add(at(dtype), {{"ids", prompts}, {"dtype", dtype == std::string("f32") ? "float32" : "bfloat16"}, {"greedy", dtype == std::string("f32")}});
        }
        const QString said = questions.ask();
        QVERIFY2(said.isEmpty(), qPrintable(said));
        compare(questions.answer(at("f32")), *original, 1e-4, prompts);
        const auto back = orFail(openModel(at("f32"), kOneThread));
        for (std::int64_t l = 0; l < original->config().layers; ++l)
            QVERIFY(at::equal(back->layer(l)->attention.qkv, original->layer(l)->attention.qkv));
        for (std::size_t i = 0; i < prompts.size(); ++i) {
            const auto expected = logitsOf(*original, prompts[i]);
            LINNET_NEAR(logitsOf(*back, prompts[i]), expected, 1e-5); // block norms less one and back are rounded
            const auto name = "logits_" + std::to_string(i);
            const auto in32 = relativeError(questions.answer(at("f32")).logits.at(name), expected), in16 = relativeError(questions.answer(at("bf16")).logits.at(name), expected);
            qInfo("largest difference over the largest logit: float32 %.2g, bfloat16 %.2g", in32, in16);
            QVERIFY(in16 < 0.05);
        }
    }

    void savedAgainByTransformers() {
        const auto original = orFail(openModel(source(kCases[1]), kOneThread));
        const auto back = openModel(at("saved"), kOneThread);
        QVERIFY2(back, qPrintable(messageOf(back)));
        QVERIFY(at::equal(logitsOf(**back, kPrompts[2]), logitsOf(*original, kPrompts[2])));
    }

    // transformers' own save_pretrained, in the shape that we write: opens with the logits that transformers has, and goes back out as it came.
    void theirFolders_data() {
        QTest::addColumn<bool>("biases");
        QTest::newRow("qwen3_5") << false;
        QTest::newRow("qwen3_5_biased") << true;
    }
    void theirFolders() {
        QFETCH(bool, biases);
        const auto folder = m_teachers.path(QTest::currentDataTag());
        const auto opened = openModel(folder, kOneThread);
        QVERIFY2(opened, qPrintable(messageOf(opened)));
        const auto info = modelInfo(**opened);
        QCOMPARE(info.layerKinds, (std::vector<std::string>{"gated_delta_net", "softmax", "gated_delta_net", "softmax"}));
        QCOMPARE(info.config.qkvBias, biases);
        for (const auto& asked : {folder, at(QTest::currentDataTag())})
            compare(m_questions.answer(asked), **opened, 1e-4);
    }

    // 16 bits lose what they lose of the teacher itself, measured by the same runtime against float32; read back, q and k have the digits that bf16 has.
    void in16Bits_data() {
        QTest::addColumn<QString>("kind");
        QTest::newRow("qwen2") << "qwen2";
        QTest::newRow("smollm2") << "smollm2";
    }
    void in16Bits() {
        QFETCH(QString, kind);
        const auto folder = at("bf16 " + kind.toStdString());
        const auto teacher = orFail(openModel(m_teachers.path(kind), kOneThread)), back = orFail(openModel(folder, kOneThread));
        const auto H = teacher->config().heads, K = teacher->config().kvHeads, D = teacher->config().headDim;
        for (std::int64_t l = 0; l < teacher->config().layers; ++l) // norms may have given powers of two to the columns
            for (const auto& [first, heads] : {std::pair(std::int64_t{0}, H), std::pair(H, K)}) {
                const auto was = teacher->layer(l), is = back->layer(l);
                const auto rows = [&](const at::Tensor& all) { return all.narrow(0, first * D, heads * D); };
                const at::Tensor factor = is->attention.qkv.narrow(0, first * D, 1) / inBfloat16(rows(was->attention.qkv).narrow(0, 0, 1));
                QVERIFY(at::equal(rows(is->attention.qkv), inBfloat16(rows(was->attention.qkv)) * factor) && at::equal(factor.log2(), factor.log2().round()));
            }
        const auto plain = m_questions.answer(m_teachers.path(kind)), ours = m_questions.answer(folder);
        double same[2] = {0, 0}, error[2] = {0, 0};
        for (std::size_t i = 0; i < kLong.size(); ++i) {
            const at::Tensor expected = logitsOf(*teacher, kLong[i]);
            for (const bool lift : {false, true}) {
                const auto& found = (lift ? ours : plain).logits.at("logits_" + std::to_string(i));
                same[lift] += found.argmax(-1).eq(expected.argmax(-1)).to(at::kDouble).mean().item<double>() / 2;
                error[lift] += (found - expected).square().mean().item<double>();
            }
        }
        qInfo("%s: top-1 of float32 %.3f (the teacher itself %.3f), mean square error x%.2f of the teacher's", qPrintable(kind), same[1], same[0], error[1] / error[0]);
        QVERIFY2(same[1] >= same[0] - 0.03, "top-1 agreement");
        QVERIFY2(error[1] <= 2 * error[0], "mean square error");
    }

    void askedFor() {
        auto options = lifted();
        options.lift = false;
        const auto refused = exportModel(m_teachers.path("smollm2"), at("no"), options, kOneThread);
        QVERIFY(!refused && refused.error().code == ErrorCode::Unsupported);
        QVERIFY2(messageOf(refused).contains("--lift") && messageOf(refused).contains("not to be trained on"), qPrintable(messageOf(refused)));
        const auto half = exportModel(m_teachers.path("smollm2"), at("half"), lifted("f16"), kOneThread);
        QVERIFY(!half && half.error().code == ErrorCode::Unsupported && messageOf(half).contains("float16"));
        QVERIFY(TinyStudents::nothingLike(at("half")));
        const auto window = exportModel(m_students.run("qwen2", "layers:0,2", "sliding-window"), at("window"), lifted(), kOneThread);
        QVERIFY(!window && messageOf(window).contains("sliding window"));
        for (const char* dtype : {"f32", "f16"}) { // the option changes nothing where nothing needs it
            const auto plain = exportModel(m_teachers.path("qwen3"), at(std::string("plain ") + dtype), lifted(dtype), kOneThread);
            QVERIFY2(plain && plain->fidelity.starts_with("exact") && plain->notes.empty(), qPrintable(messageOf(plain)));
        }
    }

    // A folder that says it is lifted but is not of that form is not read as if it were.
    void otherForms_data() {
        QTest::addColumn<QString>("tensor");
        QTest::addColumn<int>("row");
        QTest::addColumn<double>("value");
        const QString layer = "model.layers.1.self_attn."; // qwen2: heads of 16
        QTest::newRow("a gate") << layer + "q_proj.weight" << 16 + 3 << 1e-9;
        QTest::newRow("a gate's bias") << layer + "q_proj.bias" << 16 + 3 << 1e-9;
        QTest::newRow("queries that are not small") << layer + "q_proj.weight" << 3 << 1e-4;
        QTest::newRow("keys that are not small") << layer + "k_proj.weight" << 3 << 1e-4;
        QTest::newRow("a bias that is not small") << layer + "k_proj.bias" << 3 << 1e-4;
        QTest::newRow("a bias of the output") << layer + "o_proj.bias" << 3 << 1e-9;
        QTest::newRow("a norm's scale") << layer + "q_norm.weight" << 5 << 1.0;
        QTest::newRow("a norm of keys") << layer + "k_norm.weight" << 0 << 0.0;
    }
    void otherForms() {
        QFETCH(QString, tensor);
        QFETCH(int, row);
        QFETCH(double, value);
        const auto folder = copyOf("qwen2");
        NamedTensors tensors = loadTensors(folder / "model.safetensors", at::kCPU);
        bool found = false;
        for (auto& [name, t] : tensors)
            if (QString::fromStdString(name) == tensor) {
                t.dim() == 1 ? t[row].fill_(value) : t[row][t.size(1) - 1].fill_(value);
                found = true;
            }
        QVERIFY(found);
        saveTensors(folder / "model.safetensors", tensors);
        const auto opened = openModel(folder, kOneThread);
        QVERIFY(!opened && opened.error().code == ErrorCode::Unsupported);
        const QString named = QString(tensor).replace("k_proj.bias", "k_proj.weight"); // those are judged together
        QVERIFY2(messageOf(opened).contains(named), qPrintable(messageOf(opened)));
    }

    void otherConfigs_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("value");
        QTest::newRow("another teacher") << "linnet_lift/teacher_type" << "\"qwen3\"";
        QTest::newRow("no answer") << "linnet_lift/qkv_bias" << "null";
        QTest::newRow("less rotated dims") << "partial_rotary_factor" << "0.25";
        QTest::newRow("less rotated dims, inside") << "rope_parameters/partial_rotary_factor" << "0.25";
    }
    void otherConfigs() {
        QFETCH(QString, key);
        QFETCH(QString, value);
        const auto folder = copyOf("smollm2");
        Json config = readJsonFile(folder / "config.json");
        config[Json::json_pointer("/" + key.toStdString())] = Json::parse(value.toStdString());
        writeFileAtomically(folder / "config.json", config.dump());
        const auto opened = openModel(folder, kOneThread);
        QVERIFY(!opened && opened.error().code == ErrorCode::Unsupported);
        QVERIFY2(messageOf(opened).contains("config.json"), qPrintable(messageOf(opened)));
    }
    void withoutOurKey() { // it is what the class is: a model with QK-norm that computes the same
        const auto folder = copyOf("smollm2");
        Json config = readJsonFile(folder / "config.json");
        config.erase("linnet_lift");
        writeFileAtomically(folder / "config.json", config.dump());
        const auto opened = openModel(folder, kOneThread);
        QVERIFY2(opened, qPrintable(messageOf(opened)));
        QVERIFY((*opened)->config().qkNorm);
        LINNET_NEAR(logitsOf(**opened, kPrompts[2]), logitsOf(*orFail(openModel(m_teachers.path("smollm2"), kOneThread)), kPrompts[2]), 1e-4);
    }
};

QTEST_APPLESS_MAIN(TestExportLift)
#include "tst_export_lift.moc"
