#include "core/torch_pch.h"

#include "core/convert/closed_form_score.h"

#include "core/mixers/chunk_kernels.h"
#include "core/mixers/recurrence.h"
#include "core/mixers/short_convolution.h"

namespace linnet::core {
namespace {

constexpr double kResidualRidge = 1e-4, kLeastPower = 1e-30; // the former a share of the mean diagonal
// Readouts of rows that are scored together, and of one recurrence, whose tensors then stay in a CPU's caches.
constexpr std::int64_t kBatchBytes = std::int64_t(1) << 25, kBatchBytesCuda = std::int64_t(1) << 30;
constexpr std::int64_t kPieceBytes = std::int64_t(2) << 20, kPieceBytesCuda = std::int64_t(1) << 26;
constexpr std::int64_t kChunk = 32;       // tokens, on the CPU: with values of twice the width faster than 64

using SameOption = bool (*)(const HeadOption&, const HeadOption&);
bool agree(const std::vector<HeadOption>& a, const std::vector<HeadOption>& b, SameOption same) { // head by head
    return std::ranges::equal(a, b, same);
}
bool sameKeys(const HeadOption& a, const HeadOption& b) { return sameVariant(a, b) && a.queryScale == b.queryScale; }
bool sameValues(const HeadOption& a, const HeadOption& b) { return a.foldBias == b.foldBias; } // but for their sign and taps
bool sameGates(const HeadOption& a, const HeadOption& b) { return a.halfLife == b.halfLife && a.beta == b.beta && a.keyPrior == b.keyPrior; }

at::Tensor perHead(const std::vector<HeadOption>& options, const at::Device& device, const std::function<double(const HeadOption&)>& value) {
    std::vector<double> values;
    for (const auto& option : options)
        values.push_back(value(option));
    return at::tensor(values, at::kDouble).to(device, at::kFloat);
}

// a'b of each head, a and b [n, tokens, D]: windows in float32, their sum in float64. Many small products keep a GPU busy.
at::Tensor windowProducts(const at::Tensor& a, const at::Tensor& b, std::int64_t windows) {
    const auto n = a.size(0), D = a.size(2);
    const auto byWindow = [&](const at::Tensor& t) { return t.view({n * windows, -1, t.size(2)}); };
    return byWindow(a).transpose(1, 2).bmm(byWindow(b)).view({n, windows, D, b.size(2)}).sum(at::IntArrayRef{1}, false, at::kDouble);
}

// a [B, ..] so many times side by side on the batch dimension: a view where once.
at::Tensor repeated(const at::Tensor& a, std::int64_t times) {
    std::vector<std::int64_t> sizes{times};
    sizes.insert(sizes.end(), a.sizes().begin(), a.sizes().end());
    return a.unsqueeze(0).expand(sizes).flatten(0, 1);
}

} // namespace

HeadScorer::HeadScorer(const LayerContext& context, const HeadRows& rows, std::vector<std::int64_t> heads, const Control& control)
    : m_context(context), m_rows(rows), m_control(control), m_spec(mixerSpec(context.recipe.mixer)), m_heads(std::move(heads)) {
    const auto& capture = context.capture;
    const auto D = context.teacher.config().headDim;
    const auto windows = std::min(context.recipe.closedForm.sequences, capture.x.size(0));
    m_x = floatOn(context.teacher, capture.x.narrow(0, 0, windows));
    m_unit = m_x.matmul(rows.unitRow()).flatten();
    const at::Tensor index = at::tensor(m_heads, at::kLong).to(m_x.device());
    const auto byHead = [&](const at::Tensor& t) { // [.., H D] -> [n, .., D]
        return t.view({t.size(0), -1, D}).index_select(1, index).transpose(0, 1).contiguous();
    };
    m_y = byHead(floatOn(context.teacher, capture.heads.narrow(0, 0, windows)).flatten(0, 1));
    const at::Tensor o = byHead(floatOn(context.teacher, context.weights.attention.o)); // [n, hidden, D]
    m_metric = o.transpose(1, 2).bmm(o).to(at::kDouble);
    m_square = windowProducts(m_y, m_y, windows);
    m_power = (m_square * m_metric).sum(at::IntArrayRef{1, 2});
}

// Brings what rows share up to date: projections that stay are not made again.
void HeadScorer::share(const std::vector<HeadOption>& options) {
    const auto n = std::ssize(m_heads), D = m_y.size(-1);
    const bool first = m_shared.options.empty(), keys = first || !agree(m_shared.options, options, sameKeys), values = first || !agree(m_shared.options, options, sameValues);
    m_shared.options = options;
    if (!keys && !values)
        return;
    std::vector<HeadOption> plain = options; // signs belong to a row
    for (auto& option : plain)
        option.negatedValues = false;
    const auto rows = m_rows.projections(m_heads, plain);
    if (values) {
        m_shared.u = m_x.matmul(rows.v.t());
        m_shared.values.clear();
    }
    if (!keys)
        return;
    const double norm = m_spec.qkL2Norm ? 1 : 0, scale = 1 / std::sqrt(static_cast<double>(D));
    m_shared.prior = at::Tensor();
    m_shared.q = shortConvolution(m_x.matmul(rows.q.t()), {}, {}, {n, norm * scale}); // their convolutions are the identity
    if (!m_spec.qkL2Norm)
        m_shared.q = m_shared.q * scale;
    m_shared.k = shortConvolution(m_x.matmul(rows.k.t()), {}, {}, {n, norm});
    if (first && m_x.is_cuda()) {
        RecurrenceInputs in;
        in.q = in.k = in.v = m_shared.q.narrow(1, 0, 1).to(at::kHalf);
        m_kernels = chunkKernelsTake(m_spec, in);
    }
    if (m_kernels) { // their products are exact to 11 bits, and what they sum is in float32
        m_shared.q = m_shared.q.to(at::kHalf);
        m_shared.k = m_shared.k.to(at::kHalf);
    }
}

// Values of one row, or of two side by side, in the heads' channels.
const at::Tensor& HeadScorer::values(std::span<const OptionRow> rows) {
    std::vector<bool> key;
    for (const auto& row : rows)
        for (const auto& option : row.options)
            key.insert(key.end(), {option.histogramTaps, option.negatedValues});
    at::Tensor& found = m_shared.values[key];
    if (found.defined())
        return found;
    std::vector<at::Tensor> parts;
    for (const auto& row : rows) {
        std::vector<at::Tensor> taps;
        for (std::size_t i = 0; i < m_heads.size(); ++i)
            taps.push_back(m_rows.valueTaps(m_heads[i], row.options[i].histogramTaps) * (row.options[i].negatedValues ? -1 : 1));
        const bool identity = std::ranges::none_of(row.options, [](const HeadOption& o) { return o.histogramTaps || o.negatedValues; });
        const at::Tensor v = shortConvolution(m_shared.u, identity ? at::Tensor() : at::cat(taps), {}, {std::ssize(m_heads), 0});
        parts.push_back(m_kernels ? v.to(at::kHalf) : v);
    }
    return found = parts.size() == 1 ? parts[0] : at::cat(parts, -1);
}

const at::Tensor& HeadScorer::prior() { // [N, T, n]
    if (!m_shared.prior.defined())
        m_shared.prior = m_x.matmul(m_rows.priorRows(m_heads, m_shared.options).t());
    return m_shared.prior;
}

// `out` [rows, n, N, T, D] gets the normed readouts of windows from .. from + count. Each `width` rows share their gates: they are one
// recurrence with values of so many times the width.
void HeadScorer::recur(std::span<const OptionRow> rows, std::int64_t width, std::int64_t from, std::int64_t count, const at::Tensor& out) {
    const std::int64_t batch = std::ssize(rows) / width, n = std::ssize(m_heads), T = m_x.size(1), D = out.size(-1);
    std::vector<at::Tensor> rates, logits, priors, v;
    bool oneV = true, anyPrior = false;
    for (std::int64_t r = 0; r < std::ssize(rows); r += width) {
        const auto& options = rows[static_cast<std::size_t>(r)].options;
        rates.push_back(perHead(options, m_x.device(), [](const HeadOption& o) { return -decayRate(o.halfLife); }));
        logits.push_back(perHead(options, m_x.device(), [](const HeadOption& o) { return logit(o.beta); }));
        priors.push_back(perHead(options, m_x.device(), [](const HeadOption& o) { return o.keyPrior; }));
        anyPrior = anyPrior || std::ranges::any_of(options, [](const HeadOption& o) { return o.keyPrior != 0; });
        v.push_back(values(rows.subspan(static_cast<std::size_t>(r), static_cast<std::size_t>(width))).narrow(0, from, count));
        oneV = oneV && v.back().const_data_ptr() == v.front().const_data_ptr();
    }
    const auto tokens = [&](const std::vector<at::Tensor>& perRow) { return at::stack(perRow).view({batch, 1, 1, n}).expand({batch, count, T, n}); };
    RecurrenceInputs in;
    in.q = repeated(m_shared.q.narrow(0, from, count), batch);
    in.k = repeated(m_shared.k.narrow(0, from, count), batch);
    in.v = oneV ? repeated(v.front(), batch) : at::cat(v);
    if (m_spec.decay != Decay::None)
        in.logDecay = tokens(rates).flatten(0, 1);
    if (m_spec.write != WriteGate::One) {
        at::Tensor write = tokens(logits) * m_unit.view({-1, T, 1}).narrow(0, from, count);
        if (anyPrior)
            write = write + tokens(priors) * prior().narrow(0, from, count);
        in.write = write.sigmoid().flatten(0, 1);
    }
    const at::Tensor o = chunkwise(m_spec, in, kChunk).o.to(at::kFloat).view({batch, count, T, n, width, D});
    const at::Tensor scale = (o.square().mean(-1, true) + m_context.teacher.linearShape().normEps).rsqrt();
    at::Tensor to = out.view({batch, width, n, -1, T, D}).narrow(3, from, count).permute({0, 3, 4, 2, 1, 5});
    at::mul_out(to, o, scale);
}

// Normed readouts of rows that share q and k: [rows, n, N T, D].
at::Tensor HeadScorer::readouts(std::span<const OptionRow> rows) {
    const auto n = std::ssize(m_heads), N = m_x.size(0), T = m_x.size(1), D = m_y.size(-1), count = std::ssize(rows);
    bool joined = !m_kernels && count % 2 == 0; // the kernels want keys and values of one width
    for (std::size_t r = 0; joined && r < rows.size(); r += 2)
        joined = agree(rows[r].options, rows[r + 1].options, sameGates);
    const std::int64_t width = joined ? 2 : 1, units = count / width;
    const auto pieceWindows = std::max<std::int64_t>(1, (m_x.is_cuda() ? kPieceBytesCuda : kPieceBytes) / (4 * n * D * width * T));
    const auto windows = std::min(N, pieceWindows), batch = std::clamp<std::int64_t>(pieceWindows / windows, 1, units);
    const std::vector<std::int64_t> sizes{count, n, N, T, D};
    if (!m_buffer.defined() || m_buffer.size(0) < count)
        m_buffer = at::empty(sizes, m_x.options());
    const at::Tensor z = m_buffer.narrow(0, 0, count);
    for (std::int64_t unit = 0; unit < units; unit += batch)
        for (std::int64_t from = 0; from < N; from += windows) {
            m_control.checkpoint();
            const auto first = unit * width, some = std::min(batch, units - unit) * width;
            recur(rows.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(some)), width, from, std::min(windows, N - from), z.narrow(0, first, some));
        }
    return z.view({count, n, N * T, D});
}

