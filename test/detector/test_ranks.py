#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ranks.py <detector>: training by two processes. They compute what one computes on the same
batches, and one that is killed ends the job, which --resume goes on with. Exit code 77 where the
program was built without c10d."""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

DETECTOR = sys.argv.pop(1) if len(sys.argv) > 1 else "detector"
SIDE = 96
STEPS = 12  # 4 epochs of 12 pictures in batches of 4
SKIPPED = 77


def write_png(file, rows):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    lines = b"".join(b"\0" + bytes(row) for row in rows)
    with open(file, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", SIDE, SIDE, 8, 2, 0, 0, 0))
                  + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def write_squares(folder, count=12):
    """Red and blue squares on grey noise, in VOC's format."""
    source = random.Random(7)
    for part in ("Annotations", "JPEGImages", "ImageSets/Main"):
        os.makedirs(os.path.join(folder, part))
    for i in range(count):
        rows = [[source.randrange(90, 160) for _ in range(3 * SIDE)] for _ in range(SIDE)]
        size = source.randrange(20, 40)
        left, top = source.randrange(SIDE - size), source.randrange(SIDE - size)
        colour = [230, 40, 30] if i % 2 else [30, 40, 230]
        for y in range(top, top + size):
            rows[y][3 * left:3 * (left + size)] = colour * size
        write_png(os.path.join(folder, f"JPEGImages/{i}.png"), rows)
        with open(os.path.join(folder, f"Annotations/{i}.xml"), "w") as xml:
            xml.write(f"<annotation><object><name>{'red' if i % 2 else 'blue'}</name><bndbox>"
                      f"<xmin>{left}</xmin><ymin>{top}</ymin><xmax>{left + size}</xmax>"
                      f"<ymax>{top + size}</ymax></bndbox></object></annotation>")
    with open(os.path.join(folder, "ImageSets/Main/train.txt"), "w") as names:
        names.write("".join(f"{i}\n" for i in range(count)))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = cls.scratch.name
        write_squares(cls.folder)
        # The baseline for comparisons.
        cls.two = os.path.join(cls.folder, "two")
        cls.profile = os.path.join(cls.folder, "job.json")
        for process in cls.begin(cls.two, VECDET_PROFILE=cls.profile):
            _, error = process.communicate(timeout=120)
            assert process.returncode == 0, error

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def begin(cls, out, *more, ranks=2, **environment):
        """The processes of a training with a global batch of 4, each with its share of two threads."""
        port = free_port()
        command = [DETECTOR, "train", "--train", os.path.join(cls.folder, "ImageSets/Main/train.txt"),
                   "--out", out, "--size", str(SIDE), str(SIDE), "--channels", "16", "--anchor-size", "16",
                   "--optimiser", "sgd", "--rate", "0.01", "--hflip", "0.5", "--epochs", "4",
                   "--checkpoint-steps", "2", "--batch", str(4 // ranks), "--threads", str(2 // ranks),
                   "--loader-threads", "1", *more]
        return [subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks),
                                      "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **environment})
                for rank in range(ranks)]

    @staticmethod
    def events(out, kind):
        """Only complete lines: a training may be writing the next one."""
        try:
            with open(os.path.join(out, "log.jsonl")) as log:
                found = [json.loads(line) for line in log if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [event for event in found if event["event"] == kind]

    def losses(self, out):
        """Losses of each step; a step that was computed twice must have the same."""
        losses = {}
        for event in self.events(out, "step"):
            self.assertEqual(losses.setdefault(event["step"], event["loss"]), event["loss"])
        return [losses[step] for step in sorted(losses)]

    def test_two_of_one_thread_are_one_of_two_threads(self):
        one = os.path.join(self.folder, "one")
        process, = self.begin(one, ranks=1)
        self.assertEqual(process.communicate(timeout=120)[1].count("finished"), 1)
        expected, found = self.losses(one), self.losses(self.two)
        self.assertEqual(len(expected), STEPS)
        self.assertEqual(len(found), STEPS)
        self.assertLess(expected[-1], 0.9 * expected[0])  # so that gradients matter
        # A difference in the last place grows a few times with each step. If a gradient were not
        # the mean, the difference would be some per cent at the second step.
        for step, (e, f) in enumerate(zip(expected, found)):
            self.assertLess(abs(e - f), (2e-4 if step < 3 else 2e-2) * e, step)

    def test_the_log_says_what_communication_takes(self):
        start, = self.events(self.two, "start")
        self.assertEqual(start["ranks"], 2)
        self.assertEqual(sum(start["bucket_bytes"]), 4 * start["weights"])
        self.assertEqual([size for size, _ in start["all_reduce"]], [4, max(start["bucket_bytes"])])
        for event in self.events(self.two, "step"):
            ready = event["buckets_ready"]
            self.assertEqual(len(ready), len(start["bucket_bytes"]))
            self.assertEqual(sorted(ready), ready)
            self.assertLess(0, ready[0])
            self.assertLess(ready[-1], event["backward_seconds"])
            self.assertLess(0, event["all_reduce_waited"])
            self.assertLess(event["all_reduce_waited"] + event["backward_seconds"], event["step_seconds"])

    def test_profiles_of_the_ranks_show_the_waiting(self):
        for rank in range(2):
            with open(self.profile.replace(".json", f".rank{rank}.json")) as file:
                profile = json.load(file)
            process, = profile["processes"]
            self.assertEqual(process["rank"], rank)
            self.assertLess(0, process["waiting_ns"])
            self.assertLess(process["waiting_ns"], process["recorded_ns"])
            calls = {entry["name"]: entry["count"] for entry in profile["entries"]}
            for name in ("step", "pictures", "forward", "loss", "backward", "share gradients", "optimiser"):
                self.assertEqual(calls[name], STEPS, name)

    def killed(self, victim):
        out = os.path.join(self.folder, f"killed{victim}")
        processes = self.begin(out)
        while len(self.events(out, "step")) < 5 and processes[0].poll() is None:
            time.sleep(0.005)
        processes[victim].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        _, error = processes[1 - victim].communicate(timeout=60)
        self.assertLess(time.monotonic() - killed, 10)
        self.assertIn("detector: another process of this training has ended or does not answer: ", error)
        self.assertEqual(processes[1 - victim].returncode, 1)
        processes[victim].communicate()
        self.assertLess(self.events(out, "step")[-1]["step"], STEPS)

        last = self.events(out, "checkpoint")[-1]["step"]
        for process in self.begin(out, "--resume"):
            _, error = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, error)
        resumed, = self.events(out, "resume")
        self.assertGreaterEqual(resumed["step"], last)
        self.assertGreaterEqual(resumed["step"], 4)
        self.assertEqual(self.losses(out), self.losses(self.two))

    def test_rank_1_killed(self):
        self.killed(1)

    def test_rank_0_killed(self):
        self.killed(0)

    def test_an_environment_without_sense(self):
        for environment, expected in (
                ({"RANK": "2"}, "rank 2 of 2 processes: expected a rank below the number of processes"),
                ({"WORLD_SIZE": "two"}, "WORLD_SIZE is two, expected a number"),
                ({"RANK": "-1"}, "RANK is -1, expected a number"),
                ({"MASTER_PORT": "70000"}, "MASTER_PORT is 70000, expected a number from 0 to 65535")):
            processes = self.begin(os.path.join(self.folder, "none"), **environment)
            for process in processes:
                _, error = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 1)
                self.assertIn(expected, error)


def has_c10d():
    alone = subprocess.run([DETECTOR, "train", "--train", "none.txt", "--out", "none"], text=True,
                           stderr=subprocess.PIPE, env={**os.environ, "RANK": "0", "WORLD_SIZE": "2",
                                                        "MASTER_ADDR": "", "MASTER_PORT": "x"})
    return "built without c10d" not in alone.stderr


if __name__ == "__main__":
    if not has_c10d():
        print("skipped: the detector was built without c10d")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
