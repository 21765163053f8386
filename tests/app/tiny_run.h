// A tiny teacher with a text and a finished run of it on disk: made once, in seconds, by the conversion itself.
#pragma once

#include "core/convert/convert.h"
#include "tests/support/oracle_process.h"

#include <QTemporaryDir>

namespace linnet::tests {

class TinyRun {
public:
    // An empty message where it worked.
    QString make() {
        const auto said = runOracle("convert_oracle.py", {"models", m_folder.path()});
        if (!said.isEmpty())
            return said;
        const auto report = core::convert(recipe(), run().toStdString(), noBaselines(), {});
        return report ? QString() : QString::fromStdString(report.error().message);
    }
    QString path(const QString& name) const { return m_folder.filePath(name); }
    QString teacher() const { return path("llama"); } // 4 layers, 6 heads, a vocabulary of 300, no chat template
    QString run() const { return path("runs/tiny"); }
    core::Recipe recipe(const std::string& keep = "layers:0,2") const {
        auto recipe = core::defaultRecipe("cpu", "naive");
        recipe.teacherSource = teacher().toStdString();
        recipe.dataText = {path("text.txt").toStdString()};
        recipe.seqLen = 32;
        recipe.calibrationTokens = 16 * 32, recipe.selectionTokens = 4 * 32, recipe.evaluationTokens = 4 * 32;
        recipe.keep = core::parseKeepRule(keep);
        recipe.align.steps = 4, recipe.align.batch = 4;
        recipe.device = "cpu";
        recipe.seed = 3;
        return recipe;
    }
    static core::ConvertOptions noBaselines() {
        core::ConvertOptions options;
        options.baselines = false;
        return options;
    }

private:
    QTemporaryDir m_folder;
};

} // namespace linnet::tests

#define LINNET_MAKE_RUN(made)                                                                                                            \
    do {                                                                                                                                 \
        if (linnet::tests::oraclePython().isEmpty())                                                                                     \
            QSKIP("LINNET_ORACLE_PYTHON is not set: no tiny teacher can be made");                                                       \
        const QString said_ = (made).make();                                                                                             \
        QVERIFY2(said_.isEmpty(), qPrintable(said_));                                                                                    \
    } while (false)
