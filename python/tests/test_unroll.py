"""The unrolled training pass against a draft that runs as the engine runs it: one row after the other, with a cache."""

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from bass_draft import row_counts  # noqa: E402
from bass_draft.model import DraftModel, rms_norm  # noqa: E402
from bass_draft.shape import DraftShape  # noqa: E402
from bass_draft.unroll import rotate  # noqa: E402

N_VOCAB, N_STEPS = 40, 4
SHAPE = DraftShape(n_layers=2, width=16, n_ff=32, n_heads=4, n_kv_heads=2, head_dim=4, norm_epsilon=1e-5,
                   rope_base=1000.0, n_context=64, tap_layers=(0, 2), main_width=16, main_n_vocab=N_VOCAB)


def make_model(shape):
    torch.manual_seed(3)
    model = DraftModel(shape, torch.randn(N_VOCAB, shape.main_width), torch.randn(20, shape.width), 20)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0 if parameter.dim() > 1 else 1.0, 0.3)
    return model.eval()


class CachedDraft:
    """A draft with a key-value cache, row by row, written without the batched code's mask."""

    def __init__(self, model):
        self.model = model
        self.cache = [[] for _ in model.blk]  # (k, v) a row, for each layer

    def row(self, token, position, feature):
        """h of one row: [width]."""
        model, shape = self.model, self.model.shape
        x = model.embedding[token][None]
        if shape.has_input:
            x = model.draft(x, feature)
        for block, cache in zip(model.blk, self.cache):
            y = block.attn_norm(x)
            place = torch.tensor([position])
            heads = lambda values, n: values.view(1, n, shape.head_dim)
            q = rotate(heads(block.attn_q(y), shape.n_heads), place, shape.rope_base)[0]
            k = rotate(heads(block.attn_k(y), shape.n_kv_heads), place, shape.rope_base)[0]
            cache.append((k, heads(block.attn_v(y), shape.n_kv_heads)[0]))
            out = torch.empty(shape.n_heads, shape.head_dim)
            for head in range(shape.n_heads):
                kv_head = head * shape.n_kv_heads // shape.n_heads
                scores = torch.stack([q[head] @ k[kv_head] for k, _ in cache]) / shape.head_dim**0.5
                out[head] = torch.softmax(scores, 0) @ torch.stack([v[kv_head] for _, v in cache])
            x = x + block.attn_output(out.flatten()[None])
            y = block.ffn_norm(x)
            x = x + block.ffn_down(torch.nn.functional.silu(block.ffn_gate(y)) * block.ffn_up(y))
        return x[0]

    def true_feature(self, taps, position):
        """taps: [n, n_taps, main_width], those of all positions of the text."""
        if not self.model.shape.n_taps:
            return None
        if position == 0:
            return torch.zeros(1, self.model.shape.width)
        normed = rms_norm(taps[position - 1], self.model.shape.norm_epsilon).flatten()
        return self.model.draft.tap(normed * self.model.draft.tap_norm.weight)[None]


def round_states(model, tokens, taps, n_committed, n_drafted):
    """h of the rows that a round after `n_committed` tokens uses: the last committed one, then the drafted ones (whose
    tokens are the text's)."""
    draft = CachedDraft(model)
    for position in range(n_committed):
        h = draft.row(tokens[position], position, draft.true_feature(taps, position))
    states = [h]
    for position in range(n_committed, n_committed + n_drafted):
        states.append(draft.row(tokens[position], position, states[-1][None] if model.shape.n_taps else None))
    return states


def packed(lengths):
    texts = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)])
    positions = torch.cat([torch.arange(n) for n in lengths])
    return texts, positions


SHAPES = [SHAPE, dataclasses.replace(SHAPE, n_layers=1), dataclasses.replace(SHAPE, tap_layers=()),
          dataclasses.replace(SHAPE, tap_layers=(), width=24, n_heads=6)]


