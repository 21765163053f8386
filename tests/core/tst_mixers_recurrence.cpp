// The three forms of the recurrence. Oracles: plain C++ double loops for the token recurrence of every preset (each written from
// the mixer's own published equations, without our tensors), then the token recurrence in float64 for the chunkwise form and for
// steps: outputs, final state and the gradient of every input.
#include "core/torch_pch.h"

#include "core/base/result.h"
#include "core/mixers/mixer_spec.h"
#include "core/mixers/recurrence.h"

#include <QTest>

using namespace linnet::core;

namespace {

constexpr auto kDouble = at::kDouble;

double relative(const at::Tensor& got, const at::Tensor& want) {
    const double norm = want.to(kDouble).norm().item<double>();
    return (got.to(kDouble) - want.to(kDouble)).norm().item<double>() / std::max(norm, 1e-30);
}

at::Tensor unit(const at::Tensor& t) {
    return t / t.norm(2, -1, true);
}

RecurrenceInputs randomInputs(const MixerSpec& spec, int64_t B, int64_t T, int64_t H, int64_t D, bool state, uint64_t seed) {
    at::manual_seed(seed);
    RecurrenceInputs in;
    in.q = at::randn({B, T, H, D}, kDouble) * std::pow(D, -0.5);
    in.k = at::randn({B, T, H, D}, kDouble);
    in.k = spec.qkL2Norm ? unit(in.k) : in.k * std::pow(D, -0.5);
    in.v = at::randn({B, T, H, D}, kDouble);
    if (spec.decay == Decay::ConstantPerHead)
        in.logDecay = -at::rand({H}, kDouble) * 0.2;
    else if (spec.decay == Decay::ScalarPerToken)
        in.logDecay = -at::rand({B, T, H}, kDouble).pow(3) * 2;
    else if (spec.decay == Decay::ChannelPerToken)
        in.logDecay = -at::rand({B, T, H, D}, kDouble).pow(3) * 2;
    if (spec.write == WriteGate::Beta)
        in.write = at::rand({B, T, H}, kDouble);
    else if (spec.write == WriteGate::ExponentialInput)
        in.write = at::randn({B, T, H}, kDouble) * 3;
    if (state)
        in.state = at::randn({B, H, D, D}, kDouble) * 0.3;
    return in;
}

struct Everything {
    at::Tensor o, state;
    std::vector<at::Tensor> grads;
    std::vector<const char*> names;
};

template <class Form> Everything run(const Form& form, RecurrenceInputs in, at::ScalarType dtype = kDouble) {
    std::vector<at::Tensor> leaves;
    Everything all;
    for (const auto& [name, t] : {std::pair("q", &in.q), std::pair("k", &in.k), std::pair("v", &in.v),
                                  std::pair("logDecay", &in.logDecay), std::pair("write", &in.write),
                                  std::pair("state", &in.state)}) {
        if (!t->defined())
            continue;
        *t = t->detach().to(dtype).clone().requires_grad_(true);
        leaves.push_back(*t);
        all.names.push_back(name);
    }
    const RecurrenceOutputs out = form(in);
    at::manual_seed(99);
    const at::Tensor wo = at::randn(out.o.sizes(), kDouble).to(dtype), ws = at::randn(out.state.sizes(), kDouble).to(dtype);
    ((out.o * wo).sum() + (out.state * ws).sum()).backward();
    all.o = out.o.detach();
    all.state = out.state.detach();
    for (const at::Tensor& leaf : leaves)
        all.grads.push_back(leaf.grad());
    return all;
}

// Relative error of a gradient. That of the decay can be 0 or nearly so (no state before, or a decay that forgets all) as the
// difference of q . dq and k . dk; there only the rounding of those terms is left, so k's gradient gives its floor.
double gradientError(const Everything& got, const Everything& want, size_t i) {
    double norm = want.grads[i].norm().item<double>();
    if (std::string(want.names[i]) == "logDecay")
        norm = std::max(norm, 0.1 * want.grads[1].norm().item<double>());
    return (got.grads[i].to(kDouble) - want.grads[i]).norm().item<double>() / std::max(norm, 1e-30);
}

void compare(const Everything& got, const Everything& want, double tolerance) {
    QVERIFY2(relative(got.o, want.o) <= tolerance, qPrintable(QString("o: %1").arg(relative(got.o, want.o))));
    QVERIFY2(relative(got.state, want.state) <= tolerance, qPrintable(QString("state: %1").arg(relative(got.state, want.state))));
    QCOMPARE(got.grads.size(), want.grads.size());
    for (size_t i = 0; i < want.grads.size(); ++i) {
        QVERIFY2(got.grads[i].defined(), want.names[i]);
        const double error = gradientError(got, want, i);
        QVERIFY2(error <= tolerance, qPrintable(QString("gradient of %1: %2").arg(want.names[i]).arg(error)));
    }
}

bool allFinite(const Everything& all) {
    const auto finite = [](const at::Tensor& t) { return t.isfinite().all().item<bool>(); };
    return finite(all.o) && finite(all.state) && std::all_of(all.grads.begin(), all.grads.end(), finite);
}

RecurrenceOutputs stepped(const MixerSpec& spec, const RecurrenceInputs& in) {
    RecurrenceInputs one;
    one.state = in.state;
    std::vector<at::Tensor> o;
    for (int64_t t = 0; t < in.q.size(1); ++t) {
        const auto at1 = [&](const at::Tensor& x) { return x.defined() && x.dim() > 1 ? x.narrow(1, t, 1) : x; };
        one.q = at1(in.q);
        one.k = at1(in.k);
        one.v = at1(in.v);
        one.logDecay = at1(in.logDecay);
        one.write = at1(in.write);
        const RecurrenceOutputs out = step(spec, one);
        o.push_back(out.o);
        one.state = out.state;
        one.normaliserState = out.normaliserState;
        one.maxState = out.maxState;
    }
    RecurrenceOutputs all;
    all.o = at::cat(o, 1);
    all.state = one.state;
    return all;
}

// One sequence, one head, from the published equations: every step forms its D x D transition where there is one.
std::vector<double> plainLoop(const std::string& name, const RecurrenceInputs& in, int64_t b, int64_t h) {
    const int64_t T = in.q.size(1), D = in.q.size(3);
    using Grid = std::vector<std::vector<double>>;
    Grid S(D, std::vector<double>(D, 0));
    std::vector<double> n(D, 0), result;
    const auto at3 = [&](const at::Tensor& t, int64_t i, int64_t j) { return t[b][i][h][j].item<double>(); };
    if (in.state.defined())
        for (int64_t i = 0; i < D; ++i)
            for (int64_t j = 0; j < D; ++j)
                S[i][j] = in.state[b][h][i][j].item<double>();
    for (int64_t t = 0; t < T; ++t) {
        std::vector<double> q(D), k(D), v(D), decay(D, 1.0);
        for (int64_t i = 0; i < D; ++i) {
            q[i] = at3(in.q, t, i);
            k[i] = at3(in.k, t, i);
            v[i] = at3(in.v, t, i);
            if (name == "retnet")
                decay[i] = std::exp(in.logDecay[h].item<double>());
            else if (name == "gated_delta_net" || name == "xlstm")
                decay[i] = std::exp(in.logDecay[b][t][h].item<double>());
            else if (name == "gla" || name == "kda")
                decay[i] = std::exp(at3(in.logDecay, t, i));
        }
        double write = 1;
        if (name == "delta_net" || name == "gated_delta_net" || name == "kda")
            write = in.write[b][t][h].item<double>();
        else if (name == "xlstm")
            write = std::exp(in.write[b][t][h].item<double>()); // no stabiliser at all: double holds these
        const bool erases = name == "delta_net" || name == "gated_delta_net" || name == "kda";
        Grid next(D, std::vector<double>(D, 0));
        for (int64_t i = 0; i < D; ++i)
            for (int64_t j = 0; j < D; ++j) {
                for (int64_t m = 0; m < D; ++m) { // (I - beta k k^T) diag(decay) S
                    const double transition = (i == m ? 1.0 : 0.0) - (erases ? write * k[i] * k[m] : 0.0);
                    next[i][j] += transition * decay[m] * S[m][j];
                }
                next[i][j] += write * k[i] * v[j];
            }
        S = next;
        double nq = 0;
        for (int64_t i = 0; i < D; ++i) {
            n[i] = decay[i] * n[i] + write * k[i];
            nq += n[i] * q[i];
        }
        for (int64_t j = 0; j < D; ++j) {
            double o = 0;
            for (int64_t i = 0; i < D; ++i)
                o += S[i][j] * q[i];
            result.push_back(name == "xlstm" ? o / std::max(std::abs(nq), 1.0) : o);
        }
    }
    return result;
}

} // namespace

