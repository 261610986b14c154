"""The sizes of a draft: what its GGUF metadata says."""

import dataclasses
from typing import Any

from bass_draft.errors import UserError
from bass_draft.main_model import GROUP, MainModel

SHAPES = ("feature", "llama-shallow")
HEAD_TYPES = ("q4_0", "main")
_MAX_LAYERS = 8


@dataclasses.dataclass(frozen=True)
class DraftShape:
    """n_taps > 0: shape `feature`. Without taps and without an input matrix the residual stream starts as the main
    model's embedding row. Without a head of its own the draft uses rows of the main model's output matrix."""

    n_layers: int
    width: int
    n_ff: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    norm_epsilon: float
    rope_base: float
    n_context: int
    tap_layers: tuple[int, ...]
    main_width: int
    main_n_vocab: int
    head_type: str = "main"  # in which the main model's output rows are read: "q4_0", or as the main model has them

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "DraftShape":
        return cls(**{**values, "tap_layers": tuple(values["tap_layers"])})

    def as_json(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        if self.head_type == "main":  # as folders have it that are older than the choice
            del values["head_type"]
        return values

    @property
    def n_taps(self) -> int:
        return len(self.tap_layers)

    @property
    def kind(self) -> str:
        return "feature" if self.n_taps > 0 else "llama-shallow"

    @property
    def has_input(self) -> bool:
        return self.n_taps > 0 or self.width != self.main_width

    @property
    def has_head(self) -> bool:
        return self.width != self.main_width


def choose_taps(n_layers: int) -> tuple[int, ...]:
    """Layers near the beginning, the middle and the end: 3, 15, 27 of 30. Ascending, without repetition."""
    wanted = (n_layers // 10, n_layers // 2, max(n_layers - 3, n_layers // 2 + 1))
    return tuple(sorted({min(layer, n_layers - 1) for layer in wanted}))


def make_shape(main: MainModel, kind: str = "feature", taps: tuple[int, ...] | None = None,
               n_layers: int | None = None, width: int | None = None, n_ff: int | None = None,
               head_type: str = HEAD_TYPES[0]) -> DraftShape:
    """The shape for a main model; what is None is chosen. Errors: sizes that the format does not allow."""
    if kind not in SHAPES:
        raise UserError(f"--shape {kind}: must be one of {', '.join(SHAPES)}")
    tap_layers = () if kind != "feature" else tuple(sorted(set(taps))) if taps else choose_taps(main.n_layers)
    if kind != "feature" and taps:
        raise UserError("--taps: only the shape feature reads hidden states")
    if any(not 0 <= layer < main.n_layers for layer in tap_layers):
        raise UserError(f"--taps: the main model has the layers 0 to {main.n_layers - 1}")
    layers = n_layers or (1 if tap_layers else 2)
    width = width or main.n_embedding
    n_heads = main.n_heads if width == main.n_embedding else max(1, width // main.head_dim)
    n_kv_heads = main.n_kv_heads if n_heads % main.n_kv_heads == 0 else n_heads
    shape = DraftShape(layers, width, n_ff or main.n_ff * width // main.n_embedding // GROUP * GROUP or main.n_ff,
                       n_heads, n_kv_heads, main.head_dim, main.norm_epsilon, main.rope_base, main.n_context,
                       tap_layers, main.n_embedding, main.n_vocab,
                       head_type if width == main.n_embedding else "main")
    _check_sizes(shape)
    return shape


def _check_sizes(shape: DraftShape) -> None:
    if not 1 <= shape.n_layers <= _MAX_LAYERS:
        raise UserError(f"--layers {shape.n_layers}: must be from 1 to {_MAX_LAYERS}")
    for name, size in (("--width", shape.width), ("--ffn", shape.n_ff)):
        if size % GROUP != 0 or size <= 0:
            raise UserError(f"{name} {size}: must be a multiple of {GROUP}")


def grown_shape(shape: DraftShape, n_layers: int | None = None, n_ff: int | None = None, width: int | None = None,
                taps: tuple[int, ...] | None = None, kind: str | None = None) -> DraftShape:
    """A draft's shape with more layers or a wider feed-forward part; what is None stays. Errors: less than it has, another
    kind, another width, other taps."""
    for name, wanted, own in (("--shape", kind, shape.kind), ("--width", width, shape.width),
                              ("--taps", taps, shape.tap_layers)):
        if wanted and wanted != own:
            raise UserError(f"{name}: that of the draft to begin with stays ({own})")
    grown = dataclasses.replace(shape, n_layers=n_layers or shape.n_layers, n_ff=n_ff or shape.n_ff)
    for name, size, least in (("--layers", grown.n_layers, shape.n_layers), ("--ffn", grown.n_ff, shape.n_ff)):
        if size < least:
            raise UserError(f"{name} {size}: the draft to begin with has {least}, and can only grow")
    _check_sizes(grown)
    return grown
