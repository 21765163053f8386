// The table of README: what each format says of each teacher (core/model/export_choices), and what the real runtimes found. It fails where a
// format that is offered is not found to compute the student's function, and where README says otherwise than this.
#include "core/torch_pch.h"

#include <ATen/Parallel.h>

#include "core/export/format.h"
#include "tests/support/export_fixtures.h"

#include <QRegularExpression>
#include <QTest>

namespace fs = std::filesystem;
using namespace linnet::core;
using namespace linnet::tests;

namespace {

const std::vector<std::vector<TokenId>> kPrompts{{5, 17, 200, 31, 8, 99, 140, 3, 61, 254}, {77, 4, 120}};
constexpr int kGreedy = 20, kPositions = 4;
constexpr double kAllowed = 1e-3; // of the largest logit, in float32
constexpr const char *kBegin = "<!-- truth: written by tst_export_truth -->", *kEnd = "<!-- end of truth -->";

struct Teacher {
    const char *kind, *label;
};
const Teacher kTeachers[] = {{"wide", "Qwen3, head_dim is not hidden / heads"}, {"qwen3", "Qwen3, head_dim = hidden / heads"}, {"qwen2", "Qwen2 and 2.5"},
                             {"llama", "Llama and SmolLM2: plain RoPE, head_dim = hidden / heads"}, {"llama3", "Llama 3.1 and 3.2, scaled RoPE"}, {"smollm2", "the same with odd head counts, head_dim is not hidden / heads"}};

struct Found {
    double error = INFINITY; // largest logit difference over the largest logit
    bool greedySame = false;
};

// Equal, or apart from where the first and second choice are as near as the logits are.
bool sameButForTies(const Model& model, std::vector<TokenId> ids, const std::vector<TokenId>& theirs, const std::vector<TokenId>& ours) {
    const auto at = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end()).first;
    if (ours == theirs)
        return true;
    ids.insert(ids.end(), ours.begin(), at);
    const at::Tensor last = logitsOf(model, ids)[-1], two = std::get<0>(last.topk(2));
    const double gap = ((two[0] - two[1]) / last.abs().max()).item<double>();
    qInfo("greedy tokens part after %d, where the first two choices are %.2g of the largest logit apart: %s here, %s there", int(at - ours.begin()), gap, Json(ours).dump().c_str(),
          Json(theirs).dump().c_str());
    return gap < 1e-5;
}

QString order(double error) { // "0", "1e-07"
    return error == 0 ? QStringLiteral("0") : QStringLiteral("1e%1").arg(int(std::ceil(std::log10(error))), 3, 10, QLatin1Char('0'));
}

QString wordsOf(QString text) { // what must be the same today as in README: no numbers
    static const QRegularExpression numbers(QStringLiteral("[0-9][-+.0-9e]*"));
    return text.remove(numbers).simplified();
}

} // namespace

class TestExportTruth : public QObject {
    Q_OBJECT

    TinyTeachers m_teachers;
    TinyStudents m_students{m_teachers};
    QStringList m_absent; // formats whose runtime is not installed
    fs::path at(const std::string& name) const { return m_students.at(name); }

