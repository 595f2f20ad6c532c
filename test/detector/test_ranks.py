#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ranks.py <detector>: training by two processes. They compute what one computes on the same
batches, and one that is killed ends the job, which --resume goes on with. Exit code 77 where the
program was built without c10d."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
from squares import SIDE, write_squares

DETECTOR = sys.argv.pop(1) if len(sys.argv) > 1 else "detector"
STEPS = 9  # 3 epochs of 12 pictures in batches of 4
# Averages of the weights after 4 steps and after the last step of an epoch of 6, with batches of 1.
EVERY_4 = ("--average-steps", "4")
AVERAGES = [4, 6, 10, 12, 16, 18]
CHECKPOINTS = ("--checkpoint-steps", "2")
DIED = "detector: another process of this training has ended or does not answer: "
SKIPPED = 77


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
        # The baselines for comparisons. ResNet-18's weights, not the pictures, take the time.
        cls.one = os.path.join(cls.folder, "one")
        cls.finish(cls.begin(cls.one, ranks=1))
        cls.two = os.path.join(cls.folder, "two")
        cls.profile = os.path.join(cls.folder, "job.json")
        cls.said_by_two = cls.finish(cls.begin(cls.two, VECDET_PROFILE=cls.profile))
        cls.averaged = os.path.join(cls.folder, "averaged")
        cls.finish(cls.begin(cls.averaged, *EVERY_4, batch=2))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def begin(cls, out, *more, ranks=2, batch=4, rate="0.01", epochs="3", only=None, **environment):
        """The processes of a training with this global batch, or only one of them, each with its share of two
        threads."""
        port = free_port()
        command = [DETECTOR, "train", "--train", os.path.join(cls.folder, "ImageSets/Main/train.txt"),
                   "--out", out, "--size", str(SIDE), str(SIDE), "--channels", "16", "--anchor-size", "16",
                   "--optimiser", "sgd", "--rate", rate, "--hflip", "0.5", "--epochs", epochs,
                   "--batch", str(batch // ranks), "--threads", str(2 // ranks), "--loader-threads", "1", *more]
        return [subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks),
                                      "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **environment})
                for rank in (range(ranks) if only is None else [only])]

    @staticmethod
    def finish(processes):
        """Returns what each said."""
        said = [process.communicate(timeout=120)[1] for process in processes]
        for process, error in zip(processes, said):
            assert process.returncode == 0, error
        return said

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
        self.assertEqual([said.count("finished") for said in self.said_by_two], [1, 0])
        expected, found = self.losses(self.one), self.losses(self.two)
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

    def stop_and_resume(self, out, stops, expected, *more, **batch):
        """Trains. At each stop, sends a signal to one process as soon as the log has so many more entries of a
        kind, and resumes. The losses must be the expected. Returns what the other process said at each stop."""
        errors, saved, start = [], [], CHECKPOINTS
        for number, victim, kind, count in stops:
            count += len(self.events(out, kind))
            processes = self.begin(out, *start, *more, **batch)
            while len(self.events(out, kind)) < count and processes[0].poll() is None:
                time.sleep(0.005)
            processes[victim].send_signal(number)
            errors.append(processes[1 - victim].communicate(timeout=60)[1])
            self.assertEqual(processes[1 - victim].returncode, 1 if number == signal.SIGKILL else 0, errors[-1])
            processes[victim].communicate()
            self.assertLess(self.events(out, "step")[-1]["step"], len(self.losses(expected)))
            saved.append(self.events(out, "checkpoint")[-1]["step"])
            start = (*CHECKPOINTS, "--resume")
        self.finish(self.begin(out, *start, *more, **batch))
        resumed = [event["step"] for event in self.events(out, "resume")]
        self.assertEqual(len(resumed), len(stops))  # so that no training began anew
        for step, last in zip(resumed, saved):
            self.assertGreaterEqual(step, last)
        self.assertEqual(self.losses(out), self.losses(expected))
        return errors

    def test_killed(self):
        """With --average-steps 1, which averages gradients, as without it."""
        errors = self.stop_and_resume(
            os.path.join(self.folder, "killed"),
            ((signal.SIGKILL, 0, "step", 3), (signal.SIGKILL, 1, "step", 2)), self.two, "--average-steps", "1")
        for error in errors:
            self.assertIn(DIED, error)

    def test_stopped_between_averages(self):
        """Killed after some averages, and asked to end before the first average."""
        out = os.path.join(self.folder, "stopped")
        errors = self.stop_and_resume(
            out, ((signal.SIGKILL, 0, "step", 5), (signal.SIGKILL, 1, "step", 1),
                  (signal.SIGTERM, 0, "resume", 1), (signal.SIGTERM, 1, "resume", 1)),
            self.averaged, *EVERY_4, batch=2)
        for error in errors[:2]:
            self.assertIn(DIED, error)
        self.assertIn("interrupted", errors[3])  # what rank 0 says
        ends = self.events(out, "end")
        self.assertEqual([end["outcome"] for end in ends], ["interrupted", "interrupted", "finished"])
        self.assertLessEqual({end["step"] for end in ends}, set(AVERAGES))
        # Weights are saved when they are equal.
        self.assertLessEqual({event["step"] for event in self.events(out, "checkpoint")}, set(AVERAGES))

    def test_weights_are_averaged(self):
        start, = self.events(self.averaged, "start")
        self.assertEqual(start["average_bytes"], 2 * 4 * start["weights"])  # the momentum as well
        end, = self.events(self.averaged, "end")
        first, second = end["weights_of_ranks"]
        self.assertEqual(first, second)
        losses = self.losses(self.averaged)
        self.assertEqual(len(losses), AVERAGES[-1])
        self.assertLess(sum(losses[-6:]), 0.9 * sum(losses[:6]))
        waited = [event["all_reduce_waited"] for event in self.events(self.averaged, "step")]
        self.assertEqual([i + 1 for i, seconds in enumerate(waited) if seconds > 0], AVERAGES)

        # Between averages, each process uses its own gradients.
        together = os.path.join(self.folder, "together")
        self.finish(self.begin(together, batch=2, epochs="1"))
        first, second, *_ = zip(losses, self.losses(together))
        self.assertEqual(first[0], first[1])
        self.assertNotEqual(second[0], second[1])

    def test_the_average_after_one_step_is_that_of_gradients(self):
        """An epoch of one step ends with an average, which SGD's step of the mean gradient equals."""
        losses = []
        for name, ranks in (("gradients", 1), ("weights", 2)):
            out = os.path.join(self.folder, name)
            self.finish(self.begin(out, "--average-steps", "8", ranks=ranks, batch=12))
            losses.append(self.losses(out))
        self.assertEqual(len(losses[0]), 3)
        self.assertLess(losses[0][-1], 0.9 * losses[0][0])
        for e, f in zip(*losses):
            self.assertLess(abs(e - f), 1e-3 * e)

    def test_the_average_of_one_process_changes_nothing(self):
        out = os.path.join(self.folder, "alone")
        self.finish(self.begin(out, "--average-steps", "4", ranks=1))
        self.assertEqual(self.losses(out), self.losses(self.one))

    def test_a_loss_that_is_not_finite_between_averages(self):
        out = os.path.join(self.folder, "diverges")
        for process in self.begin(out, *EVERY_4, *CHECKPOINTS, batch=2, rate="1e18"):
            _, error = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 3, error)
        end, = self.events(out, "end")
        self.assertEqual(end["outcome"], "diverged")
        self.assertEqual(self.events(out, "checkpoint"), [])

    def test_resuming_with_other_averages(self):
        for steps in ("1", "2"):
            for process in self.begin(self.averaged, "--resume", "--average-steps", steps, batch=2):
                _, error = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 1)
                self.assertIn(f"--average-steps is {'1' if steps == '1' else '2 of 2 processes'}, expected 4 of 2 "
                              "processes", error)

    def test_processes_with_other_options(self):
        """Otherwise, their weights would differ from the first step on."""
        port = str(free_port())
        processes = [self.begin(os.path.join(self.folder, "unequal"), rate=rate, MASTER_PORT=port, only=rank)[0]
                     for rank, rate in enumerate(("0.01", "0.02"))]
        for rank, process in enumerate(processes):
            _, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1)
            self.assertIn(f"--rate is 0.0{1 + rank} in process {rank}, but process 1 has another value than process 0",
                          error)

    def test_processes_with_other_checkpoints(self):
        """Each on its own machine, one of which has an older folder."""
        older = os.path.join(self.folder, "older")
        processes = self.begin(older)
        while not self.events(older, "step") and processes[0].poll() is None:
            time.sleep(0.005)
        processes[0].send_signal(signal.SIGTERM)
        self.finish(processes)
        step = self.events(older, "end")[-1]["step"]
        self.assertLess(step, STEPS)
        outs = [self.two, older]
        port = str(free_port())
        processes = [self.begin(out, "--resume", MASTER_PORT=port, only=rank)[0] for rank, out in enumerate(outs)]
        for process in processes:
            _, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1)
            self.assertIn(f"process 1 has the checkpoint of step {step}, process 0 that of step {STEPS}", error)

    def test_an_environment_without_sense(self):
        for environment, expected in (
                ({"RANK": "2", "WORLD_SIZE": "2"},
                 "rank 2 of 2 processes: expected a rank below the number of processes"),
                ({"WORLD_SIZE": "two"}, "WORLD_SIZE is two, expected a number"),
                ({"RANK": "-1"}, "RANK is -1, expected a number"),
                ({"MASTER_PORT": "70000", "WORLD_SIZE": "2"},
                 "MASTER_PORT is 70000, expected a number from 0 to 65535")):
            process, = self.begin(os.path.join(self.folder, "none"), ranks=1, **environment)
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
