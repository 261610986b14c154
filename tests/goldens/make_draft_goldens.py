"""Makes tiny drafts for tiny_gqa_tied_f32 (GGUF, architecture bass-draft) and their goldens in float32: README.md.

The drafts are written in PyTorch from docs/drafts.md. Each learns the goldens' own greedy texts half by heart, so that it
is often right and often wrong there: whoever feeds it the wrong hidden states sees other drafts accepted.
"""

import argparse
import dataclasses
import hashlib
import json
import pathlib

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as DType
from torch.nn import functional

import golden_common as common

MAIN = "tiny_gqa_tied_f32"
EPSILON, ROPE_BASE, HEAD_DIM = 1e-5, 10000.0, 16
N_STEPS, LEARNING_RATE = 220, 4e-3
N_GOLDEN_TEXTS, GOLDEN_LEN, ROW_STEP = 2, 40, 6
PROMPT_LEN, N_GREEDY, DRAFT_LEN, N_PROMPTS = 37, 48, 3, 4  # the prompt ends behind a page
MIN_MAIN_GAP, MIN_DRAFT_GAP = 5e-3, 2e-3


@dataclasses.dataclass(frozen=True)
class Draft:
    name: str
    seed: int
    taps: tuple = ()
    d_model: int = 64
    n_layers: int = 1
    n_vocab: int = 0  # 0: all
    dtype: DType = DType.F32
    has_head: bool = False
    has_input: bool = True
    head_type: str = ""  # of the main model's rows; "": its own
    lacks_prompts: bool = False  # the vocabulary has no token that answers have from their prompts


DRAFTS = [
    Draft("draft_feature_f32", 1, taps=(0, 1), d_model=32, n_vocab=200, has_head=True),
    Draft("draft_feature_q8_0", 2, taps=(1,), n_vocab=240, dtype=DType.Q8_0),
    Draft("draft_shallow_f32", 3, n_layers=2, has_input=False),
    Draft("draft_shallow_input_f32", 4, n_vocab=250),
    Draft("draft_head_q4_0", 5, n_vocab=200, head_type="q4_0", lacks_prompts=True),
]


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * weight


def rotate(x, positions):
    """Neighbouring pairs. x: [n_heads, n, HEAD_DIM]"""
    angles = positions[:, None] * ROPE_BASE ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    pairs = x.reshape(*x.shape[:-1], HEAD_DIM // 2, 2)
    even, odd = pairs[..., 0], pairs[..., 1]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).reshape(x.shape)