class TestMixersRecurrence : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void presets() {
        QCOMPARE(mixerPresets().size(), size_t(7));
        QVERIFY(mixerSpec("kda").decay == Decay::ChannelPerToken);
        try {
            mixerSpec("gated_deltanet");
            QFAIL("an unknown mixer was accepted");
        } catch (const Failure& failure) {
            QVERIFY(failure.error.code == ErrorCode::Usage);
            QVERIFY(failure.error.message.find("did you mean 'gated_delta_net'") != std::string::npos);
        }
    }

    void tokenAgainstPlainLoop_data() {
        QTest::addColumn<bool>("initial");
        QTest::addColumn<QString>("name");
        for (const MixerSpec& spec : mixerPresets())
            for (const bool initial : {false, true})
                if (!(initial && spec.normaliser != Normaliser::None))
                    QTest::newRow((spec.name + (initial ? " from a state" : "")).c_str())
                        << initial << QString::fromStdString(spec.name);
    }
    void tokenAgainstPlainLoop() {
        QFETCH(bool, initial);
        QFETCH(QString, name);
        const MixerSpec& spec = mixerSpec(name.toStdString());
        const RecurrenceInputs in = randomInputs(spec, 2, 11, 2, 5, initial, 3);
        const at::Tensor o = tokenRecurrence(spec, in).o;
        for (int64_t b = 0; b < 2; ++b)
            for (int64_t h = 0; h < 2; ++h) {
                const std::vector<double> want = plainLoop(spec.name, in, b, h);
                for (int64_t t = 0; t < 11; ++t)
                    for (int64_t j = 0; j < 5; ++j) {
                        const double got = o[b][t][h][j].item<double>(), expected = want[size_t(t * 5 + j)];
                        QVERIFY2(std::abs(got - expected) <= 1e-11 * std::max(1.0, std::abs(expected)),
                                 qPrintable(QString("b %1 h %2 t %3 j %4: %5, expected %6").arg(b).arg(h).arg(t).arg(j).arg(got).arg(
                                     expected)));
                    }
            }
    }

    // sum w v / sum w with positive keys, by hand: keys 1 and queries 1 give the running mean of v.
    void denominatorIsARunningMean() {
        MixerSpec spec = mixerSpec("linear_attention");
        spec.normaliser = Normaliser::Denominator;
        RecurrenceInputs in;
        in.q = at::ones({1, 4, 1, 2}, kDouble);
        in.k = at::ones({1, 4, 1, 2}, kDouble);
        in.v = at::tensor({1.0, 3.0, 5.0, 7.0}, kDouble).view({1, 4, 1, 1});
        const at::Tensor o = tokenRecurrence(spec, in).o.flatten();
        for (int t = 0; t < 4; ++t)
            QVERIFY(std::abs(o[t].item<double>() - (1.0 + t)) < 1e-9);
    }

    // Input gates far beyond what exp can hold in float32; the largest one wins and the output is its value.
    void stabiliserHoldsHugeInputGates() {
        const MixerSpec& spec = mixerSpec("xlstm");
        RecurrenceInputs in = randomInputs(spec, 1, 6, 1, 4, false, 5);
        in.k = at::ones_like(in.k);
        in.q = at::ones_like(in.q);
        in.write = at::tensor({-300.0, 200.0, 500.0, 100.0, -1000.0, 900.0}, kDouble).view({1, 6, 1});
        in.logDecay = at::full({1, 6, 1}, -0.5, kDouble);
        const Everything got = run([&](const RecurrenceInputs& i) { return tokenRecurrence(spec, i); }, in, at::kFloat);
        QVERIFY(allFinite(got));
        for (const auto& [t, source] : {std::pair(0, -1), std::pair(2, 2), std::pair(4, 2), std::pair(5, 5)}) {
            const at::Tensor want = source < 0 ? at::zeros({4}, kDouble) : in.v[0][source][0];
            QVERIFY((got.o[0][t][0].to(kDouble) - want).abs().max().item<double>() < 1e-5);
        }
    }

    void chunkwiseAgainstToken_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<int>("T");
        QTest::addColumn<int>("D");
        QTest::addColumn<int>("H");
        QTest::addColumn<bool>("initial");
        QTest::addColumn<int>("chunk");
        const auto row = [](const QString& name, int T, int D, int H, bool initial, int chunk) {
            QTest::addRow("%s T%d D%d H%d C%d%s", qPrintable(name), T, D, H, chunk, initial ? " state" : "")
                << name << T << D << H << initial << chunk;
        };
        for (const int T : {1, 15, 63, 64, 65, 127, 300})
            for (const int D : {16, 64, 96})
                for (const int H : {1, 3, 9})
                    for (const bool initial : {false, true})
                        for (const int chunk : {16, 64})
                            if (T * D * H < 100000) // the oracle's autograd keeps a state for each token
                                row("gated_delta_net", T, D, H, initial, chunk);
        for (const char* name : {"linear_attention", "retnet", "delta_net"})
            for (const int T : {1, 63, 65, 127})
                for (const bool initial : {false, true})
                    row(name, T, 16, 3, initial, 64);
    }
    void chunkwiseAgainstToken() {
        QFETCH(QString, name);
        QFETCH(int, T);
        QFETCH(int, D);
        QFETCH(int, H);
        QFETCH(bool, initial);
        QFETCH(int, chunk);
        const MixerSpec& spec = mixerSpec(name.toStdString());
        const RecurrenceInputs in = randomInputs(spec, H == 9 ? 1 : 2, T, H, D, initial, 17);
        const Everything want = run([&](const RecurrenceInputs& i) { return tokenRecurrence(spec, i); }, in);
        const auto chunked = [&](const RecurrenceInputs& i) { return chunkwise(spec, i, chunk); };
        compare(run(chunked, in), want, 1e-9);
        if (QTest::currentTestFailed())
            return;
        compare(run(chunked, in, at::kFloat), want, 5e-5);
    }

    void stepsAgainstToken_data() {
        QTest::addColumn<QString>("name");
        for (const MixerSpec& spec : mixerPresets())
            QTest::newRow(spec.name.c_str()) << QString::fromStdString(spec.name);
    }
    void stepsAgainstToken() {
        QFETCH(QString, name);
        const MixerSpec& spec = mixerSpec(name.toStdString());
        const RecurrenceInputs in = randomInputs(spec, 2, 15, 3, 16, spec.normaliser == Normaliser::None, 23);
        compare(run([&](const RecurrenceInputs& i) { return stepped(spec, i); }, in),
                run([&](const RecurrenceInputs& i) { return tokenRecurrence(spec, i); }, in), 1e-9);
    }

    void piecesGiveTheWhole() {
        const MixerSpec& spec = mixerSpec("gated_delta_net");
        const RecurrenceInputs in = randomInputs(spec, 2, 130, 3, 16, false, 31);
        const RecurrenceOutputs whole = chunkwise(spec, in);
        RecurrenceInputs piece;
        std::vector<at::Tensor> o;
        for (const auto& [first, count] : {std::pair(0, 50), std::pair(50, 1), std::pair(51, 79)}) {
            piece.q = in.q.narrow(1, first, count);
            piece.k = in.k.narrow(1, first, count);
            piece.v = in.v.narrow(1, first, count);
            piece.logDecay = in.logDecay.narrow(1, first, count);
            piece.write = in.write.narrow(1, first, count);
            const RecurrenceOutputs out = chunkwise(spec, piece);
            o.push_back(out.o);
            piece.state = out.state;
        }
        QVERIFY(relative(at::cat(o, 1), whole.o) < 1e-12);
        QVERIFY(relative(piece.state, whole.state) < 1e-12);
    }

    void extremes_data() {
        QTest::addColumn<double>("logDecay"); // of every token; > 0: mixed, each seventh token forgets all
        QTest::addColumn<bool>("twins");      // nearly equal keys, beta near 1
        QTest::addColumn<double>("tolerance32");
        QTest::newRow("gate exactly 0") << 0.0 << false << 1e-4;
        QTest::newRow("-0.5 a token: below -20 a chunk") << -0.5 << false << 1e-4;
        QTest::newRow("-30 a token") << -30.0 << false << 1e-3;
        QTest::newRow("-1e4 a token") << -1e4 << false << 1e-3;
        QTest::newRow("-1e30 a token") << -1e30 << false << 1e-3;
        QTest::newRow("resets between gentle tokens") << 1.0 << false << 1e-3;
        QTest::newRow("near-duplicate keys, beta near 1") << -0.01 << true << 1e-3;
        QTest::newRow("near-duplicate keys, gate 0") << 0.0 << true << 1e-3;
    }
    void extremes() {
        QFETCH(double, logDecay);
        QFETCH(bool, twins);
        QFETCH(double, tolerance32);
        const MixerSpec& spec = mixerSpec("gated_delta_net");
        RecurrenceInputs in = randomInputs(spec, 2, 150, 2, 16, true, 41);
        in.logDecay = at::full_like(in.logDecay, logDecay);
        if (logDecay > 0) {
            in.logDecay.fill_(-0.05);
            for (int64_t t = 3; t < 150; t += 7)
                in.logDecay.select(1, t).fill_(-1e5);
        }
        if (twins) {
            in.k = unit(at::randn({1, 1, 1, 16}, kDouble) + 1e-3 * at::randn(in.k.sizes(), kDouble));
            in.write = 1 - 1e-3 * at::rand(in.write.sizes(), kDouble);
        }
        const Everything want = run([&](const RecurrenceInputs& i) { return tokenRecurrence(spec, i); }, in);
        const auto chunked = [&](const RecurrenceInputs& i) { return chunkwise(spec, i); };
        const Everything wide = run(chunked, in), narrow = run(chunked, in, at::kFloat);
        for (const auto& [got, tolerance] : {std::pair(&wide, 1e-9), std::pair(&narrow, tolerance32)}) {
            QVERIFY(allFinite(*got));
            compare(*got, want, tolerance);
        }
    }

    void minusInfinityForgetsAll() {
        const MixerSpec& spec = mixerSpec("gated_delta_net");
        RecurrenceInputs in = randomInputs(spec, 1, 70, 1, 16, true, 43);
        in.logDecay.select(1, 40).fill_(-INFINITY);
        const Everything got = run([&](const RecurrenceInputs& i) { return chunkwise(spec, i); }, in);
        QVERIFY(allFinite(got));
        RecurrenceInputs after = in;
        after.state = at::Tensor();
        for (at::Tensor* t : {&after.q, &after.k, &after.v, &after.logDecay, &after.write})
            *t = t->narrow(1, 40, 30).clone();
        after.logDecay.select(1, 0).fill_(0);
        QVERIFY(relative(got.o.narrow(1, 40, 30), tokenRecurrence(spec, after).o) < 1e-12);
    }

    void refusals() {
        for (const char* name : {"gla", "kda", "xlstm"}) {
            try {
                chunkwise(mixerSpec(name), randomInputs(mixerSpec(name), 1, 4, 1, 4, false, 1));
                QFAIL("accepted");
            } catch (const Failure& failure) {
                QVERIFY(failure.error.code == ErrorCode::Unsupported);
                QVERIFY(failure.error.message.find(name) != std::string::npos);
            }
        }
        const MixerSpec& spec = mixerSpec("gated_delta_net");
        const auto refused = [&](RecurrenceInputs in, const std::string& tensor) {
            try {
                chunkwise(spec, in);
                QFAIL("accepted");
            } catch (const Failure& failure) {
                QVERIFY(failure.error.code == ErrorCode::Usage);
                QCOMPARE(failure.error.context.at("tensor"), tensor);
            }
        };
        RecurrenceInputs in = randomInputs(spec, 1, 4, 2, 4, false, 1);
        in.write = in.write.narrow(2, 0, 1);
        refused(in, "write");
        in = randomInputs(spec, 1, 4, 2, 4, false, 1);
        in.logDecay = at::Tensor();
        refused(in, "logDecay");
        in = randomInputs(spec, 1, 4, 2, 4, false, 1);
        in.k = in.k.narrow(3, 0, 3);
        refused(in, "k");
    }
};

QTEST_APPLESS_MAIN(TestMixersRecurrence)
#include "tst_mixers_recurrence.moc"
