// The torch side of evaluation: any set of mixers on one teacher.
#pragma once

#include "core/evaluate/evaluate.h"
#include "core/model/model.h"

namespace linnet::core {

struct TeacherReference {
    at::Tensor hidden; // [sequences, seqLen, hidden], final norm applied, model dtype, on the device (host where large)
    at::Tensor head;   // [V, hidden] the teacher's; undefined = the same as the evaluated model's
    double seconds = 0; // of its forward
    at::Tensor windowLoss{}; // float64 [sequences], once evaluateReference has scored it
};
// Throws Failure. Logits are made in pieces of some rows: no [B, T, V] float tensor of the whole batch.
Evaluation evaluateMixers(const Model& model, const Mixers& mixers, const TokenWindows& windows,
                          const TeacherReference* teacher, const Control& control);
// The teacher itself, over the windows of its reference: evaluateMixers' numbers, bit for bit, without a forward.
Evaluation evaluateReference(const Model& teacher, const TokenWindows& windows, TeacherReference& reference, const Control& control);
at::Tensor windowTensor(const TokenWindows& windows, at::Device device); // int64 [sequences, seqLen]

} // namespace linnet::core
