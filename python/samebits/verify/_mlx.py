"""Causal language models of mlx-lm."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm import utils
from mlx_lm.generate import BatchGenerator, generate_step, speculative_generate_step
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache

from .. import get_num_threads, set_num_threads
from .. import mlx as samebits_mlx
from . import _text
from ._causal import Array, Causal, Generated, Ids, Pairs, Scenario
from ._outcome import Outcome, Settings, facts

DRAFTED = 4  #: tokens of a draft


class Mlx(Causal):
    """A checkpoint of mlx-lm, on the CPU."""

    scores = "logprobs"

    def __init__(self, folder: str, settings: Settings) -> None:
        self.path = Path(folder)
        self.model, config = utils.load_model(self.path)
        self.tokenizer = self._tokenizer()
        if settings.dtype != "auto":
            self.model.set_dtype(getattr(mx, settings.dtype))
        self.vocabulary = int(self.model(mx.array([[0]])).shape[-1])
        self.outcome = Outcome(folder, self._facts(config, settings))
        super().__init__(settings)
        self.speculation = self._prepare_draft() if settings.prompts else None

    def _facts(self, config: dict[str, Any], settings: Settings) -> dict[str, str]:
        parameters: Any = tree_flatten(self.model.parameters(), destination={})
        kinds = Counter(p.dtype for p in parameters.values() if mx.issubdtype(p.dtype, mx.floating))
        found = {"dtype": str(kinds.most_common(1)[0][0]).rpartition(".")[2]}
        if "quantization" in config:
            found["weights"] = "{bits} bits, groups of {group_size}".format(**config["quantization"])
        return facts("mlx", "mlx-lm", threads=get_num_threads(), **found, prompt=f"{settings.length} tokens")

    def _prepare_draft(self) -> str | None:
        """The checkpoint's first layers are its draft."""
        self._taken = [0, 0]
        longest = max(len(self.encoded(text)) for text in _text.prompts(self.settings.prompts))
        cache = make_prompt_cache(self.model)
        window = min(getattr(layer, "max_size", None) or math.inf for layer in cache)
        # mlx-lm takes no token back from a window that has begun to turn.
        if not can_trim_prompt_cache(cache) or longest + self.settings.tokens + DRAFTED >= window:
            self.outcome.facts["draft model"] = "none, since mlx-lm cannot take tokens back from this model's cache"
            return None
        layers = len(self.model.layers)
        fewer = {"num_hidden_layers": layers - max(layers // 6, 1)}
        self.draft, _ = utils.load_model(self.path, strict=False, model_config=fewer)
        if self.settings.dtype != "auto":
            self.draft.set_dtype(getattr(mx, self.settings.dtype))
        self.outcome.facts["draft model"] = f"{len(self.draft.layers)} of {layers} layers"
        return "draft model"

    def _tokenizer(self) -> Any:
        try:
            tokenizer = utils.load_tokenizer(self.path)
        except (OSError, ValueError):
            return None
        # Some kinds load without files, and then know no words.
        return tokenizer if len(tokenizer.encode(_text.FILLER)) > 8 else None

    @contextlib.contextmanager
    def engine(self, ours: bool) -> Iterator[None]:
        if not ours:
            yield
            return
        with samebits_mlx.batch_invariant_mode(strict=False) as active:
            yield
        self.outcome.count(active.stock)

    def encode(self, text: str) -> Ids | None:
        return None if self.tokenizer is None else list(self.tokenizer.encode(text))

    # --- logits ---

    def forward(self, rows: Sequence[Ids], keep: int, cache: Any = None) -> tuple[Array, Any]:
        cache = make_prompt_cache(self.model) if cache is None else cache
        return _array(self.model(mx.array(list(rows)), cache=cache)[:, -keep:]), cache

    def padded(self, ids: Ids, other: Ids, side: str) -> Array:
        pad = len(other) - len(ids)
        layers = zip(make_prompt_cache(self.model), make_prompt_cache(self.model), strict=True)
        cache = [one.merge([one, two]) for one, two in layers]
        for layer in cache:
            if side == "left":
                layer.prepare(left_padding=[pad, 0])
            else:
                layer.prepare(lengths=[len(ids), len(other)], right_padding=[pad, 0])
        padded = [0] * pad + ids if side == "left" else ids + [0] * pad
        logits = self.model(mx.array([padded, other]), cache=cache)
        return _array(logits[:1, -1 if side == "left" else len(ids) - 1])

    def read(self, ids: Ids, last: int) -> Array:
        logits = self.model(mx.array([ids[:-1]]), cache=make_prompt_cache(self.model))[0, -last:]
        return _array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))  # as mlx-lm has it

    # --- generation ---

    def generate(self, ids: Ids, tokens: int) -> Generated:
        steps = [(t, _array(p)) for t, p in generate_step(mx.array(ids), self.model, max_tokens=tokens)]
        return [t for t, _ in steps], [p for _, p in steps]

    def speculate(self, ids: Ids, tokens: int) -> Generated:
        run = speculative_generate_step(
            mx.array(ids), self.model, self.draft, num_draft_tokens=DRAFTED, max_tokens=tokens
        )
        steps = [(t, _array(p), drafted) for t, p, drafted in run]
        self._taken[0] += sum(drafted for _, _, drafted in steps)
        self._taken[1] += len(steps)
        self.outcome.facts["drafted"] = f"{self._taken[0]} of {self._taken[1]} tokens"
        return [t for t, _, _ in steps], [p for _, p, _ in steps]

    def together(self, rows: Sequence[Ids], tokens: int, **kwargs: Any) -> list[Generated]:
        generator = BatchGenerator(self.model, max_tokens=tokens, **kwargs)
        found: dict[int, Generated] = {uid: ([], []) for uid in generator.insert([list(row) for row in rows])}
        try:
            while responses := generator.next_generated():
                for response in responses:
                    chosen, scores = found[response.uid]
                    chosen.append(int(response.token))
                    scores.append(_array(response.logprobs))
        finally:
            generator.close()
        return list(found.values())

    def sampled(self, ids: Ids, count: int, tokens: int) -> list[Generated]:
        mx.random.seed(0)
        return self.together([ids] * count, tokens, sampler=mx.random.categorical)

    # --- scenarios ---

    def _threads(self, number: int) -> Pairs:
        """samebits' own; MLX has no such setting."""
        want, before = self.whole(), get_num_threads()
        set_num_threads(number)
        try:
            yield self.last(self.prompts[:1]), want
        finally:
            set_num_threads(before)

    def more(self) -> list[tuple[str, Scenario]]:
        return [(f"{k} thread{'s' * (k > 1)}", partial(self._threads, k)) for k in (1, 2, 4)]


def _array(values: mx.array) -> Array:
    """A copy, in float32, which holds all that narrower floats can."""
    return np.array(values.astype(mx.float32))


def load(folder: str, settings: Settings) -> Mlx:
    return Mlx(folder, settings)
