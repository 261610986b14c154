"""The program's options."""

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Callable, Sequence

from bass_draft import __version__
from bass_draft.budget import Budget
from bass_draft.errors import Interrupted, UserError
from bass_draft.files import write_text
from bass_draft.process_settings import ensure_process_settings
from bass_draft.shape import SHAPES

_NEEDS_TORCH = ("make", "train", "eval", "export")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 1 failed while running, 2 bad usage or file, 128 + signal."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options = make_parser().parse_args(arguments)
    try:
        if options.command in _NEEDS_TORCH:
            ensure_process_settings(arguments)
            _check_torch()
        options.run(options)
        return 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except Interrupted as interrupted:
        return interrupted.exit_code
    except KeyboardInterrupt:
        return 130


def _check_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise UserError(f"PyTorch is missing ({error}); install it with `pip install ./python[draft]`") from error


def _generate(options: argparse.Namespace) -> None:
    from bass_draft.stages import Stages

    if not options.hours and not options.tokens:
        raise UserError("give --tokens N or --hours H: how much text is wanted")
    Stages(options).generate(Budget(options.hours and options.hours * 3600, options.tokens, "tokens"))


def _train(options: argparse.Namespace) -> None:
    from bass_draft.stages import Stages

    if not options.hours and not options.positions:
        raise UserError("give --hours H or --positions N: how long the training is")
    Stages(options).train(Budget(options.hours and options.hours * 3600, options.positions, "positions"))


def _export(options: argparse.Namespace) -> None:
    from bass_draft.stages import Stages

    Stages(options).export(pathlib.Path(options.output))


def _make(options: argparse.Namespace) -> None:
    from bass_draft.make import make

    make(options)


