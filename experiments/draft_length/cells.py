"""The cells of the study: what is generated, how many sequences at once, with which drafts; and their prompts."""

import dataclasses
import itertools
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "drafts"))
import prompts as public_prompts  # noqa: E402

TASKS = {"code": "code", "chat": "chat", "summarisation": "summarization", "translation": "translation"}
BATCHES = (1, 4, 8, 32)
FIXED = tuple(f"fixed:{length}" for length in range(1, 9))
POLICIES = ("off", *FIXED, "bass", "survival", "goodput")
_MAX_CHARACTERS = 3000  # of a prompt that is not of the cells of long ones: prefill is not measured, but takes time
_LONG_CHARACTERS = (10000, 17500)  # 2,000 to 4,000 tokens
_LONGER_CHARACTERS = (17500, 18200)
_LONG_REQUEST = "\n\nSummarise the passages above in your own words, one after the other."
_MIN_PROMPTS = 4
_LONG = "long"  # prompts
_LONGER = "4k"  # prompts, each at least as long, and answers
_MIXED = "mixed"  # tasks in one batch
_LONG_FORM = "long-form"  # answers
_MIN_TOKENS = {
    _LONG: 256,  # so that all sequences run together for a while: their prompts are read one by one
    _LONG_FORM: 1024,
    _LONGER: 1024,
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """`draft`: shipped, poor, or none (n-grams alone). `every`: it takes part in each so-many-th round. `policies`: those
    alone, as more engines do not fit into memory together; none named: all."""

    task: str
    batch: int
    temperature: float
    draft: str = "shipped"
    every: int = 1
    policies: tuple = ()

    @property
    def name(self):
        draft = "" if self.draft == "shipped" else f", {self.draft} draft"
        return f"{self.task}, batch {self.batch}, T={self.temperature:g}{draft}"

    def takes(self, policy):
        return not self.policies or policy in self.policies

    @property
    def n_prompts(self):
        return max(self.batch, _MIN_PROMPTS)

    @property
    def min_tokens(self):
        return _MIN_TOKENS.get(self.task, 0)


def all_cells():
    """The 32 cells of tasks; those of other drafts, on chat; of batches that mix the tasks; and of long contexts and
    answers."""
    cells = [Cell(task, batch, temperature) for task in TASKS for batch in BATCHES for temperature in (0.0, 0.8)]
    cells += [Cell("chat", batch, 0.8, draft) for draft in ("poor", "none") for batch in (1, 8, 32)]
    cells += [Cell(_MIXED, batch, 0.8) for batch in (4, 8, 32)]
    cells += [Cell(_LONG_FORM, batch, 0.8, every=2, policies=("off", "fixed:1", "fixed:2", "fixed:3", "bass", "goodput"))
              for batch in (1, 8)]
    # Their prompts take a minute each, and 32 of them 4 GB an engine.
    cells += [Cell(_LONG, 8, 0.0, every=2), Cell(_LONG, 8, 0.8, every=2),
              *(Cell(_LONG, 32, temperature, every=4, policies=("off", "fixed:1", "fixed:2", "bass", "goodput"))
                for temperature in (0.0, 0.8))]
    cells += [Cell(_LONGER, 8, temperature, every=2,
                   policies=("off", *FIXED, "bass", "goodput"))
              for temperature in (0.0, 0.8)]
    return cells


def quick_cells():
    return [Cell("code", 1, 0.0), Cell("chat", 8, 0.8)]


def load_prompts(spec_bench):
    """{task: [prompt]}; a prompt is a line for `bass generate` without options."""
    lines = [*public_prompts.human_eval(), *public_prompts.spec_bench(spec_bench)]
    by_task = {task: [line for line in lines if line["task"] == theirs and len(line["prompt"]) <= _MAX_CHARACTERS]
               for task, theirs in TASKS.items()}
    by_task[_MIXED] = [line for lines_of_all in zip(*(by_task[task] for task in TASKS), strict=False)
                       for line in lines_of_all]
    by_task[_LONG_FORM] = by_task["chat"]
    passages = [line["prompt"] for line in lines if line["task"] in ("rag", "summarization")]
    by_task[_LONG] = long_prompts(passages, _LONG_CHARACTERS)
    by_task[_LONGER] = long_prompts(passages, _LONGER_CHARACTERS)
    return {task: [{"prompt": line["prompt"], "chat": line["chat"]} for line in of_task]
            for task, of_task in by_task.items()}


def long_prompts(texts, n_characters=_LONG_CHARACTERS, n=64):
    """Each begins at another text and is as long as its number says, from the least to the most of n_characters, so
    that contexts of a batch differ."""
    low, high = n_characters
    long = []
    for number in range(n if texts else 0):
        limit = low + (high - low) * (number * 7 % 16) // 15
        joined = ""
        for text in itertools.islice(itertools.cycle(texts), number * 3, None):
            joined += text + "\n\n"
            if len(joined) >= limit:
                break
        long.append({"prompt": joined[:limit] + _LONG_REQUEST, "chat": True})
    return long


def prompts_of(cell, by_task, round_number):
    """The same for all policies of a round; the next round has the next ones."""
    known = by_task[cell.task]
    if not known:
        sys.exit(f"no prompts for {cell.task}; see --help")
    first = round_number * cell.n_prompts
    return [{**known[(first + i) % len(known)], "id": f"{cell.task}/{first + i}"} for i in range(cell.n_prompts)]
