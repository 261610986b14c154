"""bass synth: models of random weights, in tiny shapes; read back by the gguf package, an implementation that is not ours."""
import json
import os
import resource
import subprocess

import gguf
import numpy
import pytest

TINY = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 1000, "max_position_embeddings": 256, "rope_theta": 5000.0, "tie_word_embeddings": True}
TYPES = ["q4_0", "q4_1", "q8_0", "f16", "bf16", "f32"]


@pytest.fixture
def config(tmp_path):
    """config(**changes): writes the tiny shape as tiny.json; a change to None takes the key away."""

    def write(**changes):
        shape = {key: value for key, value in {**TINY, **changes}.items() if value is not None}
        (tmp_path / "tiny.json").write_text(json.dumps(shape))
        return "tiny.json"

    return write


@pytest.mark.parametrize("type_name", TYPES)
def test_another_reader_finds_the_shape_and_sane_weights(run, config, tmp_path, type_name):
    done = run("synth", "--config", config(), "--type", type_name, "-o", "m.gguf")
    assert done.code == 0 and done.err == "" and "synthetic" in done.out
    reader = gguf.GGUFReader(tmp_path / "m.gguf")

    def field(key):
        return reader.get_field(key).contents()

    assert field("general.architecture") == "llama"
    assert field("bass.synthetic") is True
    assert "synthetic" in field("general.name") and "Random weights" in field("general.description")
    assert (field("llama.block_count"), field("llama.embedding_length"), field("llama.vocab_size")) == (2, 64, 1000)
    assert field("llama.attention.layer_norm_rms_epsilon") == pytest.approx(1e-5)
    assert len(field("tokenizer.ggml.tokens")) == len(field("tokenizer.ggml.token_type")) == 1000
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    assert len(tensors) == 2 + 2 * 9 and "output.weight" not in tensors
    assert list(tensors["blk.1.ffn_down.weight"].shape) == [96, 64]
    for tensor in tensors.values():
        is_norm = "norm" in tensor.name
        assert tensor.tensor_type.name == ("F32" if is_norm else type_name.upper())
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert numpy.isfinite(values).all()
        if not is_norm:
            assert numpy.std(values) * tensor.shape[0] ** 0.5 == pytest.approx(1, abs=0.15)
            assert abs(numpy.mean(values)) < 6 * numpy.std(values) / values.size ** 0.5


@pytest.mark.parametrize("type_name", TYPES)
def test_it_decodes(run, config, type_name):
    assert run("synth", "--config", config(), "--type", type_name, "-o", "m.gguf").code == 0
    done = run("generate", "-m", "m.gguf", "-p", "hello world", "--max-tokens", "8", "--ignore-eos", "--temperature", "0", "--json")
    assert done.code == 0, done.err
    result = done.json()
    assert result["model"] == "m.gguf (synthetic: random weights)"
    choice = result["prompts"][0]["choices"][0]
    assert len(choice["token_ids"]) == 8 and all(-30 < logprob <= 0 for logprob in choice["logprobs"])


def test_every_output_says_that_it_is_synthetic(run, config):
    assert run("synth", "--config", config(), "-o", "m.gguf").code == 0
    draft = run("generate", "-m", "m.gguf", "-d", "m.gguf", "-p", "x", "--max-tokens", "2", "--json").json()["draft"]
    assert "synthetic" in draft
    case = ["--batch", "1", "--prompt-tokens", "4"]
    benches = [["bench", "decode", *case, "--generate-tokens", "2"], ["bench", "step", *case, "--generate-tokens", "2"],
               ["bench", "prompt", *case], ["bench", "ops", "--rows", "1", "--context", "8"]]
    for arguments in (["info"], ["info", "--json"], ["score", "-p", "hello"], ["score", "-p", "hello", "--json"],
                      *benches, *[[*bench, "--json"] for bench in benches], ["generate", "-p", "hello", "--max-tokens", "2"]):
        done = run(arguments[0], *arguments[1:], "-m", "m.gguf")
        assert done.code == 0, done.err
        assert "synthetic" in done.out + done.err, arguments


def test_a_real_model_is_not_called_synthetic(run, tiny):
    done = run("generate", "-m", tiny, "-p", "x", "--max-tokens", "1", "--json")
    assert done.json()["model"] == tiny and "synthetic" not in done.out + done.err


def test_the_seed_decides_the_bytes_and_the_threads_do_not(run, config, tmp_path):
    def make(*arguments):
        assert run("synth", "--config", config(), "-o", "m.gguf", *arguments).code == 0
        return (tmp_path / "m.gguf").read_bytes()

    first = make()
    assert make("--threads", "3") == first == make("--seed", "0")
    assert make("--seed", "18446744073709551615") != first


