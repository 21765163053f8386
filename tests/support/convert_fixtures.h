// Tiny teachers for conversion and export tests (convert_oracle.py) and a recipe that converts one in seconds.
#pragma once

#include "core/torch_pch.h"

#include "core/base/files.h"
#include "core/convert/convert.h"
#include "core/convert/tensor_file.h"
#include "tests/support/model_fixtures.h"

namespace linnet::tests {

class TinyTeachers {
public:
    QString make() { return runOracle("convert_oracle.py", {"models", m_folder.path()}); } // an empty message where it worked
    QString add(const QStringList& kinds) { return runOracle("tiny_teachers.py", QStringList{m_folder.path()} + kinds); } // of tiny_teachers.py, over those of the same name
    std::filesystem::path path(const QString& name) const { return m_folder.filePath(name).toStdString(); }
    core::ModelPtr open(const QString& kind, bool streamed = false) const {
        core::RunOptions options;
        options.device = "cpu";
        options.threads = 1;
        options.streamed = streamed;
        return core::orFail(core::openModel(path(kind), options));
    }
    // 4 layers; 24 calibration windows of 32 tokens, 6 each to select and evaluate on.
    core::Recipe recipe(const QString& kind, const std::string& keep, const std::string& preset = "naive") const {
        core::Recipe recipe = core::defaultRecipe("cpu", preset);
        recipe.teacherSource = path(kind).string();
        recipe.dataText = {path("text.txt").string()};
        recipe.seqLen = 32;
        recipe.calibrationTokens = 24 * 32;
        recipe.selectionTokens = 6 * 32;
        recipe.evaluationTokens = 6 * 32;
        recipe.keep = core::parseKeepRule(keep);
        recipe.align.steps = 16;
        recipe.align.batch = 4;
        if (recipe.align.lr == recipe.align.lrNew) // ours: what suits a teacher of 4 narrow layers
            recipe.align.lr = recipe.align.lrNew = 3e-3;
        recipe.device = "cpu";
        recipe.seed = 3;
        return recipe;
    }

private:
    QTemporaryDir m_folder;
};

inline std::map<std::string, at::Tensor> tensorsOf(const std::filesystem::path& file) {
    std::map<std::string, at::Tensor> result;
    for (const auto& [name, tensor] : core::loadTensors(file, at::kCPU))
        result[name] = tensor;
    return result;
}

// The error's message, "" for a value: makes QVERIFY2 and QCOMPARE say what went wrong.
template <class T> QString messageOf(const core::Result<T>& result) {
    return result ? QString() : QString::fromStdString(result.error().message);
}

inline std::string studentBytes(const std::filesystem::path& run) {
    return core::readTextFile(run / "checkpoints" / "student.safetensors");
}

// What must be the same in two runs of one recipe: everything but times, memory and the folder's name.
inline core::Json numbersOf(const core::Report& report) {
    core::Json json = core::reportToJson(report);
    json.erase("run");
    json.erase("peak_memory_bytes");
    for (auto& stage : json["stages"])
        stage.erase("seconds");
    for (auto& [name, evaluation] : json["evaluation"].items())
        evaluation.erase("seconds");
    return json;
}

// Each line of a run's curves but for its times: no line twice, none missing.
inline std::vector<std::string> curveOf(const std::filesystem::path& run) {
    std::vector<std::string> lines;
    for (const auto& row : core::orFail(core::readMetrics(run))) {
        core::Json json = core::metricToJson(row);
        json.erase("time");
        json.erase("tokens_per_second");
        lines.push_back(json.dump());
    }
    return lines;
}

} // namespace linnet::tests

// In initTestCase: makes the teachers, or skips the program where there is no oracle.
#define LINNET_MAKE_TEACHERS(teachers)                                                                                         \
    do {                                                                                                                       \
        if (linnet::tests::oraclePython().isEmpty())                                                                           \
            QSKIP("LINNET_ORACLE_PYTHON is not set: no transformers to make teachers with");                                   \
        const QString said_ = (teachers).make();                                                                               \
        QVERIFY2(said_.isEmpty(), qPrintable(said_));                                                                          \
    } while (false)
