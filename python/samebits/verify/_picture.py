"""The picture of a run: for each scenario, how much of the output moved in stock and with samebits."""

from __future__ import annotations

import html

from ._outcome import Count, Outcome

LEFT, BAR, ROW, TOP = 290, 420, 34, 84
STOCK, OURS = "#c8783c", "#2a7ab0"


def _bar(y: int, count: Count, colour: str) -> str:
    if not count.of:
        return f'<text x="{LEFT + 6}" y="{y + 10}" font-size="11">not run</text>'
    share = count.moved / count.of
    # One moved element of a million is still to be seen.
    width = max(round(BAR * share), 2) if count.moved else 0
    said = f"{share:.0%}" if count.moved in (0, count.of) or share >= 0.01 else "under 1%"
    if count.moved and count.largest:
        said += f", by up to {count.largest:.2g}"
    return (
        f'<rect x="{LEFT}" y="{y}" width="{width}" height="12" fill="{colour}"/>'
        f'<text x="{LEFT + width + 6}" y="{y + 10}" font-size="11">{said}</text>'
    )


def draw(outcome: Outcome) -> str:
    """An SVG file's text."""
    height = TOP + ROW * len(outcome.lines) + 16
    facts = ", ".join(f"{name} {value}" for name, value in outcome.facts.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + BAR + 190}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="20" y="24" font-size="16">What moves when only the circumstances change</text>',
        f'<text x="20" y="44" fill="#555">{html.escape(facts)}</text>',
    ]
    for x, colour, name in ((LEFT, STOCK, "stock"), (LEFT + 90, OURS, "samebits")):
        parts.append(f'<rect x="{x}" y="58" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="68">{name}</text>')
    for i, line in enumerate(outcome.lines):
        y = TOP + ROW * i
        name = html.escape(f"{line.scenario}, {line.unit}")
        parts.append(f'<text x="{LEFT - 8}" y="{y + 17}" text-anchor="end">{name}</text>')
        parts += [_bar(y + 1, line.stock, STOCK), _bar(y + 15, line.samebits, OURS)]
    parts.append(f'<line x1="{LEFT}" y1="{TOP - 4}" x2="{LEFT}" y2="{height - 12}" stroke="black"/></svg>')
    return "\n".join(parts) + "\n"
