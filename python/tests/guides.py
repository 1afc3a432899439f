"""The blocks of Python in the README and the guides, which the tests run as they stand."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def kind_of(code):
    """What a block needs besides NumPy."""
    return next((kind for kind in ("llama_cpp", "mlx", "torch") if f"samebits.{kind}" in code), "numpy")


def blocks(*kinds):
    """Names and texts of the blocks of some kinds."""
    found = {}
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 2
            if kind_of(block[1]) in kinds:
                found[f"{page.relative_to(ROOT)}:{line}"] = block[1]
    assert found, kinds
    return found


def run(place, code, **given):
    """The names that a block leaves behind."""
    exec(compile(code, place, "exec"), given)
    return given
