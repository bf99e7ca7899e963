"""Draw clusters.svg, the picture of the README: the model of its first example, on both days.

python docs/images/clusters.py
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import make_blobs

from everlearn import DPMixture, load

COLOURS = ("#2a66a5", "#c2571a", "#1a7f5a", "#8a4fa8")
SIDE, TOP, MARGIN, SHOWN = 300, 34, 24, 400
LOW, HIGH = -4.0, 12.0


def panel(title: str, rows, model, colour_of: dict[int, str], left: int) -> str:
    """Rows in the colour of their cluster, and the ellipse and share of each cluster."""

    def at(x: float, y: float) -> tuple[float, float]:
        scale = SIDE / (HIGH - LOW)
        return left + (x - LOW) * scale, TOP + SIDE - (y - LOW) * scale

    parts = [f'<text x="{left + 2}" y="20" font-size="15" fill="#1c2128">{title}</text>']
    parts.append(
        f'<rect x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" rx="8" fill="#f3f5f8"/>'
    )
    ids = model.component_ids_
    owner = ids[model.predict_proba(rows[:SHOWN]).argmax(axis=1)]
    for (x, y), number in zip(rows[:SHOWN], owner.tolist(), strict=True):
        if LOW < x < HIGH and LOW < y < HIGH:
            px, py = at(x, y)
            parts.append(
                f'<circle cx="{px:.0f}" cy="{py:.0f}" r="1.8" fill="{colour_of[number]}"/>'
            )
    for number, mean, variance, share in zip(
        ids.tolist(), model.means_, model.covariances_, model.weights_, strict=True
    ):
        px, py = at(*mean)
        rx, ry = 2.2 * np.sqrt(variance) * SIDE / (HIGH - LOW)
        label = "new" if colour_of[number] == COLOURS[-1] else f"{share:.0%}"
        parts.append(
            f'<ellipse cx="{px:.0f}" cy="{py:.0f}" rx="{rx:.0f}" ry="{ry:.0f}" fill="none" '
            f'stroke="{colour_of[number]}" stroke-width="2"/>'
            f'<text x="{px:.0f}" y="{py - ry - 6:.0f}" font-size="14" text-anchor="middle" '
            f'fill="#1c2128">{label}</text>'
        )
    return "".join(parts)


def main() -> None:
    """The model of the README, learned and drawn."""
    X, kind = make_blobs(1800, centers=[(0, 0), (8, 0), (0, 8), (8, 8)], random_state=0)
    monday, tuesday = X[:900][kind[:900] < 3], X[900:]
    with tempfile.TemporaryDirectory() as folder:
        DPMixture(random_state=0).fit(monday).save(f"{folder}/clusters.evl")
        model = load(f"{folder}/clusters.evl")
    colour_of = dict(zip(sorted(model.component_ids_.tolist()), COLOURS, strict=False))
    title = f"Monday: {model.n_components_} clusters in {model.n_samples_seen_} rows"
    first = panel(title, monday, model, colour_of, 0)
    model.partial_fit(tuesday)
    for number in model.component_ids_.tolist():
        colour_of.setdefault(number, COLOURS[-1])
    title = f"Tuesday: {model.n_components_} clusters in {model.n_samples_seen_} rows"
    second = panel(title, tuesday, model, colour_of, SIDE + MARGIN)
    width, height = 2 * SIDE + MARGIN, SIDE + TOP
    Path(__file__).with_suffix(".svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 0 {width + 16} {height + 8}" '
        f'width="{width + 16}" height="{height + 8}" font-family="sans-serif">'
        f'<rect x="-8" width="100%" height="100%" rx="8" fill="#fff"/>{first}{second}</svg>\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
