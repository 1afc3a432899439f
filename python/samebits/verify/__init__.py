"""Real checkpoints under `python -m samebits verify`: the same input in other circumstances, stock beside samebits."""

from __future__ import annotations

from ._command import is_ours, main

__all__ = ["is_ours", "main"]
