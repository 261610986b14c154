"""Names the tests that failed in a report of `ctest --output-junit`, each with the end of what it printed.

    tools/failed_tests.py build/dev/tests.xml
"""
import sys
from xml.etree import ElementTree

LINES_OF_EACH = 25
LINE_LENGTH = 300
TESTS_IN_FULL = 5


def main(path):
    try:
        cases = ElementTree.parse(path).getroot().iter("testcase")
    except (OSError, ElementTree.ParseError) as error:
        sys.exit(f"{path}: no report of tests: {error}")
    failed = [case for case in cases if case.get("status") == "fail"]
    for idx, case in enumerate(failed):
        print(f"  failed: {case.get('name')[:LINE_LENGTH]} ({float(case.get('time', 0)):.1f} s)")
        if idx >= TESTS_IN_FULL:
            continue
        for line in (case.findtext("system-out") or "").splitlines()[-LINES_OF_EACH:]:
            print(f"    {line[:LINE_LENGTH]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
