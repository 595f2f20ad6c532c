# SPDX-License-Identifier: Apache-2.0
"""Helpers for the scripts that train many times and compare the logs."""
import json
import pathlib
import shutil
import sys


def add_training(commands, action, epochs):
    """Adds the command `train`, with the arguments of all scripts, to which others may be added."""
    training = commands.add_parser("train")
    training.add_argument("detector", type=pathlib.Path, help="the program")
    training.add_argument("data", type=pathlib.Path, help="folder with Annotations, ImageSets/Main, JPEGImages")
    training.add_argument("folder", type=pathlib.Path, help="of the runs")
    training.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    training.add_argument("--epochs", type=int, default=epochs, help="most of a run (%(default)s)")
    training.set_defaults(action=action)
    return training


def read_lines(file):
    """The values of a file of JSON lines. A program that was killed may have left an incomplete last line; any
    other line that is not JSON is named and left out."""
    values = []
    lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            values.append(json.loads(line))
        except ValueError:
            print(f"{file}: line {number} is not JSON, left out: {line[:60]}", file=sys.stderr)
    return values


def events(folder):
    """The entries of a run's log."""
    log = folder / "log.jsonl"
    return read_lines(log) if log.exists() else []


def has_finished(folder):
    """Whether the run was trained to its end, and not interrupted."""
    return any(event["event"] == "end" and event["outcome"] in ("finished", "target reached")
               for event in events(folder))


def is_to_be_trained(folder):
    """Whether a run is still missing. What an unfinished one has left is deleted: it is timed as a whole."""
    if has_finished(folder):
        return False
    if (folder / "log.jsonl").exists():
        shutil.rmtree(folder)
    return True


def finished_runs(folder, read, key):
    """read() of the folders of finished runs, which must have the same recipe, in the order of the key."""
    runs = sorted((read(log.parent) for log in folder.glob("*/log.jsonl") if has_finished(log.parent)), key=key)
    if not runs:
        sys.exit(f"{folder}: no run that has finished")
    recipes = {run.recipe for run in runs}
    if len(recipes) > 1:
        sys.exit(f"{folder}: runs of different recipes:\n" + "\n".join(sorted(recipes)))
    return runs
