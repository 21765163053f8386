// What a choice of mixers costs on the selection slice, many choices over one teacher: loss, and KL to the teacher. Only the
// blocks from the first layer on that differs from a base run; the stream before them is kept.
#pragma once

#include "core/data/text_data.h"
#include "core/model/model.h"

namespace linnet::core {

struct ChoiceScore {
    // Nats a token, means over the seqLen - 1 predictions of each window. KL(teacher || student): NaN where not asked for.
    double loss = 0, kl = 0;
};

// Memory above the model: the teacher's final hidden states, two streams (hidden states of all windows) at work, and kept
// streams within `prefixBytes` (one at least). Streams larger than 2 GiB lie on the host.
class SelectionScorer {
public:
    // By layer; nullptr: the teacher's own. A mixer is known by its address, must outlive the scorer and be in the model's dtype.
    using Choice = std::vector<const Mixer*>;
    using Progress = std::function<void(double share)>; // of this measurement, 0 to 1; may throw

    // prefixBytes 0: a default for the device.
    SelectionScorer(const Model& teacher, const TokenWindows& windows, const Control& control, std::uint64_t prefixBytes = 0);

    // `base` shares with `choice` the layers before the first that differs; choices over one base are cheapest in the order of
    // that layer. With base = choice it becomes what is kept: for choices that follow each other. The numbers are the same with
    // any base. withKl costs the teacher's logits again.
    ChoiceScore score(const Choice& choice, const Choice& base, bool withKl = true, const Progress& progress = {});
    std::int64_t blocksRun() const { return m_blocks; } // of all windows, so far

private:
    using Stream = std::vector<at::Tensor>; // [B, T, hidden] a batch
    struct Count;

    void runTeacher(Count& count);
    void rebase(const Choice& base);
    Stream embedded() const;
    std::int64_t keptBefore(std::int64_t layer) const;     // where the base's stream is known, 0 at least
    Stream streamBefore(std::int64_t layer, Count& count); // of the base; kept on the way
    void runLayer(std::int64_t layer, const Mixer* mixer, Stream& stream, Count& count);
    void keep(std::int64_t layer, const Stream& stream);
    ChoiceScore scored(const std::function<at::Tensor(std::size_t batch)>& rows, bool withKl, Count& count) const;
    at::Tensor predictions(const at::Tensor& normed) const; // [B, T, hidden] -> [B (T - 1), hidden]

    const Model& m_teacher;
    const Control& m_control;
    std::int64_t m_layers, m_stride = 1;      // a stream is kept before each m_stride-th layer
    at::Device m_home;                        // where streams lie
    double m_headBlocks;                      // cost of one model's logits, in blocks
    std::vector<at::Tensor> m_ids, m_targets; // a batch: int64 [B, T], [B (T - 1)]
    Stream m_final;                           // a batch: the teacher's final normed states [B (T - 1), hidden]
    Choice m_base;
    std::map<std::int64_t, Stream> m_kept; // of m_base, by the layer that follows
    std::int64_t m_latest = -1;            // kept beside those of the stride: where the last choice left the base
    std::int64_t m_blocks = 0;
};

} // namespace linnet::core
