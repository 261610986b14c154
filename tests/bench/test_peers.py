"""bench/peers: reading the engines' answers, the statistics, the table. No engine runs: their outputs are recorded."""
import codecs
import json
import os
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, os.fspath(ROOT / "bench" / "peers"))

import compare  # noqa: E402 (found through the line above)
import engines  # noqa: E402
import machine  # noqa: E402
import page as pages  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402

CASE = engines.Case("model.gguf", batch=8, prompt_tokens=64, generate_tokens=64, threads=2)

BASS_OUTPUT = """\
{"PP":64,"TG":64,"B":8,"N_KV":1024,"T_PP":0.70,"S_PP":730.1,"T_TG":2.59,"S_TG":192.1,"T":3.29,"S":310.9,\
"mode":"regular","bandwidth_gb_s":10.1,"peak_tops":0.48,"limit_fraction":0.27}
"""
# The first row is the run that warms up.
LLAMA_OUTPUT = """\

{"n_kv_max": 1024, "n_batch": 2048, "n_ubatch": 512, "flash_attn": 1, "is_pp_shared": 0, "n_gpu_layers": -1, \
"n_threads": 2, "n_threads_batch": 2, "pp": 64, "tg": 64, "pl": 8, "n_kv": 1024, "t_pp": 1.1, "speed_pp": 460.0, \
"t_tg": 4.2, "speed_tg": 120.0, "t": 5.3, "speed": 190.0}
{"n_kv_max": 1024, "n_batch": 2048, "n_ubatch": 512, "flash_attn": 1, "is_pp_shared": 0, "n_gpu_layers": -1, \
"n_threads": 2, "n_threads_batch": 2, "pp": 64, "tg": 64, "pl": 8, "n_kv": 1024, "t_pp": 1.0, "speed_pp": 500.0, \
"t_tg": 4.0, "speed_tg": 128.0, "t": 5.0, "speed": 204.8}

"""
OPENVINO_ROW = {"batch": 8, "generated": [64] * 8, "decode_tokens_s": 500.5, "prompt_tokens_s": 2000.0, "steps": 64}


def fake_engine(tmp_path, script):
    """An engine whose program is a shell script."""
    program = tmp_path / "bass"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return engines.Bass(program)


def test_reads_bass():
    figures = engines.Bass("bass").parse(CASE, BASS_OUTPUT)
    assert figures == {"decode_tokens_s": 192.1, "prompt_tokens_s": 730.1, "limit_fraction": 0.27}


def test_reads_the_second_run_of_llama_cpp():
    assert engines.LlamaCpp().parse(CASE, LLAMA_OUTPUT) == {"decode_tokens_s": 128.0, "prompt_tokens_s": 500.0}


def test_reads_openvino_between_its_messages():
    output = "[ INFO ] a message\n" + json.dumps(OPENVINO_ROW) + "\n"
    assert engines.OpenVino().parse(CASE, output) == {"decode_tokens_s": 500.5, "prompt_tokens_s": 2000.0}


def test_refuses_openvino_that_stopped_early():
    with pytest.raises(engines.EngineError, match="not 64 each"):
        engines.OpenVino().parse(CASE, json.dumps({**OPENVINO_ROW, "generated": [64] * 7 + [63]}))


@pytest.mark.parametrize("engine", [engines.Bass("bass"), engines.LlamaCpp(), engines.OpenVino()])
@pytest.mark.parametrize("output", ["", "no figures\n", "[1, 2]\n", '{"B": 7, "pl": 7, "batch": 7}\n'])
def test_refuses_output_without_the_case(engine, output):
    with pytest.raises(engines.EngineError, match="no line with the figures"):
        engine.parse(CASE, output)


@pytest.mark.parametrize("engine", [engines.Bass("bass"), engines.LlamaCpp(), engines.OpenVino()])
def test_commands_name_the_case(engine):
    for settings in engine.candidates():
        command = engine.command(CASE, settings)
        assert all(isinstance(part, str) for part in command)
        assert "model.gguf" in command and "64" in command and "2" in command


def test_decode_runs_the_command(tmp_path):
    engine = fake_engine(tmp_path, f"cat <<'END'\n{BASS_OUTPUT}END")
    assert engines.decode(engine, CASE, {})["decode_tokens_s"] == 192.1


