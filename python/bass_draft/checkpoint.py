"""All of a training's state, in one file that is complete or absent."""

import dataclasses
import io
import json
import pathlib
import pickle
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
    n_shards_done: int = 0  # over all epochs
    n_batches: int = 0  # of the present shard
    is_done: bool = False
    loss: str = ""  # in words
    acceptance: dict[str, Any] = dataclasses.field(default_factory=dict)


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
    remove_partial_files(directory)
    path = checkpoint_path(directory)
    if not path.exists():
        return None
    with file_errors(path):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, KeyError, pickle.UnpicklingError) as error:
            raise UserError(f"{path}: not a whole checkpoint ({error}); delete it") from error
    content["state"] = Checkpoint(vocabulary=content["vocabulary"].numpy(), **json.loads(content["state"]))
    return content


def load_checkpoint(directory: pathlib.Path, model: DraftModel, optimizer: torch.optim.Optimizer,
                    vocabulary: np.ndarray) -> Checkpoint:
    """Fills model and optimizer from the folder's checkpoint; a new one if there is none."""
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
