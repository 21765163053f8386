// Students of the study: banks of aligned layers, each made once, and what comes after alignment for a choice of layers. The stages are
// those of a conversion (core/convert/pipeline.h).
#pragma once

#include "core/data/text_data.h"
#include "core/model/model.h"
#include "core/profile/profile.h"
#include "core/recipe/recipe.h"

namespace linnet::core {

class StudyStudents {
public:
    // `keep`: recipes whose banks stay on disk while the study lasts; others do until another one is asked for.
    StudyStudents(const Model& teacher, std::filesystem::path folder, const std::vector<Recipe>& keep, const Control& control);

    // Says all that the layers depend on but the teacher and the text; "" where nothing is made (sliding window).
    static std::string bankName(const Recipe& recipe);
    // Every layer of the recipe's start and alignment, float32 on the teacher's device. A stopped one goes on where it was.
    const Mixers& bank(const Recipe& recipe, const TokenWindows& calibration);
    // Of some layers, in the teacher's dtype: bank, drift and distillation as the recipe says.
    Mixers student(const Recipe& recipe, const Slices& slices, const std::vector<std::int64_t>& converted);
    const Profile& profile(const TokenWindows& calibration);
    Mixers computed(const Mixers& mixers) const; // in the teacher's dtype

    std::function<void(const std::string& name, double seconds)> onBank; // made
    void removeAll(); // banks, when the study is whole

private:
    void make(const Recipe& recipe, const TokenWindows& calibration);
    void correct(const Recipe& recipe, const TokenWindows& calibration, Mixers& student) const;
    Mixers distilled(const Recipe& recipe, const TokenWindows& training, const Mixers& student) const;

    const Model& m_teacher;
    std::filesystem::path m_folder;
    std::set<std::string> m_keep;
    const Control& m_control;
    std::uint64_t m_budget; // bytes above the teacher
    std::string m_name;     // of the bank in memory
    Mixers m_bank;
    std::map<std::string, Profile> m_profiles; // by data
};

} // namespace linnet::core
