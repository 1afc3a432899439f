"""`python -m samebits verify --mlx`: small models of random weights, and drafts that other weights would have made."""

from __future__ import annotations

import json

import pytest
from mlx_support import mx, nn, seed  # noqa: F401
from samebits.verify import main

utils = pytest.importorskip("mlx_lm.utils", reason="mlx-lm is not installed")


def checkpoint(folder, kind, dtype):
    """A folder as mlx_lm.convert leaves it: 4-bit weights."""
    config = {"model_type": kind, "rms_norm_eps": 1e-5, "hidden_size": 128, "intermediate_size": 256, "head_dim": 32}
    config |= {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300}
    if kind == "gemma3_text":
        config |= {"sliding_window": 24, "sliding_window_pattern": 2}
    model_class, arguments = utils._get_classes(config)
    model = model_class(arguments.from_dict(config))
    model.set_dtype(dtype)
    config["quantization"] = {"group_size": 64, "bits": 4}
    nn.quantize(model, **config["quantization"])
    utils.save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(("kind", "dtype"), [("llama", mx.bfloat16), ("gemma3_text", mx.float32)])
def test_small_models(kind, dtype, tmp_path, capsys):
    folder, picture = checkpoint(tmp_path / kind, kind, dtype), tmp_path / "moved.svg"
    capsys.readouterr()
    arguments = ["--mlx", folder, "--prompts", "1", "--tokens", "8", "--json", "--plot", str(picture)]
    status = main(["verify", *arguments])
    have = json.loads(capsys.readouterr().out)
    moved = {line["scenario"]: line["samebits"] for line in have["scenarios"] if line["samebits"]["moved"]}
    assert status == 0 and have["holds"] and moved == {} and not have["stock_operations"]
    names = [line["scenario"] for line in have["scenarios"]]
    assert len(names) > 20 and "generate, four of other lengths" in names and "2 threads" in names
    assert all(line["stock"] is not None and line["of"] > 0 for line in have["scenarios"])
    if kind == "llama":
        assert names[-3:] == ["draft model, greedy"] * 3 and have["facts"]["draft model"] == "2 of 3 layers"
        assert "draft model, greedy" in picture.read_text()
    else:
        assert have["facts"]["draft model"].startswith("none")


def test_without_stock(tmp_path, capsys):
    folder = checkpoint(tmp_path, "llama", mx.float16)
    assert main(["verify", "--mlx", folder, "--no-stock", "--prompts", "0", "--length", "16"]) == 0
    out = capsys.readouterr().out
    assert "stock was not run, samebits in 0 of" in out and "weights 4 bits, groups of 64" in out


def test_the_comparison_sees_what_moves(tmp_path, capsys, monkeypatch):
    """The control: products that depend on the number of rows move in the mode too."""
    folder = checkpoint(tmp_path, "llama", mx.float32)

    def by_rows(self, x):
        more = 1e-3 if x.shape[-2] * x.shape[0] > 1 else 0.0
        out = mx.quantized_matmul(x, self.weight, self.scales, self.biases, group_size=64, bits=4)
        return out + more * out

    monkeypatch.setattr(nn.QuantizedLinear, "__call__", by_rows)
    assert main(["verify", "--mlx", folder, "--no-stock", "--prompts", "0", "--length", "16"]) == 1
