"""The program's options."""

import argparse
import importlib
import json
import pathlib
import sys
from collections.abc import Callable, Sequence

from bass_draft import __version__, options
from bass_draft.budget import Budget
from bass_draft.errors import Interrupted, UserError
from bass_draft.files import write_text
from bass_draft.process_settings import ensure_process_settings

_NEEDS_TORCH = ("make", "train", "eval", "export")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 1 failed while running, 2 bad usage or file, 128 + signal."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    given = make_parser().parse_args(arguments)
    try:
        if given.command in _NEEDS_TORCH:
            ensure_process_settings(arguments)
            _check_torch()
        given.run(given)
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
        importlib.import_module("torch")
    except ImportError as error:
        raise UserError(f"PyTorch is missing ({error}); install it with `pip install ./python[draft]`") from error


def _generate(given: argparse.Namespace) -> None:
    from bass_draft.stages import Stages

    if not given.hours and not given.tokens:
        raise UserError("give --tokens N or --hours H: how much text is wanted")
    Stages(given).generate(Budget(given.hours and given.hours * 3600, given.tokens, "tokens"))


def _train(given: argparse.Namespace) -> None:
    from bass_draft.stages import Stages

    if not given.hours and not given.positions:
        raise UserError("give --hours H or --positions N: how long the training is")
    Stages(given).train(Budget(given.hours and given.hours * 3600, given.positions, "positions"))


def _export(given: argparse.Namespace) -> None:
    from bass_draft.stages import Stages

    Stages(given).export(pathlib.Path(given.output))


def _make(given: argparse.Namespace) -> None:
    from bass_draft.make import make

    make(given)


def _eval(given: argparse.Namespace) -> None:
    from bass_draft.engine import Engine, find_bass
    from bass_draft.evaluate import EvalOptions, evaluate
    from bass_draft.main_model import load_main_model

    engine = Engine(find_bass(given.bass), given.model, given.threads)
    wanted = EvalOptions(given.steps, given.max_tokens, given.max_batch, given.seed, given.device)
    report = evaluate(engine, load_main_model(engine), pathlib.Path(given.draft), pathlib.Path(given.prompts), wanted)
    text = json.dumps(report, indent=1) + "\n"
    if given.output:
        write_text(pathlib.Path(given.output), text)
    else:
        sys.stdout.write(text)


class _Formatter(argparse.HelpFormatter):
    """Shows defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str:
        is_plain = action.default in (None, argparse.SUPPRESS) or isinstance(action.default, bool)
        return action.help if is_plain else f"{action.help} [%(default)s]"


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bass-draft", description="Makes draft models for BASS.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = lambda name, run, text, *groups: _add_command(commands, name, run, text, groups)
    common, work_beside_output, budget = options.add_common, options.add_work_from_output, options.add_budget
    text, shape, training = options.add_text, options.add_shape, options.add_training
    add("make", _make, "a draft for a model: text, training, file", common, work_beside_output, budget,
        options.add_share, text, shape, training, options.add_type, options.add_file)
    add("generate", _generate, "write the model's own text", common, options.add_work, budget, text)
    add("train", _train, "train a draft on that text", common, options.add_work, budget, shape, training,
        options.add_type)
    add("export", _export, "write the trained draft as a file", common, work_beside_output, options.add_export_type,
        options.add_file)
    add("eval", _eval, "measure a draft on prompts of yours", common, options.add_evaluation)
    return parser


def _add_command(commands, name: str, run: Callable, text: str, groups: Sequence[Callable]) -> None:
    parser = commands.add_parser(name, help=text, description=text, formatter_class=_Formatter)
    parser.set_defaults(run=run)
    for group in groups:
        group(parser)
