// One target format: how a hybrid is written as it. What a format can express is core/model/export_choices.h's to say.
#pragma once

#include "core/export/export.h"
#include "core/model/model.h"

namespace linnet::core {

struct WriteJob {
    const Model& model;            // opened in float32
    std::filesystem::path student; // what is exported: a run folder or a model folder
    std::filesystem::path folder;  // is there and empty; gets everything but the parity file, the hashes and export.json
    ExportOptions options;
};

struct WrittenFolder {
    std::vector<std::string> files;
    bool exact = false;             // every value is stored bit for bit
    std::vector<std::string> notes; // what a person should know: a cost, a runtime's limit
    std::string contents{};         // teacherContents, where the writer had to make it
};

struct Format {
    const char* name;
    WrittenFolder (*write)(const WriteJob& job, const Control& control); // throws Unsupported naming what can't be expressed, before it writes
    std::vector<const char*> dtypes;                                     // the first is the default
};
const Format& formatOf(const std::string& name); // throws Usage

const ExportChoice& choiceOf(const ModelInfo& info, const std::string& format); // of info.exports; throws Usage for a name that is none
// Throws Unsupported with the reason of exportChoice where the model can't be said in the format, or only with a lift that was not asked for.
void requireExpressible(const WriteJob& job);

WrittenFolder writeHfFolder(const WriteJob& job, const Control& control);
WrittenFolder writeQwen35Folder(const WriteJob& job, const Control& control);
WrittenFolder writeGgufFolder(const WriteJob& job, const Control& control);
WrittenFolder writeFlaFolder(const WriteJob& job, const Control& control);
WrittenFolder writeAdapter(const WriteJob& job, const Control& control);
WrittenFolder writeBundle(const WriteJob& job, const Control& control);

} // namespace linnet::core
