// Mixers in the place of attention: sliding windows against an explicit mask, bypass, linear layers with caches; students in run
// folders and exported folders, on disk and back.
#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/io/safetensors_writer.h"
#include "core/model/attention.h"
#include "core/model/cache.h"
#include "tests/support/model_fixtures.h"

#include <QTest>

#include <numeric>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

Mixer window(std::int64_t size, std::int64_t sinks) {
    Mixer mixer;
    mixer.kind = Mixer::Kind::SlidingWindow;
    mixer.window = size;
    mixer.sinks = sinks;
    return mixer;
}

Mixer randomLinear(const LinearShape& s, std::uint64_t seed) {
    at::manual_seed(seed);
    const std::int64_t width = s.heads * s.headDim;
    const auto draw = [](std::vector<std::int64_t> shape, double scale) { return at::randn(shape, at::kFloat) * scale; };
    Mixer mixer{Mixer::Kind::Linear, &mixerSpec("gated_delta_net"), {}};
    LinearLayer& l = mixer.linear;
    l.qProj = draw({width, s.hidden}, 0.2);
    l.kProj = draw({width, s.hidden}, 0.2);
    l.vProj = draw({width, s.hidden}, 0.2);
    l.qConv = draw({width, 4}, 0.5);
    l.kConv = draw({width, 4}, 0.5);
    l.vConv = draw({width, 4}, 0.5);
    l.aProj = draw({s.heads, s.hidden}, 0.2);
    l.bProj = draw({s.heads, s.hidden}, 0.2);
    l.gProj = draw({width, s.hidden}, 0.2);
    l.aLog = draw({s.heads}, 0.5);
    l.dtBias = draw({s.heads}, 1) - 2;
    l.oNorm = draw({s.headDim}, 0.2) + 1;
    l.oProj = draw({s.hidden, width}, 0.2);
    return mixer;
}

at::Tensor logitsOf(const Model& model, const Mixers& mixers, const at::Tensor& ids, Cache* cache = nullptr) {
    const at::NoGradGuard noGrad;
    return model.logits(forwardHidden(model, mixers, ids, {}, cache));
}

// Softmax over exactly the keys that the definition names, in double, one query at a time.
at::Tensor explicitWindow(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t size, std::int64_t sinks) {
    const std::int64_t heads = q.size(1), tokens = q.size(2), group = heads / k.size(1);
    at::Tensor out = at::empty_like(q, at::kDouble);
    for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t t = 0; t < tokens; ++t) {
            std::vector<std::int64_t> seen;
            for (std::int64_t s = 0; s <= t; ++s)
                if (t - s < size || s < sinks)
                    seen.push_back(s);
            const at::Tensor which = at::tensor(seen, at::kLong);
            const at::Tensor keys = k.select(1, h / group).to(at::kDouble).index_select(1, which);
            const at::Tensor values = v.select(1, h / group).to(at::kDouble).index_select(1, which);
            const at::Tensor query = q.select(1, h).select(1, t).to(at::kDouble).unsqueeze(1);
            const at::Tensor weights = (query.matmul(keys.transpose(1, 2)) / std::sqrt(double(q.size(3)))).softmax(-1);
            out.select(1, h).select(1, t).copy_(weights.matmul(values).squeeze(1));
        }
    return out.transpose(1, 2).flatten(2);
}

} // namespace

class TestModelStudents : public QObject {
    Q_OBJECT

    TinyModels m_models;
    ModelPtr m_model; // llama_bias: 4 heads of 24 over 1 key/value head
    at::Tensor m_ids;

    Mixers hybrid() const {
        return {{0, randomLinear(m_model->linearShape(), 1)}, {1, window(5, 2)}, {2, randomLinear(m_model->linearShape(), 2)}};
    }
    fs::path writeRun(const fs::path& run, const Mixers& mixers) const {
        fs::create_directories(run / "checkpoints");
        Json recipe;
        recipe["teacher"] = {{"source", fs::absolute(m_models.folder("llama_bias")).string()}, {"hash", m_model->hash()}};
        recipe["mixer"] = "gated_delta_net";
        writeFileAtomically(run / "recipe.json", recipe.dump());
        saveLinearLayers(run / "checkpoints" / "student.safetensors", mixers);
        return run;
    }

private Q_SLOTS:
    void initTestCase() {
        LINNET_MAKE_MODELS(m_models, {"llama_bias", "qwen3"});
        m_model = m_models.open("llama_bias");
        m_ids = m_models.idBatch("llama_bias");
    }

