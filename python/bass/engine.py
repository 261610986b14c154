"""The engine for Python: many sequences of one language model at once, with speculation."""

import asyncio
import atexit
import json
import logging
import os
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bass import _engine, options
from bass.errors import InvalidArgumentError
from bass.results import Completion, Piece, Score, completion_of, score_of

Prompt = str | Mapping[str, Any]
_ASYNC_WAIT_S = 0.25  # a thread of the loop's pool is not held longer at once
_log = logging.getLogger("bass")


class Job:
    """Prompts that run. Iterating over it, plainly or with `async for`, gives each prompt's `Completion` as soon as all
    its samples have ended, once. Letting go of it cancels what still runs."""

    def __init__(self, job: _engine.Job):
        self._job = job

    def __iter__(self) -> Iterator[Completion]:
        return self

    def __next__(self) -> Completion:
        completion = self.next()
        if completion is None:
            raise StopIteration
        return completion

    def __aiter__(self) -> AsyncIterator[Completion]:
        return self

    async def __anext__(self) -> Completion:
        while True:
            completion = await asyncio.to_thread(self.next, _ASYNC_WAIT_S)
            if completion is not None:
                return completion
            if self._job.is_done():
                raise StopAsyncIteration

    def next(self, timeout: float | None = None) -> Completion | None:
        """The next prompt that has ended; None when all have been told, or none ended within `timeout` seconds."""
        text = self._job.next_ended(timeout)
        return None if text is None else completion_of(json.loads(text))

    def cancel(self) -> None:
        """Ends what runs soon: samples keep what they have, with the finish reason "cancelled"."""
        self._job.cancel()

    def is_done(self) -> bool:
        """Whether all completions have been taken."""
        return self._job.is_done()