@pytest.mark.parametrize(("script", "message"), [
    ("echo 'model.gguf: cannot open' >&2; exit 2", "exit status 2: .*\n.*cannot open"),
    ('echo \'{"B": 8, "TG": 64}\'', "S_TG"),
])
def test_decode_says_what_failed(tmp_path, script, message):
    with pytest.raises(engines.EngineError, match=message):
        engines.decode(fake_engine(tmp_path, script), CASE, {})


def test_decode_says_that_the_program_is_missing(tmp_path):
    with pytest.raises(engines.EngineError, match="not there"):
        engines.decode(engines.Bass(tmp_path / "none"), CASE, {})


def test_ratio_of_medians_and_interval():
    result = rounds.ratio([200, 220, 210, 190, 205], [100, 105, 102, 95, 101])
    assert result["ratio"] == pytest.approx(205 / 101)
    assert 1.9 < result["low"] <= result["ratio"] <= result["high"] < 2.2
    assert result == rounds.ratio([200, 220, 210, 190, 205], [100, 105, 102, 95, 101])


def test_interval_draws_whole_rounds():
    """A disturbance of whole rounds leaves the ratio alone; of one side only it widens the interval (the control)."""
    theirs = [100, 50, 80, 60, 90]
    paired = rounds.ratio([2 * value for value in theirs], theirs)
    assert (paired["low"], paired["high"]) == (2, 2)
    assert rounds.ratio([200] * 5, theirs)["high"] > 2.5


def test_one_round_has_no_interval():
    assert rounds.ratio([3], [2]) == {"ratio": 1.5, "low": None, "high": None}


@pytest.mark.parametrize(("ours", "theirs"), [([], []), ([1, 2], [1])])
def test_ratio_refuses_rounds_that_do_not_match(ours, theirs):
    with pytest.raises(ValueError, match="same rounds"):
        rounds.ratio(ours, theirs)


def a_result():
    def entry(batch, n, bass, openvino, llama):
        return {"round": n, "batch": batch, "figures": {
            "bass": {"decode_tokens_s": bass, "prompt_tokens_s": 1.0, "other_load": 0.01, "limit_fraction": 0.5},
            "openvino": {"decode_tokens_s": openvino, "prompt_tokens_s": 1.0, "other_load": 0.03},
            "llama.cpp": {"decode_tokens_s": llama, "prompt_tokens_s": 1.0, "other_load": 0.02}}}

    entries = [entry(8, 1, 800, 400, 100), entry(1, 1, 200, 100, 50),
               entry(8, 2, 1000, 500, 125), entry(1, 2, 220, 110, 55)]
    settings = [{"flash_attention": "on"}, {"flash_attention": "off"}]
    tried = [{"settings": one, "decode_tokens_s": 1} for one in settings]
    return {
        "date": "2026-01-01",
        "machine": {"processor": "A Processor", "processor_id": "family 6", "instruction_sets": ["avx2"],
                    "processors": 2, "memory_gib": 8.0},
        "versions": {"bass": "0.1.0"},
        "task": {"model": "model.gguf", "prompt_tokens": 64, "generate_tokens": 64, "threads": 2},
        "titles": {"bass": "bass", "openvino": "OpenVINO GenAI", "llama.cpp": "llama.cpp"},
        "choices": {"bass": [{"batch": 1, "settings": {}, "tried": []}],
                    "llama.cpp": [{"batch": 1, "settings": settings[1], "tried": tried},
                                  {"batch": 8, "settings": settings[0], "tried": tried}]},
        "rounds": entries,
        "summary": rounds.summary(entries, ["openvino", "llama.cpp"]),
    }


def test_summary_has_one_row_a_batch_size():
    rows = a_result()["summary"]
    assert [row["batch"] for row in rows] == [1, 8]
    assert rows[1]["engines"]["bass"] == {"median": 900, "min": 800, "max": 1000, "rounds": 2}
    assert rows[1]["ratios"]["llama.cpp"] == {"ratio": 8, "low": 8, "high": 8}


def test_table():
    text = report.markdown(a_result())
    assert ("| 8 | 900 (800-1000) | 450 (400-500) | **2.00** (2.00-2.00) | 112 (100-125) | **8.00** (8.00-8.00) "
            "| 50 % |") in text
    assert "A Processor" in text and "2 rounds" in text and "at most 3 %" in text
    assert "best of 2 settings: flash_attention=off (at 1); flash_attention=on (at 8)" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1


