"""Files that are complete or absent, whenever the process ends; what the operating system refuses, as a UserError."""

import contextlib
import errno
import fcntl
import glob
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bass_draft.errors import UserError


@contextlib.contextmanager
def file_errors(path: pathlib.Path) -> Iterator[None]:
    """Turns what goes wrong with `path` into a sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(describe(error, path), 1 if error.errno == errno.ENOSPC else 2) from error


def describe(error: OSError, path: pathlib.Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{path}: the disk is full; free some space and run the same command again: it goes on where it was"
    return f"{path}: {error.strerror or error}"


def write_atomic(path: pathlib.Path, write: Callable[[pathlib.Path], None]) -> None:
    """Lets `write` fill a file beside `path`, then puts it in place. `path` never holds a part."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(partial)
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def write_text(path: pathlib.Path, text: str) -> None:
    write_atomic(path, lambda partial: partial.write_text(text, encoding="utf-8") and None)


def write_json(path: pathlib.Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1) + "\n")


def read_json(path: pathlib.Path) -> Any:
    """None where there is no file."""
    with file_errors(path):
        if not path.exists():
            return None
        text = path.read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error}); delete it") from error


def read_jsonl(path: pathlib.Path) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a file, each with its place ("FILE:LINE") for messages. Blank lines are left out."""
    with file_errors(path):
        data = path.read_bytes()
    objects = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            value = json.loads(line.decode("utf-8"))
        except ValueError as error:
            raise UserError(f"{place}: not a JSON object ({error})") from error
        if not isinstance(value, dict):
            raise UserError(f'{place}: must be a JSON object like {{"prompt": "..."}}')
        objects.append((place, value))
    return objects


def remove_partial_files(directory: pathlib.Path, name: str = "*") -> None:
    """What a killed process left: of all files, or of one (whose name may hold what patterns are made of)."""
    for path in directory.glob(f".{name if name == '*' else glob.escape(name)}.*.part"):
        path.unlink(missing_ok=True)


def check_writable(path: pathlib.Path) -> None:
    """A UserError where no file can be written there: better than after hours of work."""
    if path.is_dir():
        raise UserError(f"{path}: is a folder; name a file")
    if path.parent.exists() and not path.parent.is_dir():
        raise UserError(f"{path.parent}: is no folder")
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent):
            pass


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Nobody else works in `folder` meanwhile, as far as its file system has locks."""
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".lock", "w", encoding="utf-8")  # noqa: SIM115
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"{folder}: another bass-draft works there; wait for it, or give another --work folder") from error
        except OSError:
            pass
        yield


def remove_unlocked(paths: Iterable[pathlib.Path]) -> None:
    """Files that the engine locks while it writes them, where it has gone."""
    for path in paths:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def temporary_folder() -> pathlib.Path:
    """Where short-lived files can be written."""
    try:
        return pathlib.Path(tempfile.gettempdir())
    except OSError as error:  # it tries all that it knows
        raise UserError("no folder for temporary files can be written to: free some space there, or name another one in "
                        "TMPDIR, and run the same command again", 1) from error
