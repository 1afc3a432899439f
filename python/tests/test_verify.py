"""`python -m samebits verify` over checkpoints: what is counted, exit status, and small models of random weights."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from samebits.verify import _command, _outcome, _picture, is_ours, main


def moved_by(changes):
    """An outcome with one line, in which samebits moved as many elements."""
    outcome = _outcome.Outcome("a folder", {"dtype": "float32"})
    line = _outcome.Line("a scenario", "logits")
    want = np.linspace(-1, 1, 100, dtype=np.float32)
    have = want.copy()
    have[:changes] += 0.5
    line.stock.add(-have, want)
    line.samebits.add(have, want)
    outcome.lines.append(line)
    return outcome


def test_counts_are_of_bit_patterns():
    count = _outcome.Count()
    count.add(np.float32([0.0, 1.0, np.nan]), np.float32([-0.0, 1.0, np.nan]))
    assert (count.moved, count.of, count.largest) == (1, 3, 0.0)
    count.add(np.float32([np.inf, 2.5]), np.float32([1.0, 2.0]))
    assert (count.moved, count.of, count.largest) == (3, 5, 0.5)
    with pytest.raises(ValueError, match="cannot be compared"):
        count.add(np.zeros(3, np.float32), np.zeros(2, np.float32))


@pytest.mark.parametrize("changes", [0, 3])
def test_exit_status_and_reports(changes, monkeypatch, tmp_path, capsys):
    """One moved element is enough for status 1."""

    class Door:
        outcome = moved_by(changes)

        def steps(self):
            return 1

        def run(self, tick):
            tick("a scenario")

    monkeypatch.setattr(_command, "_load", lambda option, folder, settings: Door())
    picture = tmp_path / "moved.svg"
    status = main(["verify", "--hf", "a folder", "--json", "--plot", str(picture)])
    assert status == (1 if changes else 0)
    out, err = capsys.readouterr()
    have = json.loads(out)
    assert have["holds"] == (not changes) and not err
    assert have["scenarios"][0]["samebits"]["moved"] == changes and have["scenarios"][0]["stock"]["moved"] == 100
    assert picture.read_text().startswith("<svg") and "a scenario" in picture.read_text()
    assert main(["verify", "--hf", "a folder"]) == status
    assert f"{changes} of 100" in capsys.readouterr().out


def test_picture_escapes():
    outcome = moved_by(1)
    outcome.lines[0].scenario = "a < b & c"
    assert "a &lt; b &amp; c" in _picture.draw(outcome)


def test_dispatch():
    assert (
        is_ours(["verify", "--hf", "x"])
        and is_ours(["verify", "--mlx=x"])
        and is_ours(["verify", "--sentence-transformers=x"])
    )
    assert not is_ours(["verify", "--quick"]) and not is_ours(["bench", "--hf"]) and not is_ours([])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--hf", "/no/such/folder"], "no such folder"),
        (["--hf", ".", "--length", "3"], "16 tokens"),
        (["--hf", ".", "--plot", "/no/such/folder/x.svg"], "no such folder"),
        (["--hf", ".", "--tokens", "-1"], "negative"),
        (["--hf", ".", "--sentence-transformers", "."], "not allowed with"),
        (["--hf"], "expected one argument"),
    ],
)
def test_usage(arguments, text):
    done = subprocess.run([sys.executable, "-m", "samebits", "verify", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and text in done.stderr and not done.stdout


def test_empty_folder(tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    command = [sys.executable, "-m", "samebits", "verify", "--hf", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "cannot be loaded" in done.stderr


def config(kind, transformers):
    common = {
        "vocab_size": 300,
        "hidden_size": 64,
        "intermediate_size": 112,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
    }
    if kind == "gpt2":
        return transformers.GPT2Config(vocab_size=300, n_positions=512, n_embd=64, n_layer=2, n_head=4)
    return {"llama": transformers.LlamaConfig, "qwen3": transformers.Qwen3Config}[kind](**common)


@pytest.mark.parametrize(("kind", "dtype"), [("llama", "float32"), ("gpt2", "float32"), ("qwen3", "bfloat16")])
def test_small_models(kind, dtype, tmp_path, capsys):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config(kind, transformers)).save_pretrained(tmp_path)
    arguments = ["--hf", str(tmp_path), "--dtype", dtype, "--length", "40", "--prompts", "1", "--tokens", "8"]
    capsys.readouterr()
    status = main(["verify", *arguments, "--json"])
    have = json.loads(capsys.readouterr().out)
    assert {
        line["scenario"]: line["samebits"]["moved"] for line in have["scenarios"] if line["samebits"]["moved"]
    } == {}
    assert status == 0 and have["holds"] and not have["stock_operations"]
    names = [line["scenario"] for line in have["scenarios"]]
    assert len(names) > 20 and "generate, four beams" in names and "prompt lookup, greedy" in names
