"""Draw digits.png, the picture of the README, from a run of the demo; needs Chromium.

python docs/images/digits.py
"""

import shutil
import subprocess
import tempfile
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from everlearn import DPMixture
from everlearn.cli.demo_data import load_digits
from everlearn.estimator.history import Point
from everlearn.report import charts
from everlearn.report.page import escape
from everlearn.report.pictures import ink_image
from everlearn.report.study import Study, agreement, assigned, components

SEED, BATCH = 0, 100
WIDTH, HEIGHT = 1100, 450
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LAYOUT = """
body { display: grid; grid-template-columns: 33rem 1fr; gap: 2rem; align-items: center;
       width: 1100px; height: 450px; margin: 0; padding: 0 1.75rem; background: #fff; }
ul { display: grid; grid-template-columns: repeat(5, 1fr); gap: 0.8rem; margin: 0; padding: 0;
     list-style: none; }
li { text-align: center; font-size: 0.8rem; line-height: 1.35; color: var(--muted); }
.mean { width: 4.4rem; height: 4.4rem; margin: 0 auto 0.2rem; }
"""


def page(study: Study) -> str:
    """Growth on the left, the largest components on the right."""
    rows = assigned(study)
    classes = agreement(rows.labels, study.truth, study.model.n_components_)
    figure = charts.growth(study)
    figure["layout"]["height"] = HEIGHT - 20
    pictures = "".join(
        f"<li>{ink_image(study.gallery.means[one.position], '', 'mean')}#{one.id}, {one.share:.0%}"
        f"<br>{one.purity or 0:.0%} are <b>{escape(one.top or '')}</b></li>"
        for one in components(study, rows, classes)[:15]
    )
    home = files("everlearn.report")
    style = home.joinpath("page.css").read_text("utf-8") + LAYOUT
    scripts = "".join(f"<script>{code}</script>" for code in charts.scripts())
    return (
        f'<!DOCTYPE html><meta charset="utf-8"><style>{style}</style>'
        f"<div>{charts.chart('growth', figure, '')}</div><ul>{pictures}</ul>"
        f"{scripts}"
    )


def main() -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    digits = load_digits(SEED)
    model, trace = DPMixture(family="full", random_state=SEED), []
    for first in range(0, len(digits.rows), BATCH):
        model.partial_fit(digits.rows[first : first + BATCH])
        lap = model.history_.points[-1].lap
        trace.append(Point(lap, model.n_samples_seen_, model.bound_, model.n_components_))
    study = replace(digits.study(model), trace=tuple(trace))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "digits.html"
        source.write_text(page(study), encoding="utf-8")
        subprocess.run(
            [
                browser,
                *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--no-first-run", "--disable-background-networking", "--disable-sync"),
                f"--user-data-dir={folder}/profile",
                "--virtual-time-budget=8000",
                "--force-device-scale-factor=1.2",
                f"--window-size={WIDTH},{HEIGHT}",
                f"--screenshot={Path(__file__).with_suffix('.png')}",
                source.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )


if __name__ == "__main__":
    main()
