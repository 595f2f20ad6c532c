#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The projection to more processes, against numbers worked out by hand."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/detector/project_ranks.py")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(SCRIPT))
import project_ranks


def step(number, seconds, waited=0.25):
    return {"event": "step", "step": number, "step_seconds": seconds + waited + 0.5, "waited": 0.5,
            "all_reduce_waited": waited, "backward_seconds": 1.0, "buckets_ready": [0.25, 0.75]}


class Projection(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.log = os.path.join(self.folder.name, "log.jsonl")
        # Two processes: a latency of 10 ms and a bandwidth of 1 GB/s.
        self.start = {"event": "start", "ranks": 2, "bucket_bytes": [100_000_000, 400_000_000],
                      "all_reduce": [[4, 0.020000004], [400_000_000, 0.42]]}
        self.steps = [step(n, 9.0) for n in range(1, 4)] + [step(n, 1.75 + n % 2 * 0.5) for n in range(4, 8)]

    def write(self):
        with open(self.log, "w") as log:
            for event in [self.start] + self.steps:
                log.write(json.dumps(event) + "\n")

    def test_what_was_measured(self):
        self.write()
        run = project_ranks.Run(self.log)
        self.assertAlmostEqual(run.latency, 0.010)
        self.assertAlmostEqual(run.bandwidth / 1e9, 1)
        self.assertEqual(sorted(run.compute), [1.75, 1.75, 2.25, 2.25])  # the first three are left out
        self.assertAlmostEqual(run.share(), 1.0 / 9.0)

    def test_what_was_measured_on_four(self):
        # 2 x 3 passes of a quarter of 4 and of 404 MB, with the same latency and bandwidth.
        self.start.update(ranks=4, all_reduce=[[4_000_000, 0.066], [404_000_000, 0.666]])
        self.write()
        run = project_ranks.Run(self.log)
        self.assertAlmostEqual(run.latency, 0.010)
        self.assertAlmostEqual(run.bandwidth / 1e9, 1)

    def test_a_torn_line(self):
        self.write()
        with open(self.log) as log:
            lines = log.read().splitlines(keepends=True)
        lines[-2] = lines[-2][:20] + lines[-2]  # killed while it wrote; a new run went on in the line
        with open(self.log, "w") as log:
            log.write("".join(lines))
        done = subprocess.run([sys.executable, "-B", SCRIPT, self.log], text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 steps: median", done.stdout)
        self.assertIn(f"{self.log}: line {len(lines) - 1} is not JSON, left out", done.stderr)

    def test_the_ring(self):
        # Four processes: 2 x 3 passes, each of a quarter.
        self.assertAlmostEqual(project_ranks.ring(4, 4e8, 0.01, 1e9), 6 * (0.01 + 0.1))
        self.assertEqual(project_ranks.ring(1, 4e8, 0.01, 1e9), 0)

    def test_what_the_backward_pass_covers(self):
        self.write()
        run = project_ranks.Run(self.log)
        # Two processes without latency: the first bucket from 0.25 to 0.35, the second from 0.75 to
        # 1.15.
        self.assertAlmostEqual(run.exposed(2, 0, 1e9), 0.15, places=6)
        # With very many processes, the first takes 0.2, the second 0.8.
        self.assertAlmostEqual(run.exposed(1_000_000, 0, 1e9), 0.55, places=5)
        # If the first is still being sent when the second is ready: 0.25 + 1 + 4.
        self.assertAlmostEqual(run.exposed(2, 0, 1e8), 4.25, places=6)
        # Everything is hidden except the sum of the losses, which waits for two messages.
        self.assertAlmostEqual(run.exposed(2, 0.01, 1e12), 0.02, places=3)

    def test_the_slowest_of_several(self):
        self.write()
        run = project_ranks.Run(self.log)
        self.assertAlmostEqual(run.slowest(1), 2.0)
        self.assertAlmostEqual(run.slowest(2), 0.25 * 1.75 + 0.75 * 2.25)

    def test_averages_of_weights(self):
        self.start["average_bytes"] = 800_000_000
        self.write()
        run = project_ranks.Run(self.log)
        # Two processes without latency send half of it twice, 0.8 s, once in four steps.
        self.assertAlmostEqual(run.exposed(2, 0, 1e9, 4), 0.2, places=6)
        # The losses' message has a latency of its own.
        self.assertAlmostEqual(run.exposed(2, 0.01, 1e12, 4), 0.01, places=3)
        # That message holds two losses for each step, and whether to stop.
        self.assertAlmostEqual(run.messages(2, 0, 1, 4), (800_000_000 + 8 * 9) / 4)
        # Four draws of 1.75 or 2.25 s have a mean of 2 and a standard deviation of 0.125; the
        # larger of two such sums is about 0.56 of it above, and sums of many draws lie closer.
        self.assertAlmostEqual(run.slowest(1, 4), 2.0, delta=0.03)
        self.assertAlmostEqual(run.slowest(2, 4), 2.07, delta=0.03)
        self.assertLess(run.slowest(64, 64), run.slowest(64, 4))
        self.assertLess(run.slowest(64, 4), run.slowest(64))
        text = self.run_script("--ranks", "2", "--latency", "0", "--gigabits", "8", "--average-steps", "4").stdout
        self.assertIn("an average every 4 steps", text)
        with_slowest = 100 * 2 / (run.slowest(2, 4) + 0.2)
        self.assertIn(f"| 2 | 0.2000 s | 0.2000 s | 2.2000 s | 9.1 % | 90.9 % | {with_slowest:.1f} % |", text)

    def test_the_last_run_of_a_log_counts(self):
        self.steps += [{**self.start, "event": "resume", "bucket_bytes": [8, 9]}]
        self.steps += [step(n, 3.0) for n in range(8, 12)]
        self.write()
        run = project_ranks.Run(self.log)
        self.assertEqual(run.compute, [3.0])
        self.assertEqual(run.buckets, [8, 9])

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, self.log, *arguments], text=True, capture_output=True)

    def test_the_report(self):
        self.write()
        text = self.run_script("--ranks", "2,64", "--latency", "0", "--gigabits", "8").stdout
        self.assertIn("11.1 % of the time waiting for others", text)
        self.assertIn("assumed:\n", text)
        self.assertIn("latency 10000 us, bandwidth 1.00 GB/s", text)
        self.assertIn("| 2 | 0.5000 s | 0.1500 s | 2.1500 s | 7.0 % | 93.0 % | 87.9 % |", text)
        self.assertIn("\n| 64 |", text)

    def test_what_is_no_log_of_several_processes(self):
        self.start["ranks"] = 1
        self.write()
        self.assertIn("a training by one process; expected two or more", self.run_script().stderr)
        self.start["ranks"], self.start["average_steps"] = 2, 4
        self.write()
        self.assertIn("a training with --average-steps 4; expected 1", self.run_script().stderr)
        self.start["average_steps"] = 1
        self.write()
        self.assertIn("does not say how large an average is", self.run_script("--average-steps", "4").stderr)
        self.assertIn("invalid positive value: '0'", self.run_script("--average-steps", "0").stderr)
        self.steps = self.steps[:3]
        self.write()
        self.assertIn("3 steps; expected more than 3", self.run_script().stderr)
        self.start = {"event": "end"}
        self.write()
        self.assertIn("no start of a training; expected the log.jsonl of one", self.run_script().stderr)
        self.assertIn("argument --ranks: invalid counts value: 'two'", self.run_script("--ranks", "two").stderr)
        self.assertIn("argument --ranks: invalid counts value: '0'", self.run_script("--ranks", "0").stderr)
        self.log = os.path.join(self.folder.name, "none.jsonl")
        run = self.run_script()
        self.assertEqual(run.returncode, 1)
        self.assertIn("No such file", run.stderr)


if __name__ == "__main__":
    unittest.main()