    Found compared(const Model& model, const std::map<std::string, at::Tensor>& logits, const Json& greedy, bool endOfText) const {
        Found found{0, true};
        for (std::size_t i = 0; i < kPrompts.size(); ++i) {
            found.error = std::max(found.error, relativeError(logits.at("logits_" + std::to_string(i)), logitsOf(model, kPrompts[i])));
            GenerateOptions options;
            options.tokens = kGreedy;
            auto made = orFail(generate(model, kPrompts[i], options)).ids, theirs = greedy.is_null() ? made : greedy[i].get<std::vector<TokenId>>();
            if (!endOfText) // llama.cpp tells of it or not, by where its text stands
                for (auto* list : {&made, &theirs})
                    if (!list->empty() && modelTokenizer(model).isEndOfText(list->back()))
                        list->pop_back();
            found.greedySame = found.greedySame && sameButForTies(model, kPrompts[i], theirs, made);
        }
        return found;
    }
    // By the folder's own runtime; `said` is the oracle's complaint.
    Found measured(const std::string& format, const Model& model, const fs::path& folder, QString& said) const {
        const auto request = folder.string() + ".request", out = folder.string() + ".out";
        Json asked{{"ids", kPrompts}, {"text", "a state"}, {"tokens", kGreedy}, {"positions", kPositions}, {"vocab", 300}};
        if (format == "bundle")
            asked = kPrompts;
        writeFileAtomically(request, asked.dump());
        if (format == "adapter") {
            const auto back = orFail(openModel(folder, kOneThread));
            Found found{0, true};
            for (const auto& ids : kPrompts)
                found.error = std::max(found.error, relativeError(logitsOf(*back, ids), logitsOf(model, ids)));
            return found;
        }
        if (format == "bundle") {
            said = runOracle("bundle_oracle.py", {"logits", folder.c_str(), request.c_str(), out.c_str()});
            const auto file = fs::exists(out) ? out : out + ".safetensors";
            return said.isEmpty() ? compared(model, tensorsOf(file), Json(), true) : Found{};
        }
        const bool gguf = format == "gguf";
        const auto read = gguf ? folder / "model.gguf" : folder;
        said = runOracle(gguf ? "llama_oracle.py" : format == "fla" ? "fla_oracle.py" : "export_oracle.py", {read.c_str(), request.c_str(), out.c_str()});
        if (!said.isEmpty())
            return {};
        const Json answers = readJsonFile(out + ".json");
        auto tensors = tensorsOf(out + ".safetensors");
        if (!gguf)
            return compared(model, tensors, answers["cached"], true);
        Found found{0, true};
        std::map<std::string, at::Tensor> logits;
        for (std::size_t i = 0; i < kPrompts.size(); ++i) { // log-probabilities of the last positions alone
            const auto rows = tensors.at("log_probabilities_" + std::to_string(i));
            const auto ours = at::log_softmax(logitsOf(model, kPrompts[i]), -1).narrow(0, std::ssize(kPrompts[i]) - rows.size(0), rows.size(0));
            found.error = std::max(found.error, relativeError(rows, ours));
            logits["logits_" + std::to_string(i)] = logitsOf(model, kPrompts[i]);
        }
        found.greedySame = compared(model, logits, answers["greedy"], false).greedySame;
        return found;
    }

    QString runtimes() const {
        const auto out = at("versions.json");
        if (!runOracle("versions_oracle.py", {out.c_str(), "transformers", "flash-linear-attention", "fla-core", "xllamacpp", "torch"}).isEmpty())
            return {};
        const Json versions = readJsonFile(out);
        const auto version = [&](const char* name) { return versions[name].is_string() ? QString::fromStdString(versions[name]) : QStringLiteral("absent"); };
        return QStringLiteral("Tiny random teachers, half of their layers converted, in float32 on a CPU; the figure is the largest difference over the largest logit, as an order of magnitude, and "
                              "greedy tokens are the same wherever one stands (%1 of them, ties aside). hf and qwen3.5: transformers %2 (torch %3); gguf: llama.cpp by xllamacpp %4; fla: flash-linear-attention's own "
                              "classes %5, its GPU kernels replaced by plain recurrences; adapter: Linnet; bundle: its student class after its source, in plain PyTorch.")
            .arg(kGreedy).arg(version("transformers"), version("torch"), version("xllamacpp"), version("flash-linear-attention"));
    }

    QString m_table, m_reasons;

private Q_SLOTS:
    void initTestCase() {
        at::set_num_threads(1);
        LINNET_MAKE_TEACHERS(m_teachers);
        const auto extra = m_teachers.path("extra");
        const QString said = runOracle("tiny_teachers.py", {extra.c_str(), "qwen3", "llama3", "smollm2"});
        QVERIFY2(said.isEmpty(), qPrintable(said));
        fs::rename(extra / "qwen3", m_teachers.path("wide"));
        for (const char* kind : {"llama3", "smollm2"})
            fs::rename(extra / kind, m_teachers.path(kind));
        m_table = QStringLiteral("| teacher |");
        for (const auto& format : kExportFormats)
            m_table += QStringLiteral(" `%1` |").arg(QString::fromStdString(format));
        m_table += QStringLiteral("\n|---|") + QStringLiteral("---|").repeated(int(kExportFormats.size())) + QLatin1Char('\n');
        const auto out = at("here.json");
        QVERIFY(runOracle("versions_oracle.py", {out.c_str(), "flash-linear-attention", "fla-core", "xllamacpp"}).isEmpty());
        const Json here = readJsonFile(out);
        if (here["xllamacpp"].is_null())
            m_absent << "gguf";
        if (here["flash-linear-attention"].is_null() && here["fla-core"].is_null())
            m_absent << "fla";
    }

