"""Take report.png, the picture of a report in the README: three days of requests to a server.

On the third day, answers take three times as long. It needs Pillow and Chromium:

python docs/images/report.py
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 1000, 1060
COLOURS = 64
CENTRES = np.array([[200, 1200], [350, 90_000], [30, 400]])
SPREADS = np.array([[30, 300], [60, 9000], [5, 90]])


def write_days(folder: Path) -> list[Path]:
    """Three CSV files with the columns latency_ms and bytes."""
    rng = np.random.default_rng(0)
    paths = []
    for day in range(3):
        kind = rng.choice(3, size=3000, p=(0.6, 0.3, 0.1))
        rows = CENTRES[kind] + SPREADS[kind] * rng.normal(size=(3000, 2))
        if day == 2:
            rows[:, 0] *= 3
        paths.append(folder / f"day{day + 1}.csv")
        head = "latency_ms,bytes"
        np.savetxt(paths[-1], rows, delimiter=",", header=head, comments="", fmt="%.1f")
    return paths


def main() -> None:
    """Learn the days, write the report, and take its picture."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("needs chromium or google-chrome")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, page, shot = (folder / f"requests.{end}" for end in ("evl", "html", "png"))
        everlearn = Path(sys.executable).with_name("everlearn")
        days = write_days(folder)
        learn = (everlearn, "learn", model, "--kind", "mixture", "--score-every", "1", "--quiet")
        for known in (days[:2], days):
            subprocess.run([*learn, *known], check=True)
        subprocess.run([everlearn, "report", model, "-o", page], check=True)
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                 "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}",
                 f"--user-data-dir={folder / 'profile'}", f"--screenshot={shot}")  # fmt: skip
        subprocess.run([browser, *flags, page.as_uri()], check=True, capture_output=True)
        picture = Image.open(shot).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        picture.save(Path(__file__).with_suffix(".png"), optimize=True)


if __name__ == "__main__":
    main()
