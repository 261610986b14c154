"""The engine for Python: many sequences of one language model at once, with speculation."""

import asyncio
import atexit
import json
import logging
import operator
import os
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from bass import _engine, options
from bass.errors import InvalidArgumentError
from bass.results import Completion, Piece, Score, completion_of, score_of

Prompt = str | Mapping[str, Any] | Sequence[int]
_ASYNC_LOOK_S = 0.005  # an event loop looks so often whether there is something new
_log = logging.getLogger("bass")


class Job:
    """Prompts that run. Iterating over it, plainly or with `async for`, gives each prompt's `Completion` as soon as all
    its samples have ended, once. Letting go of it cancels what still runs."""

    def __init__(self, job: _engine.Job):
        self._job = job

    def __repr__(self) -> str:
        return f"<bass.Job, {'done' if self.is_done() else 'running'}>"

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
        text = await _news(self._job, self._job.next_ended)
        return completion_of(json.loads(text))

    def next(self, timeout: float | None = None) -> Completion | None:
        """The next prompt that has ended; None when all have been told. TimeoutError: none ended within `timeout`
        seconds. What a signal's handler raises while it waits (Ctrl-C: KeyboardInterrupt) cancels what runs."""
        text = self._job.next_ended(None if timeout is None else float(timeout))
        if text is None and not self._job.is_done():
            raise TimeoutError(f"no prompt has ended within {timeout} s")
        return None if text is None else completion_of(json.loads(text))

    def cancel(self) -> None:
        """Ends what runs soon: samples keep what they have, with the finish reason "cancelled"."""
        self._job.cancel()

    def is_done(self) -> bool:
        """Whether all completions have been taken."""
        return self._job.is_done()


class Stream:
    """New text of samples as it comes: iterate over it, plainly or with `async for`. Letting go of it cancels what
    still runs, and so does leaving its loop, where nothing else holds it."""

    def __init__(self, job: _engine.Job):
        self._job = job

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        piece = self._job.next_piece(None)
        if piece is None:
            raise StopIteration
        return Piece(*piece)

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        return Piece(*await _news(self._job, self._job.next_piece))

    def cancel(self) -> None:
        """Ends what runs soon; the last pieces say so."""
        self._job.cancel()


async def _news(job: _engine.Job, take) -> Any:
    """What take(timeout) gives. It is taken by the loop itself, so that a task that is cancelled loses nothing."""
    while (news := take(0.0)) is None:
        if job.is_done():
            raise StopAsyncIteration
        await asyncio.sleep(_ASYNC_LOOK_S)
    return news


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
        self._system = engine_options.get("system")
        self._engine = _engine.Engine(options.dumps(given))
        self._name = given["model"]
        _open_engines.add(self)
        for note in self._engine.notes():
            _log.warning("%s", note)

    def __repr__(self) -> str:
        return f"<bass.Engine of {self._name}{'' if self.is_open else ', closed'}>"

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Cancels what runs, in other threads too, and frees the memory as soon as jobs have told that. Again: does
        nothing."""
        self._engine.close()

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return self._engine.is_open()

    @overload
    def generate(self, prompts: str | Mapping[str, Any], **request_options: Any) -> Completion: ...

    @overload
    def generate(self, prompts: Iterable[Prompt], **request_options: Any) -> list[Completion]: ...

    def generate(self, prompts, **request_options):
        """Samples all prompts and waits for them. One text or dict gives a `Completion`, several prompts a list of them
        in the prompts' order. Ctrl-C cancels what runs.

        prompts: texts, lists of token ids, or dicts with "prompt" (a text), "messages" (a conversation of {"role": ...,
        "content": ...}) or "prompt_tokens" (ids), an "id" of the caller's if need be, and options that differ from the
        others'. With a seed S prompt j has the seed S + j, if it has none of its own. None stands for an option's
        default, whatever was given elsewhere.
        """
        job = self.submit(prompts, **request_options)
        try:
            return _in_order(prompts, list(job))
        except BaseException:
            job.cancel()
            raise

    async def generate_async(self, prompts, **request_options):
        """The same for `asyncio`. A task that is cancelled cancels what runs."""
        job = self.submit(prompts, **request_options)
        try:
            return _in_order(prompts, [completion async for completion in job])
        except BaseException:
            job.cancel()
            raise

    @overload
    def chat(self, messages: Sequence[Mapping[str, Any]],  # type: ignore[overload-overlap]
             **request_options: Any) -> Completion: ...

    @overload
    def chat(self, messages: Sequence[Sequence[Mapping[str, Any]]], **request_options: Any) -> list[Completion]: ...

    def chat(self, messages, **request_options):
        """Answers a conversation, or each of several, by the model's chat template. system: a message in front."""
        system = request_options.pop("system", self._system)
        if isinstance(messages, (str, Mapping)) or not messages:
            raise InvalidArgumentError('messages: must be a list like [{"role": "user", "content": "Hello"}]')
        is_one = isinstance(messages[0], Mapping)
        first = [] if system is None else [{"role": "system", "content": system}]
        prompts = [{"messages": [*first, *conversation]} for conversation in ([messages] if is_one else messages)]
        completions = self.generate(prompts, **request_options)
        return completions[0] if is_one else completions

    def submit(self, prompts: Prompt | Iterable[Prompt], **request_options) -> Job:
        """The same as `generate` without the waiting: a `Job`, to be iterated over."""
        return Job(self._submit(prompts, request_options))

    def stream(self, prompts: Prompt | Iterable[Prompt], **request_options) -> Stream:
        """New text of all samples as it comes."""
        return Stream(self._submit(prompts, request_options))

    def tokenize(self, text: str, add_special: bool = False, parse_special: bool = True) -> list[int]:
        """Token ids. add_special: with the tokens that begin and end texts of this model; parse_special: the text of a
        special token becomes that token."""
        return self._engine.tokenize(options.utf8_of(text, "text"), add_special, parse_special)

    @overload
    def prompt_tokens(self, prompts: str | Mapping[str, Any]) -> list[int]: ...  # type: ignore[overload-overlap]

    @overload
    def prompt_tokens(self, prompts: Iterable[Prompt]) -> list[list[int]]: ...

    def prompt_tokens(self, prompts):
        """What the model would read of a prompt, or of each of several (see `generate`): token ids, of a conversation with
        what the chat template writes around it."""
        ids = self._engine.prompt_tokens(*_lines(prompts, options.READ_KEYS))
        return ids[0] if _is_one(prompts) else ids

    def detokenize(self, token_ids: Iterable[int], errors: str = "replace") -> str:
        """The text of tokens. errors: of bytes that are no UTF-8, as `bytes.decode` takes it."""
        return self.detokenize_bytes(token_ids).decode("utf-8", errors)

    def detokenize_bytes(self, token_ids: Iterable[int]) -> bytes:
        """The bytes of tokens, which need not be valid UTF-8."""
        return self._engine.detokenize(options.token_ids_of(token_ids))

    @overload
    def score(self, prompts: str | Mapping[str, Any]) -> Score: ...  # type: ignore[overload-overlap]

    @overload
    def score(self, prompts: Iterable[Prompt]) -> list[Score]: ...

    def score(self, prompts):
        """Log-probabilities of a text's tokens (of a conversation's, or of token ids; see `generate`), or of each of
        several."""
        scores = [score_of(values) for values in json.loads(self._engine.score(*_lines(prompts, options.READ_KEYS)))]
        return scores[0] if _is_one(prompts) else scores

    def info(self) -> dict:
        """Of the model, the draft, and what the engine runs on."""
        return json.loads(self._engine.info())

    def stats(self) -> dict:
        """Sums since the engine was made."""
        return json.loads(self._engine.stats())

    def _submit(self, prompts, request_options) -> _engine.Job:
        options.check_names(request_options, options.REQUEST_OPTIONS, "a request")
        lines, origins = _lines(prompts, [*options.PROMPT_KEYS, *options.REQUEST_OPTIONS])
        return self._engine.submit(lines, options.dumps(request_options), origins)