class Engine:
    """A model in memory. Its methods may be called from any thread, and what several threads ask runs in one batch.

    model: a GGUF file, a directory of Hugging Face's format, or the name of a model that `bass pull` has fetched.
    draft: a draft model's file; None: the one that comes with `model` if there is one.
    options: see below. Those of requests are what every call starts from.
    """

    def __init__(self, model: str | os.PathLike, draft: str | os.PathLike | None = None, **engine_options):
        known = [*options.ENGINE_OPTIONS, *options.REQUEST_OPTIONS]
        options.check_names(engine_options, known, "bass.Engine")
        given = {"model": os.fspath(model), **engine_options}
        if draft is not None:
            given["draft"] = os.fspath(draft)
        self._engine = _engine.Engine(options.dumps(given, "bass.Engine"))
        self._jobs: weakref.WeakSet = weakref.WeakSet()
        _open_engines.add(self)
        for note in self._engine.notes():
            _log.warning("%s", note)

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends what runs and frees the memory, when nothing holds a job of it any more. Again: does nothing."""
        for job in list(self._jobs):
            job.cancel()
        self._engine.close()

    def generate(self, prompts: Prompt | Iterable[Prompt], **request_options) -> Any:
        """Samples all prompts and waits for them. One prompt gives a `Completion`, several a list of them in the
        prompts' order. Ctrl-C cancels what runs.

        prompts: texts, or dicts with "prompt" (a text), "messages" (a conversation of {"role": ..., "content": ...}) or
        "prompt_tokens" (ids), an "id" of the caller's if need be, and options that differ from the others'.
        With a seed S prompt j has the seed S + j, if it has none of its own.
        """
        is_one = isinstance(prompts, (str, Mapping))
        job = self.submit(prompts, **request_options)
        try:
            completions = sorted(job, key=lambda completion: completion.index)
        except BaseException:
            job.cancel()
            raise
        return completions[0] if is_one else completions

    def chat(self, messages: Sequence[Mapping[str, str]], **request_options) -> Completion:
        """Answers a conversation, by the model's chat template."""
        return self.generate({"messages": [dict(message) for message in messages]}, **request_options)

    def submit(self, prompts: Prompt | Iterable[Prompt], **request_options) -> Job:
        """The same as `generate` without the waiting: a `Job`, to be iterated over."""
        job = Job(self._submit(prompts, request_options))
        self._jobs.add(job)
        return job

    def stream(self, prompt: Prompt | Iterable[Prompt], **request_options) -> Iterator[Piece]:
        """New text of all samples as it comes. Leaving the loop cancels what still runs."""
        job = self._submit(prompt, request_options)
        self._jobs.add(job)
        return _pieces(job)

    def tokenize(self, text: str, add_special: bool = False, parse_special: bool = True) -> list[int]:
        """Token ids. add_special: with the tokens that begin and end texts of this model; parse_special: the text of a
        special token becomes that token."""
        return self._engine.tokenize(text.encode("utf-8"), add_special, parse_special)

    def detokenize(self, token_ids: Iterable[int], errors: str = "replace") -> str:
        """The text of tokens. errors: of bytes that are no UTF-8, as `bytes.decode` takes it."""
        return self.detokenize_bytes(token_ids).decode("utf-8", errors)

    def detokenize_bytes(self, token_ids: Iterable[int]) -> bytes:
        """The bytes of tokens, which need not be valid UTF-8."""
        return self._engine.detokenize(options.token_ids_of(token_ids))

    def score(self, prompt: Prompt) -> Score:
        """Log-probabilities of a text's tokens (of a conversation's, or of token ids; see `generate`)."""
        return score_of(json.loads(self._engine.score(_line(prompt, "prompt"))))

    def info(self) -> dict:
        """Of the model, the draft, and what the engine runs on."""
        return json.loads(self._engine.info())

    def stats(self) -> dict:
        """Sums since the engine was made."""
        return json.loads(self._engine.stats())

    def _submit(self, prompts, request_options) -> _engine.Job:
        options.check_names(request_options, options.REQUEST_OPTIONS, "a request")
        if isinstance(prompts, (str, Mapping)):
            lines, origins = [_line(prompts, "prompt")], [""]
        else:
            lines = [_line(prompt, f"prompts[{i}]") for i, prompt in enumerate(prompts)]
            origins = [f"prompts[{i}]" for i in range(len(lines))]
        return self._engine.submit(lines, options.dumps(request_options, "options"), origins)


def _line(prompt, name) -> str:
    """A prompt as a line of a prompts file."""
    if isinstance(prompt, str):
        return options.dumps({"prompt": prompt}, name)
    if not isinstance(prompt, Mapping):
        raise InvalidArgumentError(
            f"{name}: a {type(prompt).__name__} is no prompt; give a text, or a dict with \"prompt\", \"messages\" or "
            '"prompt_tokens"')
    if "role" in prompt and "messages" not in prompt:
        raise InvalidArgumentError(
            f'{name}: is a message of a conversation; give {{"messages": [...]}}, or use chat()')
    options.check_names(prompt, [*options.PROMPT_KEYS, *options.REQUEST_OPTIONS], name)
    return options.dumps(dict(prompt), name)


def _pieces(job) -> Iterator[Piece]:
    try:
        while (piece := job.next_piece(None)) is not None:
            yield Piece(*piece)
    finally:
        job.cancel()


_open_engines: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """An engine's threads end before the interpreter does."""
    for engine in list(_open_engines):
        engine.close()


def _document() -> None:
    """The options table, in the docstrings; `python -OO` has none."""
    of_requests = options.described(options.REQUEST_OPTIONS)
    if Engine.__doc__ is not None:
        Engine.__doc__ += (f"\nOptions of the engine:\n\n{options.described(options.ENGINE_OPTIONS)}\n"
                           f"\nOptions of requests:\n\n{of_requests}\n")
    if Engine.generate.__doc__ is not None:
        Engine.generate.__doc__ += f"\nOptions:\n\n{of_requests}\n"


_document()
