#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_scenarios.py <detector>: MLPerf's scenarios on a checkpoint of a short training."""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from squares import SIDE, write_squares

DETECTOR = sys.argv.pop(1) if len(sys.argv) > 1 else "detector"
COUNT = 12  # pictures
QUERIES = 11


class Scenarios(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = cls.scratch.name
        write_squares(cls.folder, COUNT)
        cls.list = os.path.join(cls.folder, "ImageSets/Main/train.txt")
        out = os.path.join(cls.folder, "run")
        subprocess.run([DETECTOR, "train", "--train", cls.list, "--out", out, "--size", str(SIDE), str(SIDE),
                        "--channels", "16", "--anchor-size", "16", "--epochs", "4", "--batch", "2",
                        "--rate", "3e-3", "--threads", "1"], check=True, stderr=subprocess.DEVNULL)
        cls.checkpoint = os.path.join(out, "checkpoint.pt")
        cls.single_stream = cls.scenario("single-stream")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @staticmethod
    def bench(*arguments):
        return subprocess.run([DETECTOR, "bench", *arguments], text=True, capture_output=True)

    @classmethod
    def scenario(cls, name, *more):
        """The values of the run's log, and its output. Of so many queries, the 90th percentile is not the last."""
        run = cls.bench(cls.checkpoint, "--test", cls.list, "--threads", "1", "--scenario", name, "--min-seconds", "0.1",
                        "--min-queries", str(QUERIES), "--warmup-queries", "1", *more)
        assert run.returncode == 0, run.stderr
        lines = [json.loads(line[len(":::MLLOG "):]) for line in run.stdout.splitlines()
                 if line.startswith(":::MLLOG ")]
        times = [line["time_ms"] for line in lines]
        assert times == sorted(times), times
        for line in lines:
            assert (line["namespace"], line["event_type"]) == ("mlperf::logging", "POINT_IN_TIME"), line
        return {line["key"]: line["value"] for line in lines}, run.stdout

    def test_streams(self):
        for name, samples, key, percent in (("single-stream", 1, "", 90), ("multi-stream", 8, "per_query_", 99)):
            values, text = self.single_stream if samples == 1 else self.scenario(name)
            self.assertEqual(values["effective_scenario"], "SingleStream" if samples == 1 else "MultiStream")
            self.assertEqual(values["effective_test_mode"], "PerformanceOnly")
            self.assertEqual(values["effective_samples_per_query"], samples)
            self.assertEqual(values["effective_performance_sample_count"], COUNT)
            self.assertEqual(values["result_validity"], "VALID")
            self.assertGreaterEqual(values["result_query_count"], QUERIES)
            latencies = [values[f"result_{p}_{key}latency_ns"]
                         for p in ("min", "50.00_percentile", "90.00_percentile", "99.00_percentile", "max")]
            self.assertLess(0, latencies[0])
            self.assertEqual(latencies, sorted(latencies))
            stated = float(re.search(rf"result: {percent}th percentile ([0-9.]+) ms", text)[1])
            self.assertAlmostEqual(stated, latencies[2 if percent == 90 else 3] * 1e-6, delta=0.006)
            self.assertIn(f"with {values['result_query_count'] * samples} of {COUNT} pictures", text)

    def test_server(self):
        # The search takes about as long as this for each rate; a busy machine needs more.
        bound = math.ceil(10e-6 * self.single_stream[0]["result_50.00_percentile_latency_ns"])
        values, text = self.scenario("server", "--latency-bound", str(bound))
        self.assertEqual(values["result_validity"], "VALID")
        self.assertEqual(values["effective_target_latency_ns"], bound * 1_000_000)
        self.assertLess(0, values["result_scheduled_samples_per_sec"])
        self.assertLessEqual(values["result_99.00_percentile_latency_ns"], bound * 1_000_000)
        self.assertIn(f"with a 99th percentile within {bound}.00 ms", text)
        values, text = self.scenario("server", "--latency-bound", "0.001")
        self.assertEqual(values["result_validity"], "INVALID")
        self.assertNotIn("result_scheduled_samples_per_sec", values)
        self.assertIn("no rate: the 99th percentile of pictures alone is above", text)

    def test_offline(self):
        values, text = self.scenario("offline", "--largest-batch", "7", "--postprocessing", "torch",
                                     "--convolutions", "torch")
        self.assertEqual(values["result_query_count"] % 7, 0)
        self.assertEqual((values["convolutions"], values["postprocessing"]), ("torch", "torch"))
        self.assertLess(0, values["result_samples_per_second"])
        self.assertIn("pictures/s", text)

    def test_accuracy(self):
        """As `detector evaluate` finds it, in every scenario and with either postprocessing."""
        evaluated = subprocess.run([DETECTOR, "evaluate", self.checkpoint, "--test", self.list], text=True,
                                   capture_output=True, check=True).stdout
        ap, ap50 = (float(x) for x in re.match(r"AP ([0-9.]+), AP50 ([0-9.]+)", evaluated).groups())
        self.assertLess(0.2, ap50)
        for name, kind in (("single-stream", "vecdet"), ("multi-stream", "torch"), ("server", "torch")):
            values, text = self.scenario(name, "--accuracy", "--postprocessing", kind)
            self.assertEqual(values["effective_test_mode"], "AccuracyOnly")
            self.assertEqual(values["result_query_count"], COUNT)
            self.assertAlmostEqual(values["accuracy_ap"], ap, delta=2e-3)
            self.assertAlmostEqual(values["accuracy_ap50"], ap50, delta=2e-3)
            self.assertIn(f"on {COUNT} pictures", text)

    def test_bad_input(self):
        empty, broken = (os.path.join(self.folder, f"ImageSets/Main/{name}.txt") for name in ("empty", "broken"))
        open(empty, "w").close()
        with open(broken, "w") as names:
            names.write("broken\n")
        with open(os.path.join(self.folder, "JPEGImages/broken.png"), "w") as picture:
            picture.write("no picture")
        with open(os.path.join(self.folder, "Annotations/broken.xml"), "w") as xml:
            xml.write("<annotation><object><name>red</name><bndbox><xmin>5</xmin><ymin>5</ymin><xmax>40</xmax>"
                      "<ymax>40</ymax></bndbox></object></annotation>")
        good = ["--scenario", "offline", "--test", self.list]
        for arguments, expected in (
                (["none.pt", *good], "detector: none.pt: no such checkpoint"),
                ([self.list, *good], "not a checkpoint, or a corrupt one"),
                ([self.checkpoint, "--scenario", "offline", "--test", empty], "empty.txt: lists no pictures"),
                ([self.checkpoint, "--scenario", "offline", "--test", broken],
                 "detector: no picture could be read; the first error: "),
                ([self.checkpoint, "--scenario", "offline", "--test", "none.txt"], "detector: none.txt"),
                ([self.checkpoint, "--scenario", "online", "--test", self.list], "--scenario"),
                ([self.checkpoint, *good, "--latency-bound", "0"], "--latency-bound"),
                ([self.checkpoint, *good, "--latency-bound", "-5"], "--latency-bound"),
                ([self.checkpoint, *good, "--mlperf"], "--mlperf"),
                ([self.checkpoint, "--test", self.list], "--scenario"),
                ([self.checkpoint, "--scenario", "offline"], "--test"),
                (good, "checkpoint"),
                ([self.checkpoint, *good, "--steps", "3"], "--mlperf")):
            run = self.bench(*arguments)
            self.assertNotEqual(run.returncode, 0, arguments)
            self.assertIn(expected, run.stderr, arguments)
            self.assertEqual(run.stdout.count("result"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
