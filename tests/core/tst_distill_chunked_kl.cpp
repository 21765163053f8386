// The distillation loss in pieces against plain torch autograd in float64: values, every gradient, and the bound on memory.
#include "core/torch_pch.h"

#include "core/distill/chunked_kl.h"
#include "core/model/vocabulary_scores.h"
#include "tests/support/model_fixtures.h"

#include <QTest>

using namespace linnet::core;
using namespace linnet::tests;

namespace {

struct Case {
    std::int64_t rows, vocabulary;
    double temperature, klWeight, crossEntropyWeight;
    bool weighted, tied;
    std::int64_t pieceBytes;
};

constexpr std::int64_t kHidden = 24, kTeacherHidden = 40;

DistillInput inputs(const Case& c, at::ScalarType dtype = at::kFloat) {
    at::manual_seed(std::uint64_t(c.rows * 31 + c.vocabulary));
    DistillInput in;
    in.hidden = at::randn({c.rows, kHidden}).to(dtype).requires_grad_(true);
    in.head = (at::randn({c.vocabulary, kHidden}) * 0.6).to(dtype).requires_grad_(true);
    in.teacherHidden = at::randn({c.rows, c.tied ? kHidden : kTeacherHidden}).to(dtype);
    in.teacherHead = c.tied ? in.head : (at::randn({c.vocabulary, kTeacherHidden}) * 0.5).to(dtype);
    in.targets = at::randint(c.vocabulary, {c.rows}, at::kLong);
    for (std::int64_t row = 2; row < c.rows; row += 5)
        in.targets[row] = -100;
    if (c.weighted) {
        in.rowWeights = at::rand({c.rows}) + 0.1;
        if (c.rows > 3)
            in.rowWeights[3] = 0;
    }
    return in;
}

// The same in one go with torch's own operators, float64.
struct Plain {
    at::Tensor loss, kl, crossEntropy, hidden, head; // the last two ask for gradients
};
Plain plain(const DistillInput& in, const DistillOptions& o) {
    Plain p;
    p.hidden = in.hidden.detach().to(at::kDouble).requires_grad_(true);
    p.head = in.head.detach().to(at::kDouble).requires_grad_(true);
    const at::Tensor logits = p.hidden.matmul(p.head.t());
    const at::Tensor weights = in.rowWeights.defined() ? in.rowWeights.to(at::kDouble) : at::ones({in.hidden.size(0)}, at::kDouble);
    p.loss = at::zeros({}, at::kDouble);
    if (in.teacherHidden.defined()) {
        const at::Tensor teacher = in.teacherHidden.detach().to(at::kDouble).matmul(in.teacherHead.detach().to(at::kDouble).t());
        const at::Tensor logTeacher = (teacher / o.temperature).log_softmax(-1);
        const at::Tensor rows = (logTeacher.exp() * (logTeacher - (logits / o.temperature).log_softmax(-1))).sum(-1);
        p.kl = (rows * weights).sum() / weights.sum() * o.temperature * o.temperature;
        p.loss = p.loss + p.kl * o.klWeight;
    }
    if (in.targets.defined()) {
        const at::Tensor counted = weights * (in.targets >= 0);
        const at::Tensor rows = -logits.log_softmax(-1).gather(1, in.targets.clamp_min(0).unsqueeze(1)).squeeze(1);
        p.crossEntropy = (rows * counted).sum() / counted.sum();
        p.loss = p.loss + p.crossEntropy * o.crossEntropyWeight;
    }
    return p;
}

} // namespace

