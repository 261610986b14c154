"""bass convert: what it writes, and that the target is whole or not there, whatever happens."""
import fcntl
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import time

import gguf
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
import make_corpus as files  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


def tensors_of(path):
    """name -> (type, shape, bytes), as the gguf package reads them."""
    return {t.name: (t.tensor_type.name, t.shape.tolist(), t.data.tobytes()) for t in gguf.GGUFReader(path).tensors}


def fields_of(path):
    return {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items() if not name.startswith("GGUF.")}


def test_a_copy_has_the_same_tensors_and_metadata(run, tiny, tmp_path):
    done = run("convert", tiny, "-o", "copy.gguf")
    assert done.code == 0, done.err
    assert done.out.startswith("copy.gguf: ") and "Q4_1" in done.out and done.err == ""
    assert tensors_of(tmp_path / "copy.gguf") == tensors_of(tiny)
    before, after = fields_of(tiny), fields_of(tmp_path / "copy.gguf")
    about_the_file = {"general.file_type", "general.quantization_version"}
    assert {k: v for k, v in before.items() if k not in about_the_file} == \
        {k: v for k, v in after.items() if k not in about_the_file}
    assert after["general.file_type"] == gguf.LlamaFileType.MOSTLY_Q4_1


@pytest.mark.parametrize("name, kind", [("q2_k", 10), ("q3_k", 12), ("q4_k", 15), ("q5_k", 17), ("q6_k", 18)])
def test_a_copy_says_of_what_type_most_of_it_is(run, tmp_path, name, kind):
    done = run("convert", DATA / "tiny" / f"tiny_mqa_tied_{name}.gguf", "-o", "copy.gguf")
    assert done.code == 0, done.err
    assert fields_of(tmp_path / "copy.gguf")["general.file_type"] == kind


