#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what averaging the weights every K steps (`detector train --average-steps K`) costs and saves, by
two processes on one machine, and projects more processes.

    averaging.py train build/torch/examples/detector/detector <folder of VOC> runs --seeds 0 1 2
    averaging.py report runs --page docs/averaging.md

`train` runs two processes of one thread each per training, one training after the other; finished ones are
kept if it is called again, others start anew. `report` reads the logs of those that have finished. Minutes count
from the start to the end of a run, with its evaluations. The share of communication is the part of all steps' time that
rank 0 spent waiting for messages, which includes waiting for a slower rank 1. Projections are those of project_ranks.py
from the first run with K = 1.
"""
import argparse
import datetime
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys

import project_ranks
from pages import processor, put
from runs import add_training, events, finished_runs, is_to_be_trained

RECIPE = ("--backbone resnet18 --norm group --channels 64 --anchor-size 8 --size 160 128 --batch 2 "
          "--rate 4e-4 --hflip 0.5 --vflip 0.5 --loader-threads 1 --threads 1").split()
NETWORKS = ((1, 50e-6), (10, 30e-6))  # Gbit/s, seconds of latency
RANKS = (4, 8, 16, 32, 64)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def train(options):
    lists = options.data / "ImageSets/Main"
    for seed in options.seeds:
        for steps in options.average_steps:
            folder = options.folder / f"{steps}-{seed}"
            if not is_to_be_trained(folder):
                continue
            command = [str(options.detector), "train", "--train", str(lists / "trainval.txt"),
                       "--test", str(lists / "test.txt"), "--out", str(folder), "--seed", str(seed),
                       "--epochs", str(options.epochs), "--evaluate-every", str(options.epochs),
                       "--average-steps", str(steps), *RECIPE]
            environment = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
            running = [subprocess.Popen(command, env={**environment, "RANK": str(rank)}) for rank in (0, 1)]
            if any([process.wait() for process in running]):
                sys.exit(f"the run with K = {steps} and seed {seed} failed")


class Run:
    """What the page says of a log."""

    def __init__(self, folder):
        self.log = folder / "log.jsonl"
        found = events(folder)
        start = next(event for event in found if event["event"] == "start")
        self.average_steps = start["average_steps"]
        recipe = start["model"] + "; " + start["recipe"]
        self.seed = int(re.search(r"seed (\d+)", recipe)[1])
        self.recipe = re.sub(r"seed \d+, |, average-steps \d+( of \d+ processes)?", "", recipe)
        self.ap50 = [event["ap50"] for event in found if event["event"] == "evaluation"][-1]
        self.minutes = next(event["seconds"] for event in found if event["event"] == "end") / 60
        steps = [event for event in found if event["event"] == "step"]
        self.steps = steps[-1]["step"]
        self.step_ms = 1e3 * statistics.mean(event["step_seconds"] for event in steps)  # few have an average
        self.share = (sum(event["all_reduce_waited"] for event in steps)
                      / sum(event["step_seconds"] for event in steps))
        self.loss = statistics.mean(event["loss"] for event in steps[-20:])


def measured(runs):
    seeds = sorted({run.seed for run in runs})
    yield ("| K | " + " | ".join(f"AP50, seed {seed}" for seed in seeds)
           + " | median | loss of the last 20 steps | minutes, median | mean step | communication |")
    yield "|--:|" + "--:|" * (len(seeds) + 5)
    for steps in sorted({run.average_steps for run in runs}):
        same = [run for run in runs if run.average_steps == steps]

        def median(name):
            return statistics.median(getattr(run, name) for run in same)
        ap50 = {run.seed: f"{run.ap50:.3f}" for run in same}
        yield (f"| {steps} | {' | '.join(ap50.get(seed, '') for seed in seeds)} | {median('ap50'):.3f} "
               f"| {median('loss'):.3f} | {median('minutes'):.1f} | {median('step_ms'):.0f} ms "
               f"| {100 * median('share'):.1f} % |")


def projected(run, average_steps):
    names = [f"{gigabits} Gbit/s: {kind}" for gigabits, _ in NETWORKS
             for kind in ("step", "efficiency", "with slowest")]
    yield "| processes | K | " + " | ".join(names) + " |"
    yield "|--:|--:|" + "--:|" * len(names)
    compute = statistics.median(run.compute)
    for ranks in RANKS:
        for steps in average_steps:
            cells = []
            for gigabits, latency in NETWORKS:
                exposed = run.exposed(ranks, latency, gigabits * 1e9 / 8, steps)
                cells += [f"{1e3 * (compute + exposed):.0f} ms", f"{100 * compute / (compute + exposed):.0f} %",
                          f"{100 * compute / (run.slowest(ranks, steps) + exposed):.0f} %"]
            yield f"| {ranks} | {steps} | " + " | ".join(cells) + " |"


def report(options):
    runs = finished_runs(options.folder, Run, lambda run: (run.average_steps, run.seed))
    if runs[0].average_steps != 1:
        sys.exit(f"{options.folder}: no run with K = 1 that has finished")
    try:
        first = project_ranks.Run(runs[0].log)
    except ValueError as error:
        sys.exit(f"averaging.py: {error}")
    network = ", ".join(f"{1e6 * latency:.0f} us at {gigabits} Gbit/s" for gigabits, latency in NETWORKS)
    text = (f"{processor()}, {datetime.date.today()}; two processes of one thread each, {runs[0].steps} steps.\n"
            f"{runs[0].recipe}.\n\n" + "\n".join(measured(runs)) + "\n")
    outlook = (f"From the run with K = 1 and seed {runs[0].seed}: a step computes "
               f"{1e3 * statistics.median(first.compute):.0f} ms; {sum(first.buckets) / 1e6:.1f} MB of gradients; "
               f"an average has {first.average_bytes / 1e6:.1f} MB. A message's latency is {network}.\n\n"
               + "\n".join(projected(first, sorted({run.average_steps for run in runs}))) + "\n")
    print(text + "\n" + outlook)
    if options.page:
        put(options.page, "measured", text)
        put(options.page, "projected", outlook)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = add_training(commands, train, epochs=6)
    training.add_argument("--average-steps", type=int, nargs="+", default=[1, 4, 16, 64], help="values of K")
    reporting = commands.add_parser("report")
    reporting.add_argument("folder", type=pathlib.Path, help="of the runs")
    reporting.add_argument("--page", type=pathlib.Path, help="page that has the tables between its marks")
    reporting.set_defaults(action=report)
    options = parser.parse_args()
    options.action(options)


if __name__ == "__main__":
    main()
