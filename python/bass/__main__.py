"""The program: `python -m bass generate ...` is `bass generate ...`."""

import sys

from bass import _engine


def main() -> int:
    return _engine.run_program(["bass", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