@pytest.mark.parametrize("kind", ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0"])
def test_quantised_as_the_gguf_package_does(run, tmp_path, kind):
    source = DATA / "tiny" / "tiny_gqa_tied_f32.gguf"
    done = run("convert", source, "-o", "out.gguf", "--quantize", kind)
    assert done.code == 0, done.err
    expected_type = gguf.GGMLQuantizationType[kind.upper()]
    originals = {t.name: t for t in gguf.GGUFReader(source).tensors}
    for tensor in gguf.GGUFReader(tmp_path / "out.gguf").tensors:
        original = originals[tensor.name].data
        if original.ndim == 1:
            assert np.array_equal(tensor.data, original)
        else:
            assert tensor.tensor_type == expected_type
            assert np.array_equal(tensor.data, gguf.quants.quantize(original, expected_type)), tensor.name
    assert run("generate", "-m", "out.gguf", "-p", "a", "--max-tokens", "4", "--quiet").code == 0


def test_what_is_quantised_stays(run, tiny, tmp_path):
    assert run("convert", tiny, "-o", "out.gguf", "--quantize", "q8_0").code == 0
    assert tensors_of(tmp_path / "out.gguf") == tensors_of(tiny)


def test_loading_quantised_is_running_the_converted_file(run, tmp_path):
    source = DATA / "tiny" / "tiny_gqa_tied_f32.gguf"
    assert run("convert", source, "-o", "q.gguf", "--quantize", "q4_0").code == 0
    converted = run("score", "-m", "q.gguf", "-p", "hello there", "--json").json()
    at_load = run("score", "-m", source, "--quantize", "q4_0", "-p", "hello there", "--json").json()
    assert converted["logprobs"] == at_load["logprobs"]
    unquantised = run("score", "-m", source, "-p", "hello there", "--json").json()
    assert unquantised["logprobs"] != at_load["logprobs"]


def split(source, folder):
    """The file in three parts, as gguf-split writes them."""
    reader = gguf.GGUFReader(source)
    shards = [reader.tensors[i::3] for i in range(3)]
    for i, shard in enumerate(shards):
        writer = gguf.GGUFWriter(folder / f"part-0000{i + 1}-of-00003.gguf", "llama")
        if i == 0:
            for name, field in reader.fields.items():
                if not name.startswith("GGUF.") and name != "general.architecture":
                    value_type = field.types[0]
                    sub_type = field.types[1] if value_type == gguf.GGUFValueType.ARRAY else None
                    writer.add_key_value(name, field.contents(), value_type, sub_type)
        writer.add_uint16("split.no", i)
        writer.add_uint16("split.count", 3)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        for tensor in shard:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def test_a_split_file_becomes_one(run, tiny, tmp_path):
    split(tiny, tmp_path)
    scored = [run("score", "-m", name, "-p", "hello", "--json").json()["logprobs"]
              for name in (tiny, "part-00001-of-00003.gguf", "part-00003-of-00003.gguf")]
    assert scored[0] == scored[1] == scored[2]
    assert run("convert", "part-00002-of-00003.gguf", "-o", "one.gguf").code == 0
    assert tensors_of(tmp_path / "one.gguf") == tensors_of(tiny)
    assert not any(name.startswith("split.") for name in fields_of(tmp_path / "one.gguf"))
    os.remove(tmp_path / "part-00003-of-00003.gguf")
    done = run("convert", "part-00002-of-00003.gguf", "-o", "two.gguf")
    assert done.code == 2 and "part-00003-of-00003.gguf: cannot open" in done.err


@pytest.mark.parametrize("arguments, needles", [
    ([], ["IN: missing"]),
    (["MODEL"], ["-o FILE: missing"]),
    (["MODEL", "-o", "MODEL"], ["is a file of the model that is read"]),
    (["MODEL", "-o", "x.gguf", "--quantize", "q3"], ["--quantize q3", "must be none, q8_0"]),
    (["MODEL", "-o", "none/x.gguf"], ["-o none/x.gguf: cannot be written: No such file"]),
    (["none.gguf", "-o", "x.gguf"], ["none.gguf: cannot open"]),
    ([".", "-o", "x.gguf"], ["is a directory without model.safetensors"]),
])
def test_mistakes(run, tiny, tmp_path, arguments, needles):
    done = run("convert", *[tiny if a == "MODEL" else a for a in arguments])
    assert done.code == 2
    for needle in needles:
        assert needle in done.err
    assert list(tmp_path.iterdir()) == []


def test_no_part_of_the_source_is_replaced(run, tiny, tmp_path):
    split(tiny, tmp_path)
    (tmp_path / "link.gguf").symlink_to("part-00002-of-00003.gguf")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for target in ("part-00001-of-00003.gguf", "part-00003-of-00003.gguf", "link.gguf"):
        done = run("convert", "part-00001-of-00003.gguf", "-o", target)
        assert done.code == 2 and f"-o {target}: is a file of the model that is read" in done.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_file_of_a_checkpoint_is_replaced(run, tmp_path):
    files.write_checkpoint(tmp_path)
    (tmp_path / "README.md").write_text("what stands beside it")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for target in before:
        for source in (".", "model.safetensors"):
            done = run("convert", source, "-o", target)
            assert done.code == 2 and f"-o {target}: is a file of the model that is read" in done.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    for _ in range(2):  # also where it was written before
        assert run("convert", ".", "-o", "x.gguf").code == 0


def test_pickled_weights_are_not_read(run, tmp_path):
    folder = tmp_path / "old"
    folder.mkdir()
    files.write_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + b"\0" * 100)
    for arguments in (["convert", "old", "-o", "x.gguf"], ["generate", "-m", "old", "-p", "a"]):
        done = run(*arguments)
        assert done.code == 2 and "old: has no model.safetensors, only pytorch_model.bin" in done.err
        assert "AutoModelForCausalLM.from_pretrained('old').save_pretrained('DIRECTORY')" in done.err
    done = run("convert", "old/pytorch_model.bin", "-o", "x.gguf")
    assert done.code == 2 and "safetensors with transformers' save_pretrained" in done.err


