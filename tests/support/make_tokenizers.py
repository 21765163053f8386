"""Oracle of tst_io_tokenizer: Hugging Face's `tokenizers` and `transformers`.
make_tokenizers.py train OUT TEXT         small BPEs in the usual set-ups, each in OUT/NAME with cases.json, some as GGUF too
make_tokenizers.py teacher OUT GGUF TEXT  cases.json of a GGUF file's tokenizer, by transformers and by hand from the metadata
make_tokenizers.py reload DIR             ids of DIR/cases.json by AutoTokenizer.from_pretrained(DIR), into DIR/reloaded.json
make_tokenizers.py broken FILE FAULT      a small GGUF file with something wrong in it"""
import json
import os
import sys
import unicodedata

from awkward_texts import INVALID, texts
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
BYTES = dict(add_prefix_space=False, use_regex=False)


def write_cases(folder, tokenizer, special):
    inputs = [t.encode() for t in texts(special)] + INVALID
    cases = []
    for raw in inputs:
        text = raw.decode("utf-8", errors="replace")  # one U+FFFD for each maximal invalid part, as in Rust
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append({"hex": raw.hex(), "ids": ids, "with_special": tokenizer.encode(text).ids,
                      "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
    size = tokenizer.get_vocab_size()
    pieces = [{"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)}
              for ids in [[i] for i in range(min(size, 300))] + [[i, i + 7, i // 2] for i in range(0, size - 7, max(1, size // 200))]]
    json.dump({"cases": cases, "pieces": pieces, "size": max(tokenizer.get_vocab().values()) + 1}, open(f"{folder}/cases.json", "w"))


def train(out, text_file):
    text = open(text_file, encoding="utf-8", errors="replace").read()[:250_000]
    text += "été naïve Привет мир 世界 你好 😀 الع नमस्ते 한국어 " * 30
    split = lambda pattern, behavior="isolated", invert=False: pre_tokenizers.Split(Regex(pattern), behavior, invert)
    sequence = lambda *parts: pre_tokenizers.Sequence(list(parts))
    byte_level = pre_tokenizers.ByteLevel(**BYTES)
    set_ups = {  # name: normalizer, pre-tokenizer, model options
        "qwen2": (normalizers.NFC(), sequence(split(QWEN2), byte_level), {}),
        "llama3": (None, sequence(split(LLAMA3), byte_level), {"ignore_merges": True}),
        "smollm": (None, sequence(pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)), {}),
        "gpt2": (None, pre_tokenizers.ByteLevel(add_prefix_space=False), {}),
        "prefix_space": (normalizers.NFKC(), pre_tokenizers.ByteLevel(add_prefix_space=True), {}),
        "numbers": (normalizers.Sequence([normalizers.NFD(), normalizers.NFC()]),
                    sequence(pre_tokenizers.Digits(individual_digits=False), split(r"\s+", "merged_with_next"), byte_level), {}),
        "removed": (normalizers.NFD(), sequence(split(r"[\s.]+", "removed"), byte_level), {}),
        "previous": (normalizers.NFKD(), sequence(split(r"\p{P}", "merged_with_previous"), byte_level), {}),
        "next": (None, sequence(split(r"\p{Lu}", "merged_with_next"), byte_level), {}),
        "contiguous": (None, sequence(split(r"\p{P}|\s", "contiguous"), byte_level), {}),
        "inverted": (None, sequence(split(r"\p{L}+|\p{N}", "removed", True), split(r"(?=a)|^b"), byte_level), {}),
        "literal": (None, sequence(pre_tokenizers.Split(".", "isolated"), pre_tokenizers.Split("th", "merged_with_previous"), byte_level), {}),
        "unknown": (None, sequence(split(QWEN2), byte_level), {"unk_token": "<unk>", "fuse_unk": True}),
        "unknown_each": (None, sequence(split(QWEN2), byte_level), {"unk_token": "<unk>"}),
        "lacking": (None, sequence(split(QWEN2), byte_level), {}),
    }
    for name, (normalizer, pre_tokenizer, options) in set_ups.items():
        folder = f"{out}/{name}"
        os.makedirs(folder)
        t = Tokenizer(models.BPE(**options))
        if normalizer:
            t.normalizer = normalizer
        t.pre_tokenizer = pre_tokenizer
        t.decoder = decoders.ByteLevel() if name != "literal" else decoders.Sequence([decoders.ByteLevel(), decoders.Fuse()])
        whole = name not in ("unknown", "unknown_each", "lacking")
        special = ["<unk>"] if name.startswith("unknown") else []
        t.train_from_iterator(text.split("\n\n"), trainers.BpeTrainer(
            vocab_size=1500, show_progress=False, special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if whole else [], limit_alphabet=1000 if whole else 70))
        t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|end|>", "<|end|>of", AddedToken("<pad>", lstrip=True, special=True),
                              AddedToken("<mask>", lstrip=True, rstrip=True, special=True), AddedToken("<r>", rstrip=True, special=True),
                              AddedToken("<n>é", normalized=True, special=True)])
        t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("word", single_word=True, normalized=False), "caf\u00e9", "e\u0301t",
                      AddedToken("né", single_word=True, normalized=True), AddedToken("½", normalized=False), "  "])
        ids = {c: t.token_to_id(c) for c in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")}
        if name == "llama3":
            t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
                single="<|im_start|> $A", pair="<|im_start|> $A <|im_start|>:1 $B:1", special_tokens=[("<|im_start|>", ids["<|im_start|>"])])])
        if name == "gpt2":
            t.post_processor = processors.TemplateProcessing(single="<|im_start|> $A <|endoftext|> <|im_end|>",
                                                             special_tokens=list(ids.items()))
        t.save(f"{folder}/tokenizer.json")
        data = json.load(open(f"{folder}/tokenizer.json"))
        if name in ("qwen2", "smollm"):  # the older form of merges
            data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
            json.dump(data, open(f"{folder}/tokenizer.json", "w"), ensure_ascii=name == "qwen2")
            t = Tokenizer.from_file(f"{folder}/tokenizer.json")
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": {"content": "<r>"}, "bos_token": "<|im_start|>",
                   "chat_template": "{{ bos_token }}"}, open(f"{folder}/tokenizer_config.json", "w"))
        json.dump({"eos_token_id": [5, ids["<|im_end|>"]]}, open(f"{folder}/generation_config.json", "w"))
        write_cases(folder, t, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|end|>", "<|end|>of", "<pad>", "<mask>", "<r>", "<n>e\u0301",
                                "<tool_call>", "word", "cafe\u0301", "\u00e9t", "ne\u0301", "½", "  "])
    for name, pre, add_bos in (("qwen2", "qwen2", False), ("llama3", "llama-bpe", True), ("smollm", "smollm", True), ("gpt2", "gpt-2", False)):
        write_gguf(out, name, pre, add_bos)