def test_page_gets_the_table_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    pages.replace_section(page, report.BEGIN, "new\n", report.END)
    assert page.read_text() == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    page.write_text("no marks\n")
    with pytest.raises(pages.PageError, match="needs the lines"):
        pages.replace_section(page, report.BEGIN, "new\n", report.END)


def test_page_of_the_documentation_has_the_marks():
    text = (ROOT / "docs" / "performance" / "emerald-rapids.md").read_text(encoding="utf-8")
    assert text.count(report.BEGIN) == text.count(report.END) == 1


def test_cpuinfo():
    text = ("processor\t: 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: A Processor\nflags\t\t: fpu avx2 avx512f\n"
            "\nprocessor\t: 1\nmodel name\t: Another\nflags\t\t: amx_int8\n")
    assert machine.parse_cpuinfo(text) == {"processor": "A Processor", "processor_id": "family 6, model 207",
                                           "instruction_sets": ["avx2", "avx512f"]}


def test_load_of_others(monkeypatch):
    per_second = os.sysconf("SC_CLK_TCK")
    line = "cpu  " + " ".join(str(seconds * per_second) for seconds in (4, 0, 1, 90, 2, 0, 1, 2)) + " 0 0\ncpu0 1 2 3\n"
    assert machine.processor_seconds(line) == (8, 100)
    moments = iter([(10, 100, 5), (16, 110, 8)])
    monkeypatch.setattr(machine.OtherLoad, "now", staticmethod(lambda: next(moments)))
    assert machine.OtherLoad().read() == 0.3


def test_chooses_the_fastest_settings(monkeypatch):
    speeds = {("on", "split"): 1, ("on", "unified"): 2, ("off", "split"): 4, ("off", "unified"): 3}
    monkeypatch.setattr(engines, "decode", lambda _engine, _case, settings: {
        "decode_tokens_s": speeds[settings["flash_attention"], settings["kv_cache"]], "other_load": 0})
    choice = compare.choose(engines.LlamaCpp(), CASE)
    assert choice["settings"] == {"flash_attention": "off", "kv_cache": "split"} and len(choice["tried"]) == 4


def test_rounds_rotate_the_order(monkeypatch):
    order = []

    def decode(engine, _case, _settings):
        order.append(engine.key)
        return {"decode_tokens_s": 1, "other_load": 0}

    monkeypatch.setattr(engines, "decode", decode)
    all_engines = [engines.Bass("bass"), engines.OpenVino(), engines.LlamaCpp()]
    choices = {engine.key: [{"batch": 8, "settings": {}}] for engine in all_engines}
    for n in range(2):
        compare.measure_round(all_engines, CASE, choices, n)
    assert order == ["bass", "openvino", "llama.cpp", "openvino", "llama.cpp", "bass"]


def test_adding_refuses_another_machine():
    old = {"machine": "a", "versions": "v", "task": "t"}
    compare.check_same(old, dict(old))
    with pytest.raises(engines.EngineError, match="machine is another"):
        compare.check_same(old, {**old, "machine": "b"})


@pytest.mark.parametrize("arguments", [
    [], ["-o", "out.txt"], ["-o", "o.json", "--batch", "1,x"], ["-o", "o.json", "--batch", "0"],
    ["-o", "o.json", "--rounds", "-1"], ["-o", "o.json", "-m", "/none.gguf"],
    ["-o", "/none.json", "--add", "-m", __file__, "--bass", sys.executable],
    ["-o", "o.json", "-m", __file__, "--bass", "/none"],
])
def test_refuses_bad_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        compare.parse_arguments(arguments)
    assert stop.value.code == 2 and "error: " in capsys.readouterr().err


def test_prompt_is_that_of_bass_bench():
    """Both sides decode the same text: the copy in prompt.txt is the string in bass's source."""
    prompt = (ROOT / "bench" / "peers" / "prompt.txt").read_text(encoding="utf-8").strip()
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "cli").rglob("*.cc")]
    source = next(text for text in sources if prompt[:40] in text)
    literals = re.findall(r'"((?:[^"\\\n]|\\.)*)"', source)
    assert prompt in codecs.decode("".join(literals), "unicode_escape")
