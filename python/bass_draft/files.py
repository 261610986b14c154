"""Files that are complete or absent, whenever the process ends; what the operating system refuses, as a UserError."""

import codecs
import contextlib
import errno
import fcntl
import glob
import json
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from bass_draft.errors import UserError

# numpy's tofile, which gguf writes tensors with, forgets why it could not write all.
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
_DESCRIPTORS = re.compile(r"/proc/[^/]+(/task/[^/]+)?/fd")


@contextlib.contextmanager
def file_errors(path: pathlib.Path) -> Iterator[None]:
    """Turns what goes wrong with `path` into a sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(describe(error, path), 1 if _is_full(error) else 2) from error


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT) or _SHORT_WRITE.search(str(error)) is not None


def describe(error: OSError, path: pathlib.Path) -> str:
    if _is_full(error):
        return f"{path}: the disk is full; free some space and run the same command again: it goes on where it was"
    return f"{path}: {error.strerror or error}"


def write_atomic(path: pathlib.Path, write: Callable[[pathlib.Path], None]) -> None:
    """Lets `write` fill a file beside `path`, then puts it in place. `path` never holds a part. A link stays one: what it
    points at is replaced. What is no regular file (a pipe, a device) gets the bytes and stays what it is, and so does a file that
    is open already (/dev/stdout)."""
    with file_errors(path):
        if _is_open_file(path):
            _write_into(path, write, "ab")
            return
        target = _behind_links(path)
        if _is_special(target):
            _write_into(target, write)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = _partial(target)
        try:
            write(partial)
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)


def _behind_links(path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(os.path.realpath(path))


def _is_open_file(path: pathlib.Path) -> bool:
    """A name of a descriptor: /dev/stdout, /dev/fd/3."""
    while not _DESCRIPTORS.fullmatch(os.path.realpath(path.parent)):
        if not path.is_symlink():
            return False
        path = path.parent / os.readlink(path)
    return True


def _is_special(path: pathlib.Path) -> bool:
    return path.exists() and not path.is_file()


def _partial(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def _write_into(target: pathlib.Path, write: Callable[[pathlib.Path], None], mode: str = "wb") -> None:
    """By way of a file: whoever writes may go back in it, which a pipe does not allow."""
    with tempfile.TemporaryDirectory(dir=temporary_folder()) as folder:
        partial = pathlib.Path(folder) / "part"
        write(partial)
        with open(target, mode) as file:
            file.write(partial.read_bytes())


def write_text(path: pathlib.Path, text: str) -> None:
    write_atomic(path, lambda partial: partial.write_text(text, encoding="utf-8") and None)


def write_standard_output(text: str) -> None:
    with file_errors(pathlib.Path("standard output")):
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            # Python would try again at its end, and say so in words of its own.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise


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
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error}); delete it") from error


def read_jsonl(path: pathlib.Path) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a file, each with its place ("FILE:LINE") for messages. Blank lines are left out, as is the mark that
    some editors put in front."""
    with file_errors(path):
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    objects = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{place}: not a JSON object ({error})") from error
        if not isinstance(value, dict):
            raise UserError(f'{place}: must be a JSON object like {{"prompt": "..."}}')
        objects.append((place, value))
    return objects


def remove_partial_files(directory: pathlib.Path) -> None:
    """What a killed process left."""
    for path in directory.glob(".*.part"):
        path.unlink(missing_ok=True)


def remove_partial_files_of(path: pathlib.Path) -> None:
    """The same, of one file that stands among other people's."""
    target = _behind_links(path)
    for part in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        part.unlink(missing_ok=True)


def check_output(path: pathlib.Path, inputs: Mapping[str, str | None]) -> None:
    """A UserError where `path` cannot be written, or would take the place of a file that is read (inputs: by their options):
    better than after hours of work."""
    with file_errors(path):
        for option, source in inputs.items():
            if source and path.exists() and os.path.exists(source) and path.samefile(source):
                raise UserError(f"-o {path}: is the file that {option} names, which would be lost; name another one")
        if _is_open_file(path):
            _check_access(path)
            return
        target = _behind_links(path)
        if target.is_dir():
            raise UserError(f"{path}: is a folder; name a file")
        if target.parent.exists() and not target.parent.is_dir():
            raise UserError(f"{path.parent}: is no folder")
        if _is_special(target):
            _check_access(target)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = _partial(target)  # the longest name that it will have
        partial.touch()
        partial.unlink()


def _check_access(path: pathlib.Path) -> None:
    """Without opening it: a pipe's reader would see its end."""
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


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