    void slidingWindow_data() {
        QTest::addColumn<int>("tokens");
        QTest::addColumn<int>("window");
        QTest::addColumn<int>("sinks");
        for (const int tokens : {1, 2, 17, 300, 700})
            for (const auto& [size, sinks] : std::vector<std::pair<int, int>>{{1, 0}, {1, 3}, {5, 0}, {5, 2}, {64, 4}, {1000, 4}})
                QTest::addRow("T=%d window %d sinks %d", tokens, size, sinks) << tokens << size << sinks;
    }
    void slidingWindow() {
        QFETCH(int, tokens);
        QFETCH(int, window);
        QFETCH(int, sinks);
        at::manual_seed(9);
        const at::Tensor q = at::randn({2, 4, tokens, 8}), k = at::randn({2, 2, tokens, 8}), v = at::randn({2, 2, tokens, 8});
        Visibility visible;
        visible.window = window;
        visible.sinks = sinks;
        LINNET_NEAR(attend(q, k, v, visible), explicitWindow(q, k, v, window, sinks), 1e-5);
    }

    void gradientThroughWindowAndAttention() {
        at::manual_seed(9);
        for (const int size : {0, 5}) {
            const auto make = [](std::vector<std::int64_t> shape) { return at::randn(shape, at::kDouble).requires_grad_(); };
            const at::Tensor q = make({2, 4, 20, 8}), k = make({2, 2, 20, 8}), v = make({2, 2, 20, 8}), weight = at::randn({2, 20, 32}, at::kDouble);
            Visibility visible;
            visible.window = size;
            visible.sinks = size ? 2 : 0;
            (attend(q, k, v, visible) * weight).sum().backward();
            const at::Tensor fq = q.grad(), fk = k.grad(), fv = v.grad();
            for (const at::Tensor& t : {q, k, v})
                t.mutable_grad() = at::Tensor();
            // the plain form: repeated heads, a mask over all keys
            const at::Tensor positions = at::arange(20, at::kLong);
            const at::Tensor scores = q.matmul(k.repeat_interleave(2, 1).transpose(2, 3)) / std::sqrt(8.0);
            const at::Tensor weights = scores.masked_fill(visibleKeys(positions, positions, size, visible.sinks).logical_not(), -INFINITY).softmax(-1);
            (weights.matmul(v.repeat_interleave(2, 1)).transpose(1, 2).flatten(2) * weight).sum().backward();
            LINNET_NEAR(fq, q.grad(), 1e-9);
            LINNET_NEAR(fk, k.grad(), 1e-9);
            LINNET_NEAR(fv, v.grad(), 1e-9);
        }
    }

    void wideWindowIsSoftmax() {
        const Mixers all = {{0, window(33, 0)}, {1, window(40, 4)}, {2, window(33, 2)}};
        LINNET_NEAR(logitsOf(*m_model, all, m_ids), logitsOf(*m_model, {}, m_ids), 1e-5);
        const Mixers narrow = {{0, window(2, 0)}};
        QVERIFY(relativeError(logitsOf(*m_model, narrow, m_ids), logitsOf(*m_model, {}, m_ids)) > 1e-3);
    }

    void bypassPassesTheResidual() {
        const at::NoGradGuard noGrad;
        Mixer bypass;
        bypass.kind = Mixer::Kind::Bypass;
        const auto layer = m_model->layer(1);
        const at::Tensor hidden = at::randn({2, 9, m_model->config().hiddenSize});
        LINNET_NEAR(runBlock(*m_model, *layer, &bypass, hidden), hidden + feedForward(*m_model, *layer, hidden), 1e-7);
        QVERIFY(mixerOutput(*m_model, *layer, &bypass, hidden).eq(0).all().item<bool>());
        QVERIFY(!at::equal(runBlock(*m_model, *layer, nullptr, hidden), runBlock(*m_model, *layer, &bypass, hidden)));
    }

