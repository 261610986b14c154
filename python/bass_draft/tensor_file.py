"""safetensors files, read in place: 8 bytes of header size, a JSON header, the tensors' bytes (little-endian)."""

import json
import pathlib
from typing import Any

import numpy as np

from bass_draft.errors import UserError
from bass_draft.files import file_errors, write_atomic

# numpy has no bfloat16: its bits as 16-bit integers.
_DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.int16, "I32": np.int32, "I64": np.int64, "U8": np.uint8}


def read_tensors(path: pathlib.Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors by name, mapped from the file (nothing is read before it is used), and the file's metadata."""
    try:
        with file_errors(path):
            data = np.memmap(path, np.uint8, mode="r")
        header_bytes = int(data[:8].view("<u8")[0])
        header = json.loads(data[8:8 + header_bytes].tobytes())
        metadata = header.pop("__metadata__", {})
        body = data[8 + header_bytes:]
        tensors = {name: _tensor(body, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(f"{path}: not a whole safetensors file; delete it and run the command again") from error
    return tensors, metadata


def _tensor(body: np.ndarray, entry: dict[str, Any]) -> np.ndarray:
    begin, end = entry["data_offsets"]
    # An offset that is no multiple of the element's size forbids a view.
    return np.frombuffer(body[begin:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])


def write_tensors(path: pathlib.Path, tensors: dict[str, tuple[str, np.ndarray]], metadata: dict[str, str]) -> None:
    """Writes {name: (type, array)}; a BF16 array holds the bits as 16-bit integers."""
    header: dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)

    def write(partial: pathlib.Path) -> None:
        with open(partial, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _, array in tensors.values():
                file.write(np.ascontiguousarray(array).tobytes())

    write_atomic(path, write)
