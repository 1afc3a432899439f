"""What the README and the guides tell people to type, with NumPy and PyTorch; the other tests of this folder that run
blocks are test_mlx_guides.py and test_llama_cpp.py."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits
from guides import SESSION, blocks, run, session


def numpy_names():
    rng = np.random.default_rng(1)
    names = {"x": (5, 64), "w": (3, 64), "bias": (3,), "q": (1, 4, 7, 16), "k": (1, 2, 7, 16), "v": (1, 2, 7, 16)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in names.items()}


@pytest.mark.parametrize(("place", "code"), blocks("numpy").items())
def test_numpy(place, code):
    import samebits

    names = run(place, code, **numpy_names())
    if "weights" in names:
        assert bits(names["y"]) == bits(samebits.linear(names["x"], names["w"]))
        assert names["o"].shape == names["q"].shape


@pytest.fixture(scope="module")
def model():
    """A language model of random weights."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=100, num_key_value_heads=2, pad_token_id=0, **sizes)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize(("place", "code"), blocks("torch").items())
def test_torch(place, code, model):
    import samebits.torch
    import torch

    tokens, prompts = torch.randint(3, 100, (1, 11)), torch.randint(3, 100, (2, 7))
    mask = torch.ones_like(prompts)
    prompts[0, :3] = mask[0, :3] = 0

    def evaluate(model, batch_size):
        return torch.cat([model(part).logits[:, -1] for part in torch.randint(3, 100, (40, 9)).split(batch_size)])

    given = {"model": model, "tokens": tokens, "prompts": prompts, "mask": mask, "one_sequence": tokens}
    with torch.no_grad():
        names = run(place, code, samebits=samebits, torch=torch, evaluate=evaluate, **given)
        if "logits" in names:
            with samebits.torch.mode(strict=True):
                row = model(torch.cat([torch.randint(3, 100, (2, 11)), tokens])).logits[2:]
            assert torch.equal(row, names["logits"].logits)


def test_session(capsys):
    """What the page shows is what the blocks print, but for the numbers of stock."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    names, threads = {}, torch.get_num_threads()
    try:
        for code, shown in session():
            exec(compile(code, str(SESSION), "exec"), names)
            have, want = capsys.readouterr().out.splitlines(), shown.splitlines()
            assert len(have) == len(want)
            for line, there in zip(have, want, strict=True):
                assert line == there or (there.startswith("stock") and line.split()[2:] == there.split()[2:]), line
    finally:
        torch.set_num_threads(threads)
