#include "core/torch_pch.h"

#include "core/convert/select_scorer.h"

#include "core/evaluate/evaluate_model.h"
#include "core/evaluate/score_rows.h"

#include <limits>

namespace linnet::core {
namespace {

constexpr std::uint64_t kLargeBytes = std::uint64_t{2} << 30; // a stream above this lies on the host
constexpr std::uint64_t kPrefixBytes = std::uint64_t{1} << 30, kPrefixBytesGpu = std::uint64_t{2} << 30;

// Tokens that go through a block together: enough to keep the device busy; few on a CPU, so that a stop is heeded soon.
std::int64_t batchTokens(const Model& model) {
    return model.device().is_cuda() ? 16384 : 1024;
}

// What a model's logits cost, in blocks.
double headBlocks(const ModelConfig& c) {
    const auto block = c.hiddenSize * (2 * c.heads * c.headDim + 2 * c.kvHeads * c.headDim + 3 * c.intermediateSize);
    return static_cast<double>(c.hiddenSize * c.vocabSize) / static_cast<double>(block);
}

std::int64_t firstDifference(const SelectionScorer::Choice& a, const SelectionScorer::Choice& b) {
    return std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
}

} // namespace

struct SelectionScorer::Count { // work of one measurement, in blocks
    const Progress& report;
    double total, done = 0;
    void add(double blocks) {
        done += blocks;
        if (report)
            report(std::min(1.0, done / total));
    }
};

SelectionScorer::SelectionScorer(const Model& teacher, const TokenWindows& windows, const Control& control,
                                 std::uint64_t prefixBytes)
    : m_teacher(teacher), m_control(control), m_layers(teacher.config().layers), m_home(teacher.device()),
      m_headBlocks(headBlocks(teacher.config())), m_base(static_cast<std::size_t>(m_layers), nullptr) {
    if (windows.sequences < 1 || windows.seqLen < 2)
        fail(ErrorCode::Usage,
             "layers are chosen on at least one window of two tokens, got " + std::to_string(windows.sequences) + " of " +
                 std::to_string(windows.seqLen) + " (data.selection_tokens, data.seq_len)",
             {{"key", "data.selection_tokens"}, {"found", std::to_string(windows.tokens())}});
    checkTokenIds(teacher, windows.ids);
    const auto streamBytes =
        static_cast<std::uint64_t>(windows.tokens() * teacher.config().hiddenSize) * at::elementSize(teacher.dtype());
    if (streamBytes > kLargeBytes)
        m_home = at::Device(at::kCPU);
    if (prefixBytes == 0)
        prefixBytes = m_home.is_cuda() ? kPrefixBytesGpu : kPrefixBytes;
    const auto streams = static_cast<std::int64_t>(std::min<std::uint64_t>(prefixBytes / streamBytes, 1'000'000));
    m_stride = streams >= m_layers ? 1 : streams <= 1 ? m_layers : (m_layers - 1) / (streams - 1) + 1; // one is m_latest's

    const at::Tensor ids = windowTensor(windows, teacher.device());
    const auto batch = std::max<std::int64_t>(1, batchTokens(teacher) / windows.seqLen);
    for (std::int64_t from = 0; from < windows.sequences; from += batch) {
        m_ids.push_back(ids.narrow(0, from, std::min(batch, windows.sequences - from)));
        m_targets.push_back(m_ids.back().narrow(1, 1, windows.seqLen - 1).reshape({-1}));
    }
}

// The last token of a window predicts nothing that could be scored.
at::Tensor SelectionScorer::predictions(const at::Tensor& normed) const {
    return normed.narrow(1, 0, normed.size(1) - 1).reshape({-1, normed.size(2)});
}

SelectionScorer::Stream SelectionScorer::embedded() const {
    Stream stream;
    for (const auto& ids : m_ids)
        stream.push_back(m_teacher.embed(ids).to(m_home));
    return stream;
}

// A layer's weights are fetched once for all batches: a streamed teacher reads them from its file.
void SelectionScorer::runLayer(std::int64_t layer, const Mixer* mixer, Stream& stream, Count& count) {
    const auto weights = m_teacher.layer(layer);
    if (!mixer)
        mixer = mixerAt(m_teacher.mixers(), layer); // of a hybrid that is converted further
    for (auto& hidden : stream) {
        m_control.checkpoint();
        // Not in place: the old one may be a kept stream's.
        hidden = runBlock(m_teacher, *weights, mixer, hidden.to(m_teacher.device())).to(m_home);
        count.add(1.0 / static_cast<double>(stream.size()));
    }
    ++m_blocks;
}

void SelectionScorer::rebase(const Choice& base) {
    m_kept.erase(m_kept.upper_bound(firstDifference(base, m_base)), m_kept.end());
    if (!m_kept.contains(m_latest))
        m_latest = -1;
    m_base = base;
}

void SelectionScorer::keep(std::int64_t layer, const Stream& stream) {
    if (layer == 0 || layer == m_layers || m_kept.contains(layer))
        return;
    if (layer % m_stride != 0) {
        m_kept.erase(m_latest);
        m_latest = layer;
    }
    m_kept[layer] = stream;
}

std::int64_t SelectionScorer::keptBefore(std::int64_t layer) const {
    const auto after = m_kept.upper_bound(layer);
    return after == m_kept.begin() ? 0 : std::prev(after)->first;
}

SelectionScorer::Stream SelectionScorer::streamBefore(std::int64_t layer, Count& count) {
    const auto start = keptBefore(layer);
    Stream stream = start == 0 ? embedded() : m_kept.at(start);
    for (std::int64_t l = start; l < layer; ++l) {
        if (l % m_stride == 0)
            keep(l, stream);
        runLayer(l, m_base[static_cast<std::size_t>(l)], stream, count);
    }
    keep(layer, stream);
    return stream;
}

void SelectionScorer::runTeacher(Count& count) {
    if (!m_final.empty())
        return;
    rebase(Choice(static_cast<std::size_t>(m_layers), nullptr));
    Stream normed;
    for (const auto& hidden : streamBefore(m_layers, count))
        normed.push_back(predictions(m_teacher.finalNorm(hidden.to(m_teacher.device()))).to(m_home));
    m_final = std::move(normed); // whole or not at all: a stop may come in between
}

ChoiceScore SelectionScorer::scored(const std::function<at::Tensor(std::size_t batch)>& rows, bool withKl, Count& count) const {
    ChoiceScore sum;
    std::int64_t positions = 0;
    for (std::size_t b = 0; b < m_targets.size(); ++b) {
        const auto teacher = withKl ? m_final[b].to(m_teacher.device()) : at::Tensor();
        const auto scores = scoreRows(m_teacher, rows(b), m_targets[b], teacher, {}, m_control);
        sum.loss += scores.loss.sum().item<double>(); // on the host already: a GPU is waited for once a batch
        sum.kl += withKl ? scores.kl.sum().item<double>() : std::numeric_limits<double>::quiet_NaN();
        positions += m_targets[b].size(0);
        count.add((withKl ? 2 : 1) * m_headBlocks / static_cast<double>(m_targets.size()));
    }
    return {sum.loss / static_cast<double>(positions), sum.kl / static_cast<double>(positions)};
}

ChoiceScore SelectionScorer::score(const Choice& choice, const Choice& base, bool withKl, const Progress& progress) {
    const c10::InferenceMode inference;
    const bool itself = std::all_of(choice.begin(), choice.end(), [](const Mixer* mixer) { return mixer == nullptr; });
    Count count{progress, 2 * (static_cast<double>(m_layers) + m_headBlocks)};
    if (itself || withKl)
        runTeacher(count);
    const auto remaining = [&](std::int64_t blocks, int logits) {
        count.total = count.done + static_cast<double>(blocks) + logits * m_headBlocks;
    };
    if (itself) {
        remaining(0, 1);
        return {scored([&](std::size_t b) { return m_final[b].to(m_teacher.device()); }, false, count).loss, 0};
    }
    rebase(base);
    const auto first = firstDifference(choice, m_base);
    remaining(m_layers - keptBefore(first), withKl ? 2 : 1);
    Stream stream = streamBefore(first, count);
    for (auto l = first; l < m_layers; ++l)
        runLayer(l, choice[static_cast<std::size_t>(l)], stream, count);
    const auto rows = [&](std::size_t b) { return predictions(m_teacher.finalNorm(stream[b].to(m_teacher.device()))); };
    return scored(rows, withKl, count);
}

} // namespace linnet::core