def _eval(options: argparse.Namespace) -> None:
    from bass_draft.engine import Engine, find_bass
    from bass_draft.evaluate import evaluate
    from bass_draft.main_model import load_main_model

    engine = Engine(find_bass(options.bass), options.model, options.threads)
    report = evaluate(engine, load_main_model(engine), pathlib.Path(options.draft), pathlib.Path(options.prompts),
                      options.steps, options.max_tokens, options.seed, options.device, options.max_batch)
    text = json.dumps(report, indent=1) + "\n"
    if options.output:
        write_text(pathlib.Path(options.output), text)
    else:
        sys.stdout.write(text)


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError("must be layers like 3,15,27") from error


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _hours(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError("must be a time above 0")
    return value


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bass-draft", description="Makes draft models for BASS.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = lambda name, run, text, *groups: _add_command(commands, name, run, text, groups)
    add("make", _make, "a draft for a model: text, training, file", _common, _work_from_output, _budget, _text, _shape,
        _training, _file)
    add("generate", _generate, "write the model's own text", _common, _work, _budget, _text)
    add("train", _train, "train a draft on that text", _common, _work, _budget, _shape, _training)
    add("export", _export, "write the trained draft as a file", _common, _work, _file)
    add("eval", _eval, "measure a draft on prompts of yours", _common, _evaluation)
    return parser


def _add_command(commands, name: str, run: Callable, text: str, groups: Sequence[Callable]) -> None:
    parser = commands.add_parser(name, help=text, description=text, formatter_class=_Formatter)
    parser.set_defaults(run=run)
    for group in groups:
        group(parser)
    # Options of other commands that a stage looks at.
    known = {action.dest for action in parser._actions}
    for other in (_text, _shape, _training, _file):
        shadow = argparse.ArgumentParser(add_help=False)
        other(shadow)
        parser.set_defaults(**{action.dest: action.default for action in shadow._actions if action.dest not in known})


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", "--model", required=True, help="main model: a GGUF file or a name that bass knows")
    parser.add_argument("--bass", default=None, metavar="PATH", help="the engine's program (default: BASS_BINARY, or bass on the PATH)")
    parser.add_argument("--threads", type=_positive, default=None, metavar="N", help="the engine's threads")
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other prompts and answers")


def _work(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--work", default="draft.work", metavar="DIR", help="folder of text, features and checkpoints")


class _Formatter(argparse.HelpFormatter):
    """Shows defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str:
        is_plain = action.default in (None, argparse.SUPPRESS) or isinstance(action.default, bool)
        return action.help if is_plain else f"{action.help} [%(default)s]"


class _Output(argparse.Action):
    """-o OUT: the work folder stands beside it unless it is given."""

    def __call__(self, parser, namespace, values, option_string=None):
        namespace.output = values
        if getattr(namespace, "work", None) is None:
            namespace.work = os.path.splitext(values)[0] + ".work"


def _work_from_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--work", default=None, metavar="DIR", help="folder of text, features and checkpoints (default: "
                        "the output's name with .work); the same one goes on where it was")


def _budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hours", type=_hours, default=None, metavar="H", help="time, earlier runs included (make: 2, of which a "
                        "bit more than half goes to the text)")
    parser.add_argument("--tokens", type=_positive, default=None, metavar="N", help="tokens of text to generate")
    parser.add_argument("--positions", type=_positive, default=None, metavar="N", help="positions to train on (make with --tokens: 4 N)")


def _text(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("text")
    group.add_argument("--prompts", default=None, metavar="FILE.jsonl", help="prompts of yours, before the tool's: "
                       '{"prompt": TEXT, "task"?, "chat"?, "temperature"?, "max_tokens"?} a line')
    group.add_argument("--max-tokens", type=_positive, default=256, metavar="N", help="of an answer")
    group.add_argument("--max-batch", type=_positive, default=48, metavar="N", help="sequences at once")
    group.add_argument("--shard-prompts", type=_positive, default=192, metavar="N", help="prompts a shard: what a kill can cost")
    group.add_argument("--no-chat", dest="chat", action="store_false", help="do not use the model's chat template")
    group.add_argument("--with-draft", default=None, metavar="DRAFT.gguf", help="draft that speeds the generation up (same text)")


def _shape(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("shape")
    group.add_argument("--shape", choices=SHAPES, default="feature", help="feature: reads the main model's hidden states; "
                       "llama-shallow: a small model")
    group.add_argument("--taps", type=_layers, default=None, metavar="3,15,27", help="layers that are read (default: by depth)")
    group.add_argument("--layers", type=_positive, default=None, metavar="N", help="layers of the draft (default: 1; "
                       "llama-shallow 2)")
    group.add_argument("--width", type=_positive, default=None, metavar="N", help="default: the main model's; another one gets a "
                       "head of its own")
    group.add_argument("--ffn", type=_positive, default=None, metavar="N", help="width of the feed-forward part")
    group.add_argument("--draft-vocab", type=_positive, default=8192, metavar="N", help="tokens that the draft can propose")
    group.add_argument("--init", default=None, metavar="DRAFT.gguf", help="begin with this draft, and its shape")
    group.add_argument("--no-main-weights", dest="from_main", action="store_false", help="begin with random layers")


def _training(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("training")
    group.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where PyTorch computes")
    group.add_argument("--unroll", type=_positive, default=4, metavar="N", help="steps on the draft's own outputs; as many as will be drafted")
    group.add_argument("--batch-rows", type=_positive, default=512, metavar="N", help="positions a batch; small ones learn faster")
    group.add_argument("--learning-rate", type=float, default=1e-3, metavar="X", help="at its highest")
    group.add_argument("--tv-fraction", type=float, default=0.25, metavar="X", help="part of the training with total variation")
    group.add_argument("--max-text", type=_positive, default=1024, metavar="N", help="tokens of a text, the rest is cut")
    group.add_argument("--checkpoint-minutes", type=float, default=3.0, metavar="X", help="what a kill can cost")
    group.add_argument("--measure-minutes", type=float, default=10.0, metavar="X", help="between measurements")
    group.add_argument("--cache-gib", type=float, default=20.0, metavar="X", help="disk for features; more are made again")


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", required=True, action=_Output, metavar="DRAFT.gguf", help="the draft")
    parser.add_argument("--type", choices=("q8_0", "q4_0", "f16", "f32"), default="q8_0", help="type of the matrices")


def _evaluation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-d", "--draft", required=True, metavar="DRAFT.gguf", help="the draft")
    parser.add_argument("--prompts", required=True, metavar="FILE.jsonl", help='{"prompt": TEXT, "task"?, "chat"?} a line')
    parser.add_argument("--steps", type=_positive, default=4, metavar="N", help="drafted positions")
    parser.add_argument("--max-tokens", type=_positive, default=128, metavar="N", help="of an answer")
    parser.add_argument("--max-batch", type=_positive, default=32, metavar="N", help="sequences at once")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where PyTorch computes")
    parser.add_argument("-o", "--output", default=None, metavar="FILE.json", help="default: standard output")
