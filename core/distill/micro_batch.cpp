// Every block is a graph of its own, cut at the hidden states between blocks, and the backward pass goes from block to block.
// So a block whose graph was dropped is made again in its turn, nothing ever holds more than the plan allows, and a stop is
// heard between any two blocks.
#include "core/torch_pch.h"

#include "core/distill/micro_batch.h"

#include "core/distill/trained_block.h"

namespace linnet::core {
namespace {

struct Block {
    at::Tensor input, output; // a leaf; undefined where its graph was dropped
};

struct Pass {
    const DistillStudent& student;
    const Control& control;

    std::int64_t first() const { return student.masters.begin()->first; }
    std::int64_t layers() const { return student.teacher.config().layers; }
    const Mixer* teacherMixer(std::int64_t layer) const { return mixerAt(student.teacher.mixers(), layer); }

    at::Tensor teacherBlocks(at::Tensor hidden, std::int64_t from, std::int64_t to) const {
        for (std::int64_t layer = from; layer < to; ++layer) {
            control.checkpoint();
            hidden = runBlock(student.teacher, *student.teacher.layer(layer), teacherMixer(layer), hidden);
        }
        return hidden;
    }

    at::Tensor studentBlock(std::int64_t layer, const at::Tensor& hidden) const {
        control.checkpoint();
        const auto weights = student.teacher.layer(layer);
        const auto masters = student.masters.find(layer);
        return masters == student.masters.end()
                   ? keptBlock(student.teacher, *weights, teacherMixer(layer), hidden)
                   : convertedBlock(student.teacher, *weights, student.spec, masters->second, hidden);
    }

    std::vector<Block> forward(at::Tensor& hidden, std::int64_t storedBlocks) const {
        std::vector<Block> blocks;
        for (std::int64_t layer = first(); layer < layers(); ++layer) {
            Block block;
            block.input = hidden.detach().requires_grad_(layer > first());
            block.output = studentBlock(layer, block.input);
            hidden = block.output.detach();
            if (layer < layers() - storedBlocks)
                block.output.reset();
            blocks.push_back(std::move(block));
        }
        return blocks;
    }

    void backward(std::vector<Block>& blocks, at::Tensor gradient) const {
        for (std::int64_t layer = layers() - 1; layer >= first(); --layer) {
            Block block = std::move(blocks.back());
            blocks.pop_back();
            if (block.output.defined())
                control.checkpoint();
            else
                block.output = studentBlock(layer, block.input);
            torch::autograd::backward({block.output}, {gradient});
            gradient = block.input.grad();
        }
    }
};

at::Tensor nextTokens(const at::Tensor& ids) { // [B T], -1 for a sequence's last
    return at::cat({ids.narrow(1, 1, ids.size(1) - 1), at::full({ids.size(0), 1}, -1, ids.options())}, 1).flatten();
}

} // namespace

DistillLoss addDistillGradients(const DistillStudent& student, const at::Tensor& ids, const DistillOptions& options,
                                double share, std::int64_t storedBlocks, const Control& control) {
    const Pass pass{student, control};
    const Model& teacher = student.teacher;
    DistillInput in;
    at::Tensor hidden;
    {
        const at::NoGradGuard noGradients;
        hidden = pass.teacherBlocks(teacher.embed(ids), 0, pass.first());
        in.teacherHidden = teacher.finalNorm(pass.teacherBlocks(hidden, pass.first(), pass.layers())).flatten(0, 1);
    }
    const at::AutoGradMode gradients(true);
    std::vector<Block> blocks = pass.forward(hidden, storedBlocks);
    at::Tensor gradient;
    DistillLoss loss;
    {
        const at::Tensor top = std::move(hidden).requires_grad_();
        in.hidden = teacher.finalNorm(top).flatten(0, 1);
        in.head = in.teacherHead = teacher.head();
        in.targets = nextTokens(ids);
        loss = distillLoss(in, options, control);
        (loss.loss * share).backward();
        gradient = top.grad();
        loss.loss = loss.loss.detach();
        in = {};
    }
    pass.backward(blocks, std::move(gradient));
    return loss;
}

} // namespace linnet::core
