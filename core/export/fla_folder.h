// The folder that flash-linear-attention's own classes load (`import fla`, then transformers' AutoModelForCausalLM), flame's format as well: exact
// for teachers without QK-norm, RoPE scaling and biases of o_proj. One class a mixer, kept layers through its hybrid `attn`.
// Source: fla 0.6 fla/models/gated_deltanet, fla/models/configuration_utils.py, fla/layers/{gated_deltanet,attn}.py; `attn` as one dictionary is
// what releases from 0.3 on read, a list (windows of several sizes) from 0.5 on. core/io/fla_source.h is its way back.
#pragma once

#include "core/export/hf_folder.h"

namespace linnet::core {

Json flaConfig(const Model& model, const std::string& dtype);

} // namespace linnet::core
