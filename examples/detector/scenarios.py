#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares MLPerf's scenarios with and without vecdet's convolutions and postprocessing, and writes the table
into a page.

    scenarios.py build/torch/examples/detector/detector run/best.pt voc/ImageSets/Main/test.txt --threads 2 \\
                 --rounds 3 --min-seconds 3 --page docs/scenarios.md

In each round, every variant runs in turn, in a process of its own. The table has the medians of the rounds. Each
result is also printed as soon as it is measured. If a server's rate is 0, pictures alone take longer than the bound.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

from pages import around, processor, put

# convolutions, postprocessing
VARIANTS = (("torch", "torch"), ("torch", "vecdet"), ("vecdet", "torch"), ("vecdet", "vecdet"))
# scenario, key of its result, factor for the table, unit
SCENARIOS = (("single-stream", "result_90.00_percentile_latency_ns", 1e-6, "ms"),
             ("multi-stream", "result_99.00_percentile_per_query_latency_ns", 1e-6, "ms"),
             ("server", "result_scheduled_samples_per_sec", 1, "pictures/s"),
             ("offline", "result_samples_per_second", 1, "pictures/s"))


def run(options, scenario, variant, *more):
    """The values of a run's :::MLLOG lines."""
    command = [str(options.detector), "bench", str(options.checkpoint), "--scenario", scenario,
               "--test", str(options.test), "--threads", str(options.threads), "--convolutions", variant[0],
               "--postprocessing", variant[1], "--latency-bound", str(options.latency_bound), *more]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit("failed: " + " ".join(command))
    lines = [json.loads(line[len(":::MLLOG "):]) for line in done.stdout.splitlines() if line.startswith(":::MLLOG ")]
    return {line["key"]: line["value"] for line in lines}


def measure(options):
    """Results by scenario and variant, one number per round, and the AP of each variant."""
    short = ["--min-seconds", str(options.min_seconds), "--min-queries"]
    accuracy = {variant: run(options, "offline", variant, "--accuracy")["accuracy_ap"] for variant in VARIANTS}
    results = {}
    for _ in range(options.rounds):
        for scenario, key, _, _ in SCENARIOS:
            for variant in VARIANTS:
                values = run(options, scenario, variant, *short, str(options.min_queries))
                results.setdefault((scenario, variant), []).append(values.get(key, 0))
                print(f"{scenario}, convolutions {variant[0]}, postprocessing {variant[1]}: {key} "
                      f"{results[scenario, variant][-1]}", file=sys.stderr)
    return results, accuracy


def table(options, results, accuracy):
    yield "| scenario | result | " + " | ".join(
        f"convolutions {c}, postprocessing {p}" for c, p in VARIANTS) + " | both against neither |"
    yield "|---|---|" + "--:|" * (len(VARIANTS) + 1)
    names = {"single-stream": "90th percentile", "multi-stream": "99th percentile, 8 pictures",
             "server": f"99th percentile within {options.latency_bound:g} ms", "offline": "throughput"}
    for scenario, _, factor, unit in SCENARIOS:
        medians = [statistics.median(results[scenario, variant]) * factor for variant in VARIANTS]
        larger, smaller = (medians[0], medians[-1]) if unit == "ms" else (medians[-1], medians[0])
        yield (f"| {scenario} | {names[scenario]} | " + " | ".join(f"{value:.1f} {unit}" for value in medians)
               + (f" | {larger / smaller:.2f}x |" if smaller else " | |"))
    yield "| accuracy mode | AP | " + " | ".join(f"{accuracy[variant]:.4f}" for variant in VARIANTS) + " | |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("detector", type=pathlib.Path, help="the program")
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("test", type=pathlib.Path, help="annotations of the pictures")
    parser.add_argument("--threads", type=int, default=0, help="compute threads; 0: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--min-seconds", type=float, default=3, help="of a run (%(default)s)")
    parser.add_argument("--min-queries", type=int, default=64, help="of a run (%(default)s)")
    parser.add_argument("--latency-bound", type=float, default=100, help="of the server, in ms (%(default)s)")
    parser.add_argument("--page", type=pathlib.Path, help="page that has the table between its marks")
    options = parser.parse_args()
    if options.page:
        around(options.page, "scenarios")  # before hours of measurements
    results, accuracy = measure(options)
    text = (f"{processor()}, {datetime.date.today()}; {options.threads or 'all'} threads, medians of {options.rounds} "
            f"rounds of at least {options.min_seconds:g} s and {options.min_queries} queries per run.\n\n"
            + "\n".join(table(options, results, accuracy)) + "\n")
    print(text)
    if options.page:
        put(options.page, "scenarios", text)


if __name__ == "__main__":
    main()
