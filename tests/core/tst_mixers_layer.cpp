// One converted layer against plain C++ double loops written from its equations; pieces and steps against the whole; gradients
// of each parameter against central differences.
#include "core/torch_pch.h"

#include "core/base/result.h"
#include "core/mixers/gated_delta_net.h"

#include <QTest>

using namespace linnet::core;

namespace {

constexpr auto kDouble = at::kDouble;
using Rows = std::vector<std::vector<double>>;

const LinearShape kShape{3, 8, 20, 1e-5};

LinearLayer randomLayer(at::ScalarType dtype = kDouble) {
    at::manual_seed(7);
    const int64_t width = kShape.heads * kShape.headDim;
    const auto draw = [&](std::vector<int64_t> sizes, double scale) { return (at::randn(sizes, kDouble) * scale).to(dtype); };
    LinearLayer layer;
    layer.qProj = draw({width, kShape.hidden}, 0.3);
    layer.kProj = draw({width, kShape.hidden}, 0.3);
    layer.vProj = draw({width, kShape.hidden}, 0.3);
    layer.qConv = draw({width, 4}, 0.5);
    layer.kConv = draw({width, 4}, 0.5);
    layer.vConv = draw({width, 4}, 0.5);
    layer.aProj = draw({kShape.heads, kShape.hidden}, 0.3);
    layer.bProj = draw({kShape.heads, kShape.hidden}, 0.3);
    layer.gProj = draw({width, kShape.hidden}, 0.3);
    layer.aLog = draw({kShape.heads}, 0.5);
    layer.dtBias = draw({kShape.heads}, 1) - 2;
    layer.oNorm = draw({kShape.headDim}, 0.2) + 1;
    layer.oProj = draw({kShape.hidden, width}, 0.3);
    return layer;
}

at::Tensor randomInput(int64_t B, int64_t T, at::ScalarType dtype = kDouble) {
    at::manual_seed(11);
    return at::randn({B, T, kShape.hidden}, kDouble).to(dtype);
}

Rows rowsOf(const at::Tensor& t) {
    Rows rows(size_t(t.size(0)), std::vector<double>(size_t(t.size(1))));
    for (int64_t i = 0; i < t.size(0); ++i)
        for (int64_t j = 0; j < t.size(1); ++j)
            rows[size_t(i)][size_t(j)] = t[i][j].item<double>();
    return rows;
}

std::vector<double> valuesOf(const at::Tensor& t) {
    return rowsOf(t.unsqueeze(0))[0];
}

double sigmoid(double z) {
    return 1 / (1 + std::exp(-z));
}

Rows times(const Rows& x, const at::Tensor& weight) {
    const Rows w = rowsOf(weight);
    Rows y(x.size(), std::vector<double>(w.size(), 0));
    for (size_t t = 0; t < x.size(); ++t)
        for (size_t i = 0; i < w.size(); ++i)
            for (size_t j = 0; j < x[t].size(); ++j)
                y[t][i] += w[i][j] * x[t][j];
    return y;
}

Rows convolved(const Rows& u, const at::Tensor& conv, bool convolve) {
    const Rows taps = rowsOf(conv);
    Rows y = u;
    for (size_t t = 0; t < u.size(); ++t)
        for (size_t i = 0; i < u[t].size(); ++i) {
            double sum = u[t][i];
            if (convolve) {
                sum = 0;
                for (size_t lag = 0; lag < 4 && lag <= t; ++lag)
                    sum += taps[i][3 - lag] * u[t - lag][i];
            }
            y[t][i] = sum * sigmoid(sum);
        }
    return y;
}

// One sequence, x [T, hidden], for mixers with the delta rule or without, with no or scalar decay.
Rows plainLayer(const MixerSpec& spec, const LinearLayer& layer, const at::Tensor& input) {
    const size_t H = size_t(kShape.heads), D = size_t(kShape.headDim);
    const Rows x = rowsOf(input);
    Rows q = convolved(times(x, layer.qProj), layer.qConv, spec.shortConvolution);
    Rows k = convolved(times(x, layer.kProj), layer.kConv, spec.shortConvolution);
    const Rows v = convolved(times(x, layer.vProj), layer.vConv, spec.shortConvolution);
    const Rows a = times(x, layer.aProj), b = times(x, layer.bProj), gate = times(x, layer.gProj);
    const std::vector<double> aLog = valuesOf(layer.aLog), dt = valuesOf(layer.dtBias), w = valuesOf(layer.oNorm);
    Rows mixed(x.size(), std::vector<double>(H * D));
    for (size_t h = 0; h < H; ++h) {
        Rows S(D, std::vector<double>(D, 0));
        for (size_t t = 0; t < x.size(); ++t) {
            double qq = 1e-6, kk = 1e-6;
            for (size_t i = 0; i < D; ++i) {
                qq += q[t][h * D + i] * q[t][h * D + i];
                kk += k[t][h * D + i] * k[t][h * D + i];
            }
            if (!spec.qkL2Norm)
                qq = kk = 1;
            const double inner = (spec.decay == Decay::ScalarPerToken ? a[t][h] : 0.0) + dt[h];
            const double decay = spec.decay == Decay::None ? 1 : std::exp(-std::exp(aLog[h]) * std::log1p(std::exp(inner)));
            const double beta = spec.write == WriteGate::One ? 1 : sigmoid(b[t][h]);
            std::vector<double> o(D, 0);
            double size = 0;
            for (size_t j = 0; j < D; ++j) {
                double read = 0;
                for (size_t i = 0; i < D; ++i)
                    read += k[t][h * D + i] / std::sqrt(kk) * decay * S[i][j];
                for (size_t i = 0; i < D; ++i) {
                    S[i][j] = decay * S[i][j] +
                              beta * k[t][h * D + i] / std::sqrt(kk) * (v[t][h * D + j] - (spec.deltaRule ? read : 0.0));
                    o[j] += S[i][j] * q[t][h * D + i] / std::sqrt(qq * double(D));
                }
                size += o[j] * o[j] / double(D);
            }
            for (size_t j = 0; j < D; ++j) {
                const double g = gate[t][h * D + j];
                mixed[t][h * D + j] = o[j] / std::sqrt(size + kShape.normEps) * w[j] * (spec.outputGate ? g * sigmoid(g) : 1);
            }
        }
    }
    return times(mixed, layer.oProj);
}

double worst(const at::Tensor& got, const at::Tensor& want) {
    return (got.to(kDouble) - want.to(kDouble)).abs().max().item<double>();
}

const MixerSpec& gatedDeltaNet() {
    return mixerSpec("gated_delta_net");
}

} // namespace