class Model:
    """weights: GGUF name without ".weight" -> tensor. main: transformers' model."""

    def __init__(self, spec, main, ids):
        self.spec, self.main, self.ids = spec, main, ids
        generator = torch.Generator().manual_seed(spec.seed)
        d, d_main, d_ff = spec.d_model, main.config.hidden_size, 2 * spec.d_model
        shapes = {"output_norm": (d,)}
        if spec.has_head:
            shapes["output"] = (len(ids), d)
        if spec.taps:
            shapes |= {"draft.tap_norm": (len(spec.taps) * d_main,), "draft.tap": (d, len(spec.taps) * d_main),
                       "draft.feature_norm": (d,)}
        if spec.has_input:
            shapes |= {"draft.embed_norm": (d_main,), "draft.input": (d, d_main + (d if spec.taps else 0))}
        for i in range(spec.n_layers):
            sizes = {"attn_q": (d, d), "attn_k": (d // 2, d), "attn_v": (d // 2, d), "attn_output": (d, d),
                     "ffn_gate": (d_ff, d), "ffn_up": (d_ff, d), "ffn_down": (d, d_ff), "attn_norm": (d,), "ffn_norm": (d,)}
            shapes |= {f"blk.{i}.{name}": shape for name, shape in sizes.items()}
        self.weights = {name: (torch.ones(shape) if len(shape) == 1 else
                               torch.randn(shape, generator=generator) / shape[-1] ** 0.5)
                        for name, shape in shapes.items()}
        self.main_head = main.lm_head.weight  # of all tokens
        if spec.head_type:
            self.main_head = through_type(self.main_head, DType[spec.head_type.upper()])

    def head(self):
        return self.weights["output"] if self.spec.has_head else self.main_head[self.ids]

    def features(self, taps):
        """taps: [n, n_taps, d_main], of the positions in front"""
        w = self.weights
        return rms_norm(taps, w["draft.tap_norm"].reshape(taps.shape[1:])).flatten(1) @ w["draft.tap"].T

    def rows(self, tokens, features, start, cache):
        """x of new positions, behind those that `cache` (a list of (k, v) a layer) holds; appends to it."""
        w, spec = self.weights, self.spec
        x = self.main.model.embed_tokens.weight[tokens]
        if spec.has_input:
            x = rms_norm(x, w["draft.embed_norm"])
            if spec.taps:
                x = torch.cat((x, rms_norm(features, w["draft.feature_norm"])), -1)
            x = x @ w["draft.input"].T
        n = len(tokens)
        positions = torch.arange(start, start + n)
        heads = lambda y: y.reshape(n, -1, HEAD_DIM).transpose(0, 1)
        for i in range(spec.n_layers):
            of = lambda name: w[f"blk.{i}.{name}"]
            a = rms_norm(x, of("attn_norm"))
            q, k = rotate(heads(a @ of("attn_q").T), positions), rotate(heads(a @ of("attn_k").T), positions)
            v = heads(a @ of("attn_v").T)
            if len(cache) > i:
                k, v = torch.cat((cache[i][0], k), 1), torch.cat((cache[i][1], v), 1)
                cache[i] = (k, v)
            else:
                cache.append((k, v))
            mask = torch.arange(k.shape[1])[None] <= positions[:, None]
            group = q.shape[0] // k.shape[0]
            o = functional.scaled_dot_product_attention(q, k.repeat_interleave(group, 0), v.repeat_interleave(group, 0), mask)
            x = x + o.transpose(0, 1).flatten(1) @ of("attn_output").T
            a = rms_norm(x, of("ffn_norm"))
            x = x + (functional.silu(a @ of("ffn_gate").T) * (a @ of("ffn_up").T)) @ of("ffn_down").T
        return x

    def logits(self, x):
        return rms_norm(x, self.weights["output_norm"]) @ self.head().T

    def known(self, tokens, hidden):
        """x of a text's tokens, and the cache. hidden: the main model's, of each layer's output [n_layers, n, d_main]"""
        features = None
        if self.spec.taps:
            taps = torch.stack([hidden[layer] for layer in self.spec.taps], 1)[:-1].bfloat16().float()
            features = torch.cat((torch.zeros(1, self.spec.d_model), self.features(taps)))
        cache = []
        return self.rows(tokens, features, 0, cache), cache

    def logits_with(self, x, prompt):
        """Of all tokens of the main model; -inf where they are neither in the vocabulary nor in the prompt."""
        logits = torch.full((len(x), self.main.config.vocab_size), float("-inf"))
        logits[:, self.ids] = self.logits(x)
        if not self.spec.has_head:
            logits[:, prompt] = rms_norm(x, self.weights["output_norm"]) @ self.main_head[prompt].T
        return logits

    def drafted(self, tokens, hidden, n, prompt=None):
        """(id, logits) of n greedy tokens behind a text. prompt: whose tokens can be proposed too, or None."""
        x, cache = self.known(tokens, hidden)
        drafts = []
        for i in range(n):
            if prompt is None:
                logits = self.logits(x[-1:])[0]
                token = int(self.ids[logits.argmax()])
            else:
                logits = self.logits_with(x[-1:], prompt)[0]
                token = int(logits.argmax())
            drafts.append((token, logits))
            x = self.rows(torch.tensor([token]), x[-1:], len(tokens) + i, cache)
        return drafts


def run_main(main, tokens):
    out = main(tokens[None], output_hidden_states=True)
    hidden = list(out.hidden_states[1:])
    last = main.model.layers[-1]  # transformers gives the last one normalised
    hidden[-1] = last(out.hidden_states[-2], position_embeddings=main.model.rotary_emb(
        out.hidden_states[-2], torch.arange(len(tokens))[None]), attention_mask=causal(len(tokens)))
    return out.logits[0], [state[0] if state.dim() == 3 else state for state in hidden]


def causal(n):
    return torch.full((n, n), float("-inf")).triu(1)[None, None]


def gap(logits):
    best = logits.topk(2).values
    return float(best[0] - best[1])


def greedy_texts(main, rng):
    """Prompts with the main model's greedy continuations, which are clear choices and no loops."""
    texts = []
    while len(texts) < N_PROMPTS:
        tokens, gaps = rng.integers(3, 280, PROMPT_LEN).tolist(), []
        while len(tokens) < PROMPT_LEN + N_GREEDY:
            logits = main(torch.tensor([tokens])).logits[0, -1]
            gaps.append(gap(logits))
            tokens.append(int(logits.argmax()))
        if min(gaps) > MIN_MAIN_GAP and len(set(tokens[PROMPT_LEN:])) > N_GREEDY // 3:
            texts.append(torch.tensor(tokens))
    return texts


def from_prompt(text):
    """The tokens of an answer that are the prompt's."""
    return text[PROMPT_LEN:][torch.isin(text[PROMPT_LEN:], text[:PROMPT_LEN])]


def train(model, examples):
    lacks_prompts = model.spec.lacks_prompts
    places = {int(token): int(token) if lacks_prompts else i for i, token in enumerate(model.ids)}
    names = list(model.weights)
    for name in names:
        model.weights[name].requires_grad_(True)
    optimiser = torch.optim.AdamW([model.weights[name] for name in names], lr=LEARNING_RATE, weight_decay=0.0)
    for step in range(N_STEPS):
        tokens, hidden = examples[step % len(examples)]
        prompt = tokens[:PROMPT_LEN]
        known = places | ({int(token): int(token) for token in prompt} if lacks_prompts else {})
        target = torch.tensor([known.get(int(token), -100) for token in tokens])
        logits = lambda x: model.logits_with(x, prompt) if lacks_prompts else model.logits(x)
        at = PROMPT_LEN + step * 7 % (N_GREEDY - DRAFT_LEN)
        with torch.enable_grad():
            x, cache = model.known(tokens, hidden)
            loss = functional.cross_entropy(logits(x)[PROMPT_LEN - 1:-1], target[PROMPT_LEN:])
            drafted, cut = x[at - 1:at], [(k[:, :at], v[:, :at]) for k, v in cache]
            for i in range(at, at + DRAFT_LEN - 1):  # its own x instead of features
                drafted = model.rows(tokens[i:i + 1], drafted, i, cut)
                if target[i + 1] >= 0:
                    loss = loss + functional.cross_entropy(logits(drafted), target[i + 1:i + 2])
            optimiser.zero_grad()
            loss.backward()
        optimiser.step()
    for name in names:
        model.weights[name] = model.weights[name].detach()
    print(f"{model.spec.name}: last loss {loss.item():.3f}")


def through_type(values, dtype):
    return torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(values.numpy(), dtype), dtype))


