"""The command line of `verify` over checkpoints: options, progress, table, JSON, exit status."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import sys
from typing import Any, NamedTuple

from ._outcome import Count, Door, Outcome, Settings
from ._picture import draw

HOLDS, MOVED, ERROR = 0, 1, 2  #: exit status, as the samebits command's
SENTENCES = "--sentence-transformers"


class _Kind(NamedTuple):
    """A kind of checkpoint."""

    what: str
    module: str  #: that loads it
    packages: str  #: that the module needs
    length: int = Settings().length  #: tokens of a prompt, where none are asked for


DOORS = {
    "--hf": _Kind("a causal language model of Hugging Face's transformers", "._transformers", "torch transformers"),
    # Stock MLX takes seconds for a token of a small model.
    "--mlx": _Kind("a causal language model of mlx-lm", "._mlx", "mlx mlx-lm", length=24),
    SENTENCES: _Kind("a model of sentence-transformers", "._sentences", "torch sentence-transformers"),
}
EPILOG = """examples:
  python -m samebits verify --hf ./gemma
  python -m samebits verify --hf ./gemma --dtype bfloat16 --prompts 50 --tokens 128 --json
  python -m samebits verify --mlx ./gemma-4bit --dtype float32
  python -m samebits verify --sentence-transformers ./all-MiniLM-L6-v2 --plot moved.svg

exit status: 0 the bits hold with samebits, 1 bits moved, 2 usage or environment"""


def is_ours(arguments: list[str]) -> bool:
    """Whether a command line is for a checkpoint, and not for the samebits command."""
    return arguments[:1] == ["verify"] and any(a.partition("=")[0] in DOORS for a in arguments)


class CommandError(Exception):
    """What the user can mend; the text says how."""


def _number(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is negative")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "samebits verify",
        description="Runs a real checkpoint in circumstances that must not move a bit, stock beside samebits.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    for option, kind in DOORS.items():
        which.add_argument(option, metavar="DIR", help=f"the folder of {kind.what}")
    default = Settings()
    parser.add_argument("--dtype", default=default.dtype, choices=("auto", "float32", "float16", "bfloat16"))
    lengths = ", ".join(f"{kind.length} with {option}" for option, kind in DOORS.items() if option != SENTENCES)
    parser.add_argument("--length", type=_number, help=f"tokens of a prompt ({lengths})")
    parser.add_argument("--tokens", type=_number, default=default.tokens, help="tokens to generate (%(default)s)")
    parser.add_argument(
        "--prompts", type=_number, default=default.prompts, help="prompts for speculative decoding (%(default)s)"
    )
    parser.add_argument("--no-stock", dest="stock", action="store_false", help="run samebits only")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--plot", metavar="FILE", help="write a picture (SVG)")
    return parser


def _asked(options: argparse.Namespace) -> tuple[str, str]:
    """The option for a checkpoint, and its folder."""
    for option in DOORS:
        folder = getattr(options, option.removeprefix("--").replace("-", "_"))
        if folder is not None:
            return option, folder
    raise AssertionError("argparse demands one of them")


def _load(option: str, folder: str, settings: Settings) -> Door:
    packages = DOORS[option].packages
    if not os.path.isdir(folder):
        raise CommandError(f"{option} {folder}: there is no such folder; give one that holds a checkpoint")
    try:
        door: Any = importlib.import_module(DOORS[option].module, __package__)
        loaded: Door = door.load(folder, settings)
    except ImportError as error:
        raise CommandError(f"{option} needs the packages {packages} ({error}); pip install {packages}") from None
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise CommandError(f"{option} {folder} cannot be loaded: {reason}") from None
    return loaded


class _Progress:
    """One line on standard error, rewritten; nothing where that is no terminal."""

    def __init__(self, steps: int) -> None:
        self.steps, self.done, self.shown = steps, 0, sys.stderr.isatty()

    def __call__(self, what: str) -> None:
        if self.shown:
            bar = "#" * (20 * self.done // max(self.steps, 1))
            sys.stderr.write(f"\r\033[K[{bar:<20}] {what}")
            sys.stderr.flush()
        self.done += 1

    def end(self) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")


def _cell(count: Count) -> str:
    return f"{count.moved:,} of {count.of:,}" if count.of else "-"


def _change(count: Count) -> str:
    return f"{count.largest:.2g}" if count.moved else ""


def _table(outcome: Outcome) -> str:
    rows = [("scenario", "", "stock moved", "largest", "samebits moved", "largest")]
    for line in outcome.lines:
        counts = (_cell(line.stock), _change(line.stock), _cell(line.samebits), _change(line.samebits))
        rows.append((line.scenario, line.unit, *counts))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            f"{cell:<{w}}" if i < 2 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _conclusion(outcome: Outcome) -> str:
    """What the table says, in words."""
    count = len(outcome.lines)
    stock = sum(line.stock.moved > 0 for line in outcome.lines)
    ours = sum(line.samebits.moved > 0 for line in outcome.lines)
    if not any(line.stock.of for line in outcome.lines):
        told = "stock was not run"
    else:
        told = f"stock moved in {stock} of {count} scenarios" if stock else "stock is already invariant here"
    text = f"{told}, samebits in {ours} of {count}."
    if outcome.may_move:
        listed = ", ".join(f"{name} ({times})" for name, times in sorted(outcome.may_move.items()))
        text += f"\nOperations that may move and ran on stock kernels: {listed}."
    return text


def _object(outcome: Outcome) -> dict[str, Any]:
    def of(count: Count) -> dict[str, Any] | None:
        return {"moved": count.moved, "largest": count.largest} if count.of else None

    return {
        "command": "verify",
        "checkpoint": outcome.checkpoint,
        "facts": outcome.facts,
        "scenarios": [
            {
                "scenario": line.scenario,
                "unit": line.unit,
                "of": line.samebits.of,
                "stock": of(line.stock),
                "samebits": of(line.samebits),
            }
            for line in outcome.lines
        ],
        "stock_operations": outcome.may_move,
        "holds": outcome.holds,
    }


def _run(options: argparse.Namespace) -> int:
    option, folder = _asked(options)
    length = DOORS[option].length if options.length is None else options.length
    settings = Settings(options.dtype, length, options.tokens, options.prompts, options.stock)
    if settings.length < 16 or settings.tokens < 1:
        raise CommandError("--length wants 16 tokens or more, --tokens one or more")
    if options.plot and not pathlib.Path(options.plot).absolute().parent.is_dir():
        raise CommandError(f"--plot {options.plot}: there is no such folder")
    door = _load(option, folder, settings)
    progress = _Progress(door.steps())
    try:
        door.run(progress)
    finally:
        progress.end()
    outcome = door.outcome
    if options.json:
        print(json.dumps(_object(outcome), indent=2))
    else:
        print(f"{outcome.checkpoint}: {', '.join(f'{name} {value}' for name, value in outcome.facts.items())}")
        print(f"{_table(outcome)}\n{_conclusion(outcome)}")
    if options.plot:
        pathlib.Path(options.plot).write_text(draw(outcome), encoding="utf-8")
    return HOLDS if outcome.holds else MOVED


def main(arguments: list[str]) -> int:
    """Runs `samebits verify` with the arguments after the program's name; returns the exit status."""
    options = _parser().parse_args(arguments[1:])
    try:
        return _run(options)
    except CommandError as error:
        print(f"samebits verify: {error}", file=sys.stderr)
        return ERROR