std::vector<std::vector<double>> HeadScorer::residuals(const at::Tensor& readouts) const {
    const auto rows = readouts.size(0), n = readouts.size(1);
    std::vector<at::Tensor> grams, crosses;
    for (std::int64_t r = 0; r < rows; ++r) {
        m_control.checkpoint();
        grams.push_back(windowProducts(readouts[r], readouts[r], windows()));
        crosses.push_back(windowProducts(readouts[r], m_y, windows()));
    }
    at::Tensor G = at::stack(grams);
    const at::Tensor X = at::stack(crosses);
    at::Tensor diagonal = G.diagonal(0, 2, 3);
    diagonal.add_((diagonal.mean(-1, true) * kResidualRidge).clamp_min(kLeastPower));
    const auto [L, info] = at::linalg_cholesky_ex(G);
    const at::Tensor V = at::linalg_solve_triangular(L, X, false); // X' G^-1 X = V' V
    const at::Tensor left = m_power - (V.matmul(m_metric) * V).sum(at::IntArrayRef{2, 3});
    const at::Tensor residual = (left / m_power.clamp_min(kLeastPower)).masked_fill_(info != 0, INFINITY).nan_to_num_(INFINITY, INFINITY).to(at::kCPU).contiguous();
    std::vector<std::vector<double>> result;
    for (std::int64_t r = 0; r < rows; ++r)
        result.emplace_back(residual[r].const_data_ptr<double>(), residual[r].const_data_ptr<double>() + n);
    return result;
}

std::vector<std::vector<double>> HeadScorer::score(const std::vector<OptionRow>& rows) {
    const std::int64_t rowBytes = m_y.numel() * 4, budget = m_x.is_cuda() ? kBatchBytesCuda : kBatchBytes;
    const auto most = static_cast<std::size_t>(std::max<std::int64_t>(2, budget / rowBytes / 2 * 2));
    std::vector<std::vector<double>> all;
    for (std::size_t begin = 0; begin < rows.size();) {
        auto end = begin + 1;
        while (end < rows.size() && end - begin < most && agree(rows[begin].options, rows[end].options, sameKeys) && agree(rows[begin].options, rows[end].options, sameValues))
            ++end;
        share(rows[begin].options);
        const std::span batch(rows.data() + begin, end - begin);
        const at::Tensor z = readouts(batch);
        std::ranges::move(residuals(z), std::back_inserter(all));
        for (std::size_t r = 0; onRow && r < batch.size(); ++r)
            onRow(batch[r], all[begin + r], z[static_cast<std::int64_t>(r)]);
        begin = end;
    }
    return all;
}

} // namespace linnet::core
