"""The weights that a draft begins with: layers of the main model, or another draft."""

import hashlib
import pathlib
from collections.abc import Sequence

import gguf
import numpy as np
import torch

from bass_draft.batches import Example
from bass_draft.errors import UserError
from bass_draft.main_model import MainModel
from bass_draft.model import DraftModel
from bass_draft.shape import DraftShape

_NOISE = 0.02
_EMBEDDING_SHARE = 0.25


def build_model(main: MainModel, shape: DraftShape, vocabulary: np.ndarray, seed: int) -> DraftModel:
    """A draft with the main model's embedding and head, its own weights drawn at random."""
    torch.manual_seed(seed)
    embedding = torch.from_numpy(main.embedding() * np.float32(main.embedding_scale)).half()
    main_head = None if shape.has_head else main.head(shape.head_type)
    head = None if main_head is None else torch.from_numpy(main_head.rows(vocabulary))
    bias = None if main_head is None else main_head.bias(vocabulary)
    model = DraftModel(shape, embedding, head, len(vocabulary), None if bias is None else torch.from_numpy(bias))
    model.main_rows = main_head
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, 0.0, _NOISE)
    return model


@torch.no_grad()
def start_from_main(model: DraftModel, main: MainModel) -> int:
    """Layers from the main model's last (one layer) or its first and last ones, the reader as a sum of embedding and
    last tap. What does not fit stays random. Returns how many tensors were taken."""
    shape, n_taken = model.shape, 0
    for block, layer in zip(model.blk, _layers_for(shape, main.n_layers)):
        for name, module in block.named_children():
            n_taken += _take(module.weight, main.layer_tensor(layer, name))
    n_taken += _take(model.output_norm.weight, main.tensor("output_norm.weight"))
    if shape.has_input:
        _start_reader(model, shape)
    return n_taken


def _layers_for(shape: DraftShape, n_main: int) -> list[int]:
    """With taps the draft goes on where the main model's last layers are; without, half of it is the first layers."""
    n_first = 0 if shape.n_taps else shape.n_layers // 2
    layers = [*range(n_first), *range(n_main - shape.n_layers + n_first, n_main)]
    return [min(max(layer, 0), n_main - 1) for layer in layers]


def _start_reader(model: DraftModel, shape: DraftShape) -> None:
    if shape.width != shape.main_width:
        return
    unit = torch.eye(shape.width)
    reader = model.draft
    reader.input.weight[:, :shape.width] += unit
    if shape.n_taps:
        reader.input.weight[:, shape.main_width:] += unit
        reader.tap.weight[:, -shape.main_width:] += unit


@torch.no_grad()
def scale_reader(model: DraftModel, examples: Sequence[Example]) -> None:
    """Gives what the reader puts out the size of the hidden states that the main model's layers are used to: else their
    outputs drown it, and the first guesses are confident and wrong (a loss of 40 where 12 is reached so)."""
    if not model.shape.n_taps or not examples:
        return
    taps = np.concatenate([example.features.taps[:, -1] for example in examples])
    last = torch.from_numpy(taps).view(torch.bfloat16).float()
    size = last.square().mean(-1).sqrt().median()  # not the mean: first rows of texts are a hundred times larger
    model.draft.feature_norm.weight.fill_(float(size))
    model.draft.embed_norm.weight.fill_(float(size) * _EMBEDDING_SHARE)


def _take(parameter: torch.Tensor, values: np.ndarray | None) -> int:
    if values is None or tuple(values.shape) != tuple(parameter.shape):
        return 0
    parameter.copy_(torch.from_numpy(values))
    return 1


class DraftFile:
    """A draft's GGUF file: shape, vocabulary, weights."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        try:
            self._reader = gguf.GGUFReader(str(path))
        except (OSError, ValueError, IndexError) as error:  # the last one of a file that ends too soon
            raise UserError(f"{path}: cannot be read as GGUF ({error})") from error
        if self.field("general.architecture") != "bass-draft":
            raise UserError(f"{path}: is no draft of this tool (general.architecture is not bass-draft)")

    def field(self, key: str):
        field = self._reader.get_field(key)
        return None if field is None else field.contents()

    def check_main(self, main: MainModel) -> None:
        made_for = self.field("bass-draft.main.fingerprint")
        if main.fingerprint and made_for and main.fingerprint != made_for:
            raise UserError(f"{self.path}: was made for another main model "
                            f"({self.field('bass-draft.main.name')}), not for {main.path}")

    def shape(self) -> DraftShape:
        size = lambda key: self.field(f"bass-draft.{key}")
        return DraftShape(size("block_count"), size("embedding_length"), size("feed_forward_length"),
                          size("attention.head_count"), size("attention.head_count_kv"), size("attention.key_length"),
                          size("attention.layer_norm_rms_epsilon"), size("rope.freq_base"), size("context_length"),
                          tuple(size("tap_layers") or ()), size("main.embedding_length"), size("main.vocab_size"),
                          size("main.head_type") or "main")

    @property
    def data(self) -> str:
        """What it was made from, in words."""
        return self.field("bass-draft.training.data") or "unknown text"

    def digest(self) -> str:
        """Of its bytes: it may stand elsewhere the next time."""
        return hashlib.sha256(self._reader.data).hexdigest()

    def vocabulary(self) -> np.ndarray:
        ids = self.field("bass-draft.vocabulary")
        return np.asarray(range(self.field("bass-draft.main.vocab_size")) if ids is None else ids, np.int32)

    @torch.no_grad()
    def load_into(self, model: DraftModel) -> None:
        """Its weights. A model with more layers, or wider feed-forward parts, than the draft has says at first what the
        draft says: what a new layer or a new unit adds is 0. Its other weights are those of the draft's last layer, as
        in LLaMA Pro (arXiv 2401.02415), and random ones of a unit. Errors: other sizes differ."""
        tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        own = self.shape()
        for name, parameter in model.named_parameters():
            own_name, is_new = _own_tensor(name, own.n_layers)
            tensor = tensors.get(own_name)
            values = None if tensor is None else gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            if values is None or not _put(values, name, parameter, is_wider=model.shape.n_ff > own.n_ff):
                raise UserError(f"{self.path}: {name} is missing or has another shape; give the shape of that draft")
            if is_new and name.endswith(_ADDED):
                parameter.zero_()


_ADDED = ("attn_output.weight", "ffn_down.weight")  # what a layer adds to the residual stream comes through these


def _own_tensor(name: str, n_layers: int) -> tuple[str, bool]:
    """The draft's tensor that a parameter begins with, and whether the draft has no such layer itself."""
    kind, *rest = name.split(".", 2)
    if kind != "blk" or int(rest[0]) < n_layers:
        return name, False
    return f"blk.{n_layers - 1}.{rest[1]}", True


def _put(values: np.ndarray, name: str, parameter: torch.Tensor, is_wider: bool) -> bool:
    """Whether they fit, with room for more units where the feed-forward part is wider."""
    given = torch.from_numpy(np.array(values, np.float32))
    if given.shape == parameter.shape:
        parameter.copy_(given)
    elif not is_wider:
        return False
    elif name.endswith(("ffn_gate.weight", "ffn_up.weight")) and _is_within(given, parameter, 0):
        parameter[:len(given)] = given
    elif name.endswith("ffn_down.weight") and _is_within(given, parameter, 1):
        parameter.zero_()
        parameter[:, :given.shape[1]] = given
    else:
        return False
    return True


def _is_within(given: torch.Tensor, parameter: torch.Tensor, axis: int) -> bool:
    other = 1 - axis
    return given.shape[other] == parameter.shape[other] and given.shape[axis] < parameter.shape[axis]