def round_to_file(model):
    """Weights as the file's type gives them back."""
    if model.spec.dtype == DType.F32:
        return
    for name, values in model.weights.items():
        if values.dim() == 2:
            model.weights[name] = through_type(values, model.spec.dtype)


def fingerprint(path):
    """Of a llama: docs/drafts.md."""
    reader = gguf.GGUFReader(path)
    meta = common.read_metadata(reader)
    of = lambda key: meta["llama." + key]
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    n_heads = of("attention.head_count")
    text = (f"{of('block_count')} layers, {len(meta['tokenizer.ggml.tokens'])} x {of('embedding_length')}, {n_heads} heads of "
            f"{of('embedding_length') // n_heads} for {of('attention.head_count_kv')}, 0 experts of "
            f"{of('feed_forward_length')}\n")
    digest = hashlib.sha256(text.encode())
    for i in range(of("block_count")):
        for name in ("attn_norm", "ffn_norm"):
            digest.update(np.asarray(tensors[f"blk.{i}.{name}.weight"], dtype="<f4").tobytes())
    digest.update(np.asarray(tensors["output_norm.weight"], dtype="<f4").tobytes())
    return digest.hexdigest()


def write(model, main_path, path):
    spec = model.spec
    writer = gguf.GGUFWriter(path, "bass-draft")
    writer.add_type("draft")
    writer.add_name(spec.name)
    writer.add_license("apache-2.0")
    writer.add_block_count(spec.n_layers)
    writer.add_context_length(256)
    writer.add_embedding_length(spec.d_model)
    writer.add_feed_forward_length(2 * spec.d_model)
    writer.add_head_count(spec.d_model // HEAD_DIM)
    writer.add_head_count_kv(spec.d_model // HEAD_DIM // 2)
    writer.add_key_length(HEAD_DIM)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_rope_dimension_count(HEAD_DIM)
    if spec.taps:
        writer.add_array("bass-draft.tap_layers", list(spec.taps))
    if spec.n_vocab:
        writer.add_array("bass-draft.vocabulary", [int(i) for i in model.ids])
    writer.add_string("bass-draft.main.fingerprint", fingerprint(main_path))
    writer.add_string("bass-draft.main.name", MAIN)
    writer.add_uint32("bass-draft.main.embedding_length", model.main.config.hidden_size)
    writer.add_uint32("bass-draft.main.vocab_size", model.main.config.vocab_size)
    if spec.head_type:
        writer.add_string("bass-draft.main.head_type", spec.head_type)
    for name, values in model.weights.items():
        is_matrix = values.dim() == 2
        dtype = spec.dtype if is_matrix else DType.F32
        writer.add_tensor(name + ".weight", gguf.quants.quantize(values.numpy(), dtype), raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rounds(model, prompt, extension):
    """Greedy speculative decoding with drafts of DRAFT_LEN: the text, and how many drafts each round accepts.
    extension: tokens that can be proposed beside the vocabulary."""
    tokens, accepted, gaps = list(prompt), [], [1.0]
    while len(tokens) < PROMPT_LEN + N_GREEDY:
        n = min(DRAFT_LEN, PROMPT_LEN + N_GREEDY - len(tokens) - 1)
        drafts = []
        if n > 0:  # features of all positions but the last, whose token the main model has not seen
            _, hidden = run_main(model.main, torch.tensor(tokens))
            drafts = model.drafted(torch.tensor(tokens), hidden, n, extension)
            gaps += [gap(logits) for _, logits in drafts]
        logits, _ = run_main(model.main, torch.tensor(tokens + [token for token, _ in drafts]))
        rows = logits[len(tokens) - 1:]
        n_accepted = 0
        while True:
            best = int(rows[n_accepted].argmax())
            tokens.append(best)
            if n_accepted == len(drafts) or drafts[n_accepted][0] != best:
                break
            n_accepted += 1
        if drafts:
            accepted.append(n_accepted)
    return tokens[PROMPT_LEN:], accepted, min(gaps)


def rounded(values):
    return [round(float(value), 5) for value in values]


def goldens_of(model, texts):
    golden = {"file": model.spec.name + ".gguf", "ids": [int(i) for i in model.ids], "texts": [], "greedy": []}
    for tokens in [text[:GOLDEN_LEN] for text in texts[:N_GOLDEN_TEXTS]]:
        _, hidden = run_main(model.main, tokens)
        x, _ = model.known(tokens, hidden)
        logits = model.logits(x)
        drafts = model.drafted(tokens, hidden, DRAFT_LEN)
        golden["texts"].append({
            "tokens": tokens.tolist(), "rows": {str(i): rounded(logits[i]) for i in range(0, len(tokens), ROW_STEP)},
            "drafts": [{"id": token, "logits": rounded(row)} for token, row in drafts]})
    for text in texts:
        prompt = text[:PROMPT_LEN]
        tokens, accepted, min_gap = rounds(model, prompt.tolist(), prompt)
        assert tokens == text[PROMPT_LEN:].tolist()
        if min_gap > MIN_DRAFT_GAP:
            _, without_prompt, _ = rounds(model, prompt.tolist(), prompt[:0])
            golden["greedy"].append({"prompt": prompt.tolist(), "tokens": tokens, "accepted": accepted,
                                     "accepted_without_prompt": sum(without_prompt)})
    assert len(golden["greedy"]) >= 2, "too many near ties: another seed"
    total = [(sum(greedy["accepted"]), greedy["accepted_without_prompt"]) for greedy in golden["greedy"]]
    print(f"{model.spec.name}: accepted {total} of {[DRAFT_LEN * len(g['accepted']) for g in golden['greedy']]}")
    return golden


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "data" / "tiny")
    data = parser.parse_args().data
    common.use_one_thread()
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    main_path = data / (MAIN + ".gguf")
    main_model = common.load_model(main_path)
    texts = greedy_texts(main_model, rng)
    examples = [(tokens, run_main(main_model, tokens)[1]) for tokens in texts]
    goldens = []
    for spec in DRAFTS:
        n_vocab = main_model.config.vocab_size
        ids = torch.from_numpy(np.sort(rng.permutation(n_vocab)[:spec.n_vocab or n_vocab]))
        if spec.lacks_prompts:
            ids = ids[~torch.isin(ids, torch.cat([from_prompt(text) for text in texts]))]
        model = Model(spec, main_model, ids)
        train(model, examples)
        round_to_file(model)
        write(model, main_path, data / (spec.name + ".gguf"))
        goldens.append(goldens_of(model, texts))
    out = {"draft_len": DRAFT_LEN, "versions": common.library_versions(), "main": MAIN + ".gguf", "models": goldens}
    (data / "draft_goldens.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
