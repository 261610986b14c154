"""bass features, and drafts that are made for one main model, on the command line."""

import json
import struct

import pytest

from conftest import DATA

TEXTS = [[3, 7, 11, 250, 4], [9], list(range(20, 80))]


def read_safetensors(path):
    data = path.read_bytes()
    (n_header,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n_header])
    body = data[8 + n_header:]
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        code = {"I32": "i", "I64": "q", "F32": "f", "BF16": "H"}[info["dtype"]]
        tensors[name] = (info["shape"], struct.unpack(f"<{(end - begin) // struct.calcsize('<' + code)}{code}", body[begin:end]))
    assert len(body) == max(info["data_offsets"][1] for info in header.values())
    return metadata, tensors


def lines(texts):
    return "".join(json.dumps({"tokens": text}) + "\n" for text in texts).encode()


def test_features_are_those_of_scoring(run, tiny, tmp_path):
    done = run("features", "-m", tiny, "--layers", "0,1", "--top", "288", "-o", "f", stdin=lines(TEXTS))
    assert done.code == 0, done.err
    metadata, tensors = read_safetensors(tmp_path / "f")
    assert metadata == {"bass.fingerprint": run("info", "-m", tiny, "--json").json()["fingerprint"],
                        "bass.layers": "0,1"}
    n_tokens = sum(map(len, TEXTS))
    assert tensors["tokens"] == ([n_tokens], tuple(sum(TEXTS, [])))
    assert tensors["starts"] == ([4], (0, 5, 6, 66))
    assert tensors["taps"][0] == [n_tokens, 2, 64]
    ids, logprobs = tensors["top_ids"][1], tensors["top_logprobs"][1]
    for begin in range(0, n_tokens * 288, 288):
        assert sorted(ids[begin:begin + 288]) == list(range(288))
        assert list(logprobs[begin:begin + 288]) == sorted(logprobs[begin:begin + 288], reverse=True)
    text = run("detokenize", "-m", tiny, *TEXTS[2]).out
    score = run("score", "-m", tiny, "-p", text, "--json").json()
    assert score["ids"] == TEXTS[2]
    for i, expected in enumerate(score["logprobs"][1:]):
        begin = (6 + i) * 288
        assert logprobs[begin + ids[begin:begin + 288].index(TEXTS[2][i + 1])] == pytest.approx(expected, abs=1e-6)


def test_one_by_one_is_the_same(run, tiny, tmp_path):
    assert run("features", "-m", tiny, "--layers", "1", "-o", "together", stdin=lines(TEXTS)).code == 0
    assert run("features", "-m", tiny, "--layers", "1", "--threads", "1", "-o", "alone",
               stdin=lines(TEXTS[2:])).code == 0
    together, alone = (read_safetensors(tmp_path / name)[1] for name in ("together", "alone"))
    for name in ("taps", "top_ids", "top_logprobs"):
        assert together[name][1][-len(alone[name][1]):] == alone[name][1], name
    assert any(alone["taps"][1])


@pytest.mark.parametrize("layer", ["0", "1"])  # behind layer 1, the last one, only some rows are needed, or all
def test_likely_tokens_from_a_position_on(run, tiny, tmp_path, layer):
    firsts = [4, 1, 17]  # the last position, none, inside of a text
    given = "".join(json.dumps({"tokens": text, "from": first}) + "\n" for text, first in zip(TEXTS, firsts)).encode()
    assert run("features", "-m", tiny, "--layers", layer, "--top", "9", "-o", "part", stdin=given).code == 0
    assert run("features", "-m", tiny, "--layers", layer, "--top", "9", "-o", "all", stdin=lines(TEXTS)).code == 0
    part, everything = (read_safetensors(tmp_path / name)[1] for name in ("part", "all"))
    assert part["taps"] == everything["taps"]
    assert part["top_starts"] == ([4], (0, 1, 1, 44)) and everything["top_starts"] == everything["starts"]
    kept = [start + i for start, text, first in zip((0, 5, 6), TEXTS, firsts) for i in range(first, len(text))]
    for name in ("top_ids", "top_logprobs"):
        assert part[name] == ([44, 9], tuple(everything[name][1][9 * row + i] for row in kept for i in range(9))), name


@pytest.mark.parametrize("arguments, text, words", [
    ([], b'{"tokens": [1, 2], "from": 3}\n', ["standard input:1", '"from": 3', "0 to 2"]),
    *(([], b'{"tokens": [1, 2], "from": %s}\n' % first, ["standard input:1", '"from": '])
      for first in (b'"x"', b"true", b"1.5", b"-1", b"null", b"1e30", b"18446744073709551615")),
    (["--layers", "2"], lines(TEXTS), ["--layers 2", "from 0 to 1"]),
    (["--layers", "1,0"], lines(TEXTS), ["ascending"]),
    (["--top", "2000"], lines(TEXTS), ["--top: 2000: must be a whole number from 0 to 1024"]),
    ([], lines([[1], [288]]), ["standard input:2", "token 288", "287"]),
    ([], lines([[1], []]), ["standard input:2", '{"tokens"']),
    ([], b"[1, 2]\n", ["standard input:1"]),
    ([], b"{", ["standard input:1"]),
    ([], b"\n", ["holds no texts"]),
    ([], lines([[5] * 300]), ["300 tokens", "256"]),
    (["--texts", "missing.jsonl"], b"", ["missing.jsonl"]),
])
def test_mistakes(run, tiny, tmp_path, arguments, text, words):
    done = run("features", "-m", tiny, "-o", "out", *arguments, stdin=text)
    assert done.code == 2
    for word in words:
        assert word in done.err
    assert not list(tmp_path.iterdir())


def test_a_draft_drafts_for_its_model_only(run, tmp_path):
    main, other = DATA / "tiny" / "tiny_gqa_tied_f32.gguf", DATA / "tiny" / "tiny_mqa_tied_f32.gguf"
    draft = DATA / "tiny" / "draft_feature_q8_0.gguf"
    arguments = ("generate", "-p", "The cat", "-n", "3", "--seed", "5", "--max-tokens", "24", "--json")
    plain = run(*arguments, "-m", main, "--drafter", "off").json()
    drafted = run(*arguments, "-m", main, "-d", draft, "--draft-length", "fixed:3").json()
    assert drafted["prompts"] == plain["prompts"]
    assert drafted["speculation"]["drafted"] > 0
    for command, words in [
            ((*arguments, "-m", other, "-d", draft), ["draft_feature_q8_0", "'tiny_gqa_tied_f32'", "tiny_mqa_tied_f32"]),
            ((*arguments, "-m", draft), ["is a draft", "-d"]),
            (("features", "-m", draft, "-o", "x"), ["is a draft"]),
            (("score", "-m", draft, "-p", "a"), ["is a draft"]),
            (("tokenize", "-m", draft, "-p", "a"), ["tokenizer"])]:
        done = run(*command)
        assert done.code == 2
        for word in words:
            assert word in done.err
    info = run("info", "-m", draft, "--json").json()
    assert info["metadata"]["bass-draft.main.fingerprint"] == run("info", "-m", main, "--json").json()["fingerprint"]