def test_vocab_from_another_file(run, config, tiny):
    assert run("synth", "--config", config(), "--vocab-from", tiny, "-o", "m.gguf").code == 0
    text = "def mean(values): 漢字"
    ids = run("tokenize", "-m", "m.gguf", "-p", text)
    assert ids.code == 0 and ids.out == run("tokenize", "-m", tiny, "-p", text).out
    done = run("synth", "--config", config(vocab_size=260), "--vocab-from", tiny, "-o", "n.gguf")
    assert done.code == 2 and tiny in done.err and "more than the 260 rows" in done.err


@pytest.mark.parametrize("arguments, needles", [
    ([], ["--config: missing"]),
    (["--config", "llama-1b"], ["-o FILE: missing"]),
    (["--config", "lama-1b", "-o", "x"], ["--config 'lama-1b'", "did you mean llama-1b?", "smollm2-135m"]),
    (["--config", "none.json", "-o", "x"], ["none.json", "No such file"]),
    (["--config", "llama-1b", "--type", "q4_2", "-o", "x"], ["--type q4_2", "q8_0", "did you mean q4_0?"]),
    (["--config", "llama-1b", "--seed", "-1", "-o", "x"], ["--seed -1", "from 0"]),
    (["--config", "llama-1b", "--vocab-from", "none.gguf", "-o", "x"], ["none.gguf", "No such file"]),
    (["--config", "llama-1b", "-o", "none/x"], ["-o none/x: cannot be written", "a folder that is there"]),
    (["--config", "llama-1b", "-o", "."], ["-o .: cannot be written: Is a directory"]),
    (["--confg", "llama-1b"], ["--confg", "--config"]),
])
def test_bad_usage(run, tmp_path, arguments, needles):
    done = run("synth", *arguments)
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1, done.err
    for needle in needles:
        assert needle in done.err
    assert done.cpu_seconds < float(os.environ.get("BASS_TEST_SLOWNESS", "1"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("changes, needles", [
    ({"hidden_size": None}, ['"hidden_size" is missing']),
    ({"hidden_size": "64"}, ['"hidden_size" is "64"', "a whole number"]),
    ({"num_hidden_layers": 0}, ['"num_hidden_layers" is 0', "from 1"]),
    ({"num_key_value_heads": 3}, ["4 query heads", "3 KV heads"]),
    ({"head_dim": 24}, ["head dimension 24"]),
    ({"intermediate_size": 100}, ["feed-forward dimension is 100", "a multiple of 32"]),
    ({"vocab_size": 100}, ['"vocab_size" is 100', "from 257"]),
    ({"rope_theta": -1}, ['"rope_theta" is -1', "above 0"]),
    ({"tie_word_embeddings": 1}, ['"tie_word_embeddings" is 1', "true or false"]),
])
def test_bad_config_file(run, config, tmp_path, changes, needles):
    done = run("synth", "--config", config(**changes), "-o", "m.gguf")
    assert done.code == 2 and "tiny.json" in done.err, done.err
    for needle in needles:
        assert needle in done.err
    assert not (tmp_path / "m.gguf").exists()


def test_config_that_is_no_json(run, tmp_path):
    (tmp_path / "x.json").write_text("[1, 2")
    done = run("synth", "--config", "x.json", "-o", "m.gguf")
    assert done.code == 2 and "x.json: is no JSON object" in done.err
    (tmp_path / "x.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    done = run("synth", "--config", "x.json", "-o", "m.gguf")
    assert done.code == 2 and "nested deeper than 64 levels" in done.err


def test_a_full_disk_is_an_error_and_leaves_nothing(run, binary, config, tmp_path):
    name = config()
    limit = 64 << 10  # less than the file

    def limited(stop_at):
        resource.setrlimit(resource.RLIMIT_FSIZE, (stop_at, stop_at))

    (tmp_path / "m.gguf").write_text("old")
    done = subprocess.run([binary, "synth", "--config", name, "-o", "m.gguf"], cwd=tmp_path, capture_output=True, text=True,
                          preexec_fn=lambda: limited(limit), check=False)
    assert done.returncode == 1 and "m.gguf" in done.stderr and "File too large" in done.stderr
    assert (tmp_path / "m.gguf").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.gguf", "tiny.json"]
    done = run("synth", "--config", name, "-o", "/dev/full")
    assert done.code == 1 and "/dev/full: cannot be written: No space left" in done.err


def test_an_interrupt_leaves_nothing(binary, tmp_path):
    process = subprocess.Popen([binary, "synth", "--config", "llama-1b", "-o", "m.gguf"], cwd=tmp_path,
                               stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.iterdir()):  # it has begun
        assert process.poll() is None
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in err
    assert list(tmp_path.iterdir()) == []
