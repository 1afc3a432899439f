"""Causal language models of Hugging Face's transformers: one prompt in other circumstances."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from . import _text
from ._engines import array, engine, facts, quiet, threads
from ._outcome import Line, Outcome, Settings

Tensor = torch.Tensor
Pairs = Iterator[tuple[Tensor, Tensor]]


class Causal:
    """A loaded checkpoint and its scenarios."""

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
        self.settings = settings
        self.prompts = [self._encode(text, settings.length) for text in _text.prompts(4)]
        self.outcome = Outcome(
            folder, facts("transformers", dtype=self.model.dtype, prompt=f"{settings.length} tokens")
        )
        self._whole: Tensor | None = None

    @staticmethod
    def _tokenizer(transformers: Any, folder: str) -> Any:
        """None where the folder has none: prompts are then token numbers drawn at random."""
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError):
            return None
        # Some kinds load without files, and then know no words.
        return tokenizer if len(tokenizer(_text.FILLER).input_ids) > 8 else None

    def _encode(self, text: str, length: int | None = None) -> Tensor:
        """The text's tokens (1, n), filled up or cut to a length."""
        if self.tokenizer is None:
            generator = torch.Generator().manual_seed(sum(text.encode()))
            return torch.randint(min(self.vocabulary, 1000), (1, length or 32), generator=generator)
        if length is not None:
            text = text + "\n" + _text.FILLER * (length // 16 + 1)
        ids: Tensor = self.tokenizer(text, return_tensors="pt").input_ids
        return ids if length is None else ids[:, :length]

    # --- ways to compute logits ---

    def forward(self, ids: Tensor, cache: Any = None, keep: int | Tensor = 0, **kwargs: Any) -> tuple[Tensor, Any]:
        """Logits (rows, n, vocabulary) of the ids, after what the cache holds, and the cache. `keep`: only the last
        positions, or those that a tensor lists."""
        if self._keeps:
            kwargs["logits_to_keep"] = keep
        result = self.model(input_ids=ids, use_cache=True, **{self._cache_name: cache}, **kwargs)
        logits = result.logits
        if not self._keeps:
            logits = logits[:, keep if isinstance(keep, Tensor) else slice(-keep, None)]
        return logits, result[self._cache_name]

    def last(self, ids: Tensor, cache: Any = None, **kwargs: Any) -> Tensor:
        return self.forward(ids, cache, keep=1, **kwargs)[0][:, -1]

    def whole(self) -> Tensor:
        """The reference of an engine: the prompt alone, in one piece."""
        if self._whole is None:
            self._whole = self.last(self.prompts[0])
        return self._whole

    def chunked(self, ids: Tensor, sizes: list[int]) -> Tensor:
        cache, logits = None, ids.new_empty(0)
        for part in torch.split(ids, sizes, dim=1):
            logits, cache = self.forward(part, cache, keep=1)
        return logits[:, -1]

    def generate(self, ids: Tensor, tokens: int, **kwargs: Any) -> Any:
        """Exactly that many tokens, with the logits of each step."""
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

    # --- scenarios: pairs of what came and what was to come ---

    def again(self) -> Pairs:
        yield self.last(self.prompts[0]), self.whole()

    def threads(self, number: int) -> Pairs:
        want = self.whole()
        with threads(number):
            yield self.last(self.prompts[0]), want

    def batch(self, size: int) -> Pairs:
        """The same prompt several times."""
        yield self.last(self.prompts[0].expand(size, -1)), self.whole().expand(size, -1)

    def neighbours(self) -> Pairs:
        for place in range(4):
            rows = [*self.prompts[1 : place + 1], self.prompts[0], *self.prompts[place + 1 :]]
            yield self.last(torch.cat(rows))[place], self.whole()[0]

    def padding(self, side: str, amount: int) -> Pairs:
        """Beside a longer prompt, which decides how far this one is padded."""
        ids, n = self.prompts[0], self.settings.length
        other = self._encode(_text.FILLER, n + amount)
        amounts = (amount, 0) if side == "left" else (0, amount)
        rows = torch.cat([torch.nn.functional.pad(ids, amounts), other])
        mask = torch.cat([torch.nn.functional.pad(torch.ones_like(ids), amounts), torch.ones_like(other)])
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        at = n + amount - 1 if side == "left" else n - 1
        where = torch.tensor([at])
        logits, _ = self.forward(rows, attention_mask=mask, position_ids=positions, keep=where)
        yield logits[:1, 0], self.whole()

    def chunks(self, size: int) -> Pairs:
        n = self.settings.length
        yield self.chunked(self.prompts[0], [size] * (n // size) + ([n % size] if n % size else [])), self.whole()

    def cached(self, rest: int) -> Pairs:
        """A prompt cache's hit: all but the last tokens are there."""
        yield self.chunked(self.prompts[0], [self.settings.length - rest, rest]), self.whole()

    def block(self, size: int) -> Pairs:
        """The positions of a speculative block, against one token at a time."""
        ids, n = self.prompts[0], self.settings.length
        _, cache = self.forward(ids[:, : n - size], keep=1)
        have, _ = self.forward(ids[:, n - size :], cache)
        _, cache = self.forward(ids[:, : n - size], keep=1)
        for i in range(size):
            want, cache = self.forward(ids[:, n - size + i : n - size + i + 1], cache)
            yield have[:, i], want[:, 0]

    def _forced(self, sequence: Tensor, tokens: int) -> Tensor:
        """Logits of the last tokens of a sequence (n,), which is read alone and in one piece."""
        return self.forward(sequence[None, :-1], keep=tokens)[0][0]

    def returned(self, **kwargs: Any) -> Pairs:
        """Sequences as generated together, against each read alone: what a trainer computes of rollouts."""
        tokens = min(self.settings.tokens, 16)
        torch.manual_seed(0)
        result = self.generate(self.prompts[0], tokens, **kwargs)
        beams = getattr(result, "beam_indices", None)
        for i, sequence in enumerate(result.sequences):
            rows = [i] * tokens if beams is None else [max(int(b), 0) for b in beams[i][:tokens]]
            have = torch.stack([step[row] for step, row in zip(result.logits, rows, strict=True)])
            want = self._forced(sequence, tokens)
            yield have.to(want.dtype), want

    def together(self) -> Pairs:
        """Prompts of other lengths in one call of generate, padded on the left, against each alone."""
        tokens = min(self.settings.tokens, 16)
        rows = [ids[:, : self.settings.length - 7 * i] for i, ids in enumerate(self.prompts)]
        pads = [(self.settings.length - ids.shape[1], 0) for ids in rows]
        ids = torch.cat([torch.nn.functional.pad(r, p) for r, p in zip(rows, pads, strict=True)])
        mask = torch.cat([torch.nn.functional.pad(torch.ones_like(r), p) for r, p in zip(rows, pads, strict=True)])
        result = self.generate(ids, tokens, attention_mask=mask)
        for i, row in enumerate(rows):
            alone = self.generate(row, tokens)
            yield torch.stack([step[i] for step in result.logits]), torch.stack([step[0] for step in alone.logits])

    def scenarios(self) -> list[tuple[str, Callable[[], Pairs]]]:
        n = self.settings.length
        found: list[tuple[str, Callable[[], Pairs]]] = [("again", self.again)]
        found += [(f"{k} thread{'s' * (k > 1)}", partial(self.threads, k)) for k in (1, 2, 4)]
        found += [(f"batch of {k}", partial(self.batch, k)) for k in (2, 4, 8)]
        found += [("among three others, at each place", self.neighbours)]
        for side in ("left", "right"):
            found += [(f"{k} padded on the {side}", partial(self.padding, side, k)) for k in (1, 11, 64)]
        found += [(f"in chunks of {k}", partial(self.chunks, k)) for k in (1, 7, 50) if k < n]
        found += [(f"cached but for the last {k}", partial(self.cached, k)) for k in (1, n // 2)]
        found += [(f"speculative block of {k}", partial(self.block, k)) for k in (5,) if k < n]
        found += [
            ("generate, four of other lengths", self.together),
            ("generate, four sampled", partial(self.returned, do_sample=True, num_return_sequences=4)),
            ("generate, four beams", partial(self.returned, num_beams=4, num_return_sequences=4)),
        ]
        return found

    # --- the run ---

    def steps(self) -> int:
        return 2 * (len(self.scenarios()) + self.settings.prompts)

    def run(self, tick: Callable[[str], None]) -> None:
        references: list[Tensor | None] = [None, None]
        for name, scenario in self.scenarios():
            line = Line(name, "logits")
            for ours, count in ((False, line.stock), (True, line.samebits)):
                tick(name)
                self._whole = references[ours]
                with engine(ours, self.outcome):
                    for have, want in scenario():
                        count.add(array(have), array(want))
                references[ours] = self._whole
            self.outcome.lines.append(line)
        if self.settings.prompts:
            self._speculative(tick)

    def _speculative(self, tick: Callable[[str], None]) -> None:
        """Greedy decoding with prompt lookup against plain greedy decoding."""
        lines = [Line("prompt lookup, greedy", unit) for unit in ("prompts", "tokens", "logits")]
        for i, text in enumerate(_text.prompts(self.settings.prompts)):
            ids = self._encode(text)
            for ours in (False, True):
                tick(f"prompt lookup, {i + 1} of {self.settings.prompts}")
                counts = [line.samebits if ours else line.stock for line in lines]
                with engine(ours, self.outcome):
                    plain = self.generate(ids, self.settings.tokens)
                    drafted = self.generate(ids, self.settings.tokens, prompt_lookup_num_tokens=4)
                counts[0].of += 1
                counts[0].moved += not torch.equal(drafted.sequences, plain.sequences)
                start = ids.shape[1]
                counts[1].add(array(drafted.sequences[:, start:]), array(plain.sequences[:, start:]))
                # Past the first other token the two read different texts.
                same = int((drafted.sequences == plain.sequences)[0, start:].cumprod(0).sum()) + 1
                for have, want in zip(drafted.logits[:same], plain.logits[:same], strict=True):
                    counts[2].add(array(have), array(want))
        self.outcome.lines += lines


def load(folder: str, settings: Settings) -> Causal:
    return Causal(folder, settings)
