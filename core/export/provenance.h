// Where an export comes from: export.json beside the weights, and the licence and identity of the teacher that card and metadata name.
#pragma once

#include "core/export/export.h"
#include "core/model/model.h"

namespace linnet::core {

inline constexpr const char* kExportFile = "export.json";

struct TeacherOrigin {
    std::string name;      // of its folder or file, without the path to it
    std::string hash;      // WeightSource::hash
    std::string license;   // as the teacher's README front matter or its GGUF metadata names it; "" = it names none
    std::string baseModel; // "organisation/name" on the Hub, where files say so; else ""
    std::string contents{}; // weightContents: of every byte of its weights
    bool operator==(const TeacherOrigin&) const = default;
};
// From README.md's front matter and config.json of a folder, general.* of a GGUF file.
TeacherOrigin teacherOrigin(const std::filesystem::path& teacher, const std::string& hash);
// Of the teacher of what is exported: read from the export that `student` is, else made of the weights' files, all of them read once.
std::string teacherContents(const Model& model, const std::filesystem::path& student, const Control& control);

// No times and no paths: two exports of one student have the same.
struct Provenance {
    std::string format, dtype, fidelity;
    bool exact = false;
    std::vector<std::string> notes;
    TeacherOrigin teacher;
    std::string studentHash; // of the converted layers' values and the teacher's hash
    std::string recipeHash;  // "" where the student has no recipe
    std::vector<std::string> layers; // ModelInfo::layerKinds
};
// Teacher (`contents`: teacherContents), hashes and layers of what is exported; an export of an export keeps the first one's teacher.
Provenance provenanceOf(const Model& model, const std::filesystem::path& student, const std::string& contents = {});
Json provenanceToJson(const Provenance& provenance);
Provenance readProvenance(const std::filesystem::path& folder); // throws Malformed naming file and key

// The value of a top-level key of a README's YAML front matter, unquoted; "" where there is none.
std::string frontMatterValue(const std::string& readme, const std::string& key);

} // namespace linnet::core
