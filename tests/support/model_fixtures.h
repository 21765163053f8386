// Tiny models with transformers' answers (make_models.py), opened by the code under test.
#pragma once

#include "core/torch_pch.h"

#include "core/model/model.h"
#include "tests/support/oracle_process.h"

#include <QTemporaryDir>

namespace linnet::tests {

inline core::RunOptions cpuRun() {
    core::RunOptions options;
    options.device = "cpu";
    options.threads = 2;
    return options;
}

class TinyModels {
public:
    // An empty message where the models were made.
    QString make(const QStringList& names = {}) { return runOracle("make_models.py", QStringList{"tiny", m_folder.path()} + names); }
    std::filesystem::path folder(const QString& name) const { return m_folder.filePath(name).toStdString(); }
    core::ModelPtr open(const QString& name, bool streamed = false) const {
        core::RunOptions options = cpuRun();
        options.streamed = streamed;
        return core::orFail(core::openModel(folder(name), options));
    }
    at::Tensor answer(const QString& name, const char* tensor) const {
        const auto source = core::openSafetensorsFile(folder(name + ".safetensors"));
        const auto* info = source->find(tensor);
        at::Tensor values = at::empty(info->shape, at::kFloat);
        source->read(tensor, core::DType::F32, values.mutable_data_ptr());
        return values;
    }
    core::Json numbers(const QString& name) const { return core::readJsonFile(folder(name + ".json")); } // ids, greedy
    std::vector<core::TokenId> ids(const QString& name, std::size_t count, std::size_t row = 0) const {
        auto all = numbers(name)["ids"][row].get<std::vector<core::TokenId>>();
        all.resize(count);
        return all;
    }
    at::Tensor idBatch(const QString& name) const { // [3, 33]
        std::vector<at::Tensor> rows;
        const core::Json all = numbers(name);
        for (const auto& row : all["ids"])
            rows.push_back(at::tensor(row.get<std::vector<std::int64_t>>(), at::kLong));
        return at::stack(rows);
    }

private:
    QTemporaryDir m_folder;
};

inline at::Tensor idTensor(const std::vector<core::TokenId>& ids) {
    return at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), at::kLong).unsqueeze(0);
}

// Largest difference over the largest expected value.
inline double relativeError(const at::Tensor& found, const at::Tensor& expected) {
    if (found.sizes() != expected.sizes())
        return INFINITY;
    const double error = ((found.to(at::kDouble) - expected.to(at::kDouble)).abs().max() / expected.abs().max()).item<double>();
    return std::isnan(error) ? INFINITY : error;
}

} // namespace linnet::tests

#define LINNET_NEAR(found, expected, tolerance)                                                                                           \
    do {                                                                                                                                 \
        const double error_ = linnet::tests::relativeError(found, expected);                                                             \
        QVERIFY2(error_ <= (tolerance), qPrintable(QString("relative error %1, allowed %2").arg(error_).arg(double(tolerance))));         \
    } while (false)

// In initTestCase: makes the models, or skips the program where there is no oracle.
#define LINNET_MAKE_MODELS(models, ...)                                                                                                  \
    do {                                                                                                                                 \
        if (linnet::tests::oraclePython().isEmpty())                                                                                     \
            QSKIP("LINNET_ORACLE_PYTHON is not set: no transformers to compare with");                                                   \
        const QString said_ = (models).make(__VA_ARGS__);                                                                                \
        QVERIFY2(said_.isEmpty(), qPrintable(said_));                                                                                    \
    } while (false)
