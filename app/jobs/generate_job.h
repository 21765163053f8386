// A prompt continued by the teacher and, beside it, by one other model; then each token scored by both. No Qt here.
#pragma once

#include "core/model/side_by_side.h"

#include <array>

namespace linnet::app {

inline constexpr std::size_t kTeacher = 0, kStudent = 1; // the two sides

struct GenerateRequest {
    std::string prompt;
    bool chat = false;              // the teacher's chat template around it
    core::GenerateOptions options;
    std::filesystem::path student;  // run, exported or model folder; "" = the teacher alone
    bool scoreOnly = false;         // of `given`, what was said before: nothing new is generated
    std::array<std::vector<core::TokenId>, 2> given;
};

struct GenerateOutcome {
    std::vector<core::Generation> said;                    // by side; none where only scores were asked for
    std::array<std::vector<core::TokenScore>, 2> scores;   // of each side's tokens, by both models; empty without a student
};

// What the worker keeps between prompts: the student, so that a second one begins at once.
class GenerateDesk {
public:
    core::Result<GenerateOutcome> run(const core::ModelPtr& teacher, const GenerateRequest& request,
                                      const std::function<void(const core::SpokenToken&)>& onToken, const core::Control& control);
    void clear(); // its memory is needed

private:
    core::SpeakerPtr student(const core::ModelPtr& teacher, const std::filesystem::path& path, const core::Control& control);
    core::SpeakerPtr m_student;
    std::string m_key; // path and age of what m_student was read from
};

} // namespace linnet::app