@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_every_step_equals_the_cache(shape):
    model = make_model(shape)
    lengths = [9, 1, 7]
    texts, positions = packed(lengths)
    torch.manual_seed(7)
    tokens = torch.randint(N_VOCAB, (sum(lengths),))
    taps = torch.randn(len(tokens), max(shape.n_taps, 1), shape.main_width)
    before = torch.roll(taps, 1, 0) if shape.n_taps else None
    steps = model.unroll(tokens, positions, texts, before, N_STEPS)
    for text, n in enumerate(lengths):
        rows = (texts == text).nonzero().flatten()
        for n_committed in range(1, n + 1):
            n_drafted = min(N_STEPS - 1, n - n_committed)
            expected = round_states(model, tokens[rows].tolist(), taps[rows], n_committed, n_drafted)
            for step, h in enumerate(expected):
                found = steps[step][rows[n_committed - 1 + step]]
                assert torch.allclose(found, h, atol=1e-4), (text, n_committed, step)


@pytest.mark.parametrize("row_step", [1, 7, 32])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_that_are_wanted_do_not_need_the_others(shape, row_step, monkeypatch):
    """Values and gradients, with answers behind prompts of different lengths, one of them without a prompt. 19 of 22 rows
    are needed."""
    monkeypatch.setattr(row_counts, "_STEP", row_step)
    model = make_model(shape)
    lengths, firsts = [9, 4, 1, 8], [6, 0, 0, 2]
    texts, positions = packed(lengths)
    torch.manual_seed(7)
    tokens = torch.randint(N_VOCAB, (sum(lengths),))
    taps = torch.randn(len(tokens), shape.n_taps, shape.main_width) if shape.n_taps else None
    wanted = positions >= torch.tensor(firsts)[texts]

    def result(given):
        model.zero_grad()
        steps = model.unroll(tokens, positions, texts, taps, N_STEPS, given)
        kept = [h[wanted & (positions >= step)] for step, h in enumerate(steps)]
        sum((h.sin() * (step + 1)).sum() for step, h in enumerate(kept)).backward()
        return kept, [p.grad.clone() for p in model.parameters() if p.grad is not None]

    for all_of_it, part in zip(result(None), result(wanted)):
        assert len(all_of_it) == len(part)
        for expected, found in zip(all_of_it, part):
            # A gradient is a sum of hundreds that may cancel, in an order that differs by processor: its error goes with the
            # largest of its tensor.
            assert (found - expected).abs().max() <= 2e-5 * expected.abs().max()
    if row_step == 1:
        assert not model.unroll(tokens, positions, texts, taps, 1, wanted)[0][~wanted].any()


@torch.no_grad()
def test_negative_control_steps_differ():
    """Rows of later steps are not those of the first: the comparison above is not one of equal things."""
    model = make_model(SHAPE)
    texts, positions = packed([9])
    tokens = torch.randint(N_VOCAB, (9,))
    steps = model.unroll(tokens, positions, texts, torch.randn(9, 2, 16), N_STEPS)
    assert not torch.allclose(steps[0][5:], steps[1][5:], atol=1e-2)
    assert not torch.allclose(steps[1][5:], steps[2][5:], atol=1e-3)


@torch.no_grad()
def test_rotation_turns_neighbours():
    x = torch.zeros(1, 1, 4)
    x[0, 0, 0] = 1
    turned = rotate(x, torch.tensor([2]), 1000.0)[0, 0]
    assert torch.allclose(turned,
                          torch.tensor([2.0]).cos() * x[0, 0] + torch.tensor([0, torch.tensor(2.0).sin(), 0, 0]))


def test_gradients_are_finite():
    """Also those of rows that see nothing."""
    model = make_model(SHAPE)
    texts, positions = packed([3, 2])
    steps = model.unroll(torch.arange(5), positions, texts, torch.randn(5, 2, 16), N_STEPS)
    sum(h.square().sum() for h in steps).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters() if parameter.grad is not None)