_WHAT_PROMPTS_ARE = 'give a text, a list of token ids, or a dict with "prompt", "messages" or "prompt_tokens"'


def _is_one(prompts) -> bool:
    return isinstance(prompts, (str, Mapping))


def _in_order(prompts, completions):
    """As the prompts are; of one prompt the completion itself."""
    completions.sort(key=lambda completion: completion.index)
    return completions[0] if _is_one(prompts) else completions


def _lines(prompts, known) -> tuple[list[str], list[str]]:
    """Each prompt as a line of a prompts file, and what messages call it."""
    if _is_one(prompts):
        return [_line(prompts, known, "prompt")], [""]
    if isinstance(prompts, (bytes, bytearray)):
        raise InvalidArgumentError(f"prompts: {type(prompts).__name__} is no text; decode it first, as with .decode(\"utf-8\")")
    if not isinstance(prompts, Iterable):
        raise InvalidArgumentError(f"prompts: {type(prompts).__name__} is no prompt; {_WHAT_PROMPTS_ARE}, or several in a list")
    lines = [_line(prompt, known, f"prompts[{i}]") for i, prompt in enumerate(prompts)]
    return lines, [f"prompts[{i}]" for i in range(len(lines))]


def _line(prompt, known, name) -> str:
    if isinstance(prompt, str):
        prompt = {"prompt": prompt}
    elif not isinstance(prompt, Mapping):
        prompt = {"prompt_tokens": _token_ids(prompt, name)}
    elif "role" in prompt and "messages" not in prompt:
        raise InvalidArgumentError(
            f'{name}: is a message of a conversation; give {{"messages": [...]}}, or use chat()')
    elif prompt.get("prompt_tokens") is not None and not isinstance(prompt["prompt_tokens"], str):
        prompt = {**prompt, "prompt_tokens": list(prompt["prompt_tokens"])}
    options.check_names(prompt, known, name)
    return options.dumps(prompt, f"{name}: ")


def _token_ids(values, name) -> list[int]:
    try:
        if isinstance(values, (bytes, bytearray)):
            raise TypeError
        values = list(values)
    except TypeError:
        mend = ("a single prompt of token ids is a list in a list, or a dict with \"prompt_tokens\"" if isinstance(values, int)
                else _WHAT_PROMPTS_ARE)
        raise InvalidArgumentError(f"{name}: {type(values).__name__} is no prompt; {mend}") from None
    for value in values:
        if not options.is_token_id(value):
            raise InvalidArgumentError(f"{name}: {value!r} is no token id; {_WHAT_PROMPTS_ARE}")
    return [operator.index(value) for value in values]


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
