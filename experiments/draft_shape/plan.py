"""Which drafts the study trains. All of a table see the same text for the same number of positions."""

import dataclasses

from bass_draft.main_model import MainModel
from bass_draft.shape import DraftShape, make_shape

_GROUP = 32
_BODY = 8_000_000  # weights of the drafts of the first two tables, without the head's
_GRID_DEPTHS, _GRID_WIDTHS = (1, 2, 4, 8), (256, 384, 576, 768)
_SIZES = {1: 256, 2: 384, 4: 576, 8: 576, 16: 576, 30: 576}  # millions -> width; the reader alone has 2.7 at 576
_VOCABULARIES = (2048, 4096, 8192, 16384, 49152)
_TEXTS = (0.3, 1.0, 3.0, 10.0)  # millions of tokens


@dataclasses.dataclass(frozen=True)
class Variant:
    """A draft of the study. `text`: part of the text that it sees, from its beginning; positions: trained on."""

    table: str
    name: str
    kind: str  # feature, llama-shallow
    depth: int
    width: int
    ffn: int
    vocabulary: int
    n_tokens: int
    n_positions: int
    from_main: bool = False

    def training(self) -> tuple:
        """What decides the draft: rows of different tables may be the same one."""
        return dataclasses.astuple(self)[2:]


def body_size(shape: DraftShape) -> int:
    """Weights of a draft without its head: what a step reads besides the head."""
    q, kv = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    layer = 2 * shape.width * q + 2 * shape.width * kv + 3 * shape.width * shape.n_ff
    reader = shape.n_taps * shape.main_width * shape.width
    if shape.has_input:
        reader += shape.width * (shape.main_width + (shape.width if shape.n_taps else 0))
    return shape.n_layers * layer + reader


def fitting_ffn(main: MainModel, kind: str, depth: int, width: int, body: int) -> int | None:
    """Width of the feed-forward part that makes the body as large as wanted; None if it is larger without any."""
    with_one, with_two = (body_size(make_shape(main, kind, None, depth, width, n * _GROUP)) for n in (1, 2))
    n_groups = round(1 + (body - with_one) / (with_two - with_one))
    return n_groups * _GROUP if n_groups >= 1 else None


def make_plan(main: MainModel, n_tokens: int, n_positions: int, max_tokens: int) -> list[Variant]:
    """n_tokens, n_positions: of all tables but that of texts, whose largest text has at most max_tokens."""
    plan: list[Variant] = []

    def add(table: str, name: str, kind: str, depth: int, width: int, body: int = _BODY, vocabulary: int = 8192,
            tokens: int = n_tokens, positions: int = n_positions, from_main: bool = False) -> None:
        ffn = main.n_ff if from_main else fitting_ffn(main, kind, depth, width, body)
        if ffn is not None:
            plan.append(Variant(table, name, kind, depth, width, ffn, vocabulary, tokens, positions, from_main))

    own = main.n_embedding
    for depth in _GRID_DEPTHS:
        for width in _GRID_WIDTHS:
            add("shape", f"{depth} x {width}", "llama-shallow", depth, width)
    for depth in _GRID_DEPTHS[:3]:
        for width in _GRID_WIDTHS[1:]:
            add("shape with features", f"{depth} x {width}", "feature", depth, width)
    for size, width in _SIZES.items():
        add("size", f"{size}M", "feature", 1, width, size * 1_000_000)
    for vocabulary in _VOCABULARIES:
        add("vocabulary", str(vocabulary), "feature", 1, own, vocabulary=vocabulary)
    add("beginning", "random layers", "feature", 1, own)
    add("beginning", "main model's layer", "feature", 1, own, from_main=True)
    add("beginning", "main model's layers, no features", "llama-shallow", 2, own, from_main=True)
    for millions in _TEXTS:
        tokens = int(millions * 1_000_000)
        if tokens <= max_tokens:
            add("text", f"{millions}M tokens", "feature", 1, own, tokens=tokens, positions=2 * tokens, from_main=True)
    return plan
