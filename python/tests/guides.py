"""The blocks of Python in the README and the guides, which the tests run as they stand."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


#: A page whose blocks follow one another, each with what it prints.
SESSION = ROOT / "docs" / "pytorch-session.md"


def kind_of(code):
    """What a block needs besides NumPy."""
    return next((kind for kind in ("llama_cpp", "mlx", "torch") if f"samebits.{kind}" in code), "numpy")


def blocks(*kinds):
    """Names and texts of the blocks of some kinds."""
    found = {}
    for page in {ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {SESSION}:
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 2
            if kind_of(block[1]) in kinds:
                found[f"{page.relative_to(ROOT)}:{line}"] = block[1]
    assert found, kinds
    return dict(sorted(found.items()))


def session():
    """Codes of the session, each with what it prints."""
    parts = re.findall(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", SESSION.read_text("utf-8"), re.M | re.S)
    assert len(parts) > 5
    return parts


def run(place, code, **given):
    """The names that a block leaves behind."""
    exec(compile(code, place, "exec"), given)
    return given