class TestMixersLayer : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void againstPlainLoop_data() {
        QTest::addColumn<QString>("name");
        for (const char* name : {"gated_delta_net", "delta_net", "retnet", "linear_attention"})
            QTest::newRow(name) << name;
    }
    void againstPlainLoop() {
        QFETCH(QString, name);
        const MixerSpec& spec = mixerSpec(name.toStdString());
        const LinearLayer layer = randomLayer();
        for (const int64_t T : {1, 2, 21}) {
            const at::Tensor x = randomInput(2, T), y = linearForward(spec, kShape, layer, x, nullptr, 16);
            for (int64_t b = 0; b < 2; ++b) {
                const Rows want = plainLayer(spec, layer, x[b]);
                for (int64_t t = 0; t < T; ++t)
                    for (int64_t j = 0; j < kShape.hidden; ++j) {
                        const double got = y[b][t][j].item<double>();
                        QVERIFY2(std::abs(got - want[size_t(t)][size_t(j)]) < 1e-10,
                                 qPrintable(QString("T %1 t %2 j %3: %4").arg(T).arg(t).arg(j).arg(got)));
                    }
            }
        }
    }

    void partsMakeTheWhole() {
        const LinearLayer layer = randomLayer();
        const at::Tensor x = randomInput(2, 30);
        const Readout readout = linearReadout(gatedDeltaNet(), kShape, layer, x);
        QCOMPARE(readout.raw.sizes().vec(), (std::vector<int64_t>{2, 30, 3, 8}));
        const at::Tensor y = linearOutput(layer, readout.normed, outputGate(layer, x));
        QVERIFY(worst(y, linearForward(gatedDeltaNet(), kShape, layer, x)) == 0);
    }

    void pieces_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QList<int>>("pieces");
        for (const char* name : {"gated_delta_net", "delta_net", "retnet"}) {
            QTest::addRow("%s halves", name) << name << QList<int>{45, 45};
            QTest::addRow("%s shorter than the convolution", name) << name << QList<int>{1, 2, 1, 1, 3, 82};
            QTest::addRow("%s prefill, then decoding", name) << name << QList<int>{80, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        }
        QTest::newRow("decoding from the first token") << "gated_delta_net" << QList<int>(90, 1);
    }
    void pieces() {
        QFETCH(QString, name);
        QFETCH(QList<int>, pieces);
        const MixerSpec& spec = mixerSpec(name.toStdString());
        for (const auto dtype : {at::kDouble, at::kFloat}) {
            const LinearLayer layer = randomLayer(dtype);
            const at::Tensor x = randomInput(2, 90, dtype);
            at::NoGradGuard noGrad;
            LinearState state, wholeState;
            std::vector<at::Tensor> y;
            int64_t first = 0;
            for (const int count : pieces) {
                y.push_back(linearForward(spec, kShape, layer, x.narrow(1, first, count), &state));
                first += count;
            }
            QCOMPARE(first, int64_t(90));
            const at::Tensor whole = linearForward(spec, kShape, layer, x, &wholeState);
            const double tolerance = dtype == at::kDouble ? 1e-11 : 1e-4;
            QVERIFY2(worst(at::cat(y, 1), whole) < tolerance, qPrintable(QString::number(worst(at::cat(y, 1), whole))));
            QVERIFY(worst(state.recurrent, wholeState.recurrent) < tolerance);
            if (spec.shortConvolution) {
                QCOMPARE(state.conv.sizes().vec(), (std::vector<int64_t>{2, 3, 3 * 3 * 8}));
                QVERIFY(worst(state.conv, wholeState.conv) < tolerance);
            }
        }
    }

    void gradients_data() {
        QTest::addColumn<bool>("continued");
        QTest::newRow("from the start") << false;
        QTest::newRow("continued") << true;
    }
    void gradients() {
        QFETCH(bool, continued);
        const at::Tensor x = randomInput(2, 19), weight = at::randn({2, 19, kShape.hidden}, kDouble);
        LinearState start;
        if (continued)
            linearForward(gatedDeltaNet(), kShape, randomLayer(), randomInput(2, 7), &start);
        const auto loss = [&](const LinearLayer& layer, const at::Tensor& input) {
            LinearState state = start;
            return (linearForward(gatedDeltaNet(), kShape, layer, input, &state, 8) * weight).sum();
        };
        const LinearLayer leaf = mapped(randomLayer(), [](const at::Tensor& t) { return t.clone().requires_grad_(true); });
        const at::Tensor input = x.clone().requires_grad_(true);
        loss(leaf, input).backward();
        const auto check = [&](const std::string& name, const at::Tensor& grad, const auto& shifted) {
            QVERIFY2(grad.defined(), name.c_str());
            at::manual_seed(13);
            const at::Tensor direction = at::randn(grad.sizes(), kDouble);
            constexpr double kStep = 1e-5;
            const double numeric = (shifted(direction * kStep) - shifted(direction * -kStep)) / (2 * kStep);
            const double analytic = (grad * direction).sum().template item<double>();
            QVERIFY2(std::abs(numeric - analytic) < 1e-6 * std::max(1.0, std::abs(numeric)),
                     qPrintable(QString("%1: %2, expected %3").arg(name.c_str()).arg(analytic).arg(numeric)));
        };
        at::NoGradGuard noGrad;
        leaf.forEach([&](const std::string& name, const at::Tensor& parameter) {
            check(name, parameter.grad(), [&](const at::Tensor& shift) {
                const auto moved = [&](const std::string& each, const at::Tensor& t) { return each == name ? t + shift : t; };
                return loss(mapped(randomLayer(), moved), x).item<double>();
            });
        });
        check("x", input.grad(), [&](const at::Tensor& shift) { return loss(randomLayer(), x + shift).item<double>(); });
    }

    void namesAndMapping() {
        const std::vector<std::string> names = LinearLayer::names();
        QCOMPARE(names.size(), size_t(13));
        std::vector<std::string> visited;
        LinearLayer layer = randomLayer();
        layer.forEach([&](const std::string& name, at::Tensor& t) {
            visited.push_back(name);
            t = t.to(at::kFloat);
        });
        QCOMPARE(visited, names);
        QVERIFY(layer.oProj.scalar_type() == at::kFloat && layer.aLog.scalar_type() == at::kFloat);
    }

    // Projections round to bfloat16, the rest must not: the error stays at what rounding weights and x alone costs.
    void lowPrecisionKeepsWideGatesAndStates() {
        at::NoGradGuard noGrad;
        const LinearLayer low = randomLayer(at::kBFloat16);
        const at::Tensor x = randomInput(1, 40, at::kBFloat16);
        LinearState state;
        const at::Tensor y = linearForward(gatedDeltaNet(), kShape, low, x, &state);
        QVERIFY(y.scalar_type() == at::kBFloat16);
        QVERIFY(state.recurrent.scalar_type() == at::kFloat && state.conv.scalar_type() == at::kFloat);
        const LinearLayer same = mapped(low, [](const at::Tensor& t) { return t.to(kDouble); });
        const at::Tensor want = linearForward(gatedDeltaNet(), kShape, same, x.to(kDouble));
        QVERIFY((y.to(kDouble) - want).norm().item<double>() < 0.03 * want.norm().item<double>());
    }

    void refusals() {
        try {
            linearForward(mixerSpec("kda"), kShape, randomLayer(), randomInput(1, 5));
            QFAIL("accepted");
        } catch (const Failure& failure) {
            QVERIFY(failure.error.message.find("kda") != std::string::npos);
        }
        try {
            linearForward(gatedDeltaNet(), kShape, randomLayer(), at::zeros({1, 5, 7}, kDouble));
            QFAIL("accepted");
        } catch (const Failure& failure) {
            QVERIFY(failure.error.message.find("[1, 5, 7]") != std::string::npos);
        }
    }
};

QTEST_APPLESS_MAIN(TestMixersLayer)
#include "tst_mixers_layer.moc"
