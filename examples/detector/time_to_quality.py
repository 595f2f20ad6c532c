#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures time to quality over seeds, as in MLPerf Training: trains with loss and convolutions of libtorch and
of vecdet, and creates a table and plots of AP50 over time and over steps.

    time_to_quality.py train build/torch/examples/detector/detector <folder of VOC> runs --seeds 0 1 2 \\
                             --threads 2 --types bfloat16 float
    time_to_quality.py report runs/float runs/bfloat16 --json quality.json --svg docs/time_to_quality.svg \\
                                   --page docs/time_to_quality.md

With one thread, `train` runs both kinds of a seed side by side, each on its own core; they swap cores from
seed to seed. With more threads, it runs them in turn, and the order changes from seed to seed. A run ends at the
highest target or after all epochs. Finished runs are kept if `train` is called again, others start anew. Runs of a
type are in a folder of that name; `report` writes tables and plots of the finished runs in each folder.

Seconds count from the start of the run to the end of the evaluation that reached the target, including
all evaluations and checkpoints.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

from pages import COLOURS, processor, put
from runs import add_training, events, finished_runs, is_to_be_trained

LOSSES = ("torch", "vecdet")
RECIPE = ("--backbone resnet18 --norm group --channels 64 --anchor-size 16 --size 320 240 --batch 8 "
          "--rate 4e-4 --hflip 0.5 --vflip 0.5").split()
WIDTH, HEIGHT, TOP, ROW = 350, 260, 40, 350  # of a plot, the margin above it, and of both with the labels


def train(options):
    """Trains all pairs, one after the other."""
    lists = options.data / "ImageSets/Main"
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("two runs side by side, or a run on two threads, need two cores")
    for number, (seed, kind) in enumerate((seed, kind) for seed in options.seeds for kind in options.types):
        order = LOSSES[::-1] if number // len(options.types) % 2 else LOSSES
        running = []
        for core, loss in zip(cores, order):
            folder = options.folder / kind / f"{loss}-{seed}"
            if not is_to_be_trained(folder):
                continue
            command = [str(options.detector), "train", "--train", str(lists / "trainval.txt"),
                       "--test", str(lists / "test.txt"), "--out", str(folder), "--loss", loss,
                       "--convolutions", loss, "--seed", str(seed), "--threads", str(options.threads),
                       "--epochs", str(options.epochs), "--loader-threads", "1",
                       "--target-ap50", str(max(options.targets)), *RECIPE]
            if kind == "bfloat16":
                command.append("--bfloat16")
            if options.threads == 1:
                command = ["taskset", "-c", str(core), *command]
            running.append(subprocess.Popen(command))
            if options.threads > 1 and running[-1].wait():
                break
        if any([process.wait() for process in running]):
            sys.exit(f"a run of seed {seed} failed")


class Run:
    """The contents of a run's log."""

    def __init__(self, folder):
        self.points = []  # seconds, step, AP50
        self.losses = {}  # by step
        steps, evaluations = [], []
        for event in events(folder):
            if event["event"] == "start":
                recipe, self.threads = event["model"] + "; " + event["recipe"], event["threads"]
            elif event["event"] == "evaluation":
                self.points.append((event["seconds"], event["step"], event["ap50"]))
                evaluations.append(event["evaluation_seconds"])
            elif event["event"] == "step":
                self.losses[event["step"]] = event["loss"]
                steps.append(event["step_seconds"])
        self.loss = re.search(r"loss (\w+)", recipe)[1]
        self.seed = int(re.search(r"seed (\d+)", recipe)[1])
        self.recipe = re.sub(r"loss \w+, |convolutions \w+, |seed \d+, ", "", recipe)
        self.type = "bfloat16" if ", bfloat16 on" in recipe else "float"
        self.step_seconds = statistics.median(steps)
        self.evaluation_seconds = sum(evaluations)

    def reached(self, target):
        """Seconds and step at which the target was reached, or None."""
        return next(((seconds, step) for seconds, step, ap50 in self.points if ap50 >= target), None)


def minutes(reached):
    return f"{reached[0] / 60:.1f} ({reached[1]})" if reached else "not reached"


def table(runs, targets):
    """One row per run, and the medians of each loss; minutes, with steps in parentheses."""
    lines = ["| loss and convolutions | seed | " + " | ".join(f"AP50 {t:g}, minutes (steps)" for t in targets)
             + " | best AP50 | per step | evaluations |", "|---|--:|" + "--:|" * (len(targets) + 3)]
    for run in runs:
        lines.append(f"| {run.loss} | {run.seed} | " + " | ".join(minutes(run.reached(t)) for t in targets)
                     + f" | {max(p[2] for p in run.points):.4f} | {1e3 * run.step_seconds:.0f} ms "
                     f"| {run.evaluation_seconds:.0f} s |")
    for loss in LOSSES:
        same_loss = [run for run in runs if run.loss == loss]
        if not same_loss:
            continue
        cells = []
        for target in targets:
            times = [run.reached(target)[0] / 60 for run in same_loss if run.reached(target)]
            cells.append(f"{statistics.median(times):.1f}, {len(times)} of {len(same_loss)} runs" if times else "")
        step = statistics.median(run.step_seconds for run in same_loss)
        lines.append(f"| **{loss}**, median | | " + " | ".join(cells) + f" | | {1e3 * step:.0f} ms | |")
    return "\n".join(lines)


