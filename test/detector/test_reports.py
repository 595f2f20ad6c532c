#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts that write measured figures into pages, on logs and programs made up here."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent.parent / "examples/detector"
sys.dont_write_bytecode = True
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS.parent.parent / "test")]
import pictures
import runs


def rows(page, first):
    """The cells of the rows of a page that begin with this cell."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.read_text().splitlines()]
    return [line[1:] for line in lines if line[0] == first]


class Reports(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.page = self.folder / "page.md"
        self.runs = self.folder / "runs"

    def write_page(self, *marks):
        blocks = "".join(f"<!-- {mark} -->\nold\n<!-- end of {mark} -->\n" for mark in marks)
        self.page.write_text(f"before\n{blocks}after\n")

    def write_log(self, name, *events, killed=False):
        log = self.runs / name / "log.jsonl"
        log.parent.mkdir(parents=True)
        log.write_text("".join(json.dumps(event) + "\n" for event in events) + ('{"event": "st' if killed else ""))

    def run_script(self, name, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPTS / name, *map(str, arguments)], text=True,
                              capture_output=True)

    def report(self, name, *arguments):
        done = self.run_script(name, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = self.page.read_text()
        self.assertTrue(page.startswith("before\n") and page.endswith("after\n"))
        self.assertNotIn("old", page)
        return page

    def averaging_run(self, average_steps, seed, ap50, outcome="finished", killed=False, steps=8):
        """Steps of 2 s: 0.25 s for pictures, 0.4 s waiting for messages, 1.35 s of compute. The last takes longer."""
        recipe = (f"loss vecdet, epochs 6, seed {seed}, optimiser sgd, average-steps {average_steps}"
                  + (" of 2 processes" if average_steps > 1 else "") + ", train 12 pictures")
        start = {"event": "start", "ranks": 2, "average_steps": average_steps, "model": "resnet18", "recipe": recipe,
                 "average_bytes": 1_500_000_000, "all_reduce": [[4, 0.02], [400_000_000, 3.22]]}
        if average_steps == 1:
            start["bucket_bytes"] = [100_000_000, 400_000_000]
        log = [start]
        for number in range(1, steps + 1):
            log.append({"event": "step", "step": number, "loss": 3.0 / number, "waited": 0.25,
                        "step_seconds": 2.0 if number < steps else 2.8, "all_reduce_waited": 0.4,
                        "backward_seconds": 1.0, "buckets_ready": [0.25, 0.75]})
        if not killed:
            log += [{"event": "evaluation", "ap50": 0.1}, {"event": "evaluation", "ap50": ap50},
                    {"event": "end", "outcome": outcome, "seconds": 60.0 * (10 + average_steps + seed)}]
        self.write_log(f"{average_steps}-{seed}", *log, killed=killed)

    def test_averaging(self):
        for average_steps in (1, 4, 16, 64):
            for seed in (0, 1):
                self.averaging_run(average_steps, seed, 0.8 - average_steps / 1000 - seed / 10)
        self.averaging_run(1, 2, 0.9)
        self.averaging_run(4, 2, 0.9, killed=True)
        self.averaging_run(16, 2, 0.9, outcome="interrupted")
        self.write_page("measured", "projected")
        page = self.report("averaging.py", "report", self.runs, "--page", self.page)
        self.assertEqual(rows(self.page, "1")[0],
                         ["0.799", "0.699", "0.900", "0.799", "1.019", "12.0", "2100 ms", "19.0 %"])
        self.assertEqual(rows(self.page, "16")[0][:4], ["0.784", "0.684", "", "0.734"])
        self.assertEqual(rows(self.page, "64")[0][5], "74.5")
        # Without latency, four processes take 12 s for buckets of 500 MB at 1 Gbit/s.
        for ranks in ("4", "8", "16", "32", "64"):
            projected = [row for row in rows(self.page, ranks) if len(row) == 7]
            self.assertEqual([row[0] for row in projected], ["1", "4", "16", "64"], ranks)
        step, efficiency = next(row for row in rows(self.page, "4") if row[0] == "1")[1:3]
        # 1.35 s of compute. The first bucket is sent from 0.25 to 1.45 s, the second is complete at 6.25 s.
        self.assertAlmostEqual(float(step.split()[0]), 1350 + 5250, delta=1)
        self.assertEqual(efficiency, "20 %")
        self.assertIn("50 us at 1 Gbit/s, 30 us at 10 Gbit/s", page)

    def test_torn_lines(self):
        """Killed while it wrote, as an older program that went on in the same line."""
        self.averaging_run(1, 0, 0.5)
        log = self.runs / "1-0/log.jsonl"
        start, *others = log.read_text().splitlines(keepends=True)
        log.write_text(start + '{"event": "st' + others[0] + "".join(others[1:]))
        self.assertEqual([event.get("step") for event in runs.events(self.runs / "1-0")][:3], [None, 2, 3])
        self.write_page("measured", "projected")
        done = self.run_script("averaging.py", "report", self.runs, "--page", self.page)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('log.jsonl: line 2 is not JSON, left out: {"event": "st{"event": "step"', done.stderr)
        self.assertEqual(list(self.folder.glob("*.unfinished")), [])

    def test_averaging_of_one_seed(self):
        self.averaging_run(1, 3, 0.5)
        self.averaging_run(64, 3, 0.4)
        self.write_page("measured", "projected")
        self.report("averaging.py", "report", self.runs, "--page", self.page)
        self.assertEqual(rows(self.page, "64")[0][:2], ["0.400", "0.400"])

    def test_averaging_without_enough(self):
        def message():
            done = self.run_script("averaging.py", "report", self.runs)
            self.assertNotEqual(done.returncode, 0)
            self.assertNotIn("Traceback", done.stderr)
            return done.stderr

        self.assertIn("no run that has finished", message())
        self.averaging_run(4, 0, 0.4)
        self.assertIn("no run with K = 1 that has finished", message())
        self.averaging_run(1, 0, 0.4, steps=3)
        self.assertIn("3 steps; expected more than 3", message())

    def quality_run(self, kind, loss, seed, points, outcome="finished"):
        step = {"torch": 2.0, "vecdet": 1.5}[loss]
        recipe = (f"loss {loss}, convolutions {loss}, epochs 3, batch 8, seed {seed}, optimiser adamw, bfloat16 "
                  + ("on" if kind == "bfloat16" else "off") + ", train 12 pictures")
        log = [{"event": "start", "model": "resnet18", "recipe": recipe, "threads": 2}]
        for number, ap50 in enumerate(points, 1):
            log += [{"event": "step", "step": number, "loss": 2.0 / number, "step_seconds": step},
                    {"event": "evaluation", "step": number, "ap50": ap50, "evaluation_seconds": 1.0,
                     "seconds": 60 * step * number}]
        log.append({"event": "end", "outcome": outcome, "seconds": 1.0})
        self.write_log(f"{kind}/{loss}-{seed}", *log)

    def test_time_to_quality(self):
        for kind in ("float", "bfloat16"):
            for loss in ("torch", "vecdet"):
                self.quality_run(kind, loss, 0, [0.5, 0.82, 0.86], "target reached")
        self.quality_run("float", "vecdet", 1, [0.5, 0.6, 0.81])
        self.quality_run("float", "torch", 1, [0.5], "interrupted")
        self.write_page("quality")
        svg, figures = self.folder / "quality.svg", self.folder / "quality.json"
        page = self.report("time_to_quality.py", "report", self.runs / "float", self.runs / "bfloat16", "--page",
                           self.page, "--svg", svg, "--json", figures)
        self.assertEqual([row[1:3] for row in rows(self.page, "torch")], [["4.0 (2)", "6.0 (3)"]] * 2)
        self.assertEqual([row[1:3] for row in rows(self.page, "vecdet")],
                         [["3.0 (2)", "4.5 (3)"], ["4.5 (3)", "not reached"], ["3.0 (2)", "4.5 (3)"]])
        self.assertEqual([row[1] for row in rows(self.page, "**vecdet**, median")],
                         ["3.8, 2 of 2 runs", "3.0, 1 of 1 runs"])
        recipe = "resnet18; epochs 3, batch 8, optimiser adamw, bfloat16"
        self.assertLess(page.index(f"**float**: {recipe} off, train 12 pictures; the runs of a seed"),
                        page.index(f"**bfloat16**: {recipe} on, train 12 pictures; the runs of a seed"))
        self.assertIn("in turn on 2 threads", page)
        self.assertIn("(quality.svg)", page)
        self.assertEqual(pictures.faults(svg.read_text()), [])
        lines = xml.etree.ElementTree.parse(svg).getroot().findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(lines), 2 * 5)
        types = json.loads(figures.read_text())["types"]
        self.assertEqual([(of["type"], len(of["runs"])) for of in types], [("float", 3), ("bfloat16", 2)])

    def test_one_type_and_one_run(self):
        self.quality_run("float", "vecdet", 0, [0.1])
        self.write_page("quality")
        self.report("time_to_quality.py", "report", self.runs / "float", "--page", self.page)
        self.assertEqual(rows(self.page, "vecdet")[0][1], "not reached")

    def test_types_in_one_folder(self):
        self.quality_run("float", "torch", 0, [0.1])
        self.quality_run("bfloat16", "torch", 0, [0.1])
        (self.runs / "bfloat16/torch-0").rename(self.runs / "float/torch-1")
        done = self.run_script("time_to_quality.py", "report", self.runs / "float")
        self.assertIn("runs of different recipes", done.stderr)

    def test_which_runs_are_to_be_trained(self):
        self.assertTrue(runs.is_to_be_trained(self.runs / "none"))
        self.averaging_run(1, 0, 0.5)
        self.assertFalse(runs.is_to_be_trained(self.runs / "1-0"))
        self.assertTrue((self.runs / "1-0").exists())
        self.averaging_run(1, 1, 0.5, outcome="interrupted")
        self.averaging_run(1, 2, 0.5, killed=True)
        for name in ("1-1", "1-2"):
            self.assertTrue(runs.is_to_be_trained(self.runs / name))
            self.assertFalse((self.runs / name).exists())

    def test_scenarios(self):
        """A program whose results are known; its server keeps the bound only with vecdet's convolutions."""
        program = self.folder / "detector"
        program.write_text(f"""#!{sys.executable}
import json, sys
options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
by_vecdet = [options["--convolutions"], options["--postprocessing"]].count("vecdet")
def log(key, value):
    print(":::MLLOG " + json.dumps({{"key": key, "value": value}}))
if "--accuracy" in sys.argv:
    log("accuracy_ap", 0.25)
elif options["--scenario"] == "server":
    if options["--convolutions"] == "vecdet":
        log("result_scheduled_samples_per_sec", 40.0)
elif options["--scenario"] == "offline":
    log("result_samples_per_second", 50.0 * (1 + by_vecdet))
else:
    key = "90.00_percentile" if options["--scenario"] == "single-stream" else "99.00_percentile_per_query"
    log(f"result_{{key}}_latency_ns", 12_000_000 // (1 + by_vecdet))
""")
        program.chmod(0o755)
        arguments = (program, "none.pt", "none.txt", "--rounds", "1", "--page", self.page)
        self.page.write_text("no marks")
        done = self.run_script("scenarios.py", *arguments)
        self.assertIn("no lines <!-- scenarios -->", done.stderr)
        self.assertNotIn("single-stream", done.stderr)  # before anything is measured
        self.write_page("scenarios")
        self.report("scenarios.py", *arguments)
        self.assertEqual(rows(self.page, "single-stream")[0][1:], ["12.0 ms", "6.0 ms", "6.0 ms", "4.0 ms", "3.00x"])
        self.assertEqual(rows(self.page, "server")[0][1:4], ["0.0 pictures/s", "0.0 pictures/s", "40.0 pictures/s"])
        self.assertEqual(rows(self.page, "server")[0][-1], "")
        self.assertEqual(rows(self.page, "offline")[0][-1], "3.00x")
        self.assertEqual(rows(self.page, "accuracy mode")[0][1:], ["0.2500"] * 4 + [""])


if __name__ == "__main__":
    unittest.main(verbosity=2)
