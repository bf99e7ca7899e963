"""Draw clusters.svg, the picture of the README: its first example, on Monday and on Tuesday.

python docs/images/clusters.py
"""

from pathlib import Path

import numpy as np

from everlearn import DPMixture

COLOURS = {0: "#2a66a5", 1: "#c2571a", 2: "#1a7f5a", 3: "#8a4fa8"}
SIDE, MARGIN, SHOWN = 300, 30, 350
LOW, HIGH = -4.0, 12.0


def panel(title: str, rows, kinds, model, left: int) -> str:
    """Rows in the colour of their true kind, and the ellipse of each cluster found."""

    def at(x: float, y: float) -> tuple[float, float]:
        scale = SIDE / (HIGH - LOW)
        return left + (x - LOW) * scale, 40 + SIDE - (y - LOW) * scale

    parts = [f'<text x="{left}" y="24" font-size="16">{title}</text>']
    parts.append(f'<rect x="{left}" y="40" width="{SIDE}" height="{SIDE}" fill="#f5f6fa"/>')
    for (x, y), kind in zip(rows[:SHOWN], kinds[:SHOWN], strict=True):
        px, py = at(x, y)
        parts.append(f'<circle cx="{px:.0f}" cy="{py:.0f}" r="2" fill="{COLOURS[int(kind)]}"/>')
    for number, mean, variance in zip(
        model.component_ids_, model.means_, model.covariances_, strict=True
    ):
        px, py = at(*mean)
        rx, ry = 2 * np.sqrt(variance) * SIDE / (HIGH - LOW)
        parts.append(
            f'<ellipse cx="{px:.0f}" cy="{py:.0f}" rx="{rx:.0f}" ry="{ry:.0f}" fill="none" '
            'stroke="#222" stroke-width="1.5"/>'
            f'<text x="{px + rx:.0f}" y="{py - ry + 8:.0f}" font-size="14">#{number}</text>'
        )
    return "".join(parts)


def main() -> None:
    """The model of the README, learned and drawn."""
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [8, 0], [0, 8], [8, 8]])
    kinds = rng.integers(3, size=900)
    monday = centres[kinds] + rng.normal(size=(900, 2))
    later = rng.integers(4, size=900)
    tuesday = centres[later] + rng.normal(size=(900, 2))
    model = DPMixture(random_state=0).fit(monday)
    first = panel(
        f"Monday: 900 rows, {model.n_components_} clusters found", monday, kinds, model, 0
    )
    for start in range(0, 900, 300):
        model.partial_fit(tuesday[start : start + 300])
    title = f"Tuesday: 900 more, {model.n_components_} clusters"
    second = panel(title, tuesday, later, model, SIDE + MARGIN)
    width = 2 * SIDE + MARGIN
    Path(__file__).with_suffix(".svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIDE + 45}" '
        f'width="{width}" height="{SIDE + 45}" font-family="sans-serif">'
        f'<rect width="100%" height="100%" fill="#fff"/>{first}{second}</svg>\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
