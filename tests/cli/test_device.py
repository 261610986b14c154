"""--device: the GPU backend by its emulator (BASS_EMULATE_GPU), and what is said where there is no GPU."""
import json

import pytest
from result_schema import check_schema

EMULATED = {"BASS_EMULATE_GPU": "1"}
TEXT = ["-p", "abc abc abc", "-n", "2", "--max-tokens", "6", "--seed", "4", "--json", "--draft-length", "fixed:2"]


def choices(done):
    """Texts, tokens and log-probabilities of all prompts."""
    assert done.code == 0, done.err
    return json.loads(done.out)["prompts"]


@pytest.mark.parametrize("asked", [[], ["--top-logprobs", "3"], ["--regex", "(ab|c)+d"], ["--json-schema", '{"type": "boolean"}']],
                         ids=["", "top-logprobs", "regex", "json-schema"])
def test_cuda_gives_the_cpus_results(run, tiny, asked):
    expected = choices(run("generate", "-m", tiny, *TEXT, *asked, "--device", "cpu"))
    assert choices(run("generate", "-m", tiny, *TEXT, *asked, "--device", "cuda", env=EMULATED)) == expected
    assert choices(run("generate", "-m", tiny, *TEXT, *asked, "--device", "auto", env=EMULATED)) == expected


def test_passes_without_a_graph_are_told(run, tiny):
    def graphs(*arguments, **env):
        done = run("generate", "-m", tiny, *TEXT, *arguments, env={**EMULATED, **env})
        check_schema(done.json())
        return choices(done), done.json()["timing"]["graphs"]

    texts, counts = graphs("--device", "cuda")
    assert counts["replayed"] >= counts["recorded"] > 0 and counts["launched_one_by_one"] > 0
    for others, without in (graphs("--device", "cuda", BASS_NO_GRAPHS="1"), graphs("--device", "cuda", "--attention", "pad")):
        assert others == texts
        assert without["replayed"] == without["recorded"] == 0 and without["launched_one_by_one"] > 0
    on_cpu = run("generate", "-m", tiny, *TEXT, "--device", "cpu")
    assert "graphs" not in json.loads(on_cpu.out)["timing"]
    for device, is_told in (("cuda", True), ("cpu", False)):
        summary = run("generate", "-m", tiny, "-p", "a", "--max-tokens", "4", "--device", device, env=EMULATED).err
        assert ("kernel by kernel" in summary) == is_told


@pytest.mark.parametrize("kind", ["bf16", "w8a8", "fp8"])
def test_what_the_library_multiplies_is_the_gpus(run, tiny, kind):
    arguments = ["generate", "-m", tiny, *TEXT, "--activations", kind]
    refused = run(*arguments, "--device", "cpu")
    assert refused.code == 2 and "--activations bf16" in refused.err and "int8 or int16" in refused.err
    assert len(choices(run(*arguments, "--device", "cuda", env=EMULATED))[0]["choices"]) == 2


@pytest.mark.parametrize("device, words", [("cuda:1", ["--device cuda:1", "no GPU 1"]), ("gpu", ["must be auto, cpu, cuda"])])
def test_a_wrong_gpu_is_named(run, tiny, device, words):
    done = run("generate", "-m", tiny, *TEXT, "--device", device, env=EMULATED)
    assert done.code != 0
    for word in words:
        assert word in done.err


def test_auto_takes_the_cpu_where_the_gpu_has_too_little_memory(run, tiny):
    expected = choices(run("generate", "-m", tiny, *TEXT, "--device", "cpu"))
    narrow = {"BASS_EMULATE_GPU": "2"}  # MiB
    done = run("generate", "-m", tiny, *TEXT, "--device", "auto", env=narrow)
    assert choices(done) == expected
    assert "note: running on the CPU: " in done.err and "MiB" in done.err
    refused = run("generate", "-m", tiny, *TEXT, "--device", "cuda", env=narrow)
    assert refused.code == 1 and "MiB" in refused.err
    broken = run("generate", "-m", __file__, *TEXT, "--device", "auto", env=EMULATED)
    assert broken.code == 2 and "running on the CPU" not in broken.err
