"""Stands in for `bass` where a test needs no engine: a llama file run by PyTorch, bytes as tokens.

Commands and files are those of the program, as far as the tool uses them.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import torch

from bass_draft.main_model import MainModel
from bass_draft.model import DraftModel
from bass_draft.initial import start_from_main
from bass_draft.shape import make_shape
from bass_draft.tensor_file import write_tensors

FIRST_BYTE = 3
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
FINGERPRINT = "f" * 64


class TorchMain:
    """The main model in float32: a draft without taps that has all of its layers."""

    def __init__(self, path):
        self.main = MainModel(path, FINGERPRINT)
        shape = make_shape(self.main, "llama-shallow", n_layers=self.main.n_layers)
        head = torch.from_numpy(self.main.head_rows(np.arange(self.main.n_vocab)))
        self.model = DraftModel(shape, torch.from_numpy(self.main.embedding()), head, self.main.n_vocab)
        assert start_from_main(self.model, self.main) == 9 * self.main.n_layers + 1
        self.outputs = []
        for block in self.model.blk:
            block.register_forward_hook(lambda _, __, output: self.outputs.append(output))

    @torch.no_grad()
    def run(self, tokens):
        """Log-probabilities [n, n_vocab] and the states after each layer [n, n_layers, width]."""
        self.outputs.clear()
        n = len(tokens)
        h = self.model.unroll(torch.tensor(tokens), torch.arange(n), torch.zeros(n, dtype=torch.long), None, 1)[0]
        return torch.log_softmax(self.model.logits(h), -1), torch.stack(self.outputs, 1)


def encode(text):
    ids = []
    while text:
        for index, special in enumerate(SPECIAL):
            if text.startswith(special):
                ids.append(index)
                text = text[len(special):]
                break
        else:
            ids += [FIRST_BYTE + byte for byte in text[0].encode()]
            text = text[1:]
    return ids


def decode(ids):
    return bytes((token - FIRST_BYTE) % 256 for token in ids).decode("utf-8", "replace")


def generate(model, lines):
    prompts = []
    for index, line in enumerate(lines):
        text = line["prompt"]
        if line["chat"]:
            text = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
        prompt_ids = encode(text)
        ids = []
        random = torch.Generator().manual_seed(line["seed"])
        for _ in range(line["max_tokens"]):
            logprobs = model.run(prompt_ids + ids)[0][-1]
            logprobs[:FIRST_BYTE] = -1e9
            if line["temperature"] == 0:
                ids.append(int(logprobs.argmax()))
            else:
                chances = torch.softmax(logprobs / line["temperature"], -1)
                ids.append(int(torch.multinomial(chances, 1, generator=random)))
        prompts.append({"index": index, "n_prompt_tokens": len(prompt_ids), "choices": [
            {"text": decode(ids), "token_ids": ids, "finish_reason": "length"}]})
    return {"prompts": prompts}


def write_features(model, texts, layers, n_top, out):
    tokens = [token for text in texts for token in text]
    starts = np.cumsum([0] + [len(text) for text in texts])
    tops, taps = [], []
    for text in texts:
        logprobs, states = model.run(text)
        tops.append(torch.topk(logprobs, n_top, -1))
        taps.append(states[:, layers].bfloat16())
    tensors = {"tokens": ("I32", np.array(tokens, np.int32)), "starts": ("I64", starts.astype(np.int64)),
               "top_ids": ("I32", torch.cat([top.indices for top in tops]).int().numpy()),
               "top_logprobs": ("F32", torch.cat([top.values for top in tops]).numpy())}
    if layers:
        tensors["taps"] = ("BF16", torch.cat(taps).view(torch.int16).numpy())
    write_tensors(pathlib.Path(out), tensors, {"layers": json.dumps(layers)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    for name in ("-m", "-f", "-o", "--prompts", "--layers", "--top", "--max-batch", "--threads"):
        parser.add_argument(name)
    for name in ("--json", "--quiet", "--add-special"):
        parser.add_argument(name, action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "info":
        print(json.dumps({"path": given.m, "fingerprint": FINGERPRINT}))
    elif given.command == "tokenize":
        print(json.dumps(encode(sys.stdin.read())))
    elif given.command == "generate":
        print(json.dumps(generate(TorchMain(given.m), [json.loads(line) for line in sys.stdin])))
    elif given.command == "features":
        texts = [json.loads(line)["tokens"] for line in sys.stdin]
        layers = [int(layer) for layer in given.layers.split(",") if layer]
        write_features(TorchMain(given.m), texts, layers, min(int(given.top), 288), given.o)


if __name__ == "__main__":
    main()
