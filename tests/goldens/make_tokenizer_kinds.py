"""Makes small tokenizers of every kind and what Hugging Face tokenizers and SentencePiece make of 10,000 strings each.

A 16-bit hash of each string's ids is stored, one of the decoded text of the first strings, and of a few the ids themselves.
"""

import argparse
import base64
import io
import json
import pathlib
import struct

import sentencepiece
import tokenizers
from golden_strings import PARTS, hash16, make_strings, write_parts
from golden_texts import SCORED_TEXTS

N_STRINGS = 10_000
N_TEXTS = 2_000
SEED = 20261121
MAX_BYTES = 1_400_000
NUMBERS = " 0 1 12 123 1234 2023 1999 100 1000 10000 3.14 2.718 x1 y2 1,000,000 12:30 2024-05-17"

GPT2 = None  # the expression of the ByteLevel step itself
LLAMA3 = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
TEKKEN = ("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
          "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|"
          " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
GPT4O = ("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
DEEPSEEK_WORDS = (
    "\\s?[A-Za-z\u00B5À-ÖØ-öø-ƺƼ-ƿ\u01C4-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-\u03F5Ϸ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-"
    "ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1F7Dᾀ-ᾴᾶ-ᾼ\u1FBEῂ-ῄῆ-ῌῐ-\u1FD3ῖ-\u1FDBῠ-Ῥῲ-ῴῶ-ῼ\u2102\u2107\u210A-\u2113\u2115"
    "\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149ⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-"
    "ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿ\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+")
DEEPSEEK_PUNCTUATION = "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E‘-‟\u3000-。]+"
DEEPSEEK_HAN = "[一-龥ࠀ-一가-\uD7FF]+"
DEEPSEEK3_HAN = "[一-龥\u3040-\u309F゠-\u30FF]+"
DEEPSEEK3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|"
             "\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"


def byte_level(regex=False, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def digits(individual=True):
    return {"type": "Digits", "individual_digits": individual}


def sequence(*steps, key="pretokenizers"):
    return {"type": "Sequence", key: list(steps)} if len(steps) != 1 else steps[0]


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


NFC = {"type": "NFC"}
SPECIAL = [("<|special|>", {"special": True}), ("<|user|>", {})]
# name: (normalizer, pre-tokenizer steps, changes of the model)
BYTE_LEVEL_KINDS = {
    "default": (None, [split("[\\p{P}\\$\\+<=>\\^~\\|]+"), split("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"),
                       split("\\p{N}+"), split("[0-9][0-9][0-9]"), byte_level()], {}),
    "gpt-2": (None, [byte_level(True)], {}),
    "smollm": (None, [digits(), byte_level(True)], {}),
    "command-r": (NFC, [digits(), byte_level(True)], {}),
    "olmo": (NFC, [byte_level(True)], {}),
    "llama-bpe": (None, [split(LLAMA3), byte_level()], {"ignore_merges": True}),
    "dbrx": (None, [split(LLAMA3, "Removed", True), byte_level()], {}),
    "qwen2": (NFC, [split(QWEN2), byte_level()], {}),
    "qwen35": (NFC, [split(QWEN35), byte_level()], {}),
    "tekken": (None, [split(TEKKEN), byte_level()], {"ignore_merges": True}),
    "gpt-4o": (None, [split(GPT4O), byte_level()], {}),
    "deepseek-llm": (None, [split("[\r\n]"), split(DEEPSEEK_WORDS), split(DEEPSEEK_PUNCTUATION), split("\\s+$"),
                            split(DEEPSEEK_HAN), digits(), byte_level()], {}),
    "deepseek-coder": (None, [split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"), split(DEEPSEEK_HAN), digits(), byte_level()], {}),
    "deepseek-v3": (None, [split("\\p{N}{1,3}"), split(DEEPSEEK3_HAN), split(DEEPSEEK3), byte_level()], {}),
    "falcon": (None, [{"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True), digits(False), split("[0-9][0-9][0-9]")], {}),
    "bloom": (None, [split(BLOOM), byte_level()], {}),
    "viking": (None, [split(BLOOM), digits(), byte_level()], {}),
    # Rules without a name in GGUF.
    "json-roberta": (None, [byte_level(True, True)], {}),
    "json-behaviors": (sequence({"type": "NFKD"}, {"type": "Lowercase"}, key="normalizers"),
                       [split("-+", "MergedWithNext"), split("\\d", "MergedWithPrevious"), split(" ", "Contiguous", kind="String"),
                        split("\\w+", "Removed", True), byte_level()], {}),
}
# More properties of added tokens than GGUF has.
STRIPPING = [("<|special|>", {"special": True}), ("<mask>", {"lstrip": True, "special": True}), ("<|user|>", {"rstrip": True}),
             ("solo", {"single_word": True, "normalized": True})]


def added_tokens(first_id, tokens, vocab):
    out = []
    for content, properties in tokens:
        new_id = vocab.get(content, first_id)
        first_id += content not in vocab
        out.append({"id": new_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                    "special": False} | properties)
    return sorted(out, key=lambda token: token["id"])


def train_byte_level(texts):
    """Merges may cross spaces and digits, so that every cut of a pre-tokenizer shows."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=1500, max_token_length=12, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    # Some tokens that no merge makes: only where a piece that is a token needs no merging are they ever found.
    words = [token for token in model["vocab"] if token.startswith("\u0120") and len(token) > 4 and token[1:].isalpha()]
    model["merges"] = [merge for merge in model["merges"] if "".join(merge) not in words[::5]]
    return model


def train_sentencepiece(texts, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, character_coverage=0.995, minloglevel=2, num_threads=1,
        max_sentencepiece_length=12, hard_vocab_limit=False, **options)
    return model.getvalue()


def spm_vocab(processor):
    return [(processor.id_to_piece(i), processor.get_score(i)) for i in range(processor.get_piece_size())]


def spm_merges(processor):
    """As transformers converts a SentencePiece BPE: every way to split a piece into two, by the pieces' order."""
    ids = {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
    merges = []
    for piece, rank in ids.items():
        for at in range(1, len(piece)):
            left, right = piece[:at], piece[at:]
            if left in ids and right in ids and processor.get_score(rank) != 0:
                merges.append((processor.get_score(rank), ids[left], ids[right], [left, right]))
    merges.sort(key=lambda merge: (-merge[0], merge[1], merge[2]))
    return [merge[3] for merge in merges]


def length_delimited(message, number):
    """The last field of this number of a protocol buffers message whose fields are varints, 32-bit numbers, strings and messages."""
    found, at = b"", 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            varint()
            continue
        n_bytes = 4 if tag & 7 == 5 else varint()
        if tag >> 3 == number:
            found = message[at:at + n_bytes]
        at += n_bytes
    return found


def charsmap_of(model_bytes):
    return base64.b64encode(length_delimited(length_delimited(model_bytes, 3), 2)).decode()


def hash_ids(ids):
    return hash16(struct.pack(f"<{len(ids)}i", *ids))


def pack(hashes):
    return base64.b64encode(struct.pack(f"<{len(hashes)}H", *hashes)).decode()


def golden(name, source, strings, encode, decode, **more):
    ids = [encode(string) for string in strings]
    texts = [decode(i) for i in ids[:N_TEXTS]]
    assert all(t is not None for t in texts)
    samples = [{"string": n, "ids": ids[n]} for n in (11, 222, 3333)]
    return {"name": name, "source": source, "ids": pack([hash_ids(i) for i in ids]),
            "texts": pack([hash16(t.encode()) for t in texts]), "samples": samples} | more


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    write_parts(args.out / "string_parts.json")
    strings = make_strings(N_STRINGS, SEED, PARTS)
    texts = [text for _, _, text in SCORED_TEXTS] + [NUMBERS] * 20 + [text for text, _ in make_strings(1500, 7, PARTS)]
    goldens = []

    def add_huggingface(name, parts, base=None):
        """`parts`: a tokenizer.json, or what it has beyond the file `base`."""
        whole = dict(parts)
        if base is not None:
            whole["model"] = json.loads((args.out / base).read_text()) | parts.get("model", {})
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps({"version": "1.0"} | whole))
        encode = lambda string: tokenizer.encode(string[0], add_special_tokens=False).ids
        goldens.append(golden(name, "tokenizer.json", strings, encode, lambda ids: tokenizer.decode(ids, skip_special_tokens=False),
                              base=base, json=parts))

    model = train_byte_level(texts)
    (args.out / "byte_level_model.json").write_text(json.dumps(model, ensure_ascii=False, separators=(",", ":")) + "\n")
    for name, (normalizer, steps, changes) in BYTE_LEVEL_KINDS.items():
        tokens = STRIPPING if name.startswith("json-") else SPECIAL
        add_huggingface(name, {"normalizer": normalizer, "pre_tokenizer": sequence(*steps), "decoder": byte_level(True, True),
                               "model": changes, "added_tokens": added_tokens(len(model["vocab"]), tokens, model["vocab"]),
                               "post_processor": None}, "byte_level_model.json")

    rules = args.out / "rules.tsv"
    rules.write_text("".join(f"{' '.join(f'{ord(c):X}' for c in old)}\t{' '.join(f'{ord(c):X}' for c in new)}\n" for old, new in (
        ("e\u0301", "\u00e9"), ("\ufb01", "fi"), ("\uff21", "A"), ("\uff22", "B"), ("\u3000", " "), ("\u00a0", " "), ("\u2003", " "), ("\t", " "),
        ("\n", " "), ("\r", " "), ("\u200b", " "), ("\u00ad", ""), ("\u0001", ""), ("\u212b", "\u00c5"), ("\u00bd", "1\u20442"), ("\u1100\u1161\u11a8", "\uac01"),
        ("\u2460", "1"), ("\ufdfa", "\u0635\u0644\u0649 "), ("...", "\u2026"), ("a\u0308", "\u00e4"), ("\u2028", " "))))
    sp_kinds = {
        "spm-llama": dict(model_type="bpe", vocab_size=900, byte_fallback=True, normalization_rule_name="identity",
                          remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True, user_defined_symbols=["<tag>", "</tag>"]),
        "spm-gemma": dict(model_type="bpe", vocab_size=900, byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False,
                          remove_extra_whitespaces=False, split_digits=True, user_defined_symbols=["\u2581\u2581", "\n", "\n\n", "<tag>"]),
        "spm-bpe-rules": dict(model_type="bpe", vocab_size=700, normalization_rule_tsv=str(rules), user_defined_symbols=["<tag>"]),
        "spm-unigram": dict(model_type="unigram", vocab_size=700, normalization_rule_tsv=str(rules), user_defined_symbols=["<tag>", "solo"]),
        "spm-unigram-bytes": dict(model_type="unigram", vocab_size=900, byte_fallback=True, normalization_rule_name="identity",
                                  remove_extra_whitespaces=False, split_by_whitespace=False),
    }
    some = [text for _, _, text in SCORED_TEXTS] * 3 + [NUMBERS] * 20 + [" ".join(PARTS["fragments"])] + PARTS["words"] * 3
    lines = [line for text in some for line in text.replace("\0", "").split("\n") if line]
    processors = {}
    for name, options in sp_kinds.items():
        data = train_sentencepiece(lines, **options)
        (args.out / f"{name}.model").write_bytes(data)
        processor = processors[name] = sentencepiece.SentencePieceProcessor(model_proto=data)
        unknown = processor.unk_id()
        surface = lambda ids: processor.decode([i for i in ids if i != unknown])
        goldens.append(golden(name, f"{name}.model", strings, lambda s: processor.encode(s[1]), surface))
    rules.unlink()

    bpe, unigram = processors["spm-llama"], processors["spm-unigram"]
    vocab = {piece: i for i, (piece, _) in enumerate(spm_vocab(bpe))}
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": True, "byte_fallback": True, "vocab": vocab, "merges": spm_merges(bpe)}
    (args.out / "sentence_bpe_model.json").write_text(json.dumps(model, ensure_ascii=False, separators=(",", ":")) + "\n")
    special = [("<unk>", {"special": True}), ("<s>", {"special": True}), ("</s>", {"special": True}), ("<tag>", {"normalized": True})]
    tokens = added_tokens(len(vocab), special, vocab)
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    decoders = [replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [vocab["<s>"]], "tokens": ["<s>"]}}}
    common = {"model": {}, "added_tokens": tokens, "post_processor": template}
    add_huggingface("json-llama", common | {
        "normalizer": sequence({"type": "Prepend", "prepend": "\u2581"}, replace(" ", "\u2581"), key="normalizers"), "pre_tokenizer": None,
        "decoder": sequence(*decoders, strip, key="decoders")}, "sentence_bpe_model.json")
    add_huggingface("json-gemma", common | {
        "normalizer": replace(" ", "\u2581"), "pre_tokenizer": split(" ", "MergedWithPrevious", kind="String"),
        "decoder": sequence(*decoders, key="decoders")}, "sentence_bpe_model.json")
    add_huggingface("json-metaspace", common | {
        "normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
        "decoder": sequence(*decoders, strip, key="decoders")}, "sentence_bpe_model.json")
    add_huggingface("json-unknown", common | {
        "model": {"byte_fallback": False, "fuse_unk": False}, "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}}, "sentence_bpe_model.json")

    pieces = spm_vocab(unigram)
    model = {"type": "Unigram", "unk_id": unigram.unk_id(), "vocab": [list(piece) for piece in pieces], "byte_fallback": False}
    (args.out / "unigram_model.json").write_text(json.dumps(model, ensure_ascii=False, separators=(",", ":")) + "\n")
    precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap_of((args.out / "spm-unigram.model").read_bytes())}
    ids = {piece: i for i, (piece, _) in enumerate(pieces)}
    common = {"model": {}, "added_tokens": added_tokens(len(ids), special, ids), "post_processor": None}
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    add_huggingface("json-t5", common | {"normalizer": precompiled, "pre_tokenizer": metaspace, "decoder": metaspace}, "unigram_model.json")
    add_huggingface("json-xlnet", common | {
        "normalizer": sequence(replace("``", '"'), {"type": "NFKC"}, {"type": "Nmt"}, {"type": "Strip", "strip_left": True, "strip_right": True},
                               {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, key="normalizers"),
        "pre_tokenizer": sequence({"type": "WhitespaceSplit"}, metaspace), "decoder": metaspace}, "unigram_model.json")

    head = {"seed": SEED, "n_strings": N_STRINGS, "strings": hash16(b"".join(raw for _, raw in strings)),
            "versions": {"tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__}}
    (args.out / "goldens.json").write_text(json.dumps(head | {"kinds": goldens}, ensure_ascii=False, separators=(",", ":")) + "\n")
    n_bytes = sum(path.stat().st_size for path in args.out.iterdir())
    print(f"{len(goldens)} kinds, {n_bytes} bytes")
    assert n_bytes < MAX_BYTES


if __name__ == "__main__":
    main()
