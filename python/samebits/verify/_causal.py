"""One prompt in other circumstances: the scenarios of a causal language model, whatever framework runs it."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import _text
from ._outcome import Line, Outcome, Settings

Ids = list[int]
Array = np.ndarray[Any, Any]
Pairs = Iterator[tuple[Array, Array]]
Generated = tuple[Ids, list[Array]]  #: tokens, and for each of them the scores that it was chosen by
Scenario = Callable[[], Pairs]
MAX_GENERATED = 16  #: tokens that a scenario with several sequences generates of each


class Causal(ABC):
    """A loaded checkpoint and its scenarios. A framework says how its logits are computed."""

    outcome: Outcome
    vocabulary: int
    scores = "logits"  #: what generation gives for each token
    speculation: str | None  #: how tokens are drafted; None: not at all

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.prompts = [self.encoded(text, settings.length) for text in _text.prompts(4)]
        self._whole: Array | None = None

    # --- what a framework does ---

    @abstractmethod
    def engine(self, ours: bool) -> contextlib.AbstractContextManager[None]:
        """The stock framework, or samebits, which adds to what may move in the outcome."""

    @abstractmethod
    def encode(self, text: str) -> Ids | None:
        """None where the folder has no tokenizer: prompts are then token numbers drawn at random."""

    @abstractmethod
    def forward(self, rows: Sequence[Ids], keep: int, cache: Any = None) -> tuple[Array, Any]:
        """Logits (rows, keep, vocabulary) of the last positions, after what the cache holds, and the cache."""

    @abstractmethod
    def padded(self, ids: Ids, other: Ids, side: str) -> Array:
        """Logits (1, vocabulary) of the last of the ids, padded on a side to the length of the other prompt."""

    @abstractmethod
    def generate(self, ids: Ids, tokens: int) -> Generated:
        """Exactly that many tokens, greedily."""

    @abstractmethod
    def speculate(self, ids: Ids, tokens: int) -> Generated:
        """The same with drafted tokens."""

    @abstractmethod
    def together(self, rows: Sequence[Ids], tokens: int) -> list[Generated]:
        """Prompts of several lengths in one call."""

    @abstractmethod
    def sampled(self, ids: Ids, count: int, tokens: int) -> list[Generated]:
        """That many sequences after one prompt, drawn at random."""

    @abstractmethod
    def read(self, ids: Ids, last: int) -> Array:
        """Scores (last, vocabulary) for the last tokens of a sequence, which is read alone and in one piece."""

    def more(self) -> list[tuple[str, Scenario]]:
        """Scenarios that this framework has besides."""
        return []

    # --- scenarios: pairs of what came and what was to come ---

    def encoded(self, text: str, length: int | None = None) -> Ids:
        """The text's tokens, filled up or cut to a length."""
        ids = self.encode(text if length is None else text + "\n" + _text.FILLER * (length // 16 + 1))
        if ids is None:
            generator = np.random.default_rng(sum(text.encode()))
            ids = generator.integers(min(self.vocabulary, 1000), size=length or 32).tolist()
        return ids[:length]

    def last(self, rows: Sequence[Ids], cache: Any = None) -> Array:
        return self.forward(rows, 1, cache)[0][:, -1]

    def whole(self) -> Array:
        """The reference of an engine: the prompt alone, in one piece."""
        if self._whole is None:
            self._whole = self.last(self.prompts[:1])
        return self._whole

    def again(self) -> Pairs:
        yield self.last(self.prompts[:1]), self.whole()

    def batch(self, size: int) -> Pairs:
        """The same prompt several times."""
        yield self.last(self.prompts[:1] * size), np.repeat(self.whole(), size, axis=0)

    def neighbours(self) -> Pairs:
        for place in range(4):
            rows = [*self.prompts[1 : place + 1], self.prompts[0], *self.prompts[place + 1 :]]
            yield self.last(rows)[place : place + 1], self.whole()

    def padding(self, side: str, amount: int) -> Pairs:
        """Beside a longer prompt, which decides how far this one is padded."""
        other = self.encoded(_text.FILLER, self.settings.length + amount)
        yield self.padded(self.prompts[0], other, side), self.whole()

    def chunked(self, sizes: Sequence[int]) -> Pairs:
        cache, start, logits = None, 0, np.empty(0)
        for size in sizes:
            logits, cache = self.forward([self.prompts[0][start : start + size]], 1, cache)
            start += size
        yield logits[:, -1], self.whole()

    def chunks(self, size: int) -> Pairs:
        n = self.settings.length
        return self.chunked([size] * (n // size) + ([n % size] if n % size else []))

    def cached(self, rest: int) -> Pairs:
        """A prompt cache's hit: all but the last tokens are there."""
        return self.chunked([self.settings.length - rest, rest])

    def block(self, size: int) -> Pairs:
        """The positions of a speculative block, against one token at a time."""
        before, after = self.prompts[0][:-size], self.prompts[0][-size:]
        have, _ = self.forward([after], size, self.forward([before], 1)[1])
        cache = self.forward([before], 1)[1]
        for i, token in enumerate(after):
            want, cache = self.forward([[token]], 1, cache)
            yield have[:, i], want[:, 0]

    def returned(self, sequences: Callable[[Ids, int, int], list[Generated]]) -> Pairs:
        """Sequences as generated together, against each read alone: what a trainer computes of rollouts."""
        tokens = min(self.settings.tokens, MAX_GENERATED)
        for chosen, scores in sequences(self.prompts[0], 4, tokens):
            yield np.stack(scores), self.read(self.prompts[0] + chosen, tokens)

    def lengths(self) -> Pairs:
        """Prompts of other lengths in one call, against each alone."""
        tokens = min(self.settings.tokens, MAX_GENERATED)
        rows = [ids[: self.settings.length - self.settings.length // 8 * i] for i, ids in enumerate(self.prompts)]
        for row, (_, scores) in zip(rows, self.together(rows, tokens), strict=True):
            yield np.stack(scores), np.stack(self.generate(row, tokens)[1])

    def scenarios(self) -> list[tuple[str, Scenario]]:
        n = self.settings.length
        found: list[tuple[str, Scenario]] = [("again", self.again)]
        found += [(f"batch of {k}", partial(self.batch, k)) for k in (2, 4, 8)]
        found += [("among three others, at each place", self.neighbours)]
        for side in ("left", "right"):
            found += [(f"{k} padded on the {side}", partial(self.padding, side, k)) for k in (1, 11, 64)]
        found += [(f"in chunks of {k}", partial(self.chunks, k)) for k in (1, 7, 50) if k < n]
        found += [(f"cached but for the last {k}", partial(self.cached, k)) for k in (1, n // 2)]
        found += [(f"speculative block of {k}", partial(self.block, k)) for k in (5,) if k < n]
        found += [
            ("generate, four of other lengths", self.lengths),
            ("generate, four sampled", partial(self.returned, self.sampled)),
        ]
        return found + self.more()

    # --- the run ---

    def steps(self) -> int:
        prompts = self.settings.prompts if self.speculation else 0
        return len(self.settings.engines) * (len(self.scenarios()) + prompts)

    def run(self, tick: Callable[[str], None]) -> None:
        references: list[Array | None] = [None, None]
        for name, scenario in self.scenarios():
            line = Line(name, self.scores if name.startswith("generate") else "logits")
            for ours in self.settings.engines:
                tick(name)
                self._whole = references[ours]
                with self.engine(ours):
                    for have, want in scenario():
                        (line.samebits if ours else line.stock).add(have, want)
                references[ours] = self._whole
            self.outcome.lines.append(line)
        if self.settings.prompts and self.speculation:
            self._speculative(tick)

    def _speculative(self, tick: Callable[[str], None]) -> None:
        """Greedy decoding with drafted tokens against plain greedy decoding."""
        lines = [Line(f"{self.speculation}, greedy", unit) for unit in ("prompts", "tokens", self.scores)]
        for i, text in enumerate(_text.prompts(self.settings.prompts)):
            ids = self.encoded(text)
            for ours in self.settings.engines:
                tick(f"{self.speculation}, {i + 1} of {self.settings.prompts}")
                prompts, tokens, scores = (line.samebits if ours else line.stock for line in lines)
                with self.engine(ours):
                    plain, plain_scores = self.generate(ids, self.settings.tokens)
                    drafted, drafted_scores = self.speculate(ids, self.settings.tokens)
                prompts.of += 1
                prompts.moved += drafted != plain
                tokens.add(np.array(drafted), np.array(plain))
                # Past the first other token the two read different texts.
                same = next((j for j, (a, b) in enumerate(zip(drafted, plain, strict=True)) if a != b), len(plain))
                for have, want in zip(drafted_scores[: same + 1], plain_scores[: same + 1], strict=True):
                    scores.add(have, want)
        self.outcome.lines += lines
