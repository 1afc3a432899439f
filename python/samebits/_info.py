"""`info` of the package: what the samebits command says, and which PyTorch and MLX are here."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import platform
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import _tested


def is_ours(arguments: list[str]) -> bool:
    """Whether a command line asks for what is here, and not how a plugin fits or what the options are."""
    return arguments[:1] == ["info"] and set(arguments[1:]) <= {"--json"}


def _package(name: str, tested: _tested.Range) -> dict[str, Any]:
    """What is installed, without loading it: PyTorch takes seconds."""
    try:
        version: str | None = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = None
    within = None if version is None else _tested.is_tested(version, tested)
    return {"version": version, "tested": list(tested), "is_tested": within}


def _extension() -> str | None:
    """Why samebits.mlx does not load; None if it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the version, which is said anyhow
            importlib.import_module("samebits.mlx._load")
    except ImportError as error:
        return str(error)
    return None


def packages() -> dict[str, Any]:
    """Python, NumPy, PyTorch, and MLX with the extension that was built for it."""
    mlx = _package("mlx", _tested.MLX)
    if mlx["version"] is not None:
        mlx["problem"] = _extension()
    return {
        "version": platform.python_version(),
        "numpy": np.__version__,
        "torch": _package("torch", _tested.TORCH),
        "mlx": mlx,
    }


def _line(name: str, found: dict[str, Any]) -> str:
    first, last = found["tested"]
    tested = f"tested with {first}" if first == last else f"tested with {first} to {last}"
    if found["version"] is None:
        return f"not installed; samebits.{name} is {tested}: pip install 'samebits[{name}]'"
    line = f"{found['version']} ({tested}{'' if found['is_tested'] else ', NOT with this version'})"
    if "problem" in found:
        line += f"; {found['problem'] or 'the extension that was built for it loads'}"
    return line


def _print(found: dict[str, Any]) -> None:
    print(f"\npython     {found['version']}, NumPy {found['numpy']}")
    for name in ("torch", "mlx"):
        print(f"{name:<10} {_line(name, found[name])}")


def main(command: Path, arguments: list[str]) -> int:
    """Runs the samebits command and adds to what it says; returns its exit status."""
    done = subprocess.run([command, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode or "--json" not in arguments:
        sys.stdout.write(done.stdout)
    if done.returncode:
        return done.returncode
    if "--json" in arguments:
        print(json.dumps({**json.loads(done.stdout), "python": packages()}, indent="\t"))
    else:
        _print(packages())
    return 0
