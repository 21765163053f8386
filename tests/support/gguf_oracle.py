"""Oracle of tst_export_gguf: tiny teachers, and what PyPI's gguf package reads.
teachers FOLDER                            FOLDER/NAME of each, see below
words FOLDER VOCAB                         a teacher with room for a tokenizer of that size
read FILE.gguf OUT.json                    {"keys": {key: value, lists whole}, "tensors": {name: [type, shape outermost first]}}
altered FILE.gguf OUT.gguf CHANGES.json    {"keys": {key: value, null removes it}, "tensors": {name: number to put into its last element}}
texts OUT.json                             awkward texts in the normal form that tokenizers bring them to
requantised F32.gguf FILE.gguf             every tensor of FILE is, byte for byte, what gguf's own quantiser makes of F32's"""
import json
import sys
import unicodedata

import numpy
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, quants

import awkward_texts


def teachers(folder):
    import tiny_teachers # and with it torch, which the others do without
    config, cls, _ = tiny_teachers.KINDS["qwen3"]
    rope = dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0))
    for seed, (name, own, sizes) in enumerate([
            ("plain", dict(tie_word_embeddings=False), dict(hidden=64, layers=6, heads=6, kv_heads=2, head_dim=32)),
            ("tied", dict(tie_word_embeddings=True), dict(hidden=48, layers=3, heads=5, kv_heads=5, head_dim=24)),
            ("scaled", dict(tie_word_embeddings=False, **rope), dict(hidden=64, layers=3, heads=4, kv_heads=1, head_dim=16))]):
        tiny_teachers.KINDS[name] = (config, cls, own)
        tiny_teachers.make(name, f"{folder}/{name}", seed + 3, **sizes)
    for seed, name in enumerate(["llama", "smollm2", "qwen2", "biased", "llama3"]):
        tiny_teachers.make(name, f"{folder}/{name}", seed + 7)


def words(folder, vocab):
    import tiny_teachers
    tiny_teachers.make("qwen3", folder, 5, vocab=int(vocab), hidden=32, layers=2, heads=2, kv_heads=1, head_dim=16)


def texts(out):
    json.dump([text for text in awkward_texts.WRITTEN if unicodedata.normalize("NFC", text) == text and len(text) < 400], open(out, "w"))


def altered(file, out, changes):
    changes = json.load(open(changes))
    reader = GGUFReader(file)
    writer = GGUFWriter(out, "qwen35")
    for name, field in reader.fields.items():
        value = changes["keys"].get(name, field.contents())
        if not name.startswith("GGUF.") and name != "general.architecture" and value is not None:
            writer.add_key_value(name, value, field.types[0], sub_type=field.types[-1] if len(field.types) > 1 else None)
    for name in set(changes["keys"]) - set(reader.fields):
        writer.add_uint32(name, changes["keys"][name])
    for tensor in reader.tensors:
        values = tensor.data.copy()
        if tensor.name in changes["tensors"]:
            values.reshape(-1)[-1] = changes["tensors"][tensor.name]
        writer.add_tensor(tensor.name, values)
    for name, count in changes.get("added", {}).items():
        writer.add_tensor(name, numpy.ones(count, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read(file, out):
    reader = GGUFReader(file)
    keys = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {t.name: [t.tensor_type.name, [int(size) for size in reversed(t.shape)]] for t in reader.tensors}
    json.dump({"keys": keys, "tensors": tensors}, open(out, "w"), default=lambda value: value.tolist())


def requantised(original, file):
    values = {t.name: numpy.array(t.data, dtype=numpy.float32) for t in GGUFReader(original).tensors}
    stored = GGUFReader(file).tensors
    assert {t.name for t in stored} == set(values)
    for t in stored:
        made = quants.quantize(values[t.name], GGMLQuantizationType(t.tensor_type))
        assert made.tobytes() == t.data.tobytes(), f"{t.name} ({t.tensor_type.name})"


globals()[sys.argv[1]](*sys.argv[2:])