def write_gguf(out, name, pre, add_bos):
    """The trained tokenizer as GGUF metadata, which knows no flags of added tokens but special, and its ids."""
    import gguf
    data = json.load(open(f"{out}/{name}/tokenizer.json"))
    for token in data["added_tokens"]:
        token.update(lstrip=False, rstrip=False, single_word=False, normalized=False)
    data["post_processor"] = None
    t = Tokenizer.from_str(json.dumps(data))
    if add_bos:
        t.post_processor = processors.TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", t.token_to_id("<|im_start|>"))])
    folder = f"{out}/{name}_gguf"
    os.makedirs(folder)
    added = {token["id"]: 3 if token["special"] else 4 for token in data["added_tokens"]}
    names = sorted(t.get_vocab().items(), key=lambda item: item[1])
    w = gguf.GGUFWriter(f"{folder}/model.gguf", "llama")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list([n for n, _ in names])
    w.add_token_types([added.get(i, 1) for _, i in names])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]])
    w.add_bos_token_id(t.token_to_id("<|im_start|>"))
    w.add_eos_token_id(t.token_to_id("<r>"))
    w.add_eot_token_id(t.token_to_id("<|end|>"))
    w.add_pad_token_id(t.token_to_id("<pad>"))
    if pre != "llama-bpe":  # llama-bpe adds BOS by itself
        w.add_add_bos_token(add_bos)
    w.add_chat_template("{{ bos_token }}{{ messages[0].content }}")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    write_cases(folder, t, [token["content"] for token in data["added_tokens"]])


def teacher(out, gguf_file, text_file):
    import gguf
    import transformers
    fields = gguf.GGUFReader(gguf_file).fields
    tokens, types, merges = (fields[f"tokenizer.ggml.{k}"].contents() for k in ("tokens", "token_type", "merges"))
    t = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, types) if kind == 3]
    t.add_special_tokens(special)
    write_cases(out, t, special)
    auto = transformers.AutoTokenizer.from_pretrained(os.path.dirname(gguf_file), gguf_file=os.path.basename(gguf_file))
    data = json.load(open(f"{out}/cases.json"))
    for case in data["cases"]:
        # transformers leaves the single digits of this pre-tokeniser out, which shows beside numbers only
        if any(unicodedata.category(c)[0] == "N" for c in bytes.fromhex(case["hex"]).decode("utf-8", errors="replace")):
            continue
        case["auto"] = auto(bytes.fromhex(case["hex"]).decode("utf-8", errors="replace"), add_special_tokens=False)["input_ids"]
    data["text_ids"] = t.encode(open(text_file, encoding="utf-8", errors="replace", newline="").read()).ids
    json.dump(data, open(f"{out}/cases.json", "w"))


def reload(folder):
    import transformers
    auto = transformers.AutoTokenizer.from_pretrained(folder)
    cases = json.load(open(f"{folder}/cases.json"))["cases"]
    ids = [auto(bytes.fromhex(c["hex"]).decode("utf-8", errors="replace"))["input_ids"] for c in cases]
    json.dump({"ids": ids, "bos": auto.bos_token_id, "eos": auto.eos_token_id, "pad": auto.pad_token_id, "unk": auto.unk_token_id,
               "chat_template": auto.chat_template, "class": type(auto).__name__}, open(f"{folder}/reloaded.json", "w"))


def broken(file, fault):
    import gguf
    tokens = ["a", "" if fault == "empty" else "b", "a" if fault == "duplicate" else "ab"]
    w = gguf.GGUFWriter(file, "llama")
    w.add_tokenizer_model("llama" if fault == "model" else "gpt2")
    w.add_tokenizer_pre("falcon" if fault == "pre" else "qwen2")
    w.add_token_list(tokens)
    w.add_token_types([1, 1] if fault == "types" else [1, 9 if fault == "type" else 1, 1])
    w.add_token_merges(["c b" if fault == "merge" else "a b"])
    if fault == "bos":
        w.add_bos_token_id(3)
    if fault == "no bos":
        w.add_add_bos_token(True)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    {"train": train, "teacher": teacher, "reload": reload, "broken": broken}[sys.argv[1]](*sys.argv[2:])
