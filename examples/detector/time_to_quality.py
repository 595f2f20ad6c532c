#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time to quality over seeds, as MLPerf Training reports it: from the logs of several runs, a table
and a plot (SVG) of AP50 against time and against steps.

    for seed in 0 1 2; do for loss in torch vecdet; do
      detector train ... --seed $seed --loss $loss --out runs/$loss-$seed
    done; done
    time_to_quality.py runs/* --target 0.8 --svg quality.svg

Seconds are those of the run, from its start to the end of the evaluation that reached the target,
with evaluations and, where a run was resumed, of all its parts.
"""
import argparse
import json
import os
import re
import statistics
import sys

COLOURS = {"torch": "#c0504d", "vecdet": "#1f6fb4"}


class Run:
    def __init__(self, folder):
        self.folder = folder
        self.points = []  # seconds, step, AP50
        self.losses = {}  # of steps
        self.waited = 0.0
        with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as log:
            for line in log:
                event = json.loads(line)
                kind = event["event"]
                if kind in ("start", "resume"):
                    recipe = event["recipe"]
                    self.threads = event["threads"]
                elif kind == "evaluation":
                    self.points.append((event["seconds"], event["step"], event["ap50"]))
                elif kind == "step":
                    self.losses[event["step"]] = event["loss"]
                    self.waited += event["waited"]
        self.loss = re.search(r"loss (\w+)", recipe).group(1)
        self.seed = int(re.search(r"seed (\d+)", recipe).group(1))
        self.recipe = re.sub(r"loss \w+, |seed \d+, ", "", recipe)

    def reached(self, target):
        """Seconds and step at which the target was reached, or None."""
        return next(((s, n) for s, n, ap in self.points if ap >= target), None)


def table(runs, target):
    lines = [f"| loss | seed | minutes to AP50 {target:g} | steps | best AP50 | minutes in all |",
             "|---|--:|--:|--:|--:|--:|"]
    for run in runs:
        reached = run.reached(target)
        best = max((ap for _, _, ap in run.points), default=float("nan"))
        lines.append(f"| {run.loss} | {run.seed} | "
                     + (f"{reached[0] / 60:.1f} | {reached[1]}" if reached else "not reached |")
                     + f" | {best:.4f} | {run.points[-1][0] / 60:.1f} |")
    for loss in sorted({run.loss for run in runs}):
        of_loss = [run.reached(target) for run in runs if run.loss == loss]
        times = [reached[0] / 60 for reached in of_loss if reached]
        lines.append(f"| **{loss}** | {len(of_loss)} runs, {len(times)} reached it | "
                     + (f"median {statistics.median(times):.1f}, {min(times):.1f} to {max(times):.1f}"
                        if times else "") + " | | | |")
    return "\n".join(lines)


def differences(runs):
    """How far the losses of the two kinds are apart at the same step of the same seed."""
    lines = []
    for seed in sorted({run.seed for run in runs}):
        pair = {run.loss: run.losses for run in runs if run.seed == seed}
        if len(pair) < 2:
            continue
        a, b = pair["torch"], pair["vecdet"]
        for first, last in ((1, 1), (2, 10), (11, max(a))):
            steps = [s for s in range(first, last + 1) if s in a and s in b]
            if steps:
                worst = max(abs(a[s] - b[s]) / abs(a[s]) for s in steps)
                lines.append(f"seed {seed}, steps {first} to {last}: losses differ by {worst:.1e} at most")
    return "\n".join(lines)


def panel(runs, target, left, horizontal, name):
    """One plot of AP50; `horizontal` gives a point's place on its axis."""
    width, height, top = 360, 260, 40
    most = max((horizontal(p) for run in runs for p in run.points), default=1)
    x = lambda p: left + width * horizontal(p) / most
    y = lambda ap: top + height * (1 - ap)
    out = [f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#888"/>']
    for tick in (0, 0.2, 0.4, 0.6, 0.8, 1):
        out.append(f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for part in (0, 0.25, 0.5, 0.75, 1):
        out.append(f'<text x="{left + width * part:.1f}" y="{top + height + 16}" '
                   f'text-anchor="middle">{most * part:.3g}</text>')
    out.append(f'<line x1="{left}" x2="{left + width}" y1="{y(target):.1f}" y2="{y(target):.1f}" '
               'stroke="#888" stroke-dasharray="4 3"/>')
    for run in runs:
        points = " ".join(f"{x(p):.1f},{y(p[2]):.1f}" for p in run.points)
        out.append(f'<polyline points="{points}" fill="none" stroke-width="1.5" '
                   f'stroke="{COLOURS.get(run.loss, "#444")}"/>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 34}" text-anchor="middle">{name}</text>')
    return out


def plot(runs, target):
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="860" height="350" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="860" height="350" fill="white"/>']
    for i, loss in enumerate(sorted({run.loss for run in runs})):
        out.append(f'<text x="{50 + 110 * i}" y="24" fill="{COLOURS.get(loss, "#444")}">--loss {loss}</text>')
    out += panel(runs, target, 50, lambda p: p[0] / 60, "AP50 after minutes")
    out += panel(runs, target, 470, lambda p: p[1], "AP50 after steps")
    return "\n".join(out + ["</svg>\n"])


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folders", nargs="+", help="of runs: what --out named")
    arguments.add_argument("--target", type=float, default=0.8, help="AP50")
    arguments.add_argument("--svg", help="file of the plot")
    options = arguments.parse_args()
    runs = sorted((Run(folder) for folder in options.folders), key=lambda run: (run.loss, run.seed))
    runs = [run for run in runs if run.points]
    if not runs:
        sys.exit("no run with an evaluation")
    recipes = {run.recipe for run in runs}
    if len(recipes) > 1:
        sys.exit("runs of different recipes:\n" + "\n".join(sorted(recipes)))
    print(f"{recipes.pop()}; {runs[0].threads} threads\n\n{table(runs, options.target)}\n")
    print(differences(runs))
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(plot(runs, options.target))


if __name__ == "__main__":
    main()
