// What the reference project's scripts are told. Each key names the file there that reads it; a key that none reads is not written.
#include "core/export/bundle.h"

#include <cmath>
#include <sstream>

namespace linnet::core {
namespace {

// YAML 1.1, which PyYAML reads, takes 1e-05 for a text: a number needs its point.
std::string number(double value) {
    auto text = Json(value).dump();
    if (const auto e = text.find('e'); e != text.npos && text.find('.') == text.npos)
        text.insert(e, ".0");
    return text;
}

std::int64_t microBatch(std::int64_t batch) { // the largest that makes whole batches on one GPU
    for (std::int64_t micro = std::min<std::int64_t>(batch, 4); micro > 1; --micro)
        if (batch % micro == 0)
            return micro;
    return 1;
}

struct StageNumbers {
    std::int64_t steps, batch, warmup; // warmup: of stage 2, which alone reads it
    double lr;
    std::string schedule; // as transformers' TrainingArguments names it
};

StageNumbers numbersOf(const BundleFacts& f, int stage) {
    const auto& d = f.recipe.distill;
    const auto& a = f.recipe.align;
    const auto onePass = [&](std::int64_t windows, std::int64_t batch) { return windows > 0 ? (windows + batch - 1) / batch : 300; };
    StageNumbers n{};
    std::string schedule;
    if (stage == 1) {
        n.batch = a.batch, n.lr = a.lr, schedule = a.schedule;
        n.steps = a.steps > 0 ? a.steps : onePass(f.calibrationWindows, n.batch);
    } else {
        n.batch = d.batch, n.lr = d.lr, schedule = d.schedule;
        n.steps = d.steps > 0 ? d.steps : onePass(f.trainingWindows > 0 ? f.trainingWindows : f.calibrationWindows, n.batch);
        n.warmup = std::llround(d.warmup * static_cast<double>(n.steps));
    }
    n.schedule = schedule == "constant" ? "constant_with_warmup" : schedule == "linear" ? "linear" : "cosine";
    return n;
}

std::string dataFolder(const BundleFacts& f, int stage) {
    return stage == 2 && f.trainingWindows > 0 ? "data/stage2" : "data/stage1";
}

std::string cacheFolder(const BundleFacts& f, int stage) {
    return dataFolder(f, stage) + "/chunked_context" + std::to_string(f.seqLen);
}

std::string layerList(const std::vector<std::int64_t>& layers) {
    std::string text;
    for (const auto layer : layers)
        text += (text.empty() ? "" : ", ") + std::to_string(layer);
    return "[" + text + "]";
}

} // namespace

std::string bundleStageYaml(const BundleFacts& f, int stage) {
    const auto n = numbersOf(f, stage);
    const std::string script = stage == 1 ? "scripts/train_stage1.py" : "scripts/train.py";
    std::ostringstream yaml;
    yaml << "# Stage " << stage << " of Taylor-Calibrate (" << (stage == 1 ? "each layer's output, teacher-forced" : "KL to the teacher, end to end") << "), from "
         << (f.fromRun ? "recipe.json" : "default settings: this student has no recipe") << ".\n"
         << "# A key is read by " << script << " and handed to, or read instead by, the file that its comment names.\n";
    const auto key = [&](const std::string& name, const std::string& value, const std::string& why = {}) {
        const auto line = "  " + name + ": " + value;
        yaml << line;
        if (!why.empty())
            yaml << std::string(line.size() < 48 ? 48 - line.size() : 2, ' ') << "# " << why;
        yaml << "\n";
    };
    yaml << "data:\n";
    key("cache_dir", "'" + cacheFolder(f, stage) + "'", "src/data.py, load_from_disk; run.sh makes it of all_tokens.npy beside it");
    yaml << "teacher_model:\n";
    key("name", "'${oc.env:TEACHER}'", stage == 1 ? "from_pretrained; of convert/convert_from_*.py (OmegaConf reads the environment)" : "from_pretrained; a Hub name or folder (OmegaConf reads the environment)");
    yaml << "student_model:\n";
    const std::string instead = "src/init_ckpt_from_teacher.py; stage 2 itself takes config.json's"; // and eval/harness.py's --cfg the layers
    key("name", "'" + f.student + "'", stage == 1 ? "src/distill_model/modeling_distilled_student.py, get_student_attention_class" : instead);
    key("keep_full_attention_layers", layerList(f.kept), stage == 1 ? "" : "eval/harness.py --cfg; likewise");
    yaml << "train:\n";
    key("student_init_ckpt", "'.'", "config.json and model.safetensors of this folder");
    key("output_dir", "'checkpoints/stage" + std::to_string(stage) + "'", "transformers' TrainingArguments: checkpoint-N below it; open it in Linnet");
    key("max_steps", std::to_string(n.steps), (stage == 2 ? f.recipe.distill.steps : f.recipe.align.steps) > 0 ? "read where target_tokens is absent" : "one pass over the data: the recipe has no steps of its own");
    key("batch_size", std::to_string(n.batch), "windows a step, over all GPUs");
    key("micro_batch_size", std::to_string(microBatch(n.batch)), "windows at once on one GPU");
    key("train_seq_len", std::to_string(f.seqLen));
    key("lr_scheduler_type", n.schedule, "TrainingArguments");
    if (stage == 2)
        key("warmup_steps", std::to_string(n.warmup), "TrainingArguments");
    key("lr_attn", number(n.lr), "parameters with attn in their names, those of kept layers too");
    key("lr", number(stage == 1 ? n.lr : 0.0), stage == 1 ? "" : "of all others: Linnet trains converted layers only");
    key("gradient_checkpointing", stage == 1 ? "false" : "true", stage == 1 ? "must be off: losses are collected in the forward pass" : "");
    return yaml.str();
}

std::string bundleRunScript(const BundleFacts& f) {
    std::ostringstream sh;
    sh << "#!/bin/sh\n# Goes on training with Taylor-Calibrate: TAYLOR_CALIBRATE=its clone TEACHER=folder or Hub name [GPUS=n] ./run.sh [1|2]\n"
          "set -e\n"
          ": \"${TAYLOR_CALIBRATE:?a clone of github.com/FutureMLS-Lab/Taylor-Calibrate}\" \"${TEACHER:?the teacher, a folder or a Hub name}\"\n"
          "stage=${1:-2}\n"
          "case $stage in 1) script=train_stage1.py ;; 2) script=train.py ;; *) echo \"stage 1 or 2, not $stage\" >&2; exit 2 ;; esac\n"
          "TAYLOR_CALIBRATE=$(cd \"$TAYLOR_CALIBRATE\" && pwd)\n"
          "if [ -d \"$TEACHER\" ]; then TEACHER=$(cd \"$TEACHER\" && pwd); fi\n"
          "export TAYLOR_CALIBRATE TEACHER PYTHONPATH=\"$TAYLOR_CALIBRATE/src:$TAYLOR_CALIBRATE${PYTHONPATH:+:$PYTHONPATH}\"\n"
          "cd \"$(dirname \"$0\")\"\n"
       << "case $stage in 1) data=" << dataFolder(f, 1) << " ;; 2) data=" << dataFolder(f, 2) << " ;; esac\n"
       << "if [ ! -d \"$data/chunked_context" << f.seqLen << "\" ]; then # windows of " << f.seqLen << " tokens out of $data/all_tokens.npy"
       << (f.calibrationWindows > 0 ? "" : ", or of the script's own text where there is none") << "\n"
       << "    python \"$TAYLOR_CALIBRATE/scripts/preprocess_data.py\" --tokenizer \"$TEACHER\" --context_length " << f.seqLen << " --output_dir \"$data\"\n"
          "fi\n"
          "exec torchrun --nproc_per_node=\"${GPUS:-1}\" launch.py \"$TAYLOR_CALIBRATE/scripts/$script\" --cfg \"stage$stage.yaml\"\n";
    return sh.str();
}

// The student class leaves the norms inside its layers at the default eps and rotates hidden_size / num_heads dimensions of a head.
std::string bundleLaunchPython() {
    return R"("""Runs a script of Taylor-Calibrate with the norms of this checkpoint: launch.py SCRIPT ARGUMENTS...

Its student layers leave the eps of o_norm, q_norm and k_norm at flash-linear-attention's default (student_layers.py,
modeling_distilled_student.py); this checkpoint was made with bundle.json's. What is trained so says it in its config.json.
"""
import json
import pathlib
import runpy
import sys

bundle = json.loads((pathlib.Path(__file__).resolve().parent / "bundle.json").read_text())

from distill_model import modeling_distilled_student, student_layers


def linear(cls):
    made = cls.__init__

    def init(self, config, *args, **kwargs):
        made(self, config, *args, **kwargs)
        self.o_norm.eps = config.o_norm_eps = bundle["o_norm_eps"]

    cls.__init__ = init


def softmax(cls):
    made = cls.__init__

    def init(self, config, *args, **kwargs):
        made(self, config, *args, **kwargs)
        for name in ("q_norm", "k_norm"):
            if hasattr(self.attn, name):
                getattr(self.attn, name).eps = bundle["norm_eps"]
        if hasattr(self.attn, "rotary") and config.head_dim * config.num_heads != config.hidden_size:
            self.attn.rotary = type(self.attn.rotary)(dim=config.head_dim, base=config.rope_theta)

    cls.__init__ = init


linear(student_layers.GatedDeltaNetStudentV3)
linear(student_layers.GatedDeltaNetStudentV4)
softmax(modeling_distilled_student.StudentBlock)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
)";
}

std::vector<std::string> bundleNotes(const BundleFacts& f) {
    std::vector<std::string> notes{"written from the reference project's files; its training needs a GPU and was not run here"};
    if (f.student == "gdn_v3")
        notes.push_back("the short convolutions were trained: the student is gdn_v3, which has them, not gdn_v4");
    notes.push_back("o_norm has eps " + number(f.headNormEps) + " through launch.py; the project's own scripts alone leave it at 1.0e-05");
    if (f.calibrationWindows == 0)
        notes.push_back("no tokens: only a run folder has the windows that it was trained on");
    const auto& d = f.recipe.distill;
    if (d.schedule == "wsd" && f.fromRun)
        notes.push_back("the recipe's schedule wsd cannot be told to scripts/train.py: cosine");
    if (f.fromRun && (d.temperature != 1 || d.klWeight != 1 || d.crossEntropyWeight != 0))
        notes.push_back("scripts/train.py has the KL to the teacher at temperature 1 for its loss: the recipe's distill weights (kl " + number(d.klWeight) + ", cross entropy " +
                        number(d.crossEntropyWeight) + ", temperature " + number(d.temperature) + ") cannot be told to it");
    return notes;
}

std::string bundleGuide(const BundleFacts& f) {
    std::ostringstream text;
    text << "# Going on with Taylor-Calibrate\n\nThis folder is a checkpoint of its `student` class (" << f.student << ", softmax layers " << layerList(f.kept)
         << "). With a clone of github.com/FutureMLS-Lab/Taylor-Calibrate and what its requirements.txt asks for (transformers 4, a GPU):\n\n"
            "```bash\nTAYLOR_CALIBRATE=path/to/clone TEACHER=teacher ./run.sh      # stage 2, KL end to end, by stage2.yaml\n"
            "TAYLOR_CALIBRATE=path/to/clone TEACHER=converted-teacher ./run.sh 1   # stage 1, layer by layer; its teacher is made by the clone's convert/\n```\n\n";
    if (f.calibrationWindows > 0)
        text << "`data/stage1/all_tokens.npy` holds the run's " << f.calibrationWindows << " calibration windows of " << f.seqLen << " tokens"
             << (f.trainingWindows > 0 ? ", `data/stage2/all_tokens.npy` the " + std::to_string(f.trainingWindows) + " that it was distilled on" : std::string())
             << "; none of its selection or evaluation windows is in it.\n\n";
    text << "Afterwards `linnet-cli eval checkpoints/stage2 ...` opens the newest checkpoint; a stage 1 checkpoint goes through scripts/convert_stage1.py first.\n\n";
    for (const auto& note : bundleNotes(f))
        text << "- " << note << "\n";
    return text.str();
}

} // namespace linnet::core