    // A block's mixer is what headOutputs and outputProjection make of it.
    void partsMakeTheWhole() {
        const at::NoGradGuard noGrad;
        const auto layer = m_model->layer(0);
        const at::Tensor hidden = at::randn({2, 9, m_model->config().hiddenSize}), x = attentionInput(*m_model, *layer, hidden);
        const at::Tensor mixed = outputProjection(*layer, headOutputs(*m_model, *layer, x));
        LINNET_NEAR(mixerOutput(*m_model, *layer, nullptr, x), mixed, 1e-7);
        LINNET_NEAR(runBlock(*m_model, *layer, nullptr, hidden), hidden + mixed + feedForward(*m_model, *layer, hidden + mixed), 1e-6);
    }

    // The window of 5 drops keys several times on the way.
    void hybridInPieces_data() {
        QTest::addColumn<QList<int>>("lengths");
        QTest::newRow("steps") << QList<int>(33, 1);
        QTest::newRow("prefill and steps") << (QList<int>{20} + QList<int>(13, 1));
        QTest::newRow("pieces") << QList<int>{3, 1, 7, 2, 20};
    }
    void hybridInPieces() {
        QFETCH(QList<int>, lengths);
        const Mixers mixers = hybrid();
        const at::Tensor whole = logitsOf(*m_model, mixers, m_ids);
        Cache cache(*m_model);
        std::vector<at::Tensor> pieces;
        for (const int length : lengths)
            pieces.push_back(logitsOf(*m_model, mixers, m_ids.narrow(1, cache.length(), length), &cache));
        LINNET_NEAR(at::cat(pieces, 1), whole, 2e-5);
    }

    void windowCacheStaysSmall() {
        Cache cache(*m_model);
        const at::Tensor kv = at::randn({1, 1, 1, 24});
        for (int t = 0; t < 5000; ++t)
            cache.append(0, kv, kv, 16, 4);
        QVERIFY(cache.bytes() <= 2 * 128 * 24 * sizeof(float));
    }

    void roundTripOnDisk() {
        QTemporaryDir folder;
        const Mixers mixers = hybrid();
        const fs::path run = writeRun(fs::path(folder.path().toStdString()) / "run", mixers);
        const ModelPtr student = orFail(openModel(run, cpuRun()));
        QCOMPARE(student->mixers().size(), std::size_t(3));
        QCOMPARE(student->mixers().at(1).window, std::int64_t(5));
        QCOMPARE(student->mixers().at(1).sinks, std::int64_t(2));
        for (const std::int64_t l : {0, 2}) {
            std::vector<at::Tensor> saved;
            mixers.at(l).linear.forEach([&](const std::string&, const at::Tensor& t) { saved.push_back(t); });
            std::size_t i = 0;
            student->mixers().at(l).linear.forEach([&](const std::string& name, const at::Tensor& t) { QVERIFY2(at::equal(saved[i++], t), name.c_str()); });
        }
        QVERIFY(at::equal(logitsOf(*student, student->mixers(), m_ids), logitsOf(*m_model, mixers, m_ids)));
        const ModelInfo info = orFail(readModelInfo(run));
        QCOMPARE(info.layerKinds, (std::vector<std::string>{"gated_delta_net", "sliding_window", "gated_delta_net"}));
        QCOMPARE(info.cacheBytesPerToken, std::uint64_t(0));
        QCOMPARE(info.stateBytes, std::uint64_t(2 * (4 * 24 * 24 + 9 * 4 * 24) * 4));
    }

    void runFolderErrors() {
        QTemporaryDir folder;
        const fs::path base = folder.path().toStdString();
        const auto messageOf = [](const fs::path& path) { return readModelInfo(path).error().message; };
        const fs::path none = writeRun(base / "none", hybrid());
        fs::remove(none / "checkpoints" / "student.safetensors");
        QVERIFY(messageOf(none).find("no student yet") != std::string::npos);
        const fs::path other = writeRun(base / "other", hybrid());
        std::string recipe = readTextFile(other / "recipe.json");
        recipe.replace(recipe.find(m_model->hash()), m_model->hash().size(), "0123456789abcdef");
        writeFileAtomically(other / "recipe.json", recipe);
        QVERIFY(messageOf(other).find("0123456789abcdef") != std::string::npos);
        const fs::path high = writeRun(base / "high", {{7, randomLinear(m_model->linearShape(), 1)}});
        QVERIFY(messageOf(high).find("layer 7") != std::string::npos);
        const fs::path wrong = writeRun(base / "wrong", {{1, randomLinear({2, 24, 64, 1e-5}, 1)}});
        const auto opened = openModel(wrong, cpuRun());
        QVERIFY(!opened);
        QVERIFY(opened.error().message.find("model.layers.1.linear_attn.") != std::string::npos);
    }

