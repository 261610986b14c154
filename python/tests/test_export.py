"""A draft file: what is written is what is read, by `gguf` itself."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gguf  # noqa: E402

from conftest import TINY  # noqa: E402

from bass_draft.errors import UserError  # noqa: E402
from bass_draft.export import Origin, write_draft  # noqa: E402
from bass_draft.initial import DraftFile, build_model, start_from_main  # noqa: E402
from bass_draft.main_model import MainModel  # noqa: E402
from bass_draft.rounding import rounded_matrices  # noqa: E402
from bass_draft.shape import DraftShape, choose_taps, grown_shape, make_shape  # noqa: E402

VOCABULARY = np.array([0, 2, 5, 100, 287], np.int32)
ORIGIN = Origin("some text", "a loss", {"all": {"temperature_1": [0.5]}}, 123)


@pytest.fixture
def main(tiny):
    return MainModel(str(tiny), "ab" * 32)


def write(path, main, vocabulary=VOCABULARY, matrix_type="f32", seed=1, **shape):
    shape = make_shape(main, **shape)
    model = build_model(main, shape, vocabulary, seed)
    start_from_main(model, main)
    tensors = {name: values.numpy() for name, values in model.state_dict().items()}
    write_draft(path, tensors, shape, vocabulary, main, ORIGIN, matrix_type)
    return model, shape


@pytest.mark.parametrize("options", [{}, {
    "kind": "llama-shallow"
}, {
    "kind": "llama-shallow",
    "width": 32
}, {
    "taps": (1,)
}, {
    "width": 96,
    "n_layers": 2
}, {
    "head_type": "main"
}])
def test_a_draft_survives_the_file(main, tmp_path, options):
    model, shape = write(tmp_path / "d.gguf", main, **options)
    draft = DraftFile(tmp_path / "d.gguf")
    assert draft.shape() == shape
    assert draft.vocabulary().tolist() == VOCABULARY.tolist()
    draft.check_main(main)
    other = build_model(main, draft.shape(), draft.vocabulary(), seed=2)
    draft.load_into(other)
    for name, values in model.state_dict().items():
        assert torch.equal(values, other.state_dict()[name]), name
    steps = [m.unroll(torch.arange(6), torch.arange(6), torch.zeros(6), torch.ones(6, shape.n_taps, 64), 2)[-1]
             for m in (model, other)]
    assert torch.equal(model.logits(steps[0]), other.logits(steps[1]))


def logits_of(model, n_steps=3):
    rows = torch.arange(6)
    taps = torch.linspace(-1, 1, 6 * model.shape.n_taps * 64).view(6, -1, 64)
    return torch.stack([model.logits(h) for h in model.unroll(rows, rows, torch.zeros(6), taps, n_steps)])


@pytest.mark.parametrize("growth", [(2, None), (3, 256), (None, 256)])
@pytest.mark.parametrize("options", [{}, {"kind": "llama-shallow"}])
def test_a_grown_draft_says_the_same_and_learns(main, tmp_path, options, growth):
    model, shape = write(tmp_path / "d.gguf", main, **options)
    if growth[0] == 2 and shape.n_layers == 2:
        growth = (4, None)
    larger = grown_shape(shape, *growth)
    assert (larger.n_layers, larger.n_ff) == (growth[0] or shape.n_layers, growth[1] or shape.n_ff)
    grown = build_model(main, larger, VOCABULARY, seed=2)
    DraftFile(tmp_path / "d.gguf").load_into(grown)
    before = logits_of(grown)
    assert torch.allclose(before, logits_of(model), atol=1e-5)
    for new in grown.blk[shape.n_layers:]:  # the last layer's, but for what it adds
        last = model.blk[-1]
        assert torch.equal(new.attn_q.weight, last.attn_q.weight) and not new.attn_output.weight.any()
        assert torch.equal(new.ffn_up.weight[:shape.n_ff], last.ffn_up.weight) and not new.ffn_down.weight.any()
    # All that is new has an effect behind few updates: units whose output stays 0 would learn nothing.
    optimizer = torch.optim.SGD(grown.parameters(), 0.1)
    after_load = {name: values.clone() for name, values in grown.named_parameters()}
    for _ in range(2):
        optimizer.zero_grad()
        logits_of(grown).square().mean().backward()
        optimizer.step()
    for name, values in grown.named_parameters():
        changed = (values != after_load[name]).float()
        part = changed[shape.n_ff:] if name.endswith(("ffn_gate.weight", "ffn_up.weight")) and growth[1] else changed
        assert part.mean() > 0.5, name


@pytest.mark.parametrize("growth, told", [((1, None), "--layers 1: the draft to begin with has 2"),
                                          ((None, 32), "--ffn 32: the draft to begin with has"),
                                          ((9, None), "--layers 9: must be from 1 to 8"),
                                          ((None, 1000), "--ffn 1000: must be a multiple of 32")])
def test_a_draft_can_only_grow(main, growth, told):
    with pytest.raises(UserError, match=told):
        grown_shape(make_shape(main, kind="llama-shallow"), *growth)


def test_another_width_is_no_growth(main, tmp_path):
    write(tmp_path / "d.gguf", main, n_layers=2)
    for other in (make_shape(main, n_layers=2, n_ff=32),
                  make_shape(main, n_layers=1, width=96), make_shape(main, n_layers=2, kind="llama-shallow", width=96)):
        with pytest.raises(UserError, match="is missing or has another shape"):
            DraftFile(tmp_path / "d.gguf").load_into(build_model(main, other, VOCABULARY, seed=2))


@pytest.mark.parametrize("options", [{}, {"kind": "llama-shallow"}, {"width": 96, "n_layers": 2}])
def test_training_rounds_to_what_the_file_has(main, tmp_path, options):
    model, shape = write(tmp_path / "d.gguf", main, matrix_type="q4_0", **options)
    read = build_model(main, shape, VOCABULARY, seed=2)
    DraftFile(tmp_path / "d.gguf").load_into(read)
    with rounded_matrices(model, "q4_0"):
        for name, values in model.named_parameters():
            assert torch.equal(values, read.get_parameter(name)), name


def test_names_and_types(main, tmp_path):
    write(tmp_path / "d.gguf", main, matrix_type="q8_0")
    reader = gguf.GGUFReader(tmp_path / "d.gguf")
    types = {tensor.name: (tensor.tensor_type.name, tensor.shape.tolist()) for tensor in reader.tensors}
    assert types["draft.tap.weight"] == ("Q8_0", [2 * 64, 64])
    assert types["draft.input.weight"] == ("Q8_0", [64 + 64, 64])
    assert types["draft.tap_norm.weight"] == ("F32", [2 * 64])
    assert types["blk.0.attn_k.weight"] == ("Q8_0", [64, 32])
    assert types["blk.0.ffn_norm.weight"] == ("F32", [64])
    assert set(types) == {
        "draft.tap_norm.weight", "draft.tap.weight", "draft.feature_norm.weight", "draft.embed_norm.weight",
        "draft.input.weight", "output_norm.weight"
    } | {
        f"blk.0.{name}.weight" for name in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm",
                                            "ffn_gate", "ffn_up", "ffn_down")
    }
    field = lambda key: reader.get_field(key).contents()
    assert (field("general.architecture"), field("general.type")) == ("bass-draft", "draft")
    assert field("bass-draft.tap_layers") == [0, 1]
    assert field("bass-draft.main.fingerprint") == "ab" * 32
    assert json.loads(field("bass-draft.training.acceptance")) == {"all": {"temperature_1": [0.5]}}
    assert reader.get_field("bass-draft.vocabulary").types[-1] == gguf.GGUFValueType.INT32


def test_the_head_is_what_the_engine_makes_of_its_type(main, tmp_path):
    """The rows with their bits, but for a head of its own, and types that are narrow already."""
    q4_0 = gguf.GGMLQuantizationType.Q4_0
    rows = main.embedding()[VOCABULARY]
    model, shape = write(tmp_path / "d.gguf", main)
    key = lambda: gguf.GGUFReader(tmp_path / "d.gguf").get_field("bass-draft.main.head_type")
    assert (shape.head_type, key().contents()) == ("q4_0", "q4_0")
    expected = gguf.quants.dequantize(gguf.quants.quantize(rows, q4_0), q4_0)
    assert np.array_equal(model.main_head.numpy(), expected) and not np.array_equal(rows, expected)
    model, shape = write(tmp_path / "d.gguf", main, head_type="main")
    assert key() is None and np.array_equal(model.main_head.numpy(), rows)
    assert DraftShape.from_json(shape.as_json()) == shape
    _, shape = write(tmp_path / "d.gguf", main, width=32)
    assert key() is None and shape.head_type == "main"
    narrow = MainModel(str(TINY / "tiny_gqa_tied_q4_1.gguf"))
    assert np.array_equal(narrow.head("q4_0").rows(VOCABULARY), narrow.embedding()[VOCABULARY])


def test_a_whole_vocabulary_is_not_written(main, tmp_path):
    write(tmp_path / "d.gguf", main, vocabulary=np.arange(main.n_vocab, dtype=np.int32))
    assert gguf.GGUFReader(tmp_path / "d.gguf").get_field("bass-draft.vocabulary") is None
    assert DraftFile(tmp_path / "d.gguf").vocabulary().tolist() == list(range(main.n_vocab))


@pytest.mark.parametrize("matrix_type, tolerance", [("q8_0", 0.01), ("q4_0", 0.15), ("f16", 1e-3)])
def test_quantised_matrices_are_near(main, tmp_path, matrix_type, tolerance):
    model, shape = write(tmp_path / "d.gguf", main, matrix_type=matrix_type)
    other = build_model(main, shape, VOCABULARY, 2)
    DraftFile(tmp_path / "d.gguf").load_into(other)
    for name, values in model.state_dict().items():
        assert (values - other.state_dict()[name]).abs().max() <= tolerance * values.abs().max(), name


def test_a_draft_of_another_main_model_is_refused(main, tiny, tmp_path):
    write(tmp_path / "d.gguf", main)
    with pytest.raises(UserError, match="was made for another main model"):
        DraftFile(tmp_path / "d.gguf").check_main(MainModel(str(tiny), "cd" * 32))
    with pytest.raises(UserError, match="is no draft of this tool"):
        DraftFile(TINY / "tiny_gqa_tied_f32.gguf")


def test_shapes(main):
    assert choose_taps(30) == (3, 15, 27)
    assert choose_taps(2) == (0, 1)
    assert choose_taps(1) == (0,)
    for options, words in [({"kind": "wide"}, "--shape wide"), ({"taps": (2,)}, "has the layers 0 to 1"),
                           ({"width": 40}, "--width 40: must be a multiple of 32"), ({"n_layers": 9}, "--layers 9"),
                           ({"kind": "llama-shallow", "taps": (1,)}, "only the shape feature")]:
        with pytest.raises(UserError, match=words):
            make_shape(main, **options)


def test_rows_of_half_pairs_become_neighbours(main):
    """q of an architecture that pairs i with i + half, turned as ours, gives the scores that it had."""
    main.architecture = "llama"
    own = main.layer_tensor(0, "attn_q")
    main.architecture = "qwen2"
    turned = main.layer_tensor(0, "attn_q")
    head, half = main.head_dim, main.head_dim // 2
    for i in range(half):
        assert np.array_equal(turned[2 * i], own[i]) and np.array_equal(turned[head + 2 * i + 1], own[head + half + i])


def test_a_part_of_a_split_model_is_refused(tiny, tmp_path):
    """The engine opens all parts; here weights of the others would be taken for missing."""
    writer = gguf.GGUFWriter(str(tmp_path / "m-00001-of-00002.gguf"), "llama")
    writer.add_uint16("split.count", 2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UserError, match="is one of 2 files of a model; `bass convert .* makes one file of them"):
        MainModel(str(tmp_path / "m-00001-of-00002.gguf"))
