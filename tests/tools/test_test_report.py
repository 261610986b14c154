"""tools/test_report.py, on reports as ctest writes them."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

PASSED = '<testcase name="Good" status="run" time="0.1"><system-out>fine</system-out></testcase>'


def report(tmp_path, what, *cases):
    path = tmp_path / "tests.xml"
    path.write_text(f'<testsuite name="x">{"".join(cases)}</testsuite>')
    run = subprocess.run([sys.executable, os.fspath(ROOT / "tools" / "test_report.py"), what, os.fspath(path)],
                         capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def case(name, status, output):
    return f'<testcase name="{name}" status="{status}" time="1.25"><system-out>{output}</system-out></testcase>'


def test_failed_tests_are_named_with_the_end_of_what_they_said(tmp_path):
    lines = report(tmp_path, "failed", PASSED, case("Bad", "fail", "\n".join(f"line {i}" for i in range(40))))
    assert lines[0] == "  failed: Bad (1.2 s)"
    assert lines[1:] == [f"    line {i}" for i in range(15, 40)]


def test_of_many_that_failed_the_first_say_why(tmp_path):
    lines = report(tmp_path, "failed", *(case(f"Bad{i}", "fail", "why") for i in range(8)))
    assert lines.count("    why") == 5
    assert [line.split()[1] for line in lines if "failed" in line] == [f"Bad{i}" for i in range(8)]


def test_reasons_of_skips_are_counted(tmp_path):
    skip = "file_test.cc:7: Skipped\n{}\n"
    lines = report(tmp_path, "skipped", PASSED, case("A", "run", skip.format("no tiles")),
                   case("B", "notrun", skip.format("no tiles")), case("C", "notrun", skip.format("one node")),
                   case("cli", "run", "..s\nSKIPPED [2] tests/cli/test_x.py:3: no network\n"), case("D", "notrun", ""))
    assert lines == ["  skipped, 2 tests: no tiles", "  skipped, 1 test: not run: D", "  skipped, 1 test: one node",
                     "  skipped, 2 tests: tests/cli/test_x.py:3: no network"]


def test_nothing_is_said_of_tests_that_passed(tmp_path):
    assert report(tmp_path, "failed", PASSED) == report(tmp_path, "skipped", PASSED) == []


def test_a_report_that_is_missing_is_an_error(tmp_path):
    run = subprocess.run([sys.executable, os.fspath(ROOT / "tools" / "test_report.py"), "failed",
                          os.fspath(tmp_path / "none.xml")], capture_output=True, text=True, check=False)
    assert run.returncode != 0 and "none.xml: no report of tests" in run.stderr
