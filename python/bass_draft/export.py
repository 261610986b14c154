"""A draft as a GGUF file that the engine reads: docs/drafts.md describes it."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping

import gguf
import numpy as np

from bass_draft.errors import UserError
from bass_draft.files import write_atomic
from bass_draft.main_model import GROUP, MainModel
from bass_draft.shape import DraftShape

TYPES = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0,
         "f16": gguf.GGMLQuantizationType.F16, "f32": gguf.GGMLQuantizationType.F32}
_PREFIX = "bass-draft."


@dataclasses.dataclass(frozen=True)
class Origin:
    """How a draft was made, in words."""

    data: str
    loss: str
    acceptance: Mapping[str, object]
    n_positions: int


def write_draft(path: pathlib.Path, tensors: Mapping[str, np.ndarray], shape: DraftShape, vocabulary: np.ndarray,
                main: MainModel, origin: Origin, matrix_type: str = "q8_0") -> None:
    """tensors: GGUF name -> float32, matrices [n_out, n_in]. `path` is replaced when all is written."""
    if matrix_type not in TYPES:
        raise UserError(f"--type {matrix_type}: must be one of {', '.join(TYPES)}")

    def write(partial: pathlib.Path) -> None:
        writer = gguf.GGUFWriter(str(partial), "bass-draft")
        _add_metadata(writer, shape, vocabulary, main, origin)
        for name, values in tensors.items():
            _add_tensor(writer, name, np.ascontiguousarray(values, np.float32), TYPES[matrix_type])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    write_atomic(path, write)


def _add_tensor(writer: gguf.GGUFWriter, name: str, values: np.ndarray, matrix_type: gguf.GGMLQuantizationType) -> None:
    if values.ndim == 1 or matrix_type == gguf.GGMLQuantizationType.F32:
        writer.add_tensor(name, values)
        return
    if values.shape[1] % GROUP != 0:
        matrix_type = gguf.GGMLQuantizationType.F16  # its rows are no whole groups
    writer.add_tensor(name, gguf.quants.quantize(values, matrix_type), raw_dtype=matrix_type)


def _add_metadata(writer: gguf.GGUFWriter, shape: DraftShape, vocabulary: np.ndarray, main: MainModel,
                  origin: Origin) -> None:
    writer.add_type("draft")
    writer.add_name(f"Draft for {main.name}")
    if main.license:
        writer.add_license(main.license)
    for key, value in _sizes(shape).items():
        writer.add_uint32(_PREFIX + key, value)
    writer.add_float32(_PREFIX + "attention.layer_norm_rms_epsilon", shape.norm_epsilon)
    writer.add_float32(_PREFIX + "rope.freq_base", shape.rope_base)
    if shape.tap_layers:
        writer.add_array(_PREFIX + "tap_layers", [int(layer) for layer in shape.tap_layers])
    if shape.head_type != "main":
        writer.add_string(_PREFIX + "main.head_type", shape.head_type)
    if len(vocabulary) < shape.main_n_vocab:
        writer.add_array(_PREFIX + "vocabulary", [int(token) for token in vocabulary])
    writer.add_string(_PREFIX + "main.name", main.name)
    writer.add_string(_PREFIX + "main.fingerprint", main.fingerprint)
    writer.add_string(_PREFIX + "training.data", origin.data)
    writer.add_string(_PREFIX + "training.loss", origin.loss)
    writer.add_string(_PREFIX + "training.acceptance", json.dumps(origin.acceptance))
    writer.add_uint64(_PREFIX + "training.positions", origin.n_positions)


def _sizes(shape: DraftShape) -> dict[str, int]:
    return {"block_count": shape.n_layers, "embedding_length": shape.width, "feed_forward_length": shape.n_ff,
            "attention.head_count": shape.n_heads, "attention.head_count_kv": shape.n_kv_heads,
            "attention.key_length": shape.head_dim, "rope.dimension_count": shape.head_dim,
            "context_length": shape.n_context, "main.embedding_length": shape.main_width,
            "main.vocab_size": shape.main_n_vocab}
