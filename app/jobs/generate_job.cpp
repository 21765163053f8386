#include "app/jobs/generate_job.h"

namespace linnet::app {
namespace {

namespace fs = std::filesystem;

// A run that goes on writes another student under the same name.
std::string keyOf(const fs::path& path) {
    std::string key = path.string();
    for (const auto& file : {path, path / "checkpoints" / "student.safetensors", path / "model.safetensors"}) {
        std::error_code none;
        const auto age = fs::last_write_time(file, none);
        key += none ? std::string(" -") : ' ' + std::to_string(age.time_since_epoch().count());
    }
    return key;
}

} // namespace

void GenerateDesk::clear() {
    m_student.reset();
    m_key.clear();
}

core::SpeakerPtr GenerateDesk::student(const core::ModelPtr& teacher, const fs::path& path, const core::Control& control) {
    if (const auto key = keyOf(path); !m_student || key != m_key) {
        clear(); // the old one's memory first
        m_student = core::orFail(core::openSpeaker(path, teacher, control));
        m_key = key;
    }
    return m_student;
}

core::Result<GenerateOutcome> GenerateDesk::run(const core::ModelPtr& teacher, const GenerateRequest& request,
                                                const std::function<void(const core::SpokenToken&)>& onToken, const core::Control& control) {
    return core::guarded([&] {
        const auto& tokenizer = core::modelTokenizer(*teacher);
        const auto prompt = request.chat ? tokenizer.encode(tokenizer.applyChatTemplate({{"user", request.prompt}}, true), false) : tokenizer.encode(request.prompt, true);
        if (prompt.empty())
            core::fail(core::ErrorCode::Usage, "the prompt gives no tokens", {});
        std::vector<core::SpeakerPtr> speakers{core::speaker(teacher)};
        if (!request.student.empty())
            speakers.push_back(student(teacher, request.student, control));
        GenerateOutcome outcome;
        auto tokens = request.given;
        if (!request.scoreOnly) {
            outcome.said = core::orFail(core::continueSideBySide(speakers, prompt, request.options, onToken, control));
            for (std::size_t side = 0; side < outcome.said.size(); ++side)
                tokens[side] = outcome.said[side].ids;
        }
        if (speakers.size() < 2)
            return outcome;
        control.report("compare", 0, 0);
        for (const std::size_t side : {kTeacher, kStudent})
            outcome.scores[side] = side == kStudent && tokens[kStudent] == tokens[kTeacher]
                                       ? outcome.scores[kTeacher]
                                       : core::orFail(core::scoreContinuation(*speakers[kTeacher], *speakers[kStudent], prompt, tokens[side], control));
        return outcome;
    });
}

} // namespace linnet::app
