"""Reads a report of `ctest --output-junit`: names the tests that failed, each with the end of what it printed, or why
tests were skipped.

    tools/test_report.py failed|skipped build/dev/tests.xml
"""
import collections
import re
import sys
from xml.etree import ElementTree

LINES_OF_EACH = 25
LINE_LENGTH = 300
TESTS_IN_FULL = 5

# What a GoogleTest prints behind "FILE:LINE: Skipped", and pytest's line of -rs.
GTEST_SKIP = re.compile(r": Skipped\n(?P<reason>.+)")
PYTEST_SKIP = re.compile(r"^SKIPPED \[(?P<count>\d+)\] (?P<reason>.+)", re.MULTILINE)


def failed(cases):
    for idx, case in enumerate(case for case in cases if case.get("status") == "fail"):
        yield f"  failed: {case.get('name')[:LINE_LENGTH]} ({float(case.get('time', 0)):.1f} s)"
        if idx < TESTS_IN_FULL:
            lines = (case.findtext("system-out") or "").splitlines()
            yield from (f"    {line[:LINE_LENGTH]}" for line in lines[-LINES_OF_EACH:])


def skipped(cases):
    counts = collections.Counter()
    for case in cases:
        output = case.findtext("system-out") or ""
        reasons = {match["reason"]: int(match["count"]) for match in PYTEST_SKIP.finditer(output)}
        reasons.update({match["reason"].strip(): 1 for match in GTEST_SKIP.finditer(output)})
        if not reasons and case.get("status") in ("notrun", "disabled"):
            reasons = {f"not run: {case.get('name')}": 1}
        counts.update(reasons)
    for reason, count in sorted(counts.items()):
        yield f"  skipped, {count} test{'s' if count > 1 else ''}: {reason[:LINE_LENGTH]}"


def main(what, path):
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        sys.exit(f"{path}: no report of tests: {error}")
    for line in {"failed": failed, "skipped": skipped}[what](cases):
        print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
