"""What moved, as counts of elements whose bit patterns differ; settings and outcome of a run."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from .. import __version__


@dataclass
class Count:
    """Elements whose bits differ, of how many, and the largest change among the finite ones."""

    moved: int = 0
    of: int = 0
    largest: float = 0.0

    def add(self, have: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
        """Compares two arrays of one shape and dtype."""
        if have.shape != want.shape or have.dtype != want.dtype:
            raise ValueError(f"{have.shape} {have.dtype} cannot be compared with {want.shape} {want.dtype}")
        integer = np.dtype(f"u{have.dtype.itemsize}")
        differs = np.ascontiguousarray(have).view(integer) != np.ascontiguousarray(want).view(integer)
        self.of += differs.size
        moved = int(differs.sum())
        if not moved:
            return
        self.moved += moved
        if have.dtype.kind == "f":
            distance = np.abs(have[differs].astype(np.float64) - want[differs].astype(np.float64))
            finite = distance[np.isfinite(distance)]
            self.largest = max(self.largest, float(finite.max(initial=0.0)))


@dataclass
class Line:
    """One scenario: the counts of both engines."""

    scenario: str
    unit: str
    stock: Count = field(default_factory=Count)
    samebits: Count = field(default_factory=Count)


@dataclass(frozen=True)
class Settings:
    """What the command line sets."""

    dtype: str = "auto"  #: the framework's name; auto: the checkpoint's own
    length: int = 100  #: tokens of a prompt
    tokens: int = 24  #: tokens to generate
    prompts: int = 3  #: prompts of the comparison of speculative with plain decoding
    stock: bool = True  #: run the stock framework too

    @property
    def engines(self) -> tuple[bool, ...]:
        """Whether each is samebits."""
        return (False, True) if self.stock else (True,)


@dataclass
class Outcome:
    """A run over a checkpoint."""

    checkpoint: str
    facts: dict[str, str]  #: packages and settings
    lines: list[Line] = field(default_factory=list)
    may_move: dict[str, int] = field(default_factory=dict)  #: operations that ran on stock kernels in the mode

    @property
    def holds(self) -> bool:
        return not any(line.samebits.moved for line in self.lines)

    def count(self, may_move: Mapping[str, int]) -> None:
        for name, count in may_move.items():
            self.may_move[name] = self.may_move.get(name, 0) + count


def facts(*packages: str, **others: object) -> dict[str, str]:
    """What a report says of its run: versions of packages, and settings."""
    found = {"samebits": __version__} | {name: importlib.metadata.version(name) for name in packages}
    return found | {name: str(value) for name, value in others.items()}


class Door(Protocol):
    """A framework's part: a loaded checkpoint, which fills its outcome line by line."""

    outcome: Outcome

    def steps(self) -> int:
        """How often run will call tick."""

    def run(self, tick: Callable[[str], None]) -> None:
        """Runs all scenarios; tick is told what comes next."""
