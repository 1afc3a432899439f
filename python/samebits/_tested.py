"""The versions of other packages that the tests have run with."""

from __future__ import annotations

Range = tuple[str, str]  #: the first and the last minor version

TORCH: Range = ("2.11", "2.15")
MLX: Range = ("0.32", "0.32")


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in version.split(".")[:2])


def is_tested(version: str, tested: Range) -> bool:
    """Whether a version such as "2.15.0+cpu" is in the range."""
    first, last = tested
    return _minor(first) <= _minor(version) <= _minor(last)
