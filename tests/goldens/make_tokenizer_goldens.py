"""Makes the tokenizer goldens of the default model with Hugging Face tokenizers, on the file's own vocabulary and merges.

The strings are chosen to be hard: scripts, spaces, digits of all kinds, contractions, code, special tokens, bytes that
the vocabulary lacks. They are the same in each run.
"""

import argparse
import pathlib
import random

import golden_common as common
from golden_texts import SCORED_TEXTS

N_RANDOM = 300
MAX_FILE_BYTES = 200_000
SPACES = " \t\n\r\x0b\x0c\x85\xa0\u1680\u180e\u2003\u200a\u200b\u2028\u2029\u202f\u205f\u3000\u2060\ufeff"
FRAGMENTS = (
    "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "\u2019s", "don't", "I'LL", " '", "''", "1234", "\u00b2\u00b3",
    "\u0663\u0664\u0665", "\u2163\u216b", "\u0967\u0968", "\u00bd", "\u2460", "x1y2", " 1", " 12 ", "  3", "\n\n", "\r\n",
    "    ", "\t\t", "\u00e9", "e\u0301", "\U0001f469\u200d\U0001f4bb", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd",
    "def f(x):\n    return x + 1\n", "!=", "==", "...", "<|im_", "<|im_end|", "|>", "\u5b57\u6f22", "\u3042\u308a",
    "\ud55c\uad6d", "\u00dcn\u00ef", "\ufdfa", "\U00011de0\U00011de3", "\U00016ff4a", "\U00031350\U000323af", "hello",
    " world", "The", " quick", "http://", "_name", "CamelCase", "#include", "3.14159", "$", "%")
BLOCKS = (
    (0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x590, 0x5FF), (0x600, 0x6FF),
    (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x2000, 0x206F), (0x2070, 0x209F), (0x2150, 0x218F),
    (0x2460, 0x24FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFF00, 0xFFEF), (0x1F300, 0x1FAFF),
    (0x10D40, 0x10D85), (0x116D0, 0x116E3), (0x11F00, 0x11F59), (0x1D400, 0x1D7FF), (0x1E4D0, 0x1E4F9), (0x2EBF0, 0x323AF))
FIXED = ("", " ", "a", "\n", "0", "  a", "a  ", "a  1", " 1", "1 ", "a\tb", "\x00", "\x04", ".\x04.", "a\x1db", "\U00040000",
         "=" * 100, " " * 100, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1" * 30, "\n" * 20, "\u5b57" * 20,
         "<|im_start|>user\nHi<|im_end|>\n", "<|im_start|><|im_end|>", "<|im_start|im_end|>", "a<|endoftext|>b",
         "<repo_name>x<file_sep>", "<issue_start><issue_comment>")


def random_text(rng, special):
    kind = rng.randrange(5)
    if kind == 0:
        first, last = rng.choice(BLOCKS)
        return "".join(rng.choice((chr(rng.randint(first, last)), chr(rng.randint(first, last)), rng.choice(SPACES)))
                       for _ in range(rng.randint(1, 20)))
    if kind == 1:
        return "".join(rng.choice(SPACES + "a1.") for _ in range(rng.randint(1, 20)))
    if kind == 2:
        return "".join(rng.choice(FRAGMENTS + special) for _ in range(rng.randint(1, 10)))
    if kind == 3:
        return "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(1, 12)))
    return "".join(chr(rng.randint(*rng.choice(BLOCKS))) for _ in range(rng.randint(1, 12)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    tokenizer = common.load_tokenizer(args.model)
    special = tuple(token.content for token in tokenizer.get_added_tokens_decoder().values())
    rng = random.Random(3)
    texts = list(FIXED) + [text for _, _, text in SCORED_TEXTS]
    texts += [random_text(rng, special) for _ in range(N_RANDOM)]
    records = []
    for text in dict.fromkeys(texts):
        record = {"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids}
        tokenizer.encode_special_tokens = True  # special tokens' texts are ordinary text
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        if plain != record["ids"]:
            record["plain_ids"] = plain
        records.append(record)
    head = {"model": {"file": args.model.name, "sha256": common.sha256_of(args.model)},
            "versions": common.library_versions()}
    n_bytes = common.write_json(args.out, head, {"texts": records})
    print(f"{args.out.name}: {n_bytes} bytes, {len(records)} texts, {sum(len(r['ids']) for r in records)} tokens, "
          f"{sum('plain_ids' in r for r in records)} with special tokens")
    assert n_bytes < MAX_FILE_BYTES


if __name__ == "__main__":
    main()
