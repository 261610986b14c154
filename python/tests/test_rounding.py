"""Training on the weights that the file will have."""

import gguf
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from bass_draft.rounding import round_to_q4_0, rounded_matrices  # noqa: E402


def test_rounds_to_what_the_file_has():
    torch.manual_seed(1)
    values = torch.randn(48, 96) * torch.logspace(-6, 2, 48)[:, None]
    values[3] = 0  # a group without a scale
    values[4, ::2] = values[4, 0]  # several that are largest
    q4_0 = gguf.GGMLQuantizationType.Q4_0
    expected = gguf.quants.dequantize(gguf.quants.quantize(values.numpy(), q4_0), q4_0)
    np.testing.assert_array_equal(round_to_q4_0(values).numpy(), expected)


def test_the_exact_matrices_come_back():
    model = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 4))  # rows of 8 are no whole groups: float16 in the file
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(KeyboardInterrupt), rounded_matrices(model, "q4_0"):
        assert not torch.equal(model[0].weight, before[0])
        assert all(torch.equal(*pair) for pair in zip(list(model.parameters())[1:], before[1:]))
        raise KeyboardInterrupt
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), before))
    with rounded_matrices(model, "q8_0"):
        assert torch.equal(model[0].weight, before[0])


def loss_in_the_file(matrix_type):
    """Of a linear map that is learnt from inputs which move together, so that one weight's rounding can mend another's."""
    torch.manual_seed(2)
    x = torch.randn(512, 8) @ torch.randn(8, 64)
    model, y = nn.Linear(64, 8, bias=False), x @ torch.randn(64, 8)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    loss = lambda: (model(x) - y).square().mean()
    for _ in range(400):
        with rounded_matrices(model, matrix_type):
            optimizer.zero_grad()
            loss().backward()
        optimizer.step()
    with torch.no_grad(), rounded_matrices(model, "q4_0"):
        return float(loss())


def test_rounding_that_is_known_of_costs_less():
    assert loss_in_the_file("q4_0") < 0.5 * loss_in_the_file("f32")
