"""What the tool reads of a main model: sizes, vocabulary facts, and the weights that a draft begins with."""

import functools
import pathlib
from typing import Any

import gguf
import numpy as np

from bass_draft.engine import Engine
from bass_draft.errors import UserError

# Architectures whose files pair element i of a head with i + half of it when they rotate; all others pair neighbours.
_PAIRS_NEIGHBOURS = {"llama", "smollm3", "mistral", "gptj", "codegen"}
# Of 4 bits and fewer, which the engine reads as they are whatever the draft asks for.
_NARROW = {gguf.GGMLQuantizationType[name] for name in ("Q4_0", "Q4_1", "Q2_K", "Q3_K", "Q4_K")}
GROUP = 32  # numbers that a quantised row is cut into
_SCALES_EMBEDDING = {"gemma", "gemma2", "gemma3"}


class MainModel:
    """A GGUF file. Matrices are [n_out, n_in] float32, dequantised when they are asked for."""

    def __init__(self, path: str, fingerprint: str = ""):
        try:
            self._reader = gguf.GGUFReader(path)
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read as GGUF ({error}); `bass convert` makes GGUF of a checkpoint"
                            ) from error
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self.path = path
        if int(self._field("split.count") or 1) > 1:
            raise UserError(f"{path}: is one of {self._field('split.count')} files of a model; "
                            f"`bass convert {path} -o MODEL.gguf` makes one file of them")
        self.fingerprint = fingerprint
        self.name: str = self._field("general.name") or pathlib.Path(path).stem
        self.license: str | None = self._field("general.license")
        self.architecture: str = self._field("general.architecture")
        self.n_vocab, self.n_embedding = map(int, self._embedding_shape())
        self.n_layers = int(self._size("block_count"))
        self.n_ff = int(np.max(self._size("feed_forward_length", 4 * self.n_embedding)))
        self.n_heads = int(np.max(self._size("attention.head_count", 8)))
        self.n_kv_heads = int(np.max(self._size("attention.head_count_kv", self.n_heads)))
        self.head_dim = int(self._size("attention.key_length", self.n_embedding // self.n_heads))
        self.norm_epsilon = float(self._size("attention.layer_norm_rms_epsilon", 1e-5))
        self.rope_base = float(self._size("rope.freq_base", 10000.0))
        self.n_context = int(self._size("context_length", 2048))
        self.embedding_scale = self.n_embedding**0.5 if self.architecture in _SCALES_EMBEDDING else 1.0

    def _field(self, key: str) -> Any:
        field = self._reader.get_field(key)
        return None if field is None else field.contents()

    def _size(self, key: str, default: float | None = None) -> Any:
        value = self._field(f"{self.architecture}.{key}")
        if value is None and default is None:
            raise UserError(f"{self.path}: {self.architecture}.{key} is missing; is this a whole model?")
        return default if value is None else value

    def _embedding_shape(self) -> tuple[int, int]:
        if "token_embd.weight" not in self._tensors:
            raise UserError(f"{self.path}: holds no token embedding; is this a whole model?")
        columns, rows = self._tensors["token_embd.weight"].shape
        return rows, columns

    # -- vocabulary

    @property
    def bos_id(self) -> int | None:
        return self._field("tokenizer.ggml.bos_token_id")

    @property
    def eos_id(self) -> int | None:
        return self._field("tokenizer.ggml.eos_token_id")

    @property
    def end_ids(self) -> list[int]:
        """Tokens that end an answer."""
        keys = ("eos", "eot", "eom")
        ids = {self._field(f"tokenizer.ggml.{key}_token_id") for key in keys} - {None}
        names = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "</s>", "<|eom_id|>")
        return sorted({*map(int, ids), *(self._ids_by_text[name] for name in names if name in self._ids_by_text)})

    def separators(self) -> list[tuple[int, str]]:
        """Control tokens, and the end token in any case: (id, spelling). No text is merged across one."""
        types = self._field("tokenizer.ggml.token_type") or []
        ids = [token_id for token_id, kind in enumerate(types) if kind == gguf.TokenType.CONTROL]
        ids += [] if self.eos_id is None else [self.eos_id]
        return [(token_id, self._tokens[token_id]) for token_id in ids if self._tokens[token_id]]

    @property
    def chat_template(self) -> str | None:
        return self._field("tokenizer.chat_template")

    def token_text(self, token_id: int | None) -> str:
        """The vocabulary's own spelling: right for special tokens."""
        return "" if token_id is None else self._tokens[token_id]

    @functools.cached_property
    def _tokens(self) -> list[str]:
        return self._field("tokenizer.ggml.tokens") or []

    @functools.cached_property
    def _ids_by_text(self) -> dict[str, int]:
        return {text: index for index, text in enumerate(self._tokens)}

    # -- weights

    def tensor(self, name: str) -> np.ndarray | None:
        """float32; None if the model has none of this name or `gguf` does not know its type."""
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        try:
            return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        except NotImplementedError:
            return None

    def embedding(self) -> np.ndarray:
        """[n_vocab, n_embedding], as they come from the file (without the embedding scale)."""
        return self._needed("token_embd.weight")

    def head(self, head_type: str) -> "MainHead":
        """The output matrix, which many models share with the embedding. head_type: DraftShape's."""
        tensor = self._tensors.get("output.weight", self._tensors["token_embd.weight"])
        bias = self._needed("output.bias") if "output.bias" in self._tensors else None
        return MainHead(self, tensor, head_type, bias)

    def _needed(self, name: str) -> np.ndarray:
        values = self.tensor(name)
        if values is None:
            raise self.unreadable(name)
        return values

    def unreadable(self, name: str) -> UserError:
        return UserError(f"{self.path}: {name}: its type cannot be read here; convert the model to another one")

    def layer_tensor(self, layer: int, name: str) -> np.ndarray | None:
        """A tensor of a layer, with the rows of q and k in the order of a draft: rotated pairs are neighbours."""
        values = self.tensor(f"blk.{layer}.{name}.weight")
        if values is None or name not in ("attn_q", "attn_k") or self.architecture in _PAIRS_NEIGHBOURS:
            return values
        if values.shape[0] % self.head_dim != 0:
            return None
        halves = values.reshape(-1, 2, self.head_dim // 2, values.shape[1])
        return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


class MainHead:
    """Rows of a main model's output matrix as the engine computes a draft's logits with them."""

    def __init__(self, main: MainModel, tensor: gguf.ReaderTensor, head_type: str, bias: np.ndarray | None = None):
        self._main = main
        self._tensor = tensor
        self._bias = bias  # [n_vocab]
        is_whole = int(tensor.shape[0]) % GROUP == 0
        self._quantised = head_type == "q4_0" and is_whole and tensor.tensor_type not in _NARROW

    def bias(self, ids: np.ndarray) -> np.ndarray | None:
        """[n_ids] float32, what the logits of these tokens have beside the product; None: nothing."""
        return None if self._bias is None else self._bias[ids]

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """[n_ids, n_embedding] float32."""
        if len(ids) == 0:
            return np.zeros((0, self._main.n_embedding), np.float32)
        try:
            rows = gguf.quants.dequantize(self._tensor.data[ids], self._tensor.tensor_type).astype(np.float32)
        except NotImplementedError as error:
            raise self._main.unreadable(self._tensor.name) from error
        if not self._quantised:
            return rows
        q4_0 = gguf.GGMLQuantizationType.Q4_0
        return gguf.quants.dequantize(gguf.quants.quantize(rows, q4_0), q4_0)


def load_main_model(engine: Engine) -> MainModel:
    """The file that the engine takes for the model's name."""
    info = engine.info()
    path = info["path"]
    if pathlib.Path(path).is_dir() or not path.endswith(".gguf"):
        raise UserError(f"{path}: a draft is made for a GGUF file; `bass convert {path} -o MODEL.gguf` makes one")
    return MainModel(path, info.get("fingerprint", ""))
