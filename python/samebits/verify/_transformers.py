"""Causal language models of Hugging Face's transformers."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from . import _text
from ._causal import Array, Causal, Generated, Ids, Pairs, Scenario
from ._outcome import Outcome, Settings
from ._torch import array, engine, facts, quiet, threads

Tensor = torch.Tensor


class Transformers(Causal):
    """A checkpoint of transformers, on the CPU."""

    speculation = "prompt lookup"

    def __init__(self, folder: str, settings: Settings) -> None:
        import transformers

        quiet()
        dtype: Any = settings.dtype if settings.dtype == "auto" else getattr(torch, settings.dtype)
        load: Any = transformers.AutoModelForCausalLM.from_pretrained
        self.model: Any = load(folder, dtype=dtype, local_files_only=True).eval()
        takes = inspect.signature(self.model.forward).parameters
        self._cache_name = "cache" if "cache" in takes else "past_key_values"  # renamed in transformers 5
        self._keeps = "logits_to_keep" in takes
        self.vocabulary = int(self.model.config.get_text_config().vocab_size)
        self.tokenizer = self._tokenizer(transformers, folder)
        self.outcome = Outcome(
            folder, facts("transformers", dtype=self.model.dtype, prompt=f"{settings.length} tokens")
        )
        super().__init__(settings)

    @staticmethod
    def _tokenizer(transformers: Any, folder: str) -> Any:
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError):
            return None
        # Some kinds load without files, and then know no words.
        return tokenizer if len(tokenizer(_text.FILLER).input_ids) > 8 else None

    def engine(self, ours: bool) -> contextlib.AbstractContextManager[None]:
        return engine(ours, self.outcome)

    def encode(self, text: str) -> Ids | None:
        return None if self.tokenizer is None else list(self.tokenizer(text).input_ids)

    # --- logits ---

    def _forward(self, ids: Tensor, keep: int | Tensor, cache: Any = None, **kwargs: Any) -> tuple[Tensor, Any]:
        """`keep`: that many last positions, or those that a tensor lists."""
        if self._keeps:
            kwargs["logits_to_keep"] = keep
        result = self.model(input_ids=ids, use_cache=True, **{self._cache_name: cache}, **kwargs)
        logits = result.logits
        if not self._keeps:
            logits = logits[:, keep if isinstance(keep, Tensor) else slice(-keep, None)]
        return logits, result[self._cache_name]

    def forward(self, rows: Sequence[Ids], keep: int, cache: Any = None) -> tuple[Array, Any]:
        logits, cache = self._forward(torch.tensor(rows), keep, cache)
        return array(logits), cache

    def padded(self, ids: Ids, other: Ids, side: str) -> Array:
        amount = len(other) - len(ids)
        rows, mask = _padded([ids, other], side)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        at = torch.tensor([len(other) - 1 if side == "left" else len(other) - 1 - amount])
        logits, _ = self._forward(rows, at, attention_mask=mask, position_ids=positions)
        return array(logits[:1, 0])

    def read(self, ids: Ids, last: int) -> Array:
        logits, _ = self.forward([ids[:-1]], last)
        return np.asarray(logits[0])

    # --- generation ---

    def _generate(self, ids: Tensor, tokens: int, **kwargs: Any) -> Any:
        kwargs.setdefault("attention_mask", torch.ones_like(ids))
        kwargs.setdefault("do_sample", False)
        return self.model.generate(
            ids,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            output_logits=True,
            return_dict_in_generate=True,
            pad_token_id=0,
            top_k=None,
            top_p=None,
            **kwargs,
        )

    def _generated(self, result: Any, tokens: int) -> list[Generated]:
        """The sequences of a result, each with its own row of the logits of every step."""
        beams = getattr(result, "beam_indices", None)
        found: list[Generated] = []
        for i, sequence in enumerate(result.sequences):
            rows = [i] * tokens if beams is None else [max(int(b), 0) for b in beams[i][:tokens]]
            steps = [step[row].to(self.model.dtype) for step, row in zip(result.logits, rows, strict=True)]
            found.append((sequence[-tokens:].tolist(), [array(step) for step in steps]))
        return found

    def generate(self, ids: Ids, tokens: int) -> Generated:
        return self._generated(self._generate(torch.tensor([ids]), tokens), tokens)[0]

    def speculate(self, ids: Ids, tokens: int) -> Generated:
        return self._generated(self._generate(torch.tensor([ids]), tokens, prompt_lookup_num_tokens=4), tokens)[0]

    def together(self, rows: Sequence[Ids], tokens: int) -> list[Generated]:
        ids, mask = _padded(rows, "left")
        return self._generated(self._generate(ids, tokens, attention_mask=mask), tokens)

    def sampled(self, ids: Ids, count: int, tokens: int) -> list[Generated]:
        torch.manual_seed(0)
        result = self._generate(torch.tensor([ids]), tokens, do_sample=True, num_return_sequences=count)
        return self._generated(result, tokens)

    def _beams(self, ids: Ids, count: int, tokens: int) -> list[Generated]:
        result = self._generate(torch.tensor([ids]), tokens, num_beams=count, num_return_sequences=count)
        return self._generated(result, tokens)

    # --- scenarios ---

    def _threads(self, number: int) -> Pairs:
        want = self.whole()
        with threads(number):
            yield self.last(self.prompts[:1]), want

    def more(self) -> list[tuple[str, Scenario]]:
        found: list[tuple[str, Scenario]] = [("generate, four beams", partial(self.returned, self._beams))]
        return found + [(f"{k} thread{'s' * (k > 1)}", partial(self._threads, k)) for k in (1, 2, 4)]


def _padded(rows: Sequence[Ids], side: str) -> tuple[Tensor, Tensor]:
    """The rows at the length of the longest, and where they have tokens."""
    size = max(map(len, rows))
    ids = torch.zeros(len(rows), size, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        where = slice(size - len(row), size) if side == "left" else slice(0, len(row))
        ids[i, where] = torch.tensor(row)
        mask[i, where] = 1
    return ids, mask


def load(folder: str, settings: Settings) -> Transformers:
    return Transformers(folder, settings)
