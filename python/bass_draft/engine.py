"""The engine as a program: what the tool asks of `bass`."""

import errno
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

from bass_draft.errors import UserError
from bass_draft.files import file_errors, temporary_folder
from bass_draft.signals import ended_by_signals

_N_LINES_OF_ERROR = 5
# Where the system has it: the engine ends with this process, also when that is killed.
_ENDS_WITH_US = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []


def find_bass(given: str | None) -> str:
    """--bass PATH, else BASS_BINARY, else `bass` on the PATH."""
    wanted = given or os.environ.get("BASS_BINARY") or "bass"
    path = shutil.which(wanted)
    if path is None:
        raise UserError(f"{wanted}: there is no such program; build BASS and give --bass PATH, or put bass on the PATH")
    return path


def _mend(words: Sequence[str]) -> str:
    """What to do about an engine's words, where they do not say it."""
    is_full = any(os.strerror(errno.ENOSPC) in line for line in words)
    return "; free some space and run the same command again" if is_full else ""


class Engine:
    """Runs `bass` with one main model. A command that fails is a UserError with the engine's own words."""

    def __init__(self, bass: str, model: str, n_threads: int | None = None):
        self.bass = bass
        self.model = model
        self.n_threads = n_threads

    def info(self) -> dict[str, Any]:
        """What `bass info --json` says: path, fingerprint, metadata."""
        return self._json(["info", "-m", self.model, "--json"])

    def generate(self, lines: Sequence[dict[str, Any]], max_batch: int, draft: str | None = None,
                 options: Sequence[str] = ()) -> dict[str, Any]:
        """Continues the prompts of `lines` (as in a prompts file); the object that `bass generate --json` prints."""
        text = "".join(json.dumps(line) + "\n" for line in lines)
        command = ["generate", "-m", self.model, "--prompts", "-", "--json", "--quiet", "--max-batch", str(max_batch)]
        command += ["-d", draft] if draft else []
        return self._json([*command, *options, *self._threads()], text.encode())

    def tokenize(self, text: str, add_special: bool) -> list[int]:
        """Ids as a prompt gets them: special tokens' text is parsed; `add_special` is for prompts without chat."""
        special = ["--add-special"] if add_special else []
        return self._json(["tokenize", "-m", self.model, "-f", "-", *special], text.encode())

    def features(self, texts: Sequence[Sequence[int]], first: Sequence[int], layers: Sequence[int], n_top: int,
                 out: pathlib.Path) -> None:
        """Writes the taps of `texts` (token ids) to `out`, and the likeliest next tokens from position `first` of each
        on."""
        lines = "".join(json.dumps({"tokens": list(map(int, text)), "from": at}) + "\n"
                        for text, at in zip(texts, first))
        with file_errors(out.parent):
            out.parent.mkdir(parents=True, exist_ok=True)
        self._run(["features", "-m", self.model, "--layers", ",".join(map(str, layers)), "--top", str(n_top),
                   "-o", str(out), *self._threads()], lines.encode())

    def _threads(self) -> list[str]:
        return ["--threads", str(self.n_threads)] if self.n_threads else []

    def _json(self, arguments: list[str], stdin: bytes = b"") -> Any:
        try:
            return json.loads(self._run(arguments, stdin))
        except ValueError as error:
            raise UserError(f"{self.bass}: does not answer `{arguments[0]}` as BASS does ({error}); give the engine's program "
                            "with --bass PATH") from error

    def _run(self, arguments: list[str], stdin: bytes = b"") -> bytes:
        # glibc's settings for the training are not the engine's.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
        with file_errors(temporary_folder()), tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            command = [*_ENDS_WITH_US, self.bass, *arguments]
            with file_errors(pathlib.Path(self.bass)), subprocess.Popen(
                    command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env=environment) as process, ended_by_signals(process):
                out, err = process.communicate()
        if process.returncode != 0:
            words = err.decode("utf-8", "replace").strip().splitlines()[-_N_LINES_OF_ERROR:]
            raise UserError(f"`bass {arguments[0]}` failed ({process.returncode}): " + "\n".join(words) + _mend(words),
                            2 if process.returncode == 2 else 1)
        return out
