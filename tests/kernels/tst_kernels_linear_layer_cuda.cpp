// The pieces of an alignment step, launch and CPU twin by one table: forwards against float64 formulas, gradients against central
// differences of those formulas, the update against AdamW written out, and the same bits from run to run.
#include "linnet/kernels/linear_layer.h"

#include "tests/kernels/device_memory.h"

#include <QtTest>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

using namespace linnet::kernels;
using linnet::tests::DeviceBuffer;
using std::int64_t;
using Doubles = std::vector<double>;

namespace {

// Values of a data type, on the host and (after up()) on the device.
struct Values {
    DataType type;
    std::vector<std::uint32_t> host; // words, so that it is aligned and may hold either width
    DeviceBuffer<std::uint32_t> device;
    int64_t count;

    Values(DataType type_, int64_t count_, double fill = NAN) : type(type_), host(static_cast<std::size_t>(count_ + 64)), count(count_) {
        for (int64_t i = 0; i < count; ++i)
            set(i, fill);
    }
    void set(int64_t i, double value) {
        const auto x = static_cast<float>(value);
        if (type == DataType::Float32) {
            std::memcpy(&host[static_cast<std::size_t>(i)], &x, 4);
            return;
        }
        std::uint16_t half;
        if (type == DataType::BFloat16) {
            std::uint32_t bits;
            std::memcpy(&bits, &x, 4);
            half = std::isnan(x) ? std::uint16_t(0x7fff) : static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
        } else {
            const auto h = static_cast<_Float16>(x);
            std::memcpy(&half, &h, 2);
        }
        std::memcpy(reinterpret_cast<char*>(host.data()) + 2 * i, &half, 2);
    }
    double get(int64_t i) const {
        float x;
        if (type == DataType::Float32) {
            std::memcpy(&x, &host[static_cast<std::size_t>(i)], 4);
            return x;
        }
        std::uint16_t half;
        std::memcpy(&half, reinterpret_cast<const char*>(host.data()) + 2 * i, 2);
        if (type == DataType::Float16) {
            _Float16 h;
            std::memcpy(&h, &half, 2);
            return static_cast<float>(h);
        }
        const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
        std::memcpy(&x, &bits, 4);
        return x;
    }
    Values& randomise(unsigned seed, double scale = 1, double shift = 0) {
        std::mt19937 generator(seed);
        std::normal_distribution<double> normal;
        for (int64_t i = 0; i < count; ++i)
            set(i, shift + scale * normal(generator));
        return *this;
    }
    Doubles all() const {
        Doubles result;
        for (int64_t i = 0; i < count; ++i)
            result.push_back(get(i));
        return result;
    }
    void* at(bool cpu, int64_t offset = 0) { // where the operation finds it
        if (!cpu && device.size() == 0)
            device.upload(host);
        char* base = cpu ? reinterpret_cast<char*>(host.data()) : reinterpret_cast<char*>(device.data());
        return base + offset * (type == DataType::Float32 ? 4 : 2);
    }
    float* floats(bool cpu, int64_t offset = 0) { return static_cast<float*>(at(cpu, offset)); }
    void down(bool cpu) {
        if (!cpu)
            host = device.download();
    }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double tolerance(DataType type) { return type == DataType::Float32 ? 2e-5 : type == DataType::Float16 ? 1e-3 : 8e-3; }

double worst(const Doubles& found, const Doubles& expected) { // largest error over the largest value
    double error = 0, size = 1e-30;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (std::isnan(expected[i]))
            continue;
        error = std::isfinite(found[i]) ? std::max(error, std::abs(found[i] - expected[i])) : INFINITY;
        size = std::max(size, std::abs(expected[i]));
    }
    return error / size;
}

// d sum(weights f(x)) / dx_i by central differences, at about `samples` places; NaN elsewhere.
Doubles differences(const std::function<Doubles(const Doubles&)>& f, Doubles x, const Doubles& weights, int samples = 24) {
    Doubles result(x.size(), NAN);
    const std::size_t stride = std::max<std::size_t>(1, x.size() / static_cast<std::size_t>(samples));
    for (std::size_t i = 0; i < x.size(); i += i + 1 == x.size() ? 1 : std::min(stride, x.size() - 1 - i)) {
        const double middle = x[i], eps = 1e-5;
        double sums[2] = {};
        for (const int side : {0, 1}) {
            x[i] = middle + (side ? eps : -eps);
            const Doubles y = f(x);
            for (std::size_t k = 0; k < y.size(); ++k)
                sums[side] += weights[k] * y[k];
        }
        x[i] = middle;
        result[i] = (sums[1] - sums[0]) / (2 * eps);
    }
    return result;
}

struct Shape {
    int64_t layers, batch, tokens, heads, headDim;
    int64_t sequences() const { return layers * batch; }
    int64_t width() const { return heads * headDim; }
};

void verify(const char* what, const Doubles& found, const Doubles& expected, double limit) {
    const double error = worst(found, expected);
    QVERIFY2(error <= limit, qPrintable(QString("%1: %2 of the largest value, allowed %3").arg(what).arg(error).arg(limit)));
}
void verify(LaunchError error) { QVERIFY2(!error, error ? error : ""); }

Doubles rowsOf(const Values& v, int64_t rows, int64_t row, int64_t from, int64_t count) { // columns of a padded matrix
    Doubles result;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < count; ++c)
            result.push_back(v.get(r * row + from + c));
    return result;
}

} // namespace

