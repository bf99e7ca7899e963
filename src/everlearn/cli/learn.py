"""`everlearn learn`: begin a model, or go on with it, from files, folders and pipes."""

from __future__ import annotations

import typer

from everlearn.cli import options as opt
from everlearn.cli.exits import told_errors


def learn(
    model: opt.ModelFile,
    sources: opt.Sources,
    kind: opt.KindOption = None,
    settings: opt.Settings = None,
    batch: opt.BatchSize = None,
    memory: opt.Memory = None,
    every: opt.Every = "30s",
    label: opt.LabelField = None,
    text: opt.TextField = None,
    columns: opt.Columns = None,
    classes: opt.Classes = None,
    image_side: opt.ImageSide = None,
    stdin_format: opt.StdinFormat = "jsonl",
    idle: opt.Idle = 60.0,
    score_every: opt.ScoreEvery = 20,
    strict: opt.Strict = False,
    engine: opt.EngineName = None,
    seed: opt.Seed = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Learn from a stream, exactly once, into one file.

    Run it again with the same sources to learn what is new in them, or with
    others to learn those too. Stop it in any way and run it again: the file
    will be, to the byte, that of a run that was never stopped.

    Bad records go to MODEL.quarantine.jsonl with the reason. What happened
    when is in MODEL.log.jsonl; see everlearn log.

    Example: everlearn learn news.evl --kind topics articles/ --set n_topics=100

    Or: everlearn learn sales.evl --kind mixture today.csv --memory 64MB

    Or: tail -f app.jsonl | everlearn learn app.evl --kind tree --text message -

    Or: everlearn learn spam.evl --kind classifier mails.parquet --label folder
    """
    with told_errors():
        from everlearn.cli import run as runs

        request = runs.Request(
            model,
            tuple(sources),
            {
                "kind": kind,
                "batch": batch,
                "text": text,
                "label": label,
                "columns": runs.names_of(columns),
                "classes": runs.names_of(classes),
                "image_side": image_side,
            },
            runs.params_of(settings or [], memory_budget=memory, engine=engine, random_state=seed),
            runs.pace_of(every, score_every, idle),
            stdin_format=stdin_format,
            strict=strict,
        )
        code = runs.carry_out(request, quiet=quiet, as_json=as_json)
    if code:
        raise typer.Exit(code)
