"""Fails when a source includes a header of a folder above its own (docs/architecture.md, "The picture").

    check_includes.py [--root DIR]       checks the tree
    check_includes.py --negative-control checks that a tree with a wrong include is found out
"""
import argparse
import pathlib
import re
import sys
import tempfile

# A folder may include its own headers and those of lower levels; folders of one level do not know each other.
LEVELS = {"base": 0, "tensor": 1, "kernels": 2, "io": 3, "text": 3, "cache": 4, "model": 5, "speculation": 6,
          "executor": 7, "engine": 8, "server": 9, "cli": 10, "python": 11}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def wrong_includes(root):
    """One message for each wrong include below root/src and root/include."""
    messages = []
    for path in sorted((root / "src").rglob("*")) + sorted((root / "include").rglob("*")):
        if path.suffix not in (".h", ".cc", ".cu", ".cuh"):
            continue
        where = path.relative_to(root)
        # The public headers stand below everything: they may only include each other.
        folder = where.parts[1] if where.parts[0] == "src" else None
        if folder is not None and folder not in LEVELS:
            messages.append(f"{where}: folder '{folder}' has no place in the include order; add it to LEVELS")
            continue
        for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
            target = included.split("/")[0]
            if target == "bass" and "/" in included:
                continue
            if target == "support" and path.name.endswith("_test.cc"):
                continue  # tests/support: what tests share
            if folder is None or target not in LEVELS:
                messages.append(f"{where}: includes \"{included}\", which is not a path from src/ or include/")
            elif target != folder and LEVELS[target] >= LEVELS[folder]:
                messages.append(f"{where}: includes \"{included}\", but {folder} stands below {target}")
    return messages


def negative_control():
    """A tree with one include that goes up and one that goes sideways must give two messages."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for path, text in (("src/io/a.h", '#include "base/b.h"\n#include "engine/c.h"\n'),
                           ("src/io/d.cc", '#include "text/e.h"\n#include <vector>\n'),
                           ("include/bass/f.h", '#include "bass/status.h"\n')):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return len(wrong_includes(root)) == 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--negative-control", action="store_true")
    args = parser.parse_args()
    if args.negative_control:
        return 0 if negative_control() else "the negative control was not found out"
    messages = wrong_includes(args.root)
    print("\n".join(messages) if messages else "all includes go down")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