class TestDistillChunkedKl : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void matchesAutograd_data() {
        QTest::addColumn<int>("index");
        for (int i = 0; i < int(cases().size()); ++i) {
            const Case& c = cases()[std::size_t(i)];
            QTest::addRow("%lld rows, V %lld, T %g, weights %g %g%s%s, %lld bytes", qlonglong(c.rows), qlonglong(c.vocabulary),
                          c.temperature, c.klWeight, c.crossEntropyWeight, c.weighted ? ", row weights" : "", c.tied ? ", tied" : "",
                          qlonglong(c.pieceBytes))
                << i;
        }
    }
    void matchesAutograd() {
        QFETCH(int, index);
        const Case& c = cases()[std::size_t(index)];
        const DistillOptions options{c.temperature, c.klWeight, c.crossEntropyWeight, c.pieceBytes};
        for (const auto& [dtype, tolerance] : {std::pair(at::kDouble, 1e-11), std::pair(at::kFloat, 2e-5)}) {
            const DistillInput in = inputs(c, dtype);
            const DistillLoss found = distillLoss(in, options);
            const Plain expected = plain(in, options);
            LINNET_NEAR(found.kl, expected.kl, tolerance);
            LINNET_NEAR(found.crossEntropy, expected.crossEntropy, tolerance);
            LINNET_NEAR(found.loss, expected.loss, tolerance);
            QVERIFY(!found.kl.requires_grad() && !found.crossEntropy.requires_grad());
            (found.loss * 0.75).backward();
            (expected.loss * 0.75).backward();
            LINNET_NEAR(in.hidden.grad(), expected.hidden.grad(), tolerance);
            LINNET_NEAR(in.head.grad(), expected.head.grad(), tolerance);
            QCOMPARE(in.hidden.grad().scalar_type(), dtype);
        }
    }

    void largeCommonOffsetCostsNothing() { // every logit of a row is raised by about 1000: a hidden unit that all tokens share
        DistillInput in = inputs({33, 501, 1.0, 1, 1, false, false, 20000}, at::kFloat);
        const auto raised = [](const at::Tensor& t, double by) {
            return at::cat({t.detach(), at::full({t.size(0), 1}, by, t.options().requires_grad(false))}, 1);
        };
        in.hidden = raised(in.hidden, 32).requires_grad_(true), in.head = raised(in.head, 32).requires_grad_(true);
        const DistillLoss found = distillLoss(in, {1, 1, 1, 20000});
        const Plain expected = plain(in, {1, 1, 1, 20000});
        LINNET_NEAR(found.kl, expected.kl, 2e-4); // float32 logits of 1000 have an error of 6e-5
        found.loss.backward(), expected.loss.backward();
        LINNET_NEAR(in.hidden.grad().narrow(1, 0, kHidden), expected.hidden.grad().narrow(1, 0, kHidden), 2e-3);
    }

    void equalModelsHaveNoDivergence() {
        DistillInput in = inputs({9, 700, 2.0, 1, 0, false, true, 9000});
        in.teacherHidden = in.hidden.detach();
        const DistillLoss found = distillLoss(in, {2.0, 1, 0, 9000});
        QCOMPARE(found.kl.item<double>(), 0.0);
        found.loss.backward();
        QCOMPARE(in.head.grad().abs().max().item<double>(), 0.0);
    }

    void narrowTypesStayNear_data() {
        QTest::addColumn<int>("type");
        QTest::newRow("bf16") << int(at::kBFloat16);
        QTest::newRow("f16") << int(at::kHalf);
    }
    // The error is at most twice that of plain torch in the same type.
    void narrowTypesStayNear() {
        QFETCH(int, type);
        const auto dtype = at::ScalarType(type);
        const Case c{130, 1000, 1.0, 1, 1, false, false, 300000};
        const DistillOptions options{1, 1, 1, c.pieceBytes};
        const DistillInput in = inputs(c, dtype);
        const DistillLoss found = distillLoss(in, options);
        const Plain expected = plain(in, options);
        const at::Tensor hidden = in.hidden.detach().clone().requires_grad_(true), head = in.head.detach().clone().requires_grad_(true);
        const at::Tensor logTeacher = in.teacherHidden.matmul(in.teacherHead.t()).to(at::kFloat).log_softmax(-1);
        const at::Tensor logStudent = hidden.matmul(head.t()).to(at::kFloat).log_softmax(-1);
        const at::Tensor picked = -logStudent.gather(1, in.targets.clamp_min(0).unsqueeze(1)).squeeze(1) * (in.targets >= 0);
        const at::Tensor rough =
            (logTeacher.exp() * (logTeacher - logStudent)).sum(-1).mean() + picked.sum() / (in.targets >= 0).sum();
        found.loss.backward(), expected.loss.backward(), rough.backward();
        QCOMPARE(in.head.grad().scalar_type(), dtype);
        LINNET_NEAR(found.loss, expected.loss, 2 * relativeError(rough, expected.loss) + 1e-4);
        LINNET_NEAR(in.hidden.grad(), expected.hidden.grad(), 2 * relativeError(hidden.grad(), expected.hidden.grad()));
        LINNET_NEAR(in.head.grad(), expected.head.grad(), 2 * relativeError(head.grad(), expected.head.grad()));
    }

    void oneTermAlone() {
        const Case c{17, 300, 3.0, 1, 1, true, false, 12000};
        const DistillOptions options{3.0, 0.5, 2.0, c.pieceBytes};
        for (const bool teacher : {true, false}) {
            DistillInput in = inputs(c, at::kDouble);
            if (teacher)
                in.targets = at::Tensor();
            else
                in.teacherHidden = in.teacherHead = at::Tensor();
            const DistillLoss found = distillLoss(in, options);
            const Plain expected = plain(in, options);
            QCOMPARE(found.kl.defined(), teacher);
            QCOMPARE(found.crossEntropy.defined(), !teacher);
            found.loss.backward(), expected.loss.backward();
            LINNET_NEAR(found.loss, expected.loss, 1e-11);
            LINNET_NEAR(in.hidden.grad(), expected.hidden.grad(), 1e-11);
            LINNET_NEAR(in.head.grad(), expected.head.grad(), 1e-11);
        }
    }

    // A tied head is the embedding too: both uses add up in one gradient.
    void headTiedToTheEmbedding() {
        const Case c{12, 200, 1.5, 1, 1, false, false, 9000};
        const DistillOptions options{1.5, 1, 1, c.pieceBytes};
        DistillInput in = inputs(c, at::kDouble);
        const at::Tensor ids = at::randint(200, {12}, at::kLong);
        const auto gradient = [&](const auto& loss) {
            const at::Tensor weight = in.head.detach().clone().requires_grad_(true);
            loss(weight, at::tanh(at::embedding(weight, ids))).backward();
            return weight.grad();
        };
        const at::Tensor found = gradient([&](const at::Tensor& weight, const at::Tensor& hidden) {
            DistillInput tied = in;
            tied.head = weight, tied.hidden = hidden;
            return distillLoss(tied, options).loss;
        });
        const at::Tensor expected = gradient([&](const at::Tensor& weight, const at::Tensor& hidden) {
            const at::Tensor logits = hidden.matmul(weight.t());
            const at::Tensor logTeacher = (in.teacherHidden.matmul(in.teacherHead.t()) / 1.5).log_softmax(-1);
            const at::Tensor kl = (logTeacher.exp() * (logTeacher - (logits / 1.5).log_softmax(-1))).sum(-1).mean() * 2.25;
            const at::Tensor counted = (in.targets >= 0).to(at::kDouble);
            const at::Tensor picked = -logits.log_softmax(-1).gather(1, in.targets.clamp_min(0).unsqueeze(1)).squeeze(1);
            return kl + (picked * counted).sum() / counted.sum();
        });
        LINNET_NEAR(found, expected, 1e-11);
    }

    void onlyWhatAsksGetsAGradient() {
        const Case c{7, 100, 1.0, 1, 1, false, false, 5000};
        DistillInput in = inputs(c);
        in.head = in.head.detach();
        distillLoss(in, {1, 1, 1, c.pieceBytes}).loss.backward();
        QVERIFY(in.hidden.grad().defined() && !in.head.grad().defined());
        const at::NoGradGuard noGrad;
        QVERIFY(!distillLoss(inputs(c), {}).loss.requires_grad());
    }

    void noTargetAtAll() {
        const Case c{5, 64, 1.0, 0, 1, false, false, 5000};
        DistillInput in = inputs(c);
        in.targets.fill_(-100);
        const DistillLoss found = distillLoss(in, {1, 0, 1, c.pieceBytes});
        found.loss.backward();
        QCOMPARE(found.crossEntropy.item<double>(), 0.0);
        QCOMPARE(in.hidden.grad().abs().max().item<double>(), 0.0);
    }

    void piecesKeepTheBound() {
        const std::int64_t bytes = std::int64_t{256} << 20;
        const PieceSizes sizes = pieceSizes(4096, 151936, 2 + 2, 4, bytes);
        QVERIFY(sizes.rows >= 128 && sizes.rows < 4096 && sizes.tokens >= 4096 && sizes.tokens < 151936);
        QVERIFY(sizes.rows * 151936 * 4 + sizes.rows * sizes.tokens * 4 * 5 <= bytes);
        const PieceSizes small = pieceSizes(3, 50, 8, 4, bytes); // all at once
        QVERIFY(small.rows == 3 && small.tokens == 50);
        const PieceSizes least = pieceSizes(3, 50, 8, 4, 1);
        QVERIFY(least.rows == 1 && least.tokens == 1);
    }

    void agreementTakesTheFirstOfEqualTokens() {
        const at::Tensor student = at::tensor({1.0F, 3.0F, 3.0F, 2.0F, 0.0F, 5.0F}).view({2, 3}),
                         teacher = at::tensor({0.0F, 4.0F, 1.0F, 2.0F, 7.0F, 7.0F}).view({2, 3});
        for (const std::int64_t step : {1, 2, 3}) {
            VocabularyScores scores({.agreement = true}, {});
            for (std::int64_t first = 0; first < 3; first += step) {
                const auto n = std::min<std::int64_t>(step, 3 - first);
                scores.add(student.narrow(1, first, n), teacher.narrow(1, first, n), first);
            }
            QVERIFY(scores.agreement()[0].item<bool>());
            QVERIFY(!scores.agreement()[1].item<bool>());
        }
    }

    void badShapesAreRefused() {
        const Case c{4, 50, 1.0, 1, 0, false, false, 5000};
        const auto message = [&](const auto& change) {
            DistillInput in = inputs(c);
            change(in);
            try {
                distillLoss(in, {});
            } catch (const Failure& failure) {
                return failure.error.code == ErrorCode::Usage ? QString::fromStdString(failure.error.message) : QString();
            }
            return QString();
        };
        QVERIFY(message([](DistillInput& in) { in.head = in.head.narrow(1, 0, 3); }).contains("head"));
        QVERIFY(message([](DistillInput& in) { in.teacherHead = in.teacherHead.narrow(0, 0, 30); }).contains("30 tokens, the student 50"));
        QVERIFY(message([](DistillInput& in) { in.targets = in.targets.narrow(0, 0, 2); }).contains("targets"));
        QVERIFY(message([](DistillInput& in) { in.teacherHidden = at::Tensor(); }).contains("teacher"));
        QVERIFY(message([](DistillInput& in) { in.teacherHidden = in.teacherHead = in.targets = at::Tensor(); }).contains("neither"));
    }

    void stopsBetweenPieces() {
        std::stop_source stop;
        stop.request_stop();
        Control control;
        control.stop = stop.get_token();
        QVERIFY_THROWS_EXCEPTION(Failure, distillLoss(inputs({4, 50, 1.0, 1, 0, false, false, 5000}), {}, control));
    }

private:
    static const std::vector<Case>& cases() {
        constexpr std::int64_t kWhole = std::int64_t{256} << 20;
        static const std::vector<Case> all{
            {1, 1000, 1.0, 1, 1, false, false, kWhole},  {7, 1000, 1.0, 1, 0.3, false, false, 30000},
            {130, 1000, 1.0, 1, 1, true, false, 100000}, {130, 1000, 2.0, 0.7, 0.2, true, false, 100000},
            {130, 1000, 0.5, 1, 1, false, true, 250000}, {7, 50257, 1.0, 1, 1, true, false, 3000000},
            {7, 50257, 4.0, 1, 1, false, true, 1500000}, {130, 333, 1.0, 0, 1, true, false, 40000},
        };
        return all;
    }
};

QTEST_APPLESS_MAIN(TestDistillChunkedKl)
#include "tst_distill_chunked_kl.moc"
