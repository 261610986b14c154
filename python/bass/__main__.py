"""The program: `python -m bass generate ...` is `bass generate ...`."""

import os
import sys

from bass import _engine


def main() -> int:
    return _engine.run_program([b"bass", *(os.fsencode(argument) for argument in sys.argv[1:])])


if __name__ == "__main__":
    sys.exit(main())
