"""The program's options."""

import argparse
import importlib
import json
import pathlib
import signal
import sys
from collections.abc import Callable, Sequence

# What takes long to import is imported where main() has seen to signals.
from bass_draft import __version__
from bass_draft.errors import Interrupted, UserError
from bass_draft.process_settings import ensure_process_settings
from bass_draft.signals import end_at_once, end_by_exception

_NEEDS_TORCH = ("make", "train", "eval", "export")
_GOES_ON = ("make", "generate", "train")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 1 failed while running, 2 bad usage or file, 128 + signal."""
    is_program = arguments is None
    if is_program:
        end_at_once()
    given = make_parser().parse_args(arguments)
    try:
        if given.command in _NEEDS_TORCH:
            if is_program:
                ensure_process_settings()
            _check_torch()
        if is_program:
            end_by_exception()
        given.run(given)
        return 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except Interrupted as interrupted:
        return interrupted.exit_code
    except KeyboardInterrupt as interrupt:
        rest = "; the same command goes on where it was" if given.command in _GOES_ON else ""
        print(f"stopped{rest}", file=sys.stderr)
        return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)


def _check_torch() -> None:
    try:
        importlib.import_module("torch")
    except (ImportError, OSError) as error:  # the latter of its libraries
        raise UserError(f"PyTorch is missing or damaged ({error}); install it with `pip install torch`") from error


def _generate(given: argparse.Namespace) -> None:
    from bass_draft.budget import Budget
    from bass_draft.stages import Stages

    if not given.hours and not given.tokens:
        raise UserError("give --tokens N or --hours H: how much text is wanted")
    stages = Stages(given)
    with stages.lock():
        stages.generate(Budget(given.hours and given.hours * 3600, given.tokens, "tokens"))


def _train(given: argparse.Namespace) -> None:
    from bass_draft.budget import Budget
    from bass_draft.stages import Stages

    if not given.hours and not given.positions:
        raise UserError("give --hours H or --positions N: how long the training is")
    stages = Stages(given)
    with stages.lock():
        stages.train(Budget(given.hours and given.hours * 3600, given.positions, "positions"))


def _export(given: argparse.Namespace) -> None:
    from bass_draft.stages import Stages

    Stages(given).export(pathlib.Path(given.output))


def _make(given: argparse.Namespace) -> None:
    from bass_draft.make import make

    make(given)


def _eval(given: argparse.Namespace) -> None:
    from bass_draft.engine import Engine, find_bass
    from bass_draft.evaluate import EvalOptions, evaluate
    from bass_draft.files import check_output, write_standard_output, write_text
    from bass_draft.main_model import load_main_model

    engine = Engine(find_bass(given.bass), given.model, given.threads)
    main_model = load_main_model(engine)
    out = given.output and pathlib.Path(given.output)
    if out:
        check_output(out, {"-m": main_model.path, "-d": given.draft, "--prompts": given.prompts})
    wanted = EvalOptions(given.steps, given.max_tokens, given.max_batch, given.seed, given.device, given.chat)
    report = evaluate(engine, main_model, pathlib.Path(given.draft), pathlib.Path(given.prompts), wanted)
    text = json.dumps(report, indent=1) + "\n"
    if out:
        write_text(out, text)
    else:
        write_standard_output(text)


class _Formatter(argparse.HelpFormatter):
    """Shows defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str:
        is_plain = action.default in (None, argparse.SUPPRESS) or isinstance(action.default, bool)
        return action.help if is_plain else f"{action.help} [%(default)s]"


def make_parser() -> argparse.ArgumentParser:
    from bass_draft import options

    parser = argparse.ArgumentParser(prog="bass-draft", description="Makes draft models for BASS.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = lambda name, run, text, *groups: _add_command(commands, name, run, text, groups)
    common, work_beside_output = options.add_common, options.add_work_from_output
    hours, tokens, positions = options.add_hours, options.add_tokens, options.add_positions
    text, shape, training = options.add_text, options.add_shape, options.add_training
    add("make", _make, "a draft for a model: text, training, file", common, work_beside_output, hours, tokens, positions,
        options.add_share, text, shape, training, options.add_type, options.add_file)
    add("generate", _generate, "write the model's own text", common, options.add_work, hours, tokens, text)
    add("train", _train, "train a draft on that text", common, options.add_work, hours, positions, shape, training,
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
