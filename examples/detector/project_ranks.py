#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Estimates how much of a step is communication, and how much it would be with more processes, from the
log of a training by at least two processes.

    export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
    RANK=1 detector train ... --out run & RANK=0 detector train ... --out run
    project_ranks.py run/log.jsonl --gigabits 10 --latency 30e-6
    project_ranks.py run/log.jsonl --gigabits 10 --latency 30e-6 --average-steps 16

The log has the compute time of a step, the time in the backward pass at which each bucket of gradients
is ready to send, and the time of messages alone. Everything else is projected; the assumptions are
printed. A message of n bytes costs a ring of p processes 2 (p - 1) latency + 2 (p - 1) / p n /
bandwidth (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
2009).

With --average-steps, the training projected averages weights and the optimiser's state every so many steps
instead of gradients in every step.
"""
import argparse
import pathlib
import random
import statistics
import sys

from runs import read_lines

ASSUMPTIONS = """assumed:
  each process has its own machine, as fast as the measured ones, and as many pictures per step
  compute takes as long as measured, while the measured processes communicated
  messages are sent one at a time, in the order of the buckets, as soon as a bucket is ready
  messages do not share bandwidth in the network: each machine has the full bandwidth
  pictures are always ready in time
  each process takes the median step; for "slowest", a step waits for the slowest of as many random
  measured steps as there are processes, which includes disturbances by other programs"""
ASSUMPTIONS_OF_AVERAGES = """  between averages, no process waits; nothing hides an average, whose message holds weights and the
  optimiser's state; an epoch has many more steps than pass between averages"""

LOSSES_BYTES = 24  # the message summed in every step besides the gradients: three doubles


def ring(ranks, size, latency, bandwidth):
    """Seconds of an all-reduce."""
    return 2 * (ranks - 1) * (latency + size / ranks / bandwidth)


class Run:
    """The steps of the log's last run without its first ones, which touch their memory for the first time."""

    def __init__(self, file, first_steps=3):
        begin, steps = None, []
        for event in read_lines(pathlib.Path(file)):
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
        if begin.get("average_steps", 1) != 1:
            raise ValueError(f"{file}: a training with --average-steps {begin['average_steps']}; expected 1, "
                             "whose log has the times of gradients")
        self.buckets = begin["bucket_bytes"]
        self.average_bytes = begin.get("average_bytes")
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

    def messages(self, ranks, latency, bandwidth, average_steps=1):
        """Seconds of a step's communication, hidden by compute or not."""
        if average_steps == 1:
            return sum(ring(ranks, size, latency, bandwidth) for size in [LOSSES_BYTES] + self.buckets)
        if self.average_bytes is None:
            raise ValueError("the log does not say how large an average is; expected one of a newer detector")
        losses = LOSSES_BYTES / 3 * (2 * average_steps + 1)
        return sum(ring(ranks, size, latency, bandwidth) for size in (losses, self.average_bytes)) / average_steps

    def exposed(self, ranks, latency, bandwidth, average_steps=1):
        """Seconds of a step's communication not hidden by compute: that of the losses, and the remainder of
        the gradients' after the backward pass; or a step's part of an average."""
        if average_steps > 1:
            return self.messages(ranks, latency, bandwidth, average_steps)
        end = 0.0
        for size, ready in zip(self.buckets, self.ready):
            end = max(end, ready) + ring(ranks, size, latency, bandwidth)
        return ring(ranks, LOSSES_BYTES, latency, bandwidth) + max(0.0, end - self.backward)

    def slowest(self, ranks, average_steps=1):
        """The mean of the maximum of this many draws from the steps' compute times. Between averages, only the
        sums of so many draws count, divided by their number; they are simulated."""
        if average_steps > 1:
            source = random.Random(1)
            return statistics.mean(max(sum(source.choices(self.compute, k=average_steps)) for _ in range(ranks))
                                   for _ in range(200)) / average_steps
        n = len(self.compute)
        return sum(seconds * (((i + 1) / n) ** ranks - (i / n) ** ranks)
                   for i, seconds in enumerate(sorted(self.compute)))


def report(run, ranks, latency, bandwidth, average_steps=1):
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
    if average_steps > 1:
        yield ASSUMPTIONS_OF_AVERAGES
        yield f"an average every {average_steps} steps; the columns are per step"
    yield ""
    yield "| processes | communication | exposed | step | share | efficiency | with slowest |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    compute = statistics.median(run.compute)
    for p in ranks:
        busy = run.messages(p, latency, bandwidth, average_steps)
        exposed = run.exposed(p, latency, bandwidth, average_steps)
        step = compute + exposed
        yield (f"| {p} | {busy:.4f} s | {exposed:.4f} s | {step:.4f} s | {100 * exposed / step:.1f} % "
               f"| {100 * compute / step:.1f} % "
               f"| {100 * compute / (run.slowest(p, average_steps) + exposed):.1f} % |")


def counts(text):
    """Numbers of processes, such as 2,4,8."""
    found = [int(count) for count in text.split(",")]
    if min(found) < 1:
        raise ValueError("a number of processes below 1")
    return found


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError("a number below 1")
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", help="log.jsonl of a training by two processes or more")
    parser.add_argument("--ranks", type=counts, default="2,4,8,16,32,64", help="processes to project (%(default)s)")
    parser.add_argument("--latency", type=float, help="seconds of a message; default: as measured")
    parser.add_argument("--gigabits", type=float, help="bandwidth in Gbit/s; default: as measured")
    parser.add_argument("--average-steps", type=positive, default=1,
                        help="steps between averages of the weights in the training projected (%(default)s)")
    options = parser.parse_args()
    try:
        run = Run(options.log)
        latency = run.latency if options.latency is None else options.latency
        bandwidth = run.bandwidth if options.gigabits is None else options.gigabits * 1e9 / 8
        for line in report(run, options.ranks, latency, bandwidth, options.average_steps):
            print(line)
    except (OSError, ValueError) as error:
        sys.exit(f"project_ranks.py: {error}")


if __name__ == "__main__":
    main()