    void everyFormat_data() {
        QTest::addColumn<QString>("label");
        for (const auto& teacher : kTeachers)
            QTest::newRow(teacher.kind) << QString::fromLatin1(teacher.label);
    }
    void everyFormat() {
        QFETCH(QString, label);
        const std::string kind = QTest::currentDataTag();
        const auto run = m_students.run(QString::fromStdString(kind));
        const auto model = orFail(openModel(run, kOneThread));
        QString row = QStringLiteral("| %1 |").arg(label);
        QStringList wrong;
        for (const auto& format : kExportFormats) {
            const auto choice = choiceOf(modelInfo(*model), format);
            const auto name = QString::fromStdString(format);
            m_reasons += QStringLiteral("- %1, `%2`: %3\n").arg(label, name, QString::fromStdString(choice.reason));
            QString cell = QString::fromLatin1(fidelityName(choice.fidelity));
            if (choice.in16Bits != choice.fidelity)
                cell += QStringLiteral(" (16 bits: %1)").arg(QString::fromLatin1(fidelityName(choice.in16Bits)));
            ExportOptions options;
            options.format = format, options.lift = true;
            const auto folder = at(kind + " " + format);
            const auto report = exportModel(run, folder, options, kOneThread);
            if (!choice.available()) {
                if (report || report.error().code != ErrorCode::Unsupported || !messageOf(report).contains(QString::fromStdString(choice.reason)))
                    wrong << name + QStringLiteral(" is not refused with its reason");
            } else if (!report) {
                wrong << name + QStringLiteral(": ") + messageOf(report);
            } else if (m_absent.contains(name)) {
                qWarning("%s: its runtime is not installed, not measured", qPrintable(name));
                cell += QStringLiteral(", not measured");
            } else {
                QString said;
                const auto found = measured(format, *model, folder, said);
                if (!said.isEmpty() || !(found.error <= kAllowed) || !found.greedySame)
                    wrong << QStringLiteral("%1: logits differ by %2, greedy tokens %3 %4").arg(name).arg(found.error).arg(found.greedySame ? "same" : "differ").arg(said);
                cell += QStringLiteral(", ") + order(found.error);
            }
            row += QStringLiteral(" %1 |").arg(cell);
        }
        m_table += row + QLatin1Char('\n');
        QVERIFY2(wrong.isEmpty(), qPrintable(wrong.join(QStringLiteral("\n"))));
    }

    void readmeSaysIt() {
        // reasons that are the same but for their numbers stand once, with the teachers that they hold for
        std::map<QString, QStringList> teachersOf;
        std::vector<QString> inOrder;
        static const QRegularExpression line(QStringLiteral("- (.*), `(.*)`: (.*)\n"));
        for (auto match = line.globalMatch(m_reasons); match.hasNext();) {
            const auto m = match.next();
            const auto reason = QStringLiteral("`%1`: %2").arg(m.captured(2), m.captured(3));
            if (!teachersOf.contains(reason))
                inOrder.push_back(reason);
            teachersOf[reason] << m.captured(1);
        }
        std::ranges::stable_sort(inOrder, {}, [](const QString& reason) { return reason.section(QLatin1Char(':'), 0, 0); });
        QString text = m_table + QLatin1Char('\n') + runtimes() + QStringLiteral("\n\n");
        for (const auto& reason : inOrder)
            text += QStringLiteral("- %1%2\n").arg(reason, teachersOf[reason].size() == std::ssize(kTeachers) ? QString() : QStringLiteral(" (%1)").arg(teachersOf[reason].join(QStringLiteral("; "))));
        const auto file = fs::current_path() / "truth.md";
        writeFileAtomically(file, text.toStdString());
        const auto readme = QString::fromStdString(readTextFile(fs::path(qgetenv("LINNET_SOURCE").toStdString()) / "README.md"));
        const auto from = readme.indexOf(QLatin1String(kBegin)), to = readme.indexOf(QLatin1String(kEnd));
        QVERIFY2(from >= 0 && to > from, qPrintable(QStringLiteral("README.md has no table between \"%1\" and \"%2\"; today's is in %3").arg(kBegin, kEnd, file.c_str())));
        if (!m_absent.isEmpty())
            QSKIP("runtimes are missing: README's table is not compared");
        const auto there = wordsOf(readme.mid(from + qsizetype(strlen(kBegin)), to - from - qsizetype(strlen(kBegin)))), now = wordsOf(text);
        QVERIFY2(there == now, qPrintable(QStringLiteral("README.md says otherwise than %1, which was just measured:\n%2\n--- README\n%3").arg(file.c_str(), now, there)));
    }
};

QTEST_APPLESS_MAIN(TestExportTruth)
#include "tst_export_truth.moc"