class TestLinearLayerKernels : public QObject {
    Q_OBJECT

    static void table(bool all = true) {
        QTest::addColumn<int>("type");
        QTest::addColumn<bool>("cpu");
        QTest::addColumn<QList<int>>("sizes");
        const char* names[] = {"f32", "f16", "bf16"};
        QList<QList<int>> shapes{{2, 2, 5, 2, 8}};
        if (all)
            shapes += {{1, 1, 1, 3, 4}, {2, 1, 37, 2, 64}, {1, 2, 70, 1, 96}, {1, 1, 33, 2, 128}, {1, 1, 3, 1, 256}};
        for (const auto& sizes : shapes)
            for (const int type : {0, 1, 2})
                for (const bool cpu : {false, true})
                    QTest::newRow(qPrintable(QString("%1 %2 L%3 B%4 T%5 H%6 D%7").arg(cpu ? "twin" : "launch", names[type]).arg(sizes[0]).arg(sizes[1]).arg(sizes[2]).arg(sizes[3]).arg(sizes[4])))
                        << type << cpu << sizes;
    }
    struct Row {
        DataType type;
        bool cpu;
        Shape s;
        LayerGroup group(int64_t parameterStride, int64_t gradientStride) const {
            return {s.layers, s.batch, s.tokens, parameterStride, gradientStride, type, nullptr};
        }
    };
    static Row row() {
        QFETCH(int, type);
        QFETCH(bool, cpu);
        QFETCH(QList<int>, sizes);
        return {static_cast<DataType>(type), cpu, {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]}};
    }

