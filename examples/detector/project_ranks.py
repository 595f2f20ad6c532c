#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of a step is communication, and what it would be with more processes: from the log of a
training by two processes or more.

    export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
    RANK=1 detector train ... --out run & RANK=0 detector train ... --out run
    project_ranks.py run/log.jsonl --gigabits 10 --latency 30e-6

Measured are the compute of a step, when in the backward pass each bucket of gradients could be sent,
and what messages take alone. Projected is everything else; the assumptions are printed. A message of n
bytes costs a ring of p processes 2 (p - 1) latency + 2 (p - 1) / p n / bandwidth (Patarasuk and Yuan,
"Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
"""
import argparse
import json
import statistics
import sys

ASSUMPTIONS = """assumed:
  every process has a machine of its own, as fast as those measured, and as many pictures a step
  compute takes what it took, beside the communication of the ranks measured
  one message at a time, in the order of the buckets; a bucket is sent as soon as it was ready
  no message meets another in the network: its bandwidth is each machine's own
  pictures are always ready in time
  all processes take the median step; "slowest" has each step wait for the slowest of so many draws
  from the steps measured, which counts what else ran on the machine as well"""

LOSSES_BYTES = 24  # the message that every step adds up besides the gradients: three doubles


def ring(ranks, size, latency, bandwidth):
    """Seconds of an all-reduce."""
    return 2 * (ranks - 1) * (latency + size / ranks / bandwidth)


class Run:
    """The steps of the log's last run but its first ones, which touch their memory for the first time."""

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
        self.whole = [s["step_seconds"] - s["waited"] for s in self.steps]  # but for pictures
        self.compute = [whole - waiting for whole, waiting in zip(self.whole, self.waiting)]
        self.backward = statistics.median(s["backward_seconds"] for s in self.steps)
        self.ready = [statistics.median(s["buckets_ready"][b] for s in self.steps)
                      for b in range(len(self.buckets))]

    def share(self):
        """Of all steps' time, what was spent waiting for other processes."""
        return sum(self.waiting) / sum(self.whole)

    def exposed(self, ranks, latency, bandwidth):
        """Seconds of a step's communication that no compute covers: the sum of the losses, and what is
        left of the gradients' when the backward pass ends."""
        end = 0.0
        for size, ready in zip(self.buckets, self.ready):
            end = max(end, ready) + ring(ranks, size, latency, bandwidth)
        return ring(ranks, LOSSES_BYTES, latency, bandwidth) + max(0.0, end - self.backward)

    def slowest(self, ranks):
        """The mean of the greatest of so many draws from the steps' compute."""
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
    yield f"the network projected: latency {latency * 1e6:.0f} us, bandwidth {bandwidth / 1e9:.2f} GB/s"
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
