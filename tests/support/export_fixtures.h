// Runs to export: tiny students of tiny teachers, made once a program.
#pragma once

#include "core/export/export.h"
#include "tests/support/convert_fixtures.h"

namespace linnet::tests {

inline const core::RunOptions kOneThread{"cpu", "f32", 1, false};

inline at::Tensor logitsOf(const core::Model& model, const std::vector<core::TokenId>& ids) {
    auto values = core::orFail(core::sequenceLogits(model, ids));
    return at::tensor(values).view({static_cast<std::int64_t>(ids.size()), -1});
}

class TinyStudents {
public:
    explicit TinyStudents(TinyTeachers& teachers) : m_teachers(teachers) {}
    std::filesystem::path at(const std::string& name) const { return std::filesystem::path(m_folder.path().toStdString()) / name; }

    std::filesystem::path run(const QString& kind, const std::string& keep = "layers:0,2", const std::string& preset = "naive") {
        const auto folder = at("run " + kind.toStdString() + " " + keep + " " + preset);
        if (!std::filesystem::exists(folder)) {
            auto recipe = m_teachers.recipe(kind, keep, preset);
            recipe.window = 3, recipe.sinks = 1;
            core::ConvertOptions options;
            options.baselines = false;
            core::orFail(core::convert(recipe, folder, options, {}));
        }
        return folder;
    }
    // Neither the folder nor a half-written neighbour.
    static bool nothingLike(const std::filesystem::path& folder) {
        for (const auto& entry : std::filesystem::directory_iterator(folder.parent_path()))
            if (entry.path().filename().string().starts_with(folder.filename().string()))
                return false;
        return true;
    }

private:
    TinyTeachers& m_teachers;
    QTemporaryDir m_folder;
};

} // namespace linnet::tests
