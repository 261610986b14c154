"""The parts of the tool as functions of one set of options; `make` is their sequence.

A work folder holds text/ (shards), features/ (made from them, can be deleted) and train/ (checkpoint, log)."""

import argparse
import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from bass_draft import text_shards
from bass_draft.budget import Budget
from bass_draft.engine import Engine, find_bass
from bass_draft.errors import UserError
from bass_draft.export import Origin, write_draft
from bass_draft.files import check_output, locked, read_json, remove_partial_files_of
from bass_draft.features import FeatureStore
from bass_draft.generate import GenerateOptions, TextGenerator
from bass_draft.main_model import MainModel, load_main_model
from bass_draft.progress import say
from bass_draft.settings import compare_settings, note_settings
from bass_draft.shape import HEAD_TYPES, SHAPES, DraftShape, grown_shape, make_shape
from bass_draft.vocabulary import check_size, choose_vocabulary, coverage

if TYPE_CHECKING:  # these need PyTorch, `generate` does not
    from bass_draft.checkpoint import Checkpoint
    from bass_draft.corpus import Corpus
    from bass_draft.initial import DraftFile
    from bass_draft.model import DraftModel

_GIB = 2**30
_N_TOP = 256


class Stages:
    """Everything that the options name, opened when a stage needs it. generate() and train() write into the work folder: they
    are for who holds its lock()."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.work = pathlib.Path(options.work)
        self.engine = Engine(find_bass(options.bass), options.model, options.threads)
        self.main: MainModel = load_main_model(self.engine)

    def lock(self) -> contextlib.AbstractContextManager[None]:
        return locked(self.work)

    def check(self, out: pathlib.Path) -> None:
        """What else would be found when the text is made: options of the training, and where the draft goes. It leaves the work
        folder as it is, also where there is none."""
        self._check_training(self._shape(), compare_settings)
        check_size(self.options.draft_vocab, self.main.end_ids)
        self._text_generator()
        self._check_output(out)

    def _check_output(self, out: pathlib.Path) -> None:
        """The draft may take the place of an earlier one, and of nothing else."""
        from bass_draft.initial import DraftFile

        named = {name: getattr(self.options, name, None) for name in ("prompts", "with_draft", "init")}
        check_output(out, {"-m": self.main.path, **{f"--{name.replace('_', '-')}": path for name, path in named.items()}})
        work = self.work.resolve()
        if out.resolve() in (work, *work.parents):
            raise UserError(f"-o {out}: is the work folder, or holds it; name another file, or give another --work folder")
        try:
            if out.is_file() and out.stat().st_size > 0:
                DraftFile(out)
        except UserError as error:
            raise UserError(f"-o {out}: is there already and is no draft; name another file, or delete this one") from error

    def generate(self, budget: Budget) -> int:
        """Text until the budget is spent; the number of tokens that there are then."""
        return self._text_generator().run(budget)

    def _text_generator(self) -> TextGenerator:
        given = self.options
        own = pathlib.Path(given.prompts) if given.prompts else None
        options = GenerateOptions(given.seed, given.shard_prompts, given.max_tokens, given.chat, own, given.max_batch,
                                  given.with_draft)
        return TextGenerator(self.engine, self.main, self.work / "text", options)

    def train(self, budget: Budget) -> None:
        from bass_draft.corpus import Corpus  # PyTorch is needed from here on
        from bass_draft.device import choose_device
        from bass_draft.train import Trainer, TrainOptions

        given = self.options
        shape = self._shape()
        self._check_training(shape, note_settings)
        corpus = Corpus(self.work / "text", self._store(shape, self.work / "features"), given.max_text)
        vocabulary = self._vocabulary(shape)
        model = self._model(shape, vocabulary, corpus)
        options = TrainOptions(seed=given.seed, n_steps=given.unroll, batch_rows=given.batch_rows,
                               learning_rate=given.learning_rate, tv_fraction=given.tv_fraction,
                               checkpoint_s=60 * given.checkpoint_minutes, measure_s=60 * given.measure_minutes,
                               device=choose_device(given.device), matrix_type=given.type,
                               before=self._init_file.data if given.init else "", main=self.main.fingerprint)
        trainer = Trainer(model, vocabulary, corpus, self.work / "train", options, budget)
        state = trainer.checkpoint
        if state.is_done and budget.is_spent(state.seconds, state.n_positions):
            say(f"training: {self.work / 'train'} is done; with more --hours or --positions it goes on")
        else:
            trainer.run()

    def export(self, out: pathlib.Path) -> None:
        """The checkpoint's weights as a draft file."""
        from bass_draft.checkpoint import read_checkpoint

        self._check_output(out)
        remove_partial_files_of(out)
        content = read_checkpoint(self.work / "train")
        if content is None:
            raise UserError(f"{self.work / 'train'}: there is no checkpoint yet; run `bass-draft train` first")
        state = content["state"]
        shape = self._trained_shape(state)
        tensors = {name: values.float().numpy() for name, values in content["model"].items()}
        origin = Origin(self._data_in_words(state.before), state.loss, state.acceptance, state.n_positions)
        matrix_type = self.options.type or state.matrix_type
        if matrix_type != state.matrix_type:
            say(f"the training was for --type {state.matrix_type}, and so is the acceptance that the file tells")
        write_draft(out, tensors, shape, state.vocabulary, self.main, origin, matrix_type)
        say(f"{out}: {out.stat().st_size / 1e6:.1f} MB")

    def _trained_shape(self, state: "Checkpoint") -> DraftShape:
        """As the checkpoint says, or for an older one what its folder was begun with."""
        path = self.work / "train" / "settings.json"
        told = {"model": state.main, "shape": state.shape} if state.shape else read_json(path)
        try:
            fingerprint, shape = told["model"], DraftShape.from_json(told["shape"])
        except (TypeError, KeyError) as error:
            raise UserError(f"{path}: does not say what was trained; run `bass-draft train` with the options that it was begun "
                            "with, and without that file") from error
        if fingerprint != self.main.fingerprint:
            raise UserError(f"{self.work / 'train'}: this draft was trained for another model than {self.main.path}")
        return shape

    def _data_in_words(self, before: str) -> str:
        noted = read_json(self.work / "text" / "settings.json")
        settings = {"seed": "unknown", "prompts": [], **(noted if isinstance(noted, dict) else {})}
        n_answer_tokens = [len(text.ids) for shard in text_shards.read_all(self.work / "text") for text in shard]
        n_tokens, n_texts = sum(n_answer_tokens), len(n_answer_tokens)
        n_own = min(len(settings["prompts"]), n_texts)
        own = f"; the first {n_own} prompts from a file" if n_own else ""
        own += f"; trained on from a draft of: {before}" if before else ""
        return (f"{n_tokens} tokens of the main model's own text at temperatures 0, 0.7 and 1; "
                f"seed {settings['seed']}{own}")

    def _store(self, shape: DraftShape, directory: pathlib.Path) -> FeatureStore:
        return FeatureStore(self.engine, directory, shape.tap_layers, _N_TOP, int(self.options.cache_gib * _GIB))

    def _shape(self) -> DraftShape:
        given = self.options
        if given.init:
            shape = grown_shape(self._init_file.shape(), given.layers, given.ffn, given.width, given.taps, given.shape)
            is_other = given.head_type and not shape.has_head
            return dataclasses.replace(shape, head_type=given.head_type) if is_other else shape
        return make_shape(self.main, given.shape or SHAPES[0], given.taps, given.layers, given.width, given.ffn,
                          given.head_type or HEAD_TYPES[0])

    def _check_training(self, shape: DraftShape, check: Callable[..., None]) -> None:
        """What a training that is begun cannot change: the shape, what it began with, and what decides which texts are next."""
        from bass_draft.checkpoint import checkpoint_path

        given, train = self.options, self.work / "train"
        check(train / "settings.json", {
            "model": self.main.fingerprint, "shape": shape.as_json(), "seed": given.seed, "max-text": given.max_text,
            "batch-rows": given.batch_rows, "init": self._init_file.digest() if given.init else "",
            "draft-vocab": given.draft_vocab, "main-weights": given.from_main}, is_begun=checkpoint_path(train).exists())

    @functools.cached_property
    def _init_file(self) -> "DraftFile":
        from bass_draft.initial import DraftFile

        draft = DraftFile(pathlib.Path(self.options.init))
        draft.check_main(self.main)
        return draft

    def _vocabulary(self, shape: DraftShape) -> np.ndarray:
        """The checkpoint's if there is one; that of a draft with a head of its own; else the text's most frequent."""
        from bass_draft.checkpoint import read_checkpoint

        content = read_checkpoint(self.work / "train")
        if content is not None:
            return content["state"].vocabulary
        if self.options.init and shape.has_head:
            return self._init_file.vocabulary()
        texts = [text for shard in text_shards.read_all(self.work / "text") for text in shard]
        vocabulary = choose_vocabulary(texts, self.main.n_vocab, self.options.draft_vocab, self.main.end_ids)
        say(f"the draft's vocabulary: {len(vocabulary)} tokens, {coverage(texts, vocabulary):.1%} of the text")
        return vocabulary

    def _model(self, shape: DraftShape, vocabulary: np.ndarray, corpus: "Corpus") -> "DraftModel":
        from bass_draft.initial import build_model, scale_reader, start_from_main

        model = build_model(self.main, shape, vocabulary, self.options.seed)
        if self.options.init:
            self._init_file.load_into(model)
        elif self.options.from_main:
            start_from_main(model, self.main)
            scale_reader(model, [example for _, example in corpus.held_out()])
        return model
