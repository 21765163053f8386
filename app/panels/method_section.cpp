#include "app/panels/method_section.h"

#include "app/models/session.h"

#include <QComboBox>
#include <QLineEdit>
#include <QSpinBox>

namespace linnet::app {

using R = core::Recipe;

QString presetHint(const std::string& preset) {
    const std::pair<const char*, QString> hints[] = {
        {"naive", MethodSection::tr("The teacher's projections copied, the rest drawn at random; alignment does the work.")},
        {"linnet", MethodSection::tr("Closed form by regression, head by head: good before any training.")},
        {"zero-gate", MethodSection::tr("As naive, with a closed output gate: the layer begins by adding nothing.")},
        {"small-gate", MethodSection::tr("As naive, with an output gate of 2 % of its size.")},
        {"paper", MethodSection::tr("Taylor-Calibrate (arXiv 2606.16429) as written, with its small learning rates.")},
        {"reference", MethodSection::tr("What the paper's released code does, bug for bug.")},
        {"alignment-only", MethodSection::tr("The naive start with the paper's alignment: tells start and alignment apart.")},
        {"sliding-window", MethodSection::tr("No new mixer, no training: attention over a short window and the first tokens.")},
    };
    for (const auto& [name, hint] : hints)
        if (preset == name)
            return hint;
    return {};
}

MethodSection::MethodSection(Session* session, QWidget* parent) : RecipeForm(session, parent), m_session(session) {
    setObjectName(QStringLiteral("methodSection"));
    makeTreatments();
    makeAlignment();
    makeDistillation();
    heading(tr("Device"));
    real(tr("memory"), QStringLiteral("memoryEdit"), 0, 1e6, [](R& r) -> double& { return r.memoryGib; }, tr("GiB above the teacher that a stage may take; 0: half of the GPU's memory"));
    connect(session, &Session::teacherChanged, this, &MethodSection::showTeacher);
    showTeacher();
}

void MethodSection::makeTreatments() {
    heading(tr("What the mixer cannot hold"));
    const auto fit = tr("each head takes what leaves it less residual (preset linnet)");
    choice(tr("RoPE"), QStringLiteral("ropeCombo"),
           {{"drop", tr("queries and keys without positions")}, {"fold", tr("folded into queries in expectation over each head's distances")}, {"fit", fit}},
           [](R& r) -> std::string& { return r.ropeTreatment; });
    m_bias = choice(tr("q, k, v bias"), QStringLiteral("biasCombo"), {{"fold", tr("folded into the projections by least squares")}, {"drop", tr("left out")}, {"fit", fit}},
                    [](R& r) -> std::string& { return r.biasTreatment; });
    m_qkNorm = choice(tr("QK norm"), QStringLiteral("qkNormCombo"), {{"fold", tr("its weights are folded into the rows that they scale")}, {"drop", tr("left out")}, {"fit", fit}},
                      [](R& r) -> std::string& { return r.qkNormTreatment; });
}

void MethodSection::makeAlignment() {
    heading(tr("Alignment"));
    choice(tr("loss"), QStringLiteral("lossCombo"),
           {{"mse", tr("squared error of the attention output")},
            {"relative_mse", tr("squared error over the target's size: loud tokens weigh no more than quiet ones")},
            {"kl_metric", tr("squared error, weighed by what the layers above make of it")}},
           [](R& r) -> std::string& { return r.align.loss; });
    real(tr("lr q, k, v"), QStringLiteral("lrEdit"), 0, 10, [](R& r) -> double& { return r.align.lr; }, tr("learning rate of the copied projections"));
    real(tr("lr others"), QStringLiteral("lrNewEdit"), 0, 10, [](R& r) -> double& { return r.align.lrNew; }, tr("learning rate of every other parameter"));
    real(tr("warm-up"), QStringLiteral("warmupEdit"), 0, 1, [](R& r) -> double& { return r.align.warmup; }, tr("share of the steps in which the learning rate rises"));
    whole(tr("early stop"), QStringLiteral("earlyStopSpin"), 0, 10'000'000, [](R& r) -> std::int64_t& { return r.align.earlyStop; },
          tr("held-out measurements without gain after which a layer stops"))
        ->setSpecialValueText(tr("never"));
    choice(tr("drift"), QStringLiteral("driftCombo"),
           {{"none", tr("layers stay as alignment left them")},
            {"refit", tr("o_proj of each layer once more, on the student's own inputs")},
            {"align", tr("refit, then some steps of alignment on the student's own inputs")}},
           [](R& r) -> std::string& { return r.align.drift; }, tr("Alignment never sees the errors of the layers below; this does.<br>"));
    auto* steps = whole(tr("drift steps"), QStringLiteral("driftStepsSpin"), 0, 10'000'000, [](R& r) -> std::int64_t& { return r.align.driftSteps; });
    onShow([this, steps](const R& recipe) { setRowShown(steps, recipe.align.drift == "align"); });
}

void MethodSection::makeDistillation() {
    heading(tr("Distillation"));
    whole(tr("steps"), QStringLiteral("distillStepsSpin"), 0, 10'000'000, [](R& r) -> std::int64_t& { return r.distill.steps; },
          tr("of all converted layers together, by KL to the teacher over the whole vocabulary"))
        ->setSpecialValueText(tr("none"));
    QWidget* fields[] = {
        whole(tr("batch"), QStringLiteral("distillBatchSpin"), 1, 65536, [](R& r) -> std::int64_t& { return r.distill.batch; }, tr("sequences a step")),
        real(tr("lr"), QStringLiteral("distillLrEdit"), 0, 10, [](R& r) -> double& { return r.distill.lr; }, tr("learning rate at its highest")),
        real(tr("temperature"), QStringLiteral("temperatureEdit"), 0, 100, [](R& r) -> double& { return r.distill.temperature; },
             tr("divides the logits of both models; above 1 rare tokens count for more"))};
    for (auto* field : fields)
        onShow([this, field](const R& recipe) { setRowShown(field, recipe.distill.steps > 0); });
}

void MethodSection::showTeacher() {
    const auto& teacher = m_session->teacher();
    setRowShown(m_bias, teacher && teacher->config.qkvBias);
    setRowShown(m_qkNorm, teacher && teacher->config.qkNorm);
}

} // namespace linnet::app
