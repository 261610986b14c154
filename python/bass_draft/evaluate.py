"""`bass-draft eval`: what a draft's proposals are worth, on the main model's own answers to given prompts."""

import dataclasses
import pathlib
import tempfile
from typing import Any

from bass_draft.batches import Example, draft_indices
from bass_draft.device import choose_device
from bass_draft.engine import Engine
from bass_draft.features import FeatureStore
from bass_draft.initial import DraftFile, build_model
from bass_draft.main_model import MainModel
from bass_draft.measure import measure
from bass_draft.prompt_tokens import PromptTokenizer
from bass_draft.prompts import Prompt, read_prompt_file

_N_TOP = 64


def evaluate(engine: Engine, main: MainModel, draft_path: pathlib.Path, prompts: pathlib.Path, n_steps: int, max_tokens: int,
             seed: int, device: str, max_batch: int = 32) -> dict[str, Any]:
    """{"temperature_1": {TASK: figures}, "temperature_0": {TASK: figures}}, the tasks with "all". At temperature 1
    acceptance is the mean of sum min(p, q) on sampled answers, at 0 the agreement on greedy ones; [position] each."""
    draft = DraftFile(draft_path)
    draft.check_main(main)
    vocabulary = draft.vocabulary()
    model = build_model(main, draft.shape(), vocabulary, seed)
    draft.load_into(model)
    model = model.to(choose_device(device)).eval()
    indices = draft_indices(vocabulary, main.n_vocab)
    report: dict[str, Any] = {"draft": str(draft_path), "model": main.name, "prompts": str(prompts)}
    for temperature in (1.0, 0.0):
        asked = [dataclasses.replace(prompt, temperature=temperature)
                 for prompt in read_prompt_file(prompts, (temperature,), seed)]
        examples = _answers(engine, main, asked, draft.shape().tap_layers, max_tokens, max_batch)
        found = measure(model, examples, indices, n_steps, choose_device(device))
        kind = f"{temperature:.0f}"
        report[f"temperature_{kind}"] = {task: _figures(acceptance.as_json(), kind) for task, acceptance in found.items()}
    return report


def _figures(values: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"acceptance": values[f"temperature_{kind}"], "tokens_per_round": values[f"tokens_per_round_{kind}"],
            "rows": values["rows"]}


def _answers(engine: Engine, main: MainModel, prompts: list[Prompt], layers: tuple[int, ...], max_tokens: int,
             max_batch: int) -> list[tuple[str, Example]]:
    lines = [{"prompt": prompt.text, "chat": prompt.is_chat and main.chat_template is not None,
              "temperature": prompt.temperature, "seed": prompt.seed, "max_tokens": prompt.max_tokens or max_tokens}
             for prompt in prompts]
    prompts = [dataclasses.replace(prompt, is_chat=line["chat"]) for prompt, line in zip(prompts, lines)]
    answers = engine.generate(lines, max_batch)["prompts"]
    prompt_ids = PromptTokenizer(engine, main).tokenize(prompts, [answer["n_prompt_tokens"] for answer in answers])
    texts = [ids + answer["choices"][0]["token_ids"] for ids, answer in zip(prompt_ids, answers)]
    with tempfile.TemporaryDirectory() as directory:
        store = FeatureStore(engine, pathlib.Path(directory), layers, _N_TOP, 0)
        features = store.load("eval", texts)
        store.release("eval")  # the mapping keeps what it shows
    return [(prompt.task, Example(feature, max(len(ids) - 1, 0)))
            for prompt, ids, feature in zip(prompts, prompt_ids, features)]