def test_more_tokens_than_the_embedding_has_rows(run, tmp_path):
    (tmp_path / "checkpoint").mkdir()
    files.write_checkpoint(tmp_path / "checkpoint")
    path = tmp_path / "checkpoint" / "tokenizer.json"
    path.write_text(path.read_text().replace('{"a": 0}', '{"a": 0, "b": 1}'))
    entries = [(key, kind, files.array(8, [files.text(t) for t in (*files.TOKENS, "c")]) if key.endswith(".tokens") else value)
               for key, kind, value in files.llama_metadata()]
    (tmp_path / "bad.gguf").write_bytes(files.llama(entries))
    for source, n_tokens in (("checkpoint", 2), ("bad.gguf", len(files.TOKENS) + 1)):
        done = run("convert", source, "-o", "x.gguf")
        assert done.code == 2
        assert f"{source}: the vocabulary has {n_tokens} tokens, but the embedding has {n_tokens - 1} rows" in done.err
        assert not (tmp_path / "x.gguf").exists()


def test_what_killed_processes_left_is_removed(run, tiny, tmp_path):
    stale, running = tmp_path / "out.gguf.AAAAAA.bass-tmp", tmp_path / "out.gguf.BBBBBB.bass-tmp"
    others = [tmp_path / name for name in ("out.gguf.sha256", "out.gguf.backup", "x.gguf.AAAAAA.bass-tmp", "out.gguf.bass-tmp")]
    for path in (stale, running, *others):
        path.write_bytes(b"x")
    with open(running, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run("convert", tiny, "-o", "out.gguf").code == 0
    assert set(tmp_path.iterdir()) == {tmp_path / "out.gguf", running, *others}


def test_a_full_disk_is_an_error_and_leaves_nothing(run, binary, tiny, tmp_path):
    (tmp_path / "out.gguf").write_bytes(b"what was there")
    limit = os.path.getsize(tiny) // 2
    done = subprocess.run([binary, "convert", tiny, "-o", "out.gguf"], cwd=tmp_path, capture_output=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 1
    assert b"out.gguf" in done.stderr and (b"cannot be written" in done.stderr or b"File too large" in done.stderr)
    assert os.listdir(tmp_path) == ["out.gguf"]
    assert (tmp_path / "out.gguf").read_bytes() == b"what was there"


def test_killed_at_any_moment_the_target_is_absent_or_whole(binary, smollm2, tmp_path):
    command = [binary, "convert", smollm2, "-o", str(tmp_path / "out.gguf"), "--threads", "1"]
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    duration = time.monotonic() - start
    whole = os.path.getsize(tmp_path / "out.gguf")
    n_killed = 0
    moments = random.Random(1)
    for _ in range(10):
        (tmp_path / "out.gguf").unlink(missing_ok=True)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0, duration))
        process.send_signal(signal.SIGKILL)
        n_killed += process.wait() == -signal.SIGKILL
        if (tmp_path / "out.gguf").exists():
            assert os.path.getsize(tmp_path / "out.gguf") == whole
    assert n_killed > 0
    subprocess.run(command, check=True, capture_output=True)
    assert os.listdir(tmp_path) == ["out.gguf"]  # what the killed ones left is removed


def test_interrupted_it_leaves_nothing(binary, smollm2, tmp_path):
    process = subprocess.Popen([binary, "convert", smollm2, "-o", str(tmp_path / "out.gguf")],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(tmp_path.iterdir()) and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    code = process.wait()
    assert code in (0, 130)  # it may have been done
    assert [path.name for path in tmp_path.iterdir()] == ([] if code == 130 else ["out.gguf"])


def test_it_says_where_nothing_is_quantised(run, tiny):
    done = run("convert", tiny, "-o", "c.gguf", "--quantize", "q8_0")
    assert done.code == 0 and "note: --quantize q8_0 has changed nothing" in done.err
    assert "note" not in run("convert", tiny, "-o", "c.gguf").err
