"""bench/serving: when requests come, what is read of streams, the statistics, the table; and one run against `bass
serve`."""
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [os.fspath(ROOT / "bench" / folder) for folder in ("serving", "peers")]
import load  # noqa: E402 (found through the line above)
import load_report  # noqa: E402
import under_load  # noqa: E402

PROMPTS = ["one", "two", "three"]


def piece(content=None, usage=None):
    return "data: " + json.dumps({"choices": [{"delta": {"content": content}}], "usage": usage}) + "\n\n"


PIECES = [piece(), piece(""), piece("a"), piece("b"), piece("c"), piece(usage={"completion_tokens": 7}), "data: [DONE]\n\n"]


@pytest.fixture
def server():
    """A server that answers as its `answer` says: a list of pieces and pauses in seconds, or a status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.asked.append(asked)
            if isinstance(self.server.answer, int):
                self.send_error(self.server.answer, "busy")
                return
            self.send_response(200)
            self.end_headers()
            for part in self.server.answer:
                if isinstance(part, str):
                    self.wfile.write(part.encode())
                    self.wfile.flush()
                else:
                    time.sleep(part)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        found.asked, found.answer = [], PIECES
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


def test_requests_come_at_random_times_that_the_seed_decides():
    asks = load.draw_asks(PROMPTS, rate=50, seconds=40, seed=3)
    assert asks == load.draw_asks(PROMPTS, rate=50, seconds=40, seed=3) != load.draw_asks(PROMPTS, 50, 40, 4)
    assert 0.9 < len(asks) / 2000 < 1.1
    gaps = [later.at_s - ask.at_s for ask, later in zip(asks, asks[1:])]
    mean = sum(gaps) / len(gaps)
    assert 0.8 < sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / mean**2 < 1.2  # as of a Poisson process
    assert {asks[i].prompt for i in range(3)} == set(PROMPTS)
    assert all(load.SHORTEST <= ask.max_tokens <= load.LONGEST for ask in asks)
    assert sum(ask.max_tokens <= 64 for ask in asks) / len(asks) == pytest.approx(0.5, abs=0.05)


def test_prompts_of_both_kinds_and_bad_ones(tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"turns": ["first", "second"]}\n\n{"prompt": "other"}\n')
    assert load.read_prompts(file) == ["first", "other"]
    file.write_text('{"prompt": 3}\n')
    with pytest.raises(ValueError, match="prompts.jsonl:1"):
        load.read_prompts(file)
    file.write_text("")
    with pytest.raises(ValueError, match="no prompts"):
        load.read_prompts(file)


def test_an_answer_is_timed_from_its_first_piece_to_its_last(server):
    server.answer = [0.1, PIECES[0], 0.1, *PIECES[1:3], 0.3, PIECES[3], 0.05, *PIECES[4:]]
    [answer] = load.run(server.server_address, [load.Ask(0, "x", 20)], 0.5, drain_s=10)
    assert answer.error == "" and answer.n_tokens == 7
    assert answer.first_s - answer.asked_s > 0.19
    assert answer.last_s - answer.first_s > 0.34
    assert 0.29 < answer.longest_gap_s < answer.last_s - answer.first_s
    assert server.asked[0]["max_tokens"] == 20 and server.asked[0]["temperature"] == 0.5
    assert server.asked[0]["ignore_eos"] and server.asked[0]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("answer, error", [(503, "503: "), (PIECES[:2], "without an answer"), (PIECES[:4], "without an answer"),
                                           ([*PIECES[:3], 2], "not answered in time")])
def test_what_is_no_answer_is_told(server, answer, error):
    server.answer = answer
    [found] = load.run(server.server_address, [load.Ask(0, "x", 20)], 0, drain_s=0.7)
    assert error in found.error
    summary = load.summarise([found], 1, 0.05)
    assert (summary["asked"], summary["answered"], summary["good"], summary["first_s"]["p50"]) == (1, 0, 0, None)
    assert error in summary["errors"][0]


def test_a_server_that_is_not_there_is_an_error_of_each_answer():
    [found] = load.run(("127.0.0.1", 9), [load.Ask(0, "x", 20)], 0, drain_s=5)
    assert "Connection" in found.error


def test_requests_do_not_wait_for_answers(server):
    server.answer = [2, *PIECES]
    answers = load.run(server.server_address, [load.Ask(0.1 * i, "x", 20) for i in range(5)], 0, drain_s=20)
    assert all(answer.asked_s >= 0.1 * i for i, answer in enumerate(answers))
    assert answers[-1].asked_s < min(answer.first_s for answer in answers)


def test_numbers_of_a_run():
    answers = [load.Answer(0, 0.5, 1.5, 0.2, 11), load.Answer(1, 3, 3.2, 0.1, 5), load.Answer(2, error="refused"),
               load.Answer(3, 3.1, 7.1, 0.4, 41)]
    summary = load.summarise(answers, slo_first_s=1, slo_token_s=0.1)
    assert summary["first_s"] == {"p50": 0.5, "p90": 2, "p99": 2}
    assert summary["token_s"]["p50"] == pytest.approx(0.1) and summary["token_s"]["p90"] == pytest.approx(0.1)
    assert summary["answer_s"]["p90"] == pytest.approx(4.1)
    assert summary["tokens_s"] == pytest.approx(57 / 7.1)
    assert summary["good"] == 0.5  # the second begins too late, the third was refused
    assert load.middle([summary, summary])["first_s"] == summary["first_s"]


def test_a_run_against_bass(tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
    tiny = os.fspath(ROOT / "tests/data/tiny/tiny_gqa_tied_q4_1.gguf")
    page = tmp_path / "page.md"
    page.write_text(f"{load_report.BEGIN}\n{load_report.END}\n")
    out = tmp_path / "out" / "result.json"
    done = subprocess.run([sys.executable, ROOT / "bench/serving/under_load.py", prompts, "-m", tiny, "-d", tiny, "-o", out,
                           "--bass", os.environ["BASS_BINARY"], "--servers", "bass,bass-off", "--rates", "30",
                           "--seconds", "1", "--rounds", "2", "--slots", "4", "--page", page],
                          capture_output=True, text=True, timeout=240, check=False)
    if "No module named 'matplotlib'" not in done.stderr:
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "out" / "result.svg").read_text().startswith("<?xml")
    runs = json.loads(out.read_text())["runs"]
    assert [(run["round"], run["rate"], run["server"]) for run in runs] == [
        (1, 30, "bass"), (1, 30, "bass-off"), (2, 30, "bass-off"), (2, 30, "bass")]
    assert all(run["answered"] == run["asked"] > 5 and run["tokens_s"] > 0 for run in runs)
    rows = [line for line in page.read_text().splitlines() if line.startswith("|")]
    assert len(rows) == 4 and len({row.count("|") for row in rows}) == 1 and "| 100 % |" in rows[2]
    assert sorted(path.name for path in out.parent.iterdir() if path.suffix == ".log") == []


@pytest.mark.parametrize("arguments, error", [(["--rates", "0"], "requests a second"), (["--slo", "1"], "two numbers"),
                                              (["--servers", "vllm"], "must be among bass"), (["--seconds", "0"], "--seconds"),
                                              (["-m", "/none"], "no such file"), (["-o", "x.txt"], "must end in .json")])
def test_bad_options(tmp_path, capsys, arguments, error):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "x"}\n')
    binary = tmp_path / "bass"
    binary.write_text("")
    with pytest.raises(SystemExit):
        under_load.parse_arguments([os.fspath(prompts), "-o", "x.json", "-m", os.fspath(prompts), "--bass", os.fspath(binary),
                                    *arguments])
    assert error in capsys.readouterr().err
