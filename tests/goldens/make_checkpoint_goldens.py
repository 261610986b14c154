"""What the import of Hugging Face checkpoints must give: README.md.

The configurations and the names of tensors are those that transformers saves. The weights are a pattern that the test
makes again (`pattern`), so that only names, shapes and a hash of each converted tensor are stored.
"""

import argparse
import json
import pathlib
import re
import tempfile

import numpy as np
import safetensors
import transformers

import architecture_mapping as mapping
import golden_common as common
import make_architecture_models as architectures

EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")


def pattern(tensor_idx, shape):
    """Whole numbers that float16 has, no two tensors alike."""
    i = np.arange(np.prod(shape, dtype=np.int64), dtype=np.uint64)
    mixed = (i * np.uint64(2654435761) + np.uint64(tensor_idx * 40503)) & np.uint64(0xFFFFFFFF)
    return (mixed >> np.uint64(22)).astype(np.float32).reshape(shape)


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def saved_names(model, folder):
    """config.json and [(name, shape)] as transformers saves them."""
    reference = transformers.AutoModelForCausalLM.from_config(model.config, attn_implementation="eager").half()
    reference.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    with safetensors.safe_open(folder / "model.safetensors", "np") as file:
        return config, [(name, file.get_slice(name).get_shape()) for name in sorted(file.keys())]


def as_modules(weights):
    """Names of modules, which the mapping knows, from those of checkpoints, which have a matrix an expert."""
    fused, experts = {}, {}
    for name, values in weights.items():
        name = name.replace("embed_out", "lm_head")
        if found := EXPERT.fullmatch(name):
            experts.setdefault(found[1], {})[int(found[2]), found[3]] = values
        else:
            fused[name] = values
    for stem, parts in experts.items():
        n_experts = 1 + max(i for i, _ in parts)
        fused[f"{stem}.gate_up_proj"] = np.stack([np.concatenate([parts[i, "gate"], parts[i, "up"]])
                                                  for i in range(n_experts)])
        fused[f"{stem}.down_proj"] = np.stack([parts[i, "down"] for i in range(n_experts)])
    return fused


class Metadata:
    """Takes what a GGUF writer would."""

    def __init__(self):
        self.values = {}

    def add_uint32(self, key, value):
        self.values[key] = int(value)

    def add_float32(self, key, value):
        self.values[key] = float(np.float32(value))

    def add_string(self, key, value):
        self.values[key] = value

    def add_bool(self, key, value):
        self.values[key] = bool(value)

    def add_array(self, key, value):
        self.values[key] = [int(item) for item in value]


def golden_of(model):
    with tempfile.TemporaryDirectory() as folder:
        config, names = saved_names(model, pathlib.Path(folder))
    weights = {name: pattern(i, shape) for i, (name, shape) in enumerate(names)}
    metadata = Metadata()
    mapping.add_metadata(metadata, model.arch, model.config)
    converted = []
    for name, values in mapping.to_gguf(model.arch, model.config, as_modules(weights)).items():
        values = np.ascontiguousarray(values.astype(np.float16 if values.ndim > 1 else np.float32))
        is_computed = name.startswith("rope_")  # in floating point, so not to the bit
        converted.append([name, list(values.shape)[::-1],
                          values.tolist() if is_computed else f"{fnv1a(values.tobytes()):016x}"])
    return {"name": model.name, "architecture": model.arch, "config": config, "tensors": names,
            "metadata": metadata.values, "converted": converted}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    goldens = [golden_of(model) for model in architectures.architecture_models()]
    n_bytes = common.write_json(args.out, {"versions": common.library_versions()}, {"models": goldens})
    print(f"{args.out.name}: {n_bytes} bytes, {len(goldens)} models")


if __name__ == "__main__":
    main()
