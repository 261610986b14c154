"""`bass-draft generate`: the main model's own text, in shards. A shard depends only on the settings and on the shard
before it, so a run that was killed goes on where it was and ends with the same data."""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from bass_draft import text_shards
from bass_draft.budget import Budget
from bass_draft.engine import Engine
from bass_draft.errors import UserError
from bass_draft.files import read_json, remove_partial_files, write_json
from bass_draft.main_model import MainModel
from bass_draft.progress import progress_bar
from bass_draft.prompt_tokens import PromptTokenizer
from bass_draft.prompts import Prompt, PromptGenerator, named_in_errors, read_prompt_file
from bass_draft.prompts.generator import TEMPERATURES
from bass_draft.settings import compare_settings, note_settings
from bass_draft.text_shards import Text

_PASSAGE_TASKS = ("question", "writing", "short question", "text completion")
_PASSAGE_LETTERS = (200, 2000)


@dataclasses.dataclass(frozen=True)
class GenerateOptions:
    """What is generated. All but the last two decide the data."""

    seed: int = 1
    n_shard_prompts: int = 192
    max_tokens: int = 256
    is_chat: bool = True  # False: nothing is put into the chat template
    prompts: pathlib.Path | None = None
    max_batch: int = 48
    draft: str | None = None


class TextGenerator:
    """Fills `directory` with shards of the main model's text. Nothing is written there before run()."""

    def __init__(self, engine: Engine, main: MainModel, directory: pathlib.Path, options: GenerateOptions):
        self._engine = engine
        self._directory = directory
        self._options = options
        self._tokenizer = PromptTokenizer(engine, main)
        self._generator = PromptGenerator(options.seed)
        self._own = read_prompt_file(options.prompts, TEMPERATURES, options.seed) if options.prompts else []
        # A token is a letter at least, and a prompt may hold two passages.
        self._max_passage = min(_PASSAGE_LETTERS[1], (main.n_context - options.max_tokens) // 2 - 100)
        self._is_chat = options.is_chat and main.chat_template is not None
        self._fingerprint = main.fingerprint
        self._check(compare_settings)

    def _check(self, check: Callable[..., None]) -> None:
        options = self._options
        n_shards = text_shards.n_shards(self._directory)
        check(self._directory / "settings.json", {
            "model": self._fingerprint, "seed": options.seed, "shard_prompts": options.n_shard_prompts,
            "max_tokens": options.max_tokens, "chat": self._is_chat,
            "prompts": [dataclasses.astuple(prompt) for prompt in self._own]},
            is_begun=n_shards > 0, n_used={"prompts": n_shards * options.n_shard_prompts})

    def run(self, budget: Budget) -> int:
        """Makes shards until the budget is used up, counting what earlier runs used. Returns the number of tokens. For who has
        the folder's lock."""
        self._check(note_settings)
        remove_partial_files(self._directory)
        state_path = self._directory / "progress.json"
        used_s = (read_json(state_path) or {"seconds": 0.0})["seconds"]
        n_done = sum(len(text.ids) for texts in text_shards.read_all(self._directory) for text in texts)
        index = text_shards.n_shards(self._directory)
        with progress_bar("generating", budget, used_s, n_done) as bar:
            while not budget.is_spent(used_s, n_done, next_s=used_s / index / 2 if index else 0.0):
                start = time.monotonic()
                texts = self._shard(index)
                text_shards.write_shard(self._directory, index, texts)
                used_s += time.monotonic() - start
                n_done += sum(len(text.ids) for text in texts)
                index += 1
                write_json(state_path, {"seconds": used_s})
                bar.update_to(used_s, n_done)
        return n_done

    def _shard(self, index: int) -> list[Text]:
        prompts = list(self._prompts(index))
        with named_in_errors(self._options.prompts, self._own, index * self._options.n_shard_prompts):
            result = self._engine.generate([self._line(prompt) for prompt in prompts], self._options.max_batch,
                                           self._options.draft)
        answers = result["prompts"]
        ids = self._tokenizer.tokenize(prompts, [answer["n_prompt_tokens"] for answer in answers])
        return [_text(prompt, prompt_ids, answer["choices"][0])
                for prompt, prompt_ids, answer in zip(prompts, ids, answers)]

    def _prompts(self, index: int) -> Iterator[Prompt]:
        """A user's own prompts come first, as often as there are shards for them; ours fill the rest."""
        first = index * self._options.n_shard_prompts
        passages = self._passages(index)
        for number in range(first, first + self._options.n_shard_prompts):
            if number < len(self._own):
                yield dataclasses.replace(self._own[number], is_chat=self._own[number].is_chat and self._is_chat)
            else:
                prompt = self._generator.prompt(number - len(self._own), passages)
                yield dataclasses.replace(prompt, is_chat=prompt.is_chat and self._is_chat)

    def _passages(self, index: int) -> list[str]:
        """Texts of the shard before this one that later prompts can be about."""
        if index == 0:
            return []
        answers = (text.answer.strip() for text in text_shards.read_shard(self._directory, index - 1)
                   if text.task in _PASSAGE_TASKS)
        return [answer for answer in answers if _PASSAGE_LETTERS[0] <= len(answer) < self._max_passage]

    def _line(self, prompt: Prompt) -> dict[str, Any]:
        return {"prompt": prompt.text, "chat": prompt.is_chat, "temperature": prompt.temperature, "seed": prompt.seed,
                "max_tokens": self._options.max_tokens if prompt.max_tokens is None else prompt.max_tokens}


def _text(prompt: Prompt, prompt_ids: list[int], choice: dict[str, Any]) -> Text:
    if choice["finish_reason"] not in ("stop", "length"):
        raise UserError(f"the engine ended an answer with \"{choice['finish_reason']}\": {prompt.text[:60]!r}", 1)
    return Text(prompt.task, prompt_ids, choice["token_ids"], prompt.temperature, choice["text"])
