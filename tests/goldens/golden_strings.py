"""Strings that are hard for tokenizers, the same from a seed here and in src/text/tokenizer_kinds_test.cc."""

import json
import pathlib

MASK = (1 << 64) - 1
PARTS = {
    "fragments": [
        "'s", "'t", "'re", "'VE", "'m", "'Ll", "'D", "'\u017f", "\u2019s", "don't", "I'LL", " '", "''", "\u00b2\u00b3", "\u0663\u0664\u0665",
        "\u2163\u216b", "\u0967\u0968", "\u00bd", "\u2460", "x1y2", " 1", " 12 ", "  3", "\n\n", "\r\n", "\n", "    ", "\t\t", "\u00e9", "e\u0301",
        "\u1100\u1161\u11a8", "\uac01", "\u212b", "\ufb01", "\uff21\uff22", "\u3350", "\U0001f469\u200d\U0001f4bb", "\U0001f1e9\U0001f1ea",
        "\U0001f44d\U0001f3fd", "\U0001f600", "def f(x):\n    return x + 1\n", "!=", "==", "...", "?!", "\u5b57\u6f22", "\u3042\u308a", "\u30ab\u30bf",
        "\ud55c\uad6d", "\u00dcn\u00ef", "\ufdfa", "\U00011de0", "\U00016ff4a", "\U00031350", "hello", " world", "The", " quick", "http://",
        "_name", "CamelCase", "XMLHttp", "camelX", "#include", "3.14159", "$", "%", "<s>", "</s>", "<unk>", "<0x41>", "<|special|>",
        "<|user|>", "<mask>", " <mask> ", "solo", " solo", "soloist", "\u2581", "\u2581\u2581", "<tag>", "</tag>", "\u3002", "\u060c", "\u0964",
        "(a|b)", "[x]", "`", "~", "^", "|", "+", "a/b/", "\\n", "\"", "\u00a0", "\u200b", "\u00ad", "\ufeff", "\u0130", "\u0000", "\u0001",
        "\u001d", "\u0e01\u0e33", "\u0915\u094d\u0937\u093f", "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd", "\u041f\u0440\u0438\u0432\u0435\u0442",
        "\u0395\u03bb\u03bb\u03ac\u03b4\u03b1", " ", "  ", ".", ","],
    "words": [
        "the", "of", "and", "a", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on", "are", "as", "with", "his", "they", "lighthouse",
        "keeper", "climbed", "stairs", "evening", "before", "sunset", "winter", "Schokolade", "grand", "march\u00e9", "return", "values", "window",
        "result", "self", "items", "import", "total", "price", "int", "char", "struct", "node", "async", "await", "SELECT", "FROM", "WHERE"],
    "spaces": [" ", " ", " ", "  ", "\t", "\n", "\r", "\u000b", "\u000c", "\u0085", "\u00a0", "\u1680", "\u180e", "\u2003", "\u200a", "\u200b",
               "\u2028", "\u202f", "\u205f", "\u3000", "\ufeff"],
    "blocks": [
        [0x20, 0x7E], [0x20, 0x7E], [0xA0, 0x24F], [0x300, 0x36F], [0x370, 0x3FF], [0x400, 0x52F], [0x590, 0x5FF], [0x600, 0x6FF], [0x900, 0x97F],
        [0xE00, 0xE7F], [0x1100, 0x11FF], [0x1E00, 0x1FFF], [0x2000, 0x206F], [0x2070, 0x209F], [0x2100, 0x218F], [0x2460, 0x24FF], [0x2C00, 0x2C5F],
        [0x3000, 0x30FF], [0x3300, 0x33FF], [0x4E00, 0x9FFF], [0xAC00, 0xD7A3], [0xA720, 0xA7FF], [0xF900, 0xFAFF], [0xFF00, 0xFFEF],
        [0x1F300, 0x1FAFF], [0x10400, 0x1044F], [0x10D40, 0x10D85], [0x116D0, 0x116E3], [0x11F00, 0x11F59], [0x1D400, 0x1D7FF],
        [0x1E4D0, 0x1E4F9], [0x1E900, 0x1E943], [0x2EBF0, 0x323AF]],
}


class Rng:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % n

    def pick(self, items):
        return items[self.below(len(items))]


def make_part(rng, parts):
    kind = rng.below(8)
    if kind < 3:
        return rng.pick(parts["fragments"])
    if kind < 5:
        return (" " if rng.below(2) else "") + rng.pick(parts["words"])
    n = 1 + rng.below(5)
    if kind == 5:
        first, last = rng.pick(parts["blocks"])
        return "".join(chr(first + rng.below(last - first + 1)) for _ in range(n))
    if kind == 6:
        return "".join(rng.pick(parts["spaces"]) for _ in range(n))
    return "".join(chr(ord("0") + rng.below(10)) for _ in range(n))


def make_strings(n_strings, seed, parts):
    """Pairs of a text and of the same as bytes, of which every tenth or so has a byte that makes it invalid UTF-8."""
    rng = Rng(seed)
    strings = []
    for _ in range(n_strings):
        text = "".join(make_part(rng, parts) for _ in range(rng.below(9)))
        raw = text.encode()
        is_broken, at, byte = rng.below(10) == 0, rng.below(len(raw) + 1), 0x80 + rng.below(0x80)
        strings.append((text, raw[:at] + bytes([byte]) + raw[at:] if is_broken else raw))
    return strings


def hash16(data):
    """FNV-1a, folded to 16 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return (value ^ (value >> 16) ^ (value >> 32) ^ (value >> 48)) & 0xFFFF


def write_parts(path):
    path = pathlib.Path(path)
    path.write_text(json.dumps(PARTS, indent=0, separators=(",", ":")) + "\n")
