"""A real browser without a network, for tests of pages."""

import re
import shutil
import subprocess

import pytest

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:9",
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="needs a browser: no chromium, chromium-browser or google-chrome found"
)


def opened(path, tmp_path, *flags):
    """The page after its scripts have run, and what they wrote to the browser's console."""
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run(
        [BROWSER, *FLAGS, *flags, profile, "--dump-dom", path.as_uri()],
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return without_scripts(done.stdout), said


def without_scripts(dom):
    return re.sub(r"<script\b.*?</script>", "", dom, flags=re.DOTALL)


def widths(path, tmp_path, window=500):
    """Pixels that a page needs and has in a window of the given width."""
    measure = (
        "<script>var all = document.documentElement;"
        "all.dataset.width = all.scrollWidth + ' of ' + all.clientWidth;</script>"
    )
    measured = tmp_path / "measured.html"
    source = path.read_text("utf-8").replace("script-src 'none'", "script-src 'unsafe-inline'")
    measured.write_text(source.replace("</body>", f"{measure}</body>"), encoding="utf-8")
    dom, _ = opened(measured, tmp_path, f"--window-size={window},900")
    ((needed, given),) = re.findall(r'data-width="(\d+) of (\d+)"', dom)
    return int(needed), int(given)