def differences(runs):
    """The distance between torch's curve and vecdet's at the same step of the same seed, and between curves
    of different seeds."""
    by_key = {(run.loss, run.seed): run for run in runs}
    pairs = [(by_key["torch", seed], by_key["vecdet", seed]) for seed in sorted({run.seed for run in runs})
             if ("torch", seed) in by_key and ("vecdet", seed) in by_key]

    def loss_distances(first, last):
        steps = [(loss, b.losses[s]) for a, b in pairs for s, loss in a.losses.items()
                 if first <= s <= last and s in b.losses]
        return statistics.median(abs(a - b) / a for a, b in steps) if steps else None

    def ap50_distances(two):
        apart = [abs(p[2] - q[2]) for a, b in two for p, q in zip(a.points, b.points)]
        return statistics.mean(apart) if apart else None

    others = [(a, b) for a in runs for b in runs if a.loss == b.loss and a.seed < b.seed]
    return {"loss, step 1": loss_distances(1, 1), "loss, steps 2 to 10": loss_distances(2, 10),
            "loss, after step 10": loss_distances(11, float("inf")), "AP50, torch and vecdet": ap50_distances(pairs),
            "AP50, two seeds": ap50_distances(others)}


def panel(runs, targets, left, top, horizontal, name):
    """One plot of AP50; horizontal(point) is its position on the x axis."""
    most = max(horizontal(point) for run in runs for point in run.points)

    def y(ap50):
        return top + HEIGHT * (1 - ap50)

    out = [f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="{COLOURS["grid"]}"/>']
    for tick in (0, 0.2, 0.4, 0.6, 0.8, 1):
        out.append(f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for part in (0, 0.25, 0.5, 0.75, 1):
        out.append(f'<text x="{left + WIDTH * part:.1f}" y="{top + HEIGHT + 16}" '
                   f'text-anchor="middle">{most * part:.3g}</text>')
    for target in targets:
        out.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y(target):.1f}" y2="{y(target):.1f}" '
                   f'stroke="{COLOURS["grid"]}" stroke-dasharray="4 3"/>')
    for run in runs:
        points = " ".join(f"{left + WIDTH * horizontal(p) / most:.1f},{y(p[2]):.1f}" for p in run.points)
        out.append(f'<polyline points="{points}" fill="none" stroke-width="1.5" stroke="{COLOURS[run.loss]}"/>')
    return out + [f'<text x="{left + WIDTH / 2}" y="{top + HEIGHT + 34}" text-anchor="middle">{name}</text>']


def plot(sets, targets):
    """A row of plots for each type."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {ROW * len(sets)}" width="860" '
           f'height="{ROW * len(sets)}" font-family="sans-serif" font-size="12" fill="{COLOURS["text"]}">']
    for row, runs in enumerate(sets):
        for i, loss in enumerate(sorted({run.loss for run in runs})):
            out.append(f'<text x="{50 + 280 * i}" y="{24 + ROW * row}" font-weight="bold" fill="{COLOURS[loss]}">'
                       f'loss and convolutions of {loss}, {runs[0].type}</text>')
        top = TOP + ROW * row
        out += panel(runs, targets, 50, top, lambda p: p[0] / 60, "AP50 after minutes")
        out += panel(runs, targets, 480, top, lambda p: p[1], "AP50 after steps")
    return "\n".join(out + ["</svg>\n"])


def section(runs, targets):
    """The tables of a type."""
    return (f"**{runs[0].type}**: {runs[0].recipe}; the runs of a seed ran "
            + ("side by side on 1 thread each" if runs[0].threads == 1 else f"in turn on {runs[0].threads} threads")
            + f".\n\n{table(runs, targets)}\n\n| {runs[0].type}, at the same step | difference |\n|---|--:|\n"
            + "".join(f"| {name} | {value:.2g} |\n" for name, value in differences(runs).items() if value is not None))


def figures(runs, targets):
    return {"type": runs[0].type, "recipe": runs[0].recipe, "threads": runs[0].threads, "apart": differences(runs),
            "runs": [{"loss": run.loss, "seed": run.seed, "step_seconds": run.step_seconds,
                      "evaluation_seconds": run.evaluation_seconds,
                      "reached": {f"{t:g}": run.reached(t) for t in targets},
                      "seconds, step, AP50": run.points} for run in runs]}


def report(options):
    sets = [finished_runs(folder, Run, lambda run: (run.loss, run.seed)) for folder in options.folders]
    text = (f"{processor()}, {datetime.date.today()}.\n\n"
            + "\n".join(section(runs, options.targets) for runs in sets))
    print(text)
    if options.json:
        options.json.write_text(json.dumps(
            {"processor": processor(), "date": str(datetime.date.today()), "targets": options.targets,
             "types": [figures(runs, options.targets) for runs in sets]}, indent=1) + "\n")
    if options.svg:
        options.svg.write_text(plot(sets, options.targets))
    if options.page:
        picture = os.path.relpath(options.svg, options.page.parent) if options.svg else ""
        put(options.page, "quality", text + (f"\n![AP50 against minutes and steps]({picture})\n" if picture else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = add_training(commands, train, epochs=16)
    training.add_argument("--threads", type=int, default=1, help="threads per run; 1: two runs side by side")
    training.add_argument("--types", nargs="+", choices=("bfloat16", "float"), default=["bfloat16"])
    reporting = commands.add_parser("report")
    reporting.add_argument("folders", type=pathlib.Path, nargs="+", help="each of the runs of one type")
    reporting.add_argument("--json", type=pathlib.Path, help="file for all figures")
    reporting.add_argument("--svg", type=pathlib.Path, help="file of the plot")
    reporting.add_argument("--page", type=pathlib.Path, help="page that has the table between its marks")
    reporting.set_defaults(action=report)
    for command in (training, reporting):
        command.add_argument("--targets", type=float, nargs="+", default=[0.8, 0.85], help="AP50")
    options = parser.parse_args()
    options.action(options)


if __name__ == "__main__":
    main()
