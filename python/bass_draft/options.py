"""The commands' options, in groups that several of them share."""

import argparse
import os
from collections.abc import Callable
from typing import Any

from bass_draft.shape import HEAD_TYPES, SHAPES


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError("must be layers like 3,15,27") from error


def _checked(convert: Callable[[str], Any], is_allowed: Callable[[Any], bool], words: str) -> Callable[[str], Any]:
    """What reads an option's number; words: what it must be."""

    def read(text: str) -> Any:
        value = convert(text)
        if not is_allowed(value):
            raise argparse.ArgumentTypeError(f"must {words}")
        return value

    read.__name__ = convert.__name__  # argparse says what a text without a number is not
    return read


_positive = _checked(int, lambda value: value > 0, "be at least 1")
_seed = _checked(int, lambda value: 0 <= value < 2**63, "be from 0 to 2^63 - 1")
_share = _checked(float, lambda value: 0 < value < 1, "be between 0 and 1")
_part = _checked(float, lambda value: 0 <= value <= 1, "be from 0 to 1")
_above_zero = _checked(float, lambda value: 0 < value < 1e9, "be above 0")
_not_negative = _checked(float, lambda value: 0 <= value < 1e9, "not be negative")
_hours = _checked(float, lambda value: 0 < value < 1e6, "be a time above 0")
_file = _checked(str, bool, "name a file")


def add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", "--model", required=True, help="main model: a GGUF file or a name that bass knows")
    parser.add_argument("--bass", default=None, metavar="PATH",
                        help="the engine's program (default: BASS_BINARY, or bass on the PATH)")
    parser.add_argument("--threads", type=_positive, default=None, metavar="N", help="the engine's threads")
    parser.add_argument("--seed", type=_seed, default=1, help="another seed gives other prompts and answers")


def add_work(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--work", default="draft.work", metavar="DIR", help="folder of text, features and checkpoints")


def add_work_from_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--work", default=None, metavar="DIR", help="folder of text, features and checkpoints; the "
                        "same one goes on where it was (default: the output's name with .work)")


class _Output(argparse.Action):
    """-o OUT: the work folder stands beside it unless it is given."""

    def __call__(self, parser, namespace, values, option_string=None):
        namespace.output = values
        if getattr(namespace, "work", None) is None:
            namespace.work = os.path.splitext(values)[0] + ".work"


def add_hours(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hours", type=_hours, default=None, metavar="H",
                        help="time, earlier runs included (make: 2 if nothing else is given)")


def add_tokens(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tokens", type=_positive, default=None, metavar="N",
                        help="tokens of text to generate, to a shard's end (make with --positions alone: a quarter of them)")


def add_positions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--positions", type=_positive, default=None, metavar="N",
                        help="positions to train on (make with --tokens: 4 times the tokens that were generated)")


def add_share(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text-share", type=_share, default=None, metavar="X",
                        help="part of --hours that makes text, the rest is training (default: 0.3, with a GPU 0.75)")


def add_text(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("text").add_argument
    add("--prompts", default=None, metavar="FILE.jsonl", help="prompts of yours, before the tool's: "
        '{"prompt": TEXT, "task"?, "chat"?, "temperature"?, "max_tokens"?} a line')
    add("--max-tokens", type=_positive, default=256, metavar="N", help="of an answer")
    add("--max-batch", type=_positive, default=48, metavar="N", help="sequences at once")
    add("--shard-prompts", type=_positive, default=192, metavar="N", help="prompts a shard: what a kill can cost")
    _add_no_chat(add)
    add("--with-draft", default=None, metavar="DRAFT.gguf", help="draft that speeds the generation up (same text)")


def _add_no_chat(add: Callable[..., Any]) -> None:
    add("--no-chat", dest="chat", action="store_false", help="do not use the model's chat template")


def add_shape(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("shape").add_argument
    add("--shape", choices=SHAPES, default=None, help="feature: reads the main model's hidden states; llama-shallow: a small "
        "model (default: feature, with --init that draft's)")
    add("--taps", type=_layers, default=None, metavar="3,15,27", help="layers that are read (default: by depth)")
    add("--layers", type=_positive, default=None, metavar="N", help="layers of the draft (default: 1; llama-shallow "
        "2; with --init that draft's)")
    add("--width", type=_positive, default=None, metavar="N",
        help="default: the main model's; another one gets a head of its own")
    add("--ffn", type=_positive, default=None, metavar="N", help="width of the feed-forward part (default: by the "
        "main model's; with --init that draft's)")
    add("--draft-vocab", type=_positive, default=8192, metavar="N", help="tokens that the draft can propose")
    add("--head-type", choices=HEAD_TYPES, default=None, help="type in which the draft reads the main model's output "
        f"rows; main: their own (default: {HEAD_TYPES[0]}, with --init that draft's)")
    add("--init", default=None, metavar="DRAFT.gguf", help="begin with this draft, and its shape; with --layers or --ffn "
        "it grows, and says the same at first")
    add("--no-main-weights", dest="from_main", action="store_false", help="begin with random layers")


def add_training(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("training").add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where PyTorch computes")
    add("--unroll", type=_positive, default=4, metavar="N",
        help="steps on the draft's own outputs; as many as will be drafted")
    add("--batch-rows", type=_positive, default=256, metavar="N", help="positions a batch; small ones learn faster")
    add("--learning-rate", type=_above_zero, default=1e-3, metavar="X", help="at its highest")
    add("--tv-fraction", type=_part, default=0.25, metavar="X", help="part of the training with total variation")
    add("--max-text", type=_positive, default=1024, metavar="N", help="tokens of a text, the rest is cut")
    add("--checkpoint-minutes", type=_above_zero, default=3.0, metavar="X", help="what a kill can cost")
    add("--measure-minutes", type=_above_zero, default=10.0, metavar="X", help="between measurements")
    add("--cache-gib", type=_not_negative, default=20.0, metavar="X", help="disk for features; more are made again")


def add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", required=True, action=_Output, type=_file, metavar="DRAFT.gguf", help="the draft")


_TYPES = ("q8_0", "q4_0", "f16", "f32")


def add_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--type", choices=_TYPES, default=None, help="type of the file's matrices; the end of the training "
                        "rounds them to it where that is q4_0 (default: q8_0)")


def add_export_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--type", choices=_TYPES, default=None,
                        help="type of the matrices (default: that of the training)")


def add_evaluation(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-d", "--draft", required=True, metavar="DRAFT.gguf", help="the draft")
    add("--prompts", required=True, metavar="FILE.jsonl", help='{"prompt": TEXT, "task"?, "chat"?} a line')
    add("--steps", type=_positive, default=4, metavar="N", help="drafted positions")
    add("--max-tokens", type=_positive, default=128, metavar="N", help="of an answer")
    add("--max-batch", type=_positive, default=32, metavar="N", help="sequences at once")
    _add_no_chat(add)
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where PyTorch computes")
    add("-o", "--output", default=None, type=_file, metavar="FILE.json", help="default: standard output")
