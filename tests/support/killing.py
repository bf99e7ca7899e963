"""Kills learners at random moments and starts them again; run as a program of its own.

    python killing.py FOLDER N_KILLS SEED CASE...

Everything is loaded and compiled once; each learner is a fork, so a start takes no time. Prints a
JSON object: kills that hit, and whether each case ended with the bytes of a run never stopped.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

from everlearn.cli.learn import learn_in_terminal
from support.stream_cases import CASES


def learner(request, stdin):
    """The process id of a fork that learns."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        if stdin is not None:
            os.dup2(os.open(stdin, os.O_RDONLY), 0)
        code = learn_in_terminal(request, quiet=True)
    finally:
        os._exit(code)


def ended(pid):
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def killed_after(seconds, pid):
    """The exit code of a process that is killed if it has not ended by itself by then."""
    end = time.perf_counter() + seconds
    while (left := end - time.perf_counter()) > 0:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(min(left, 0.002))
    os.kill(pid, signal.SIGKILL)
    return ended(pid)


def trial(name, folder, n_kills, rng):
    """Kills that hit, and whether the last file is the one of a run without kills."""
    folder.mkdir(parents=True)
    case = CASES[name]
    warm, stdin = case.request(folder, folder / "warm.evl")
    if stdin is None:
        learn_in_terminal(warm, quiet=True)  # compiles what the forks will use
    whole, stdin = case.request(folder, folder / "whole.evl")
    assert ended(learner(whole, stdin)) == 0
    start = time.perf_counter()
    again, _ = case.request(folder, folder / "timed.evl")
    assert ended(learner(again, stdin)) == 0
    seconds = time.perf_counter() - start

    request, _ = case.request(folder, folder / "killed.evl")
    hits, files, attempts = 0, set(), 0
    while hits < n_kills and attempts < 20 * n_kills:
        attempts += 1
        for path in folder.glob("killed.evl*"):
            path.unlink()
        code = None
        while code != 0:
            pid = learner(request, stdin)
            code = killed_after(rng.uniform(0, seconds) if hits < n_kills else 4 * seconds + 1, pid)
            assert code in (0, -signal.SIGKILL), code
            hits += code != 0
        files.add((folder / "killed.evl").read_bytes())
        files.add(lines_without_time(folder / "killed.evl.log.jsonl"))
        files.add(quarantined(folder / "killed.evl"))
    wanted = {(folder / "whole.evl").read_bytes()}
    wanted.add(lines_without_time(folder / "whole.evl.log.jsonl"))
    wanted.add(quarantined(folder / "whole.evl"))
    return hits, files == wanted


def quarantined(model):
    path = model.with_name(f"{model.name}.quarantine.jsonl")
    return path.read_text() if path.exists() else ""


def lines_without_time(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return json.dumps([{k: v for k, v in x.items() if k not in ("time", "seconds")} for x in lines])


def main(folder, n_kills, seed, *names):
    os.fsync = lambda file: None  # a kill, unlike a power cut, loses nothing that was written
    warnings.simplefilter("ignore", DeprecationWarning)  # forks of a process with threads
    rng = random.Random(int(seed))
    results = {
        name: trial(name, Path(folder) / str(i), int(n_kills), rng) for i, name in enumerate(names)
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