private Q_SLOTS:
    void gather_data() { table(false); }
    void gather() {
        LINNET_NEEDS_DEVICE();
        const auto [type, cpu, s] = row();
        const int64_t bytes = s.tokens * 16, windows = 5, count = s.sequences();
        Values from(DataType::Float32, windows * bytes / 4), to(DataType::Float32, count * bytes / 4), rows(DataType::Float32, 3 * count), step(DataType::Float32, 1);
        from.randomise(1);
        std::vector<std::int32_t> chosen;
        for (int64_t i = 0; i < 3 * count; ++i)
            chosen.push_back(static_cast<std::int32_t>((i * 7 + 3) % windows));
        const std::int32_t two = 2;
        std::memcpy(rows.host.data(), chosen.data(), chosen.size() * 4);
        std::memcpy(step.host.data(), &two, 4);
        const GatherRowsParams p{from.at(cpu), to.at(cpu), static_cast<const std::int32_t*>(rows.at(cpu)), static_cast<const std::int32_t*>(step.at(cpu)), count, bytes, nullptr};
        cpu ? gatherRowsCpu(p) : verify(gatherRows(p));
        to.down(cpu);
        for (int64_t i = 0; i < count; ++i)
            for (int64_t k = 0; k < bytes / 4; ++k)
                QCOMPARE(to.get(i * bytes / 4 + k), from.get(chosen[static_cast<std::size_t>(2 * count + i)] * bytes / 4 + k));
    }

    void convolution_data() { table(); }
    void convolution() {
        LINNET_NEEDS_DEVICE();
        const auto [type, cpu, s] = row();
        const int64_t W = 3 * s.width(), uRow = W + 8, rows = s.sequences() * s.tokens, stride = W * 4 + 8;
        Values u(type, rows * uRow), taps(DataType::Float32, s.layers * stride), a(type, rows * (W + 16)), du(type, rows * uRow), dTaps(DataType::Float32, s.layers * stride);
        Values da[3] = {{type, rows * s.width()}, {type, rows * s.width()}, {type, rows * s.width()}};
        u.randomise(1), taps.randomise(2, 0.5);
        for (unsigned i = 0; i < 3; ++i)
            da[i].randomise(3 + i);
        ShortConvolutionParams p;
        p.group = this->row().group(stride, stride), p.width = s.width();
        p.u = u.at(cpu), p.uRow = uRow, p.taps = taps.floats(cpu), p.a = a.at(cpu), p.aRow = W + 16;
        for (int i = 0; i < 3; ++i)
            p.da[i] = da[i].at(cpu);
        p.du = du.at(cpu), p.duRow = uRow, p.dTaps = dTaps.floats(cpu);
        DeviceBuffer<float> workspace(static_cast<std::size_t>(shortConvolutionWorkspace(p)));
        p.workspace = workspace.data();
        cpu ? shortConvolutionForwardCpu(p) : verify(shortConvolutionForward(p));
        cpu ? shortConvolutionBackwardCpu(p) : verify(shortConvolutionBackward(p));
        a.down(cpu), du.down(cpu), dTaps.down(cpu);

        // x: u [rows, W], then taps [layers, W, 4]
        const auto formula = [&](const Doubles& x) {
            Doubles y(static_cast<std::size_t>(rows * W));
            for (int64_t n = 0; n < rows; ++n)
                for (int64_t c = 0; c < W; ++c) {
                    double sum = 0;
                    for (int64_t j = std::max<int64_t>(0, 3 - n % s.tokens); j < 4; ++j)
                        sum += x[static_cast<std::size_t>(rows * W + (n / s.tokens / s.batch * W + c) * 4 + j)] * x[static_cast<std::size_t>((n - 3 + j) * W + c)];
                    y[static_cast<std::size_t>(n * W + c)] = sum * sigmoid(sum);
                }
            return y;
        };
        Doubles x = rowsOf(u, rows, uRow, 0, W), weights, found = rowsOf(du, rows, uRow, 0, W);
        for (const Values* parameters : {&taps, &dTaps})
            for (const double value : rowsOf(*parameters, s.layers, stride, 0, W * 4))
                (parameters == &taps ? x : found).push_back(value);
        for (int64_t n = 0; n < rows; ++n)
            for (int64_t c = 0; c < W; ++c)
                weights.push_back(da[c / s.width()].get(n * s.width() + c % s.width()));
        verify("a", rowsOf(a, rows, W + 16, 0, W), formula(x), tolerance(type));
        const Doubles expected = differences(formula, x, weights);
        const auto split = static_cast<std::ptrdiff_t>(rows * W);
        verify("du", {found.begin(), found.begin() + split}, {expected.begin(), expected.begin() + split}, tolerance(type));
        verify("dtaps", {found.begin() + split, found.end()}, {expected.begin() + split, expected.end()}, 1e-4);
    }

    void gates_data() { table(); }
    void gates() {
        LINNET_NEEDS_DEVICE();
        const auto [type, cpu, s] = row();
        const int64_t H = s.heads, rows = s.sequences() * s.tokens, row = 16, stride = 24; // a at 0, b at 8; aLog at 0, dtBias at 8
        Values x(type, rows * row), parameters(DataType::Float32, s.layers * stride), dx(type, rows * row), gradients(DataType::Float32, s.layers * stride);
        Values g(DataType::Float32, rows * H), beta(DataType::Float32, rows * H), dg(DataType::Float32, rows * H), dbeta(DataType::Float32, rows * H);
        x.randomise(1, 3), parameters.randomise(2), dg.randomise(3), dbeta.randomise(4);
        x.set(0, 30); // the straight branch of softplus
        GatesParams p;
        p.group = this->row().group(stride, stride), p.heads = H, p.row = row, p.a = x.at(cpu), p.b = x.at(cpu, 8), p.dRow = row;
        p.aLog = parameters.floats(cpu), p.dtBias = parameters.floats(cpu, 8), p.g = g.floats(cpu), p.beta = beta.floats(cpu);
        p.dg = dg.floats(cpu), p.dbeta = dbeta.floats(cpu), p.da = dx.at(cpu), p.db = dx.at(cpu, 8);
        p.dALog = gradients.floats(cpu), p.dDtBias = gradients.floats(cpu, 8);
        cpu ? gatesForwardCpu(p) : verify(gatesForward(p));
        cpu ? gatesBackwardCpu(p) : verify(gatesBackward(p));
        for (Values* v : {&g, &beta, &dx, &gradients})
            v->down(cpu);
        const auto formula = [&](const Doubles& in) { // x [rows, 2 H], then per layer aLog, dtBias
            Doubles out(static_cast<std::size_t>(2 * rows * H));
            for (int64_t n = 0; n < rows; ++n)
                for (int64_t h = 0; h < H; ++h) {
                    const double* own = &in[static_cast<std::size_t>(rows * 2 * H + n / (s.batch * s.tokens) * 2 * H)];
                    out[static_cast<std::size_t>(n * H + h)] = -std::exp(own[h]) * std::log1p(std::exp(in[static_cast<std::size_t>(n * 2 * H + h)] + own[H + h]));
                    out[static_cast<std::size_t>((rows + n) * H + h)] = sigmoid(in[static_cast<std::size_t>(n * 2 * H + H + h)]);
                }
            return out;
        };
        const auto joined = [&](const Values& matrix, const Values& perLayer) {
            Doubles result;
            for (const auto& [values, count, each] : {std::tuple(&matrix, rows, row), std::tuple(&perLayer, s.layers, stride)})
                for (int64_t n = 0; n < count; ++n)
                    for (int64_t i = 0; i < 2 * H; ++i)
                        result.push_back(values->get(n * each + (i < H ? i : 8 + i - H)));
            return result;
        };
        Doubles out = g.all(), weights = dg.all();
        for (const double value : beta.all())
            out.push_back(value);
        for (const double value : dbeta.all())
            weights.push_back(value);
        const Doubles in = joined(x, parameters), expected = differences(formula, in, weights), found = joined(dx, gradients);
        verify("g and beta", out, formula(in), 1e-5);
        const auto split = static_cast<std::ptrdiff_t>(rows * 2 * H);
        verify("da and db", {found.begin(), found.begin() + split}, {expected.begin(), expected.begin() + split}, tolerance(type));
        verify("dALog and ddtBias", {found.begin() + split, found.end()}, {expected.begin() + split, expected.end()}, 1e-4);
    }

    void gatedNorm_data() { table(); }
    void gatedNorm() {
        LINNET_NEEDS_DEVICE();
        const auto [type, cpu, s] = row();
        const int64_t W = s.width(), D = s.headDim, rows = s.sequences() * s.tokens, gateRow = W + 8, stride = D + 8;
        Values o(type, rows * W), gate(type, rows * gateRow), w(DataType::Float32, s.layers * stride), y(type, rows * W), dy(type, rows * W);
        Values dO(type, rows * W), dGate(type, rows * gateRow), dw(DataType::Float32, s.layers * stride);
        o.randomise(1, 0.3), gate.randomise(2), w.randomise(3, 0.2, 1), dy.randomise(4);
        GatedNormParams p;
        p.group = this->row().group(stride, stride), p.heads = s.heads, p.headDim = D, p.eps = 1e-5F;
        p.o = o.at(cpu), p.gate = gate.at(cpu), p.gateRow = gateRow, p.weight = w.floats(cpu), p.y = y.at(cpu);
        p.dy = dy.at(cpu), p.dO = dO.at(cpu), p.dGate = dGate.at(cpu), p.dGateRow = gateRow, p.dWeight = dw.floats(cpu);
        DeviceBuffer<float> workspace(static_cast<std::size_t>(gatedNormWorkspace(p)));
        p.workspace = workspace.data();
        cpu ? gatedNormForwardCpu(p) : verify(gatedNormForward(p));
        cpu ? gatedNormBackwardCpu(p) : verify(gatedNormBackward(p));
        for (Values* v : {&y, &dO, &dGate, &dw})
            v->down(cpu);
        const auto formula = [&](const Doubles& in) { // o [rows, W], gate [rows, W], w [layers, D]
            Doubles out(static_cast<std::size_t>(rows * W));
            for (int64_t n = 0; n < rows * s.heads; ++n) {
                double square = 0;
                for (int64_t d = 0; d < D; ++d)
                    square += in[static_cast<std::size_t>(n * D + d)] * in[static_cast<std::size_t>(n * D + d)];
                const double r = 1 / std::sqrt(square / static_cast<double>(D) + static_cast<double>(p.eps));
                for (int64_t d = 0; d < D; ++d) {
                    const double u = in[static_cast<std::size_t>(rows * W + n * D + d)];
                    const auto layer = n / (s.batch * s.tokens * s.heads);
                    out[static_cast<std::size_t>(n * D + d)] = in[static_cast<std::size_t>(n * D + d)] * r * in[static_cast<std::size_t>(2 * rows * W + layer * D + d)] * u * sigmoid(u);
                }
            }
            return out;
        };
        Doubles in = o.all(), found = dO.all();
        for (const double value : rowsOf(gate, rows, gateRow, 0, W))
            in.push_back(value);
        for (const double value : rowsOf(w, s.layers, stride, 0, D))
            in.push_back(value);
        for (const double value : rowsOf(dGate, rows, gateRow, 0, W))
            found.push_back(value);
        for (const double value : rowsOf(dw, s.layers, stride, 0, D))
            found.push_back(value);
        verify("y", y.all(), formula(in), tolerance(type));
        const Doubles expected = differences(formula, in, dy.all(), 60);
        const auto n = static_cast<std::ptrdiff_t>(rows * W);
        verify("do", {found.begin(), found.begin() + n}, {expected.begin(), expected.begin() + n}, tolerance(type));
        verify("dgate", {found.begin() + n, found.begin() + 2 * n}, {expected.begin() + n, expected.begin() + 2 * n}, tolerance(type));
        verify("dw", {found.begin() + 2 * n, found.end()}, {expected.begin() + 2 * n, expected.end()}, 1e-4);
    }

    // Loss and update together, two steps, one of them clipped; then the same from the start: the same bits.
    void lossAndUpdate_data() { table(false); } // the emulator takes seconds for its hundreds of blocks
    void lossAndUpdate() {
        LINNET_NEEDS_DEVICE();
        const auto [type, cpu, s] = row();
        const int64_t hidden = 4 * s.heads, values = s.batch * s.tokens * hidden, windows = 4, count = 1236, firstCount = 400, stride = count + 20, steps = 2;
        std::vector<std::uint32_t> bits;
        for (int run = type == DataType::Float16 ? 2 : 0; run < 3; ++run) { // the last like the first; the emulator is slow
            const bool relative = run == 1;
            Values out(type, s.layers * values), targets(type, windows * s.tokens * hidden), dOut(type, s.layers * values), rounded(type, s.layers * stride);
            Values w(DataType::Float32, s.layers * stride), m(DataType::Float32, s.layers * stride, 0), v(DataType::Float32, s.layers * stride, 0), g(DataType::Float32, s.layers * stride);
            Values sums(DataType::Float32, s.layers * kLossBlocks * 2), schedule(DataType::Float32, steps * 4), workspace(DataType::Float32, s.layers * kNormBlocks), metrics(DataType::Float32, steps * s.layers * 2);
            Values rows(DataType::Float32, steps * s.sequences()), step(DataType::Float32, 1);
            out.randomise(1), targets.randomise(2), w.randomise(3), g.randomise(4, 0.01);
            std::vector<std::int32_t> chosen;
            for (int64_t i = 0; i < steps * s.sequences(); ++i)
                chosen.push_back(static_cast<std::int32_t>((5 * i + 1) % windows));
            std::memcpy(rows.host.data(), chosen.data(), chosen.size() * 4);
            for (int64_t t = 0; t < steps; ++t) {
                const auto power = static_cast<double>(t + 1);
                const double line[] = {1e-3 * power, 2e-3, 1 - std::pow(0.9, power), std::sqrt(1 - std::pow(0.999, power))};
                for (int64_t i = 0; i < 4; ++i)
                    schedule.set(t * 4 + i, line[i]);
            }
            Doubles W = w.all(), M(W.size()), V(W.size());
            SquareErrorParams loss;
            AlignUpdateParams update;
            for (std::int32_t t = 0; t < steps; ++t) {
                Values now(DataType::Float32, 1); // a counter of its own for each step keeps the test simple
                std::memcpy(now.host.data(), &t, 4);
                loss.group = this->row().group(stride, stride), loss.hidden = hidden, loss.out = out.at(cpu), loss.targets = targets.at(cpu);
                loss.rows = static_cast<const std::int32_t*>(rows.at(cpu)), loss.step = static_cast<const std::int32_t*>(now.at(cpu));
                loss.dOut = dOut.at(cpu), loss.sums = sums.floats(cpu);
                cpu ? squareErrorCpu(loss) : verify(squareError(loss));
                update.group = loss.group, update.count = count, update.firstCount = firstCount;
                update.parameters = w.floats(cpu), update.first = m.floats(cpu), update.second = v.floats(cpu), update.gradients = g.floats(cpu);
                update.rounded = rounded.at(cpu), update.schedule = schedule.floats(cpu), update.step = loss.step;
                update.weightDecay = 0.01F, update.clip = t == 1 ? 0.1F : 1e3F, update.relative = relative, update.sums = loss.sums, update.values = values;
                update.workspace = workspace.floats(cpu), update.metrics = metrics.floats(cpu);
                cpu ? alignUpdateCpu(update) : verify(alignUpdate(update));
                linnet::tests::synchronise();
                for (int64_t l = 0; l < s.layers; ++l) {
                    double square = 0, power = 0;
                    for (int64_t i = 0; i < values; ++i) {
                        const auto target = chosen[static_cast<std::size_t>((t * s.layers + l) * s.batch + i / (s.tokens * hidden))] * s.tokens * hidden + i % (s.tokens * hidden);
                        power += targets.get(target) * targets.get(target) / static_cast<double>(values);
                    }
                    for (int64_t i = 0; i < count; ++i)
                        square += g.get(l * stride + i) * g.get(l * stride + i);
                    const double scaleOfLoss = relative ? 1 / power : 1, norm = std::sqrt(square) * scaleOfLoss, scale = scaleOfLoss * std::min(1.0, static_cast<double>(update.clip) / norm);
                    for (int64_t i = 0; i < count; ++i) {
                        const auto at = static_cast<std::size_t>(l * stride + i);
                        const double x = g.get(static_cast<int64_t>(at)) * scale, lr = schedule.get(t * 4 + (i < firstCount ? 0 : 1));
                        M[at] = 0.9 * M[at] + 0.1 * x, V[at] = 0.999 * V[at] + 0.001 * x * x;
                        W[at] = W[at] * (1 - lr * 0.01) - lr * (M[at] / schedule.get(t * 4 + 2)) / (std::sqrt(V[at]) / schedule.get(t * 4 + 3) + 1e-8);
                    }
                }
            }
            for (Values* x : {&w, &m, &v, &rounded, &metrics, &dOut})
                x->down(cpu);
            for (int64_t l = 0; l < s.layers; ++l) { // what lies behind `count` is nobody's
                for (int64_t i = count; i < stride; ++i)
                    W[static_cast<std::size_t>(l * stride + i)] = M[static_cast<std::size_t>(l * stride + i)] = V[static_cast<std::size_t>(l * stride + i)] = NAN;
            }
            verify("parameters", w.all(), W, 1e-6);
            verify("first moments", m.all(), M, 1e-5);
            verify("second moments", v.all(), V, 1e-5);
            verify("rounded", rounded.all(), W, tolerance(type));
            Doubles difference, found, lossOfLast;
            for (int64_t l = 0; l < s.layers; ++l) {
                double error = 0;
                for (int64_t i = 0; i < values; ++i) {
                    const auto target = chosen[static_cast<std::size_t>((s.layers + l) * s.batch + i / (s.tokens * hidden))] * s.tokens * hidden + i % (s.tokens * hidden);
                    const double d = out.get(l * values + i) - targets.get(target);
                    difference.push_back(2 * d / static_cast<double>(values));
                    error += d * d / static_cast<double>(values);
                }
                lossOfLast.push_back(error);
                found.push_back(metrics.get((s.layers + l) * 2));
            }
            verify("dOut", dOut.all(), difference, tolerance(type));
            verify("loss", found, lossOfLast, 1e-5);
            if (run == 0)
                bits = w.host;
            else if (!bits.empty())
                QCOMPARE(bits == w.host, run == 2);
        }
    }

    void refusals() {
        LINNET_NEEDS_DEVICE();
        GatedNormParams norm;
        QVERIFY(gatedNormForward(norm));
        norm.group = {1, 1, 1, 0, 0, DataType::BFloat16, nullptr};
        norm.heads = 1, norm.headDim = 7;
        QVERIFY(gatedNormForward(norm));
        ShortConvolutionParams convolution;
        convolution.group = norm.group, convolution.width = 6;
        QVERIFY(shortConvolutionForward(convolution));
        GatherRowsParams gather;
        gather.count = 1, gather.rowBytes = 20;
        QVERIFY(gatherRows(gather));
    }
};

QTEST_APPLESS_MAIN(TestLinearLayerKernels)
#include "tst_kernels_linear_layer_cuda.moc"
