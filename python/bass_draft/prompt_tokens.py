"""The token ids of prompts, exactly as the engine makes them: it reports only how many there are."""

import functools
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import jinja2
import jinja2.ext
import jinja2.sandbox

from bass_draft.engine import Engine
from bass_draft.errors import UserError
from bass_draft.main_model import MainModel
from bass_draft.prompts import Prompt


class PromptTokenizer:
    """Tokenizes many prompts with few runs of the engine, and checks each against the engine's count."""

    def __init__(self, engine: Engine, main: MainModel):
        self._engine = engine
        self._separators = main.separators()
        self._chat_template = main.chat_template
        self._special = {"bos_token": main.token_text(main.bos_id), "eos_token": main.token_text(main.eos_id)}

    @functools.cached_property
    def _template(self) -> jinja2.Template:
        """Read when a prompt needs it: what has no chat prompts can do with any."""
        if self._chat_template is None:
            raise UserError("the model has no chat template; use prompts with \"chat\": false or give --no-chat")
        return _compile(self._chat_template)

    def tokenize(self, prompts: Sequence[Prompt], n_tokens: Sequence[int]) -> list[list[int]]:
        """The ids of each prompt. `n_tokens` are the engine's counts of them."""
        ids: list[list[int]] = [[] for _ in prompts]
        for is_chat in (True, False):
            places = [place for place, prompt in enumerate(prompts) if prompt.is_chat == is_chat]
            texts = [self._text(prompts[place]) for place in places]
            for place, found in zip(places, self._together(texts, add_special=not is_chat)):
                ids[place] = found
        for place, prompt in enumerate(prompts):
            if len(ids[place]) != n_tokens[place]:
                ids[place] = self._alone(prompt, n_tokens[place])
        return ids

    def _text(self, prompt: Prompt) -> str:
        if not prompt.is_chat:
            return prompt.text
        try:
            return self._template.render(messages=[{"role": "user", "content": prompt.text}], add_generation_prompt=True,
                                         tools=None, documents=None, strftime_now=_strftime_now,
                                         raise_exception=_refuse, **self._special)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise UserError(f"the model's chat template cannot be read ({error}); give --no-chat") from error

    def _together(self, texts: Sequence[str], add_special: bool) -> list[list[int]]:
        """All texts at once, with a control token between them that none of them has. It cuts a text before anything is
        merged, so in nearly all tokenizers the pieces come out as they do alone; where they do not, the counts tell."""
        separator = next((found for found in self._separators if not any(found[1] in text for text in texts)), None)
        if not texts or separator is None:
            return [[] for _ in texts]
        separator_id, separator_text = separator
        ids = self._engine.tokenize(separator_text.join(texts), add_special=False)
        begin = self._engine.tokenize("", add_special=True) if add_special else []
        pieces: list[list[int]] = [[]]
        for token in ids:
            if token == separator_id:
                pieces.append([])
            else:
                pieces[-1].append(token)
        return [begin + piece for piece in pieces] if len(pieces) == len(texts) else [[] for _ in texts]

    def _alone(self, prompt: Prompt, n_tokens: int) -> list[int]:
        ids = self._engine.tokenize(self._text(prompt), add_special=not prompt.is_chat)
        if len(ids) != n_tokens:
            raise UserError(f"a prompt has {n_tokens} tokens in the engine, {len(ids)} here; its chat template is not "
                            f"understood (use --no-chat), or this is a defect: {prompt.text[:60]!r}", 1)
        return ids


class _Generation(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %}: transformers' mark of what the assistant wrote; the text stays."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        return jinja2.nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None,
            separators: tuple[str, str] | None = None, sort_keys: bool = False) -> str:
    """transformers' and the engine's: jinja's own one is for HTML, and sorts."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _compile(source: str) -> jinja2.Template:
    """With the settings that chat templates are written for."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                               extensions=["jinja2.ext.loopcontrols", _Generation])
    environment.filters["tojson"] = _tojson
    return environment.from_string(source)


def _refuse(message: str) -> None:
    raise UserError(f"the model's chat template refuses the prompt: {message}")


_strftime_now: Callable[[str], str] = lambda form: datetime.now().strftime(form)
