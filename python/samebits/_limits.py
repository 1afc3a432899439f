"""The process's limit (samebits/mode.h): up to how many rows products follow their order beside a stock product."""

from __future__ import annotations

import os

from . import _core

UNLIMITED = (1 << 63) - 1


def get_limit() -> int:
    """The process's limit; 0: off."""
    return _core.limit()


def set_limit(rows: int) -> None:
    """Sets the process's limit, which modes without one of their own follow: products of more rows are those of the
    package around (PyTorch, MLX). 0, as at first: off, every call follows its order.

    Raises ValueError if it is negative."""
    _core.set_limit(rows)


def check(limit: int | None) -> None:
    """Raises ValueError if this is no limit of a mode."""
    if limit is not None and not 1 <= limit <= UNLIMITED:
        raise ValueError(f"limit is {limit}; want None (the process's limit, or none) or a number of rows from 1 up")


def from_environment(*names: str) -> int | None:
    """The limit that the first of these variables names which is set; None without one. Raises ValueError."""
    for name in names:
        text = os.environ.get(name, "")
        if not text:
            continue
        if text != "unlimited" and not text.isdecimal():
            raise ValueError(f"{name} is '{text}'; want a number of rows, 0 or 'unlimited'")
        return UNLIMITED if text == "unlimited" else min(int(text), UNLIMITED)
    return None
