// Reads the contents of a tokenizer.json. Source: the serialised form of Hugging Face's `tokenizers`.
#pragma once

#include "core/io/bpe_tokenizer.h"

#include <nlohmann/json.hpp>
#include <string>

namespace linnet::core {

// Throws Unsupported naming `origin` and the component or option that is not supported (byte-level BPE only), Malformed naming
// the key, token or merge that is wrong.
TokenizerParts readTokenizerParts(const nlohmann::json& tokenizer, const std::string& origin);

// Adds the special tokens that end a turn or a document whatever a model's configuration says: <|im_end|>, <|eot_id|>,
// <|endoftext|>.
void addTurnEnds(const std::vector<AddedToken>& tokens, std::set<TokenId>& endOfText);

} // namespace linnet::core
