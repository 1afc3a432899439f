"""Models of sentence-transformers: one sentence's embedding in other batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from . import _text
from ._outcome import Line, Outcome, Settings
from ._torch import engine, facts, quiet, threads

Array = np.ndarray[Any, Any]
SIZES = (2, 5, 8, 16, 64)
EQUAL = 20


class Sentences:
    """A loaded model and its scenarios."""

    def __init__(self, folder: str, settings: Settings) -> None:
        from sentence_transformers import SentenceTransformer

        quiet()
        self.model = SentenceTransformer(folder, device="cpu", local_files_only=True)
        if settings.dtype != "auto":
            self.model = self.model.to(getattr(torch, settings.dtype))
        kind = next(self.model.parameters()).dtype
        self.outcome = Outcome(
            folder,
            facts("sentence-transformers", "transformers", dtype=kind, sentences=len(_text.SENTENCES)),
        )
        self.settings = settings
        self._alone: Array | None = None

    def embed(self, sentences: list[str], size: int) -> Array:
        kwargs: Any = {"convert_to_numpy": False, "convert_to_tensor": True}
        result: Any = self.model.encode(sentences, batch_size=size, show_progress_bar=False, **kwargs)
        values: Array = result.float().numpy()
        return values

    def alone(self) -> Array:
        """The reference of an engine: each sentence in a call of its own."""
        if self._alone is None:
            self._alone = np.concatenate([self.embed([s], 1) for s in _text.SENTENCES])
        return self._alone

    def batch(self, size: int) -> tuple[Array, Array]:
        return self.embed(list(_text.SENTENCES), size), self.alone()

    def reversed(self) -> tuple[Array, Array]:
        return self.embed(list(_text.SENTENCES[::-1]), 8)[::-1], self.alone()

    def padded(self) -> tuple[Array, Array]:
        """Each beside a long text."""
        both = [self.embed([s, _text.FILLER], 2)[0] for s in _text.SENTENCES]
        return np.stack(both), self.alone()

    def equal(self, size: int) -> tuple[Array, Array]:
        have = self.embed([_text.SENTENCES[0]] * EQUAL, size)
        return have, np.repeat(self.alone()[:1], EQUAL, axis=0)

    def threads(self, number: int) -> tuple[Array, Array]:
        want = self.alone()
        with threads(number):
            return self.embed(list(_text.SENTENCES), 1), want

    def scenarios(self) -> list[tuple[str, Callable[[], tuple[Array, Array]]]]:
        found: list[tuple[str, Callable[[], tuple[Array, Array]]]] = [("again", partial(self.batch, 1))]
        found += [(f"{k} thread{'s' * (k > 1)}", partial(self.threads, k)) for k in (1, 2, 4)]
        found += [(f"batches of {k}", partial(self.batch, k)) for k in SIZES]
        found += [("batches of 8, from the last", self.reversed), ("each beside a long text", self.padded)]
        found += [(f"{EQUAL} equal sentences, batches of {k}", partial(self.equal, k)) for k in (2, 5, EQUAL)]
        return found

    def steps(self) -> int:
        return len(self.settings.engines) * len(self.scenarios())

    def run(self, tick: Callable[[str], None]) -> None:
        references: list[Array | None] = [None, None]
        for name, scenario in self.scenarios():
            lines = Line(name, "embeddings"), Line(name, "numbers")
            for ours in self.settings.engines:
                tick(name)
                self._alone = references[ours]
                with engine(ours, self.outcome):
                    have, want = scenario()
                references[ours] = self._alone
                whole, numbers = (line.samebits if ours else line.stock for line in lines)
                numbers.add(have, want)
                whole.of = len(have)
                whole.moved = sum(h.tobytes() != w.tobytes() for h, w in zip(have, want, strict=True))
                whole.largest = numbers.largest
            self.outcome.lines.append(lines[0])


def load(folder: str, settings: Settings) -> Sentences:
    return Sentences(folder, settings)
