// What each head of a finished run's student is like, measured on the run's own calibration windows with the teacher's stream going in: what the
// maps of heads show beside the teacher's numbers. Torch-free.
#pragma once

#include "core/convert/convert.h"

#include <limits>
#include <memory>

namespace linnet::core {

struct StudentHeadNumbers { // NaN: the mixer has no such part
    static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    double halfLife = kNone;   // tokens: ln 2 / mean decay rate; infinity: no decay
    double beta = kNone;       // mean of the write gate
    double outputGate = kNone; // RMS over tokens and the head's channels
    double valueScale = kNone; // norm of the head's columns of o_proj / of the teacher's
    double rmsPostO = kNone, teacherRmsPostO = kNone; // of what the head adds to the stream, over tokens and hidden channels; the same windows
    // Squared error / square of the teacher's after the best linear map of the gated readouts, as W_O sees both: HeadEvidence::relativeError.
    double relativeError = kNone;
};

struct StudentNumbers {
    std::int64_t windows = 0, windowTokens = 0;
    std::map<std::int64_t, std::vector<StudentHeadNumbers>> layers; // [layer][head], of linear layers only
};
Json studentNumbersToJson(const StudentNumbers& numbers);
StudentNumbers studentNumbersFromJson(const Json& json, const std::string& origin); // throws Failure

// Measures layer by layer; a stop loses the layer under way only. The answer is kept in a cache folder by what student and windows hold.
class StudentMeter {
public:
    StudentMeter(ModelPtr teacher, std::filesystem::path run, std::filesystem::path cacheFolder = {}); // "": no cache
    ~StudentMeter();
    const std::filesystem::path& run() const;
    // NotFound: the run has no student yet. Usage: it is of another teacher. A student without a linear layer gives no layers.
    Result<StudentNumbers> measure(const Control& control = {});

private:
    struct State;
    std::unique_ptr<State> m_state;
};

} // namespace linnet::core
