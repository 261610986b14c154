"""`bass-draft eval`: what a draft's proposals are worth, on the main model's own answers to given prompts."""

import dataclasses
import pathlib
import tempfile
from typing import Any

import numpy as np

from bass_draft.batches import Example, draft_indices
from bass_draft.device import choose_device
from bass_draft.engine import Engine
from bass_draft.features import FeatureStore
from bass_draft.files import file_errors, temporary_folder
from bass_draft.initial import DraftFile, build_model
from bass_draft.main_model import MainModel
from bass_draft.measure import measure
from bass_draft.model import DraftModel
from bass_draft.prompt_tokens import PromptTokenizer
from bass_draft.prompts import named_in_errors, read_prompt_file
from bass_draft.shape import DraftShape

_N_TOP = 1024  # as many as the engine gives: at temperature 1 the 64 likeliest hold no more than 0.87 of the mass


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    n_steps: int = 4  # drafted positions
    max_tokens: int = 128  # of an answer
    max_batch: int = 32
    seed: int = 1
    device: str = "auto"
    is_chat: bool = True  # False: nothing is put into the chat template


def evaluate(engine: Engine, main: MainModel, draft_path: pathlib.Path, prompts: pathlib.Path,
             options: EvalOptions) -> dict[str, Any]:
    """{"temperature_1": {TASK: figures}, "temperature_0": {TASK: figures}}, the tasks with "all". At temperature 1
    acceptance is the mean of sum min(p, q) on sampled answers, at 0 the agreement on greedy ones; [position] each."""
    shape, model, indices = load_draft(main, draft_path, options.seed)
    device = choose_device(options.device)
    model = model.to(device)
    report: dict[str, Any] = {"draft": str(draft_path), "model": main.name, "prompts": str(prompts)}
    for temperature in (1.0, 0.0):
        examples = answer_examples(engine, main, prompts, temperature, shape.tap_layers, options)
        found = measure(model, examples, indices, options.n_steps, device)
        kind = f"{temperature:.0f}"
        report[f"temperature_{kind}"] = {task: _figures(values.as_json(), kind) for task, values in found.items()}
    return report


def load_draft(main: MainModel, path: pathlib.Path, seed: int) -> tuple[DraftShape, DraftModel, np.ndarray]:
    """A draft's file to be measured beside its main model, and the draft's index of each of the main model's tokens."""
    draft = DraftFile(path)
    draft.check_main(main)
    vocabulary = draft.vocabulary()
    model = build_model(main, draft.shape(), vocabulary, seed)
    draft.load_into(model)
    return draft.shape(), model.eval(), draft_indices(vocabulary, main.n_vocab)


def _figures(values: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"acceptance": values[f"temperature_{kind}"], "tokens_per_round": values[f"tokens_per_round_{kind}"],
            "rows": values["rows"]}


def answer_examples(engine: Engine, main: MainModel, prompt_file: pathlib.Path, temperature: float, layers: tuple[int, ...],
                    options: EvalOptions) -> list[tuple[str, Example]]:
    """(task, prompt and answer with the main model's features) of each prompt of a file, all answered at one temperature."""
    prompts = [dataclasses.replace(prompt, temperature=temperature)
               for prompt in read_prompt_file(prompt_file, (temperature,), options.seed)]
    is_chat = options.is_chat and main.chat_template is not None
    lines = [{"prompt": prompt.text, "chat": prompt.is_chat and is_chat,
              "temperature": prompt.temperature, "seed": prompt.seed,
              "max_tokens": options.max_tokens if prompt.max_tokens is None else prompt.max_tokens}
             for prompt in prompts]
    prompts = [dataclasses.replace(prompt, is_chat=line["chat"]) for prompt, line in zip(prompts, lines)]
    with named_in_errors(prompt_file, prompts):
        answers = engine.generate(lines, options.max_batch)["prompts"]
    prompt_ids = PromptTokenizer(engine, main).tokenize(prompts, [answer["n_prompt_tokens"] for answer in answers])
    texts = [ids + answer["choices"][0]["token_ids"] for ids, answer in zip(prompt_ids, answers)]
    with file_errors(temporary_folder()), tempfile.TemporaryDirectory() as directory:
        store = FeatureStore(engine, pathlib.Path(directory), layers, _N_TOP, 0)
        first = [max(len(ids) - 1, 0) for ids in prompt_ids]
        features = store.load("eval", texts, first)
        store.release("eval")  # the mapping keeps what it shows
    return [(prompt.task, Example(feature)) for prompt, feature in zip(prompts, features)]