    // The folder that the comment at the top of open_model.cpp describes, written by hand from teacher and student.
    void exportedFolder() {
        QTemporaryDir temporary;
        const fs::path teacher = m_models.folder("llama_bias"), run = writeRun(fs::path(temporary.path().toStdString()) / "run", hybrid());
        const fs::path out = fs::path(temporary.path().toStdString()) / "export";
        fs::create_directories(out);
        for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
            fs::copy_file(teacher / name, out / name);
        Json config = readJsonFile(teacher / "config.json");
        config["linnet"] = {{"teacher_type", config["model_type"]}, {"mixer", "gated_delta_net"}, {"converted_layers", {0, 1, 2}}};
        config["model_type"] = "linnet";
        writeFileAtomically(out / "config.json", config.dump());
        std::vector<std::pair<std::shared_ptr<WeightSource>, TensorInfo>> all;
        const std::shared_ptr<WeightSource> sources[] = {openSafetensorsFolder(teacher), openSafetensorsFile(run / "checkpoints" / "student.safetensors")};
        std::vector<TensorToWrite> header;
        for (const auto& source : sources)
            for (const TensorInfo& info : source->tensors())
                if (info.name.find("layers.0.self_attn") == info.name.npos && info.name.find("layers.2.self_attn") == info.name.npos) {
                    all.emplace_back(source, info);
                    header.push_back({info.name, "F32", info.shape});
                }
        SafetensorsWriter writer(out / "model.safetensors", header);
        for (const auto& [source, info] : all) {
            at::Tensor values = at::empty(info.shape, at::kFloat);
            source->read(info.name, DType::F32, values.mutable_data_ptr());
            writer.write(info.name, values.const_data_ptr(), values.nbytes());
        }
        writer.finish();
        const ModelPtr exported = orFail(openModel(out, cpuRun()));
        QVERIFY(at::equal(logitsOf(*exported, exported->mixers(), m_ids), logitsOf(*m_model, hybrid(), m_ids)));
        QVERIFY(!orFail(generate(*exported, {5, 6, 7}, {.tokens = 5})).ids.empty());
        config["linnet"]["converted_layers"] = {0, 1};
        writeFileAtomically(out / "config.json", config.dump());
        QVERIFY(readModelInfo(out).error().message.find("converted_layers") != std::string::npos);
    }

    void infoOfTeachers() {
        const ModelInfo llama = orFail(readModelInfo(m_models.folder("llama_bias"))), qwen3 = orFail(readModelInfo(m_models.folder("qwen3")));
        std::int64_t counted = 0; // every stored number
        const auto source = openSafetensorsFolder(m_models.folder("llama_bias"));
        for (const TensorInfo& info : source->tensors())
            counted += std::accumulate(info.shape.begin(), info.shape.end(), std::int64_t(1), std::multiplies<>());
        QCOMPARE(llama.parameters, counted);
        QCOMPARE(llama.cacheBytesPerToken, std::uint64_t(3 * 2 * 1 * 24 * 4));
        const auto choice = [](const ModelInfo& info, const std::string& format) {
            return *std::ranges::find(info.exports, format, &ExportChoice::format);
        };
        QCOMPARE(llama.exports.size(), kExportFormats.size());
        QVERIFY(choice(llama, "hf").exact() && choice(llama, "adapter").exact());
        for (const char* format : {"qwen3.5", "gguf", "fla"}) // biases of its feed-forward layers
            QVERIFY(!choice(llama, format).available() && choice(llama, format).reason.find("bias") != std::string::npos);
        QVERIFY(choice(qwen3, "qwen3.5").exact() && choice(qwen3, "gguf").exact() && !choice(qwen3, "fla").available());
    }
};

QTEST_APPLESS_MAIN(TestModelStudents)
#include "tst_model_students.moc"
