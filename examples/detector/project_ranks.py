#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Estimates how much of a step is communication, and how much it would be with more processes, from the
log of a training by at least two processes.

    export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
    RANK=1 detector train ... --out run & RANK=0 detector train ... --out run
    project_ranks.py run/log.jsonl --gigabits 10 --latency 30e-6

The log has the compute time of a step, the time in the backward pass at which each bucket of gradients
is ready to send, and the time of messages alone. Everything else is projected; the assumptions are
printed. A message of n bytes costs a ring of p processes 2 (p - 1) latency + 2 (p - 1) / p n /
bandwidth (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
2009).
"""
import argparse
import json
import statistics
import sys

ASSUMPTIONS = """assumed:
  each process has its own machine, as fast as the measured ones, and as many pictures per step
  compute takes as long as measured, while the measured processes communicated
  messages are sent one at a time, in the order of the buckets, as soon as a bucket is ready
  messages do not share bandwidth in the network: each machine has the full bandwidth
  pictures are always ready in time
  each process takes the median step; for "slowest", a step waits for the slowest of as many random
  measured steps as there are processes, which includes disturbances by other programs"""

LOSSES_BYTES = 24  # the message summed in every step besides the gradients: three doubles


def ring(ranks, size, latency, bandwidth):
    """Seconds of an all-reduce."""
    return 2 * (ranks - 1) * (latency + size / ranks / bandwidth)


class Run:
    """The steps of the log's last run without its first ones, which touch their memory for the first time."""

    def __init__(self, file, first_steps=3):
        begin, steps = None, []
        with open(file, encoding="utf-8") as log:
            for line in log:
                event = json.loads(line)
                if event["event"] in ("start", "resume"):
                    begin, steps = event, []
                elif event["event"] == "step":
                    steps.append(event)
        if begin is None:
            raise ValueError(f"{file}: no start of a training; expected the log.jsonl of one")
        self.ranks = begin["ranks"]
        if self.ranks < 2:
            raise ValueError(f"{file}: a training by one process; expected two or more")
        self.steps = steps[first_steps:]
        if not self.steps:
            raise ValueError(f"{file}: {len(steps)} steps; expected more than {first_steps}")
        self.buckets = begin["bucket_bytes"]
        # Two messages give the two numbers of the model.
        (small, short), (large, long) = begin["all_reduce"]
        passes = 2 * (self.ranks - 1)
        self.bandwidth = passes / self.ranks * (large - small) / max(long - short, 1e-9)
        self.latency = max(short / passes - small / self.ranks / self.bandwidth, 0.0)
        self.waiting = [s["all_reduce_waited"] for s in self.steps]
        self.whole = [s["step_seconds"] - s["waited"] for s in self.steps]  # without pictures
        self.compute = [whole - waiting for whole, waiting in zip(self.whole, self.waiting)]
        self.backward = statistics.median(s["backward_seconds"] for s in self.steps)
        self.ready = [statistics.median(s["buckets_ready"][b] for s in self.steps)
                      for b in range(len(self.buckets))]

    def share(self):
        """The fraction of all steps' time spent waiting for other processes."""
        return sum(self.waiting) / sum(self.whole)

    def exposed(self, ranks, latency, bandwidth):
        """Seconds of a step's communication not hidden by compute: that of the losses, and the remainder of
        the gradients' after the backward pass."""
        end = 0.0
        for size, ready in zip(self.buckets, self.ready):
            end = max(end, ready) + ring(ranks, size, latency, bandwidth)
        return ring(ranks, LOSSES_BYTES, latency, bandwidth) + max(0.0, end - self.backward)

    def slowest(self, ranks):
        """The mean of the maximum of this many draws from the steps' compute times."""
        n = len(self.compute)
        return sum(seconds * (((i + 1) / n) ** ranks - (i / n) ** ranks)
                   for i, seconds in enumerate(sorted(self.compute)))


def report(run, ranks, latency, bandwidth):
    megabytes = sum(run.buckets) / 1e6
    yield (f"measured on {run.ranks} processes, {len(run.steps)} steps: median step "
           f"{statistics.median(run.whole):.4f} s, of it {statistics.median(run.compute):.4f} s compute; "
           f"{100 * run.share():.1f} % of the time waiting for others")
    yield (f"gradients: {megabytes:.1f} MB in {len(run.buckets)} buckets, ready after "
           + ", ".join(f"{r:.4f}" for r in run.ready) + f" s of {run.backward:.4f} s of the backward pass")
    yield (f"messages alone, as measured: latency {run.latency * 1e6:.0f} us, bandwidth "
           f"{run.bandwidth / 1e9:.2f} GB/s")
    yield f"projected network: latency {latency * 1e6:.0f} us, bandwidth {bandwidth / 1e9:.2f} GB/s"
    yield ASSUMPTIONS
    yield ""
    yield "| processes | communication | exposed | step | share | efficiency | with slowest |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    compute = statistics.median(run.compute)
    for p in ranks:
        busy = sum(ring(p, size, latency, bandwidth) for size in [LOSSES_BYTES] + run.buckets)
        exposed = run.exposed(p, latency, bandwidth)
        step = compute + exposed
        yield (f"| {p} | {busy:.4f} s | {exposed:.4f} s | {step:.4f} s | {100 * exposed / step:.1f} % "
               f"| {100 * compute / step:.1f} % | {100 * compute / (run.slowest(p) + exposed):.1f} % |")


def counts(text):
    """Numbers of processes, such as 2,4,8."""
    found = [int(count) for count in text.split(",")]
    if min(found) < 1:
        raise ValueError("a number of processes below 1")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", help="log.jsonl of a training by two processes or more")
    parser.add_argument("--ranks", type=counts, default="2,4,8,16,32,64", help="processes to project (%(default)s)")
    parser.add_argument("--latency", type=float, help="seconds of a message; default: as measured")
    parser.add_argument("--gigabits", type=float, help="bandwidth in Gbit/s; default: as measured")
    options = parser.parse_args()
    try:
        run = Run(options.log)
    except (OSError, ValueError) as error:
        sys.exit(f"project_ranks.py: {error}")
    latency = run.latency if options.latency is None else options.latency
    bandwidth = run.bandwidth if options.gigabits is None else options.gigabits * 1e9 / 8
    for line in report(run, options.ranks, latency, bandwidth):
        print(line)


if __name__ == "__main__":
    main()
