"""All of a training's state, in one file that is complete or absent."""

import dataclasses
import io
import json
import pathlib
import pickle
import random
from typing import Any

import numpy as np
import torch

from bass_draft.errors import UserError
from bass_draft.files import file_errors, remove_partial_files, write_atomic
from bass_draft.model import DraftModel


@dataclasses.dataclass
class Checkpoint:
    """How far the training is. Weights and the optimizer's state stand beside it in the file."""

    vocabulary: np.ndarray
    seconds: float = 0.0
    n_positions: int = 0  # answer rows, counted each time that they are trained on
    n_updates: int = 0
    epoch: int = 0
    done: list[int] = dataclasses.field(default_factory=list)  # shards of the epoch: there may be more of them next time
    shard: int | None = None  # in work,
    n_batches: int = 0  # and how many batches of it are done
    is_done: bool = False
    loss: str = ""  # in words
    acceptance: dict[str, Any] = dataclasses.field(default_factory=dict)
    matrix_type: str = "q8_0"  # that the training is for
    before: str = ""  # what the draft that it began with was made from, in words
    main: str = ""  # the main model's fingerprint; older checkpoints have neither it
    shape: dict[str, Any] | None = None  # nor the draft's shape

    def begin_shard(self, n_shards: int, seed: int) -> None:
        """Goes on with the one in work, or with the next one, in an order that the seed fixes: each once an epoch, also
        those that have come since."""
        if self.shard is not None and self.shard < n_shards:
            return
        if len(self.done) >= n_shards:
            self.epoch, self.done = self.epoch + 1, []
        order = list(range(n_shards))
        random.Random(f"{seed} epoch {self.epoch}").shuffle(order)
        self.shard = next(shard for shard in order if shard not in self.done)

    def end_shard(self) -> None:
        self.done.append(self.shard)
        self.shard, self.n_batches = None, 0


def checkpoint_path(directory: pathlib.Path) -> pathlib.Path:
    return directory / "checkpoint.pt"


def save_checkpoint(directory: pathlib.Path, model: DraftModel, optimizer: torch.optim.Optimizer,
                    state: Checkpoint) -> None:
    # Numbers as text: what PyTorch 1.13 reads without running code is tensors, texts and integers.
    values = {name: value for name, value in vars(state).items() if name != "vocabulary"}
    content = {"state": json.dumps(values), "vocabulary": torch.from_numpy(state.vocabulary),
               "model": model.state_dict(), "optimizer": optimizer.state_dict()["state"]}
    data = io.BytesIO()  # torch.save would hide why a file cannot be written
    torch.save(content, data)
    write_atomic(checkpoint_path(directory), lambda partial: partial.write_bytes(data.getbuffer()) and None)


def read_checkpoint(directory: pathlib.Path) -> dict[str, Any] | None:
    """None where training has not begun."""
    path = checkpoint_path(directory)
    if not path.exists():
        return None
    with file_errors(path):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
            return {**content, "state": _state(content)}
        except (RuntimeError, EOFError, KeyError, ValueError, TypeError, AttributeError, pickle.UnpicklingError) as error:
            raise UserError(f"{path}: not a whole checkpoint ({error}); delete it") from error


def _state(content: dict[str, Any]) -> Checkpoint:
    names = {field.name for field in dataclasses.fields(Checkpoint)}  # another version may have had others
    values = {name: value for name, value in json.loads(content["state"]).items() if name in names}
    return Checkpoint(vocabulary=content["vocabulary"].numpy(), **values)


def load_checkpoint(directory: pathlib.Path, model: DraftModel, optimizer: torch.optim.Optimizer,
                    vocabulary: np.ndarray) -> Checkpoint:
    """Fills model and optimizer from the folder's checkpoint; a new one if there is none."""
    remove_partial_files(directory)
    content = read_checkpoint(directory)
    if content is None:
        return Checkpoint(vocabulary)
    try:
        model.load_state_dict(content["model"])
        optimizer.load_state_dict({**optimizer.state_dict(), "state": content["optimizer"]})
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{checkpoint_path(directory)}: is of a draft of another shape; give another --work folder"
                        ) from error
    return content["state"]
