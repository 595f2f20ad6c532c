#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Applies the method to MLPerf's RetinaNet step, for docs/method.md. Each change's saving is projected from the
profiler, a replay of the primitives or the loss alone, and then measured in the step.

    examples/detector/method.py measure build/torch method --threads 2
    examples/detector/method.py report method --page docs/method.md --svg docs/method.svg --png docs/method.png

`measure` stores results in the folder and continues from them if called again. It takes most of an hour; the
machine should be idle. The build folder needs VECDET_TORCH=ON and the benchmarks, which include vecdet-profile.
`report` needs chromium for the picture of the profiler's page.
"""
import argparse
import collections
import contextlib
import datetime
import html
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from pages import COLOURS, figures, processor, put
from runs import read_lines

# The stages of `detector bench`, by index.
TORCH, OPERATORS, ALLOCATOR, LAYOUT, SMALL_LEVELS, FOLDED, CONVOLUTIONS, CHANNELS_LAST, BFLOAT16 = range(9)
PROFILED = (TORCH, OPERATORS, LAYOUT, SMALL_LEVELS, FOLDED, CONVOLUTIONS)
LOSS_ALONE = (TORCH, OPERATORS, ALLOCATOR, LAYOUT)
# Inputs of one picture with at most this many elements take ATen's slow path.
LARGEST_SLOW = 20480


def run(command, output=None, errors=None, folder=None):
    """Runs a command, in the folder if given, with standard output and errors redirected to files if named."""
    command = list(map(str, command))
    print(" ".join(command), file=sys.stderr)
    with contextlib.ExitStack() as files:
        to = [files.enter_context(file.open("w")) if file else None for file in (output, errors)]
        if subprocess.run(command, stdout=to[0], stderr=to[1], cwd=folder).returncode != 0:
            sys.exit(f"failed: {' '.join(command)}")


def once(target, make):
    """Calls make(path) with a temporary name, which is renamed to the target once it is complete."""
    if target.exists():
        return
    unfinished = target.with_name("unfinished-" + target.name)
    unfinished.unlink(missing_ok=True)
    make(unfinished)
    unfinished.rename(target)


def input_elements(entry):
    """Elements of a recorded convolution's input; a gradient, if any, precedes it."""
    shapes = entry["implementation"].split(",")
    shape = shapes[1 if entry["function"].endswith("_backward") else 0]
    product = 1
    for size in shape.split("x"):
        product *= int(size)
    return product


def is_convolution(entry):
    return entry["function"] in ("aten::convolution", "aten::convolution_backward")


def is_small(entry):
    return is_convolution(entry) and input_elements(entry) <= LARGEST_SLOW


def only(profile, file, keep):
    """The profile with only the problems to keep, to replay few of them."""
    profile["entries"] = [entry for entry in profile["entries"] if keep(entry)]
    # Problems inside a kept problem belong to it.
    for entry in profile["entries"]:
        entry["self_ns"] = entry["inclusive_ns"]
    profile["paths"] = []
    file.write_text(json.dumps(profile))


def measure(options):
    detector = options.build / "examples/detector/detector"
    tool = options.build / "bench/profile/vecdet-profile"
    replay = ["env", f"OMP_NUM_THREADS={options.threads}", tool, "replay",
              "--repetitions", 2, "--cold-calls", 2, "--seconds", 0.05]
    folder = options.folder
    folder.mkdir(exist_ok=True)
    mlperf = [detector, "bench", "--mlperf", "--threads", options.threads, "--side", options.side]
    once(folder / "steps.jsonl", lambda file: run(
        [*mlperf, "--rounds", options.rounds, "--steps", options.steps, "--results", file]))
    one = [*mlperf, "--batch", 1]
    for stage in LOSS_ALONE:
        once(folder / f"loss-{stage}.txt", lambda file: run(
            [*one, "--stage", stage, "--steps", 5, "--loss-alone"], file))
    for stage in PROFILED:
        once(folder / f"profile-{stage}.json", lambda file: run(
            [*one, "--stage", stage, "--steps", 1, "--profile", file], folder / "seconds.txt",
            folder / f"faults-{stage}.txt"))
    small, all_convolutions = folder / "small.json", folder / "convolutions.json"
    only(read(folder, LAYOUT), small, is_small)
    only(read(folder, FOLDED), all_convolutions, is_convolution)
    once(folder / "replay-small.txt", lambda file: run(
        [*replay, small, "-o", folder / "replay-small.json"], file))
    once(folder / "replay-layouts.txt", lambda file: run(
        [*replay, all_convolutions, "--layouts", "nchw,channels_last", "--types", "f32,bf16",
         "--conv3x3", "-n", 4], file))
    once(folder / "change.html", lambda file: run(
        [tool.resolve(), "compare", f"profile-{TORCH}.json", f"profile-{CONVOLUTIONS}.json", "--step", "step",
         "-o", file.name], folder / "compare.txt", folder=folder))
    (folder / "machine.json").write_text(json.dumps({
        "processor": processor(), "blas": blas(detector), "date": str(datetime.date.today()),
        "threads": options.threads, "side": options.side}))


def read(folder, stage):
    return json.loads((folder / f"profile-{stage}.json").read_text())


def blas(program):
    """The library of matrix products that the program finds, and its kernels."""
    found = re.search(r"libblas\S* => (\S+)", subprocess.run(["ldd", program], capture_output=True, text=True).stdout)
    return figures.blas_of(pathlib.Path(found[1]).resolve()) if found else "a BLAS inside of libtorch"


def inclusive_seconds(profile, keep):
    return sum(entry["inclusive_ns"] for entry in profile["entries"] if keep(entry)) * 1e-9


def loss_alone(folder, stage):
    lines = (folder / f"loss-{stage}.txt").read_text().split("\n")
    return statistics.median(float(line.split()[0]) for line in lines if line)


def fresh_pages(folder, stage):
    """The cost of page faults according to their report."""
    found = re.search(r"which cost about ([\d.]+) ms", (folder / f"faults-{stage}.txt").read_text())
    return float(found[1]) * 1e-3 if found else 0.0


def duration(text):
    number, unit = text.split()
    return float(number) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}[unit]


def layouts(folder):
    """Seconds of all convolutions with warm caches, because memory is kept, by layout and type, and with conv3x3."""
    rows = re.findall(r"^ *([\d.]+ \w+) +[\d.]+ \w+ +x[\d.]+ +((?:nchw|channels_last) \w+(?: conv3x3)?)$",
                      (folder / "replay-layouts.txt").read_text(), re.M)
    return {name: duration(time) for time, name in rows}


def projections(folder):
    """For each stage, the projected saving over the previous one, and its source."""
    losses = {stage: loss_alone(folder, stage) for stage in LOSS_ALONE}
    normalisation = sum(entry["self_ns"] for entry in read(folder, SMALL_LEVELS)["entries"]
                        if re.match(r"aten::(mul|add)/f32/\d+x\d+x\d+x\d+,1x\d+x1x1\b", entry["name"]))
    slow = inclusive_seconds(read(folder, LAYOUT), is_small)
    small = json.loads((folder / "replay-small.json").read_text())
    # Two pictures instead of one.
    fast = 2 * inclusive_seconds(small, is_small)
    by_layout = layouts(folder)
    found = {
        OPERATORS: (losses[TORCH] - losses[OPERATORS],
                    f"the loss alone takes {losses[TORCH]:.3f} s with torch's operators, "
                    f"{losses[OPERATORS]:.3f} s with vecdet's"),
        ALLOCATOR: (fresh_pages(folder, OPERATORS),
                    f"fresh pages cost {fresh_pages(folder, OPERATORS):.2f} s of a step"),
        LAYOUT: (losses[ALLOCATOR] - losses[LAYOUT],
                 f"the loss alone takes {1e3 * losses[ALLOCATOR]:.0f} ms, and "
                 f"{1e3 * losses[LAYOUT]:.0f} ms on the head's layout"),
        SMALL_LEVELS: (slow - fast,
                       f"convolutions of {LARGEST_SLOW:,} elements or fewer take {slow:.3f} s; those of two pictures "
                       f"take {fast:.3f} s in oneDNN"),
        FOLDED: (1e-9 * normalisation, "products and sums with one constant per channel, forward and backward"),
        CONVOLUTIONS: (by_layout["nchw f32"] - by_layout["nchw f32 conv3x3"],
                       f"the convolutions take {by_layout['nchw f32']:.2f} s, and "
                       f"{by_layout['nchw f32 conv3x3']:.2f} s with conv3x3"),
        CHANNELS_LAST: (by_layout["nchw f32 conv3x3"] - by_layout["channels_last f32 conv3x3"],
                        f"the convolutions take {by_layout['channels_last f32 conv3x3']:.2f} s in channels_last"),
    }
    # Not replayed in bfloat16 on processors without instructions for it.
    if "channels_last bf16" in by_layout:
        found[BFLOAT16] = (by_layout["channels_last f32 conv3x3"] - by_layout["channels_last bf16"],
                           f"the convolutions take {by_layout['channels_last bf16']:.2f} s in bfloat16")
    return found


def steps(folder):
    """Seconds of all timed steps, by batch and stage, and the names of the stages."""
    times, names, losses = collections.defaultdict(list), {}, {}
    for of in read_lines(folder / "steps.jsonl"):
        times[of["batch"], of["stage"]] += of["seconds"]
        names[of["stage"]] = of["name"]
        losses[of["batch"], of["stage"]] = of["loss"]
    return times, names, losses


def by_function(profile, rows):
    whole = profile["whole_ns"]
    sums = collections.Counter()
    calls = collections.Counter()
    for entry in profile["entries"]:
        sums[entry["function"]] += entry["self_ns"]
        calls[entry["function"]] += entry["count"]
    lines = ["| operator (self time) | per step | share | calls |", "|---|--:|--:|--:|"]
    lines += [f"| {name} | {1e-9 * ns:.2f} s | {100 * ns / whole:.1f} % | {calls[name]} |"
              for name, ns in sums.most_common(rows)]
    return "\n".join(lines) + "\n"


def parts(folder):
    """Network, loss, backward pass and optimiser of the first step and the last in float."""
    lines = ["| | network | loss | backward | optimiser |", "|---|--:|--:|--:|--:|"]
    names = steps(folder)[1]
    for stage in (TORCH, CONVOLUTIONS):
        profile = read(folder, stage)
        seconds = {entry["name"]: 1e-9 * entry["inclusive_ns"] for entry in profile["entries"]}
        lines.append(f"| {names[stage]} | " + " | ".join(
            f"{seconds[part]:.2f} s" for part in ("network", "loss", "backward", "optimiser")) + " |")
    return "\n".join(lines) + "\n"


def main_table(folder):
    times, names, losses = steps(folder)
    projected = projections(folder)
    medians = {key: statistics.median(values) for key, values in times.items()}
    batches = sorted({batch for batch, _ in times})
    lines = ["| change | projected from | projected saving | measured saving | step | speed-up |",
             "|---|---|--:|--:|--:|--:|"]
    for stage in sorted(names):
        cells = ["", "", ""]
        if stage in projected:
            saving, words = projected[stage]
            cells = [words, f"{saving:.2f} s", f"{medians[1, stage - 1] - medians[1, stage]:.2f} s"]
        lines.append(f"| {names[stage]} | " + " | ".join(cells) + f" | {medians[1, stage]:.2f} s | "
                     f"{medians[1, 0] / medians[1, stage]:.2f}x |")
    spread = statistics.median(max(times[1, stage]) - min(times[1, stage]) for stage in names)
    text = (f"Each time is the median of {len(times[1, 0])} steps. The fastest and the slowest step of a row differ by "
            f"{spread:.2f} s (median over the rows).\n\n")
    text += "\n".join(lines) + "\n"
    for batch in batches[1:]:
        text += (f"\nWith a batch of {batch}, {len(times[batch, 0])} steps each:\n\n| change | step, median | step, minimum | vs previous | vs first | loss |\n"
                 "|---|--:|--:|--:|--:|--:|\n")
        for stage in sorted(names):
            median = medians[batch, stage]
            text += (f"| {names[stage]} | {median:.2f} s | {min(times[batch, stage]):.2f} s | "
                     f"{medians[batch, max(stage - 1, 0)] / median:.2f}x | {medians[batch, 0] / median:.2f}x | "
                     f"{losses[batch, stage]:.5f} |\n")
    return text


def plot(folder):
    times, names, _ = steps(folder)
    projected = projections(folder)
    medians = {stage: statistics.median(times[1, stage]) for stage in names}
    left, width, row, top = 210, 520, 26, 46
    scale = width / max(medians.values())
    height = top + row * len(names) + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 {height}" width="820" height="{height}" '
           f'font-family="sans-serif" font-size="12" fill="{COLOURS["text"]}">',
           '<text x="8" y="18" font-size="15" font-weight="bold">Seconds per training step, one picture</text>',
           f'<text x="8" y="36" fill="{COLOURS["torch"]}">| projected from the step before</text>']
    for stage in sorted(names):
        y, length = top + row * stage, scale * medians[stage]
        out.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{html.escape(names[stage])}</text>')
        out.append(f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="{row - 8}" rx="2" '
                   f'fill="{COLOURS["vecdet"]}"/>')
        end = length
        if stage in projected:
            x = scale * max(0.0, medians[stage - 1] - projected[stage][0])
            end = max(end, x)
            out.append(f'<line x1="{left + x:.1f}" x2="{left + x:.1f}" y1="{y}" y2="{y + row - 2}" '
                       f'stroke="{COLOURS["torch"]}" stroke-width="2"/>')
        out.append(f'<text x="{left + end + 6:.1f}" y="{y + 15}">{medians[stage]:.2f}</text>')
    return "\n".join(out + ["</svg>\n"])


def report(options):
    folder, page = options.folder, options.page
    machine = json.loads((folder / "machine.json").read_text())
    put(page, "machine", f"{machine['processor']}, {machine['threads']} threads, {machine['date']}; "
                         f"{machine['side']} x {machine['side']}, matrix products by {machine['blas']}.\n")
    put(page, "before", by_function(read(folder, TORCH), 10))
    put(page, "faults", "```\n" + (folder / f"faults-{OPERATORS}.txt").read_text() + "```\n")
    put(page, "layouts", "```\n" + (folder / "replay-layouts.txt").read_text() + "```\n")
    put(page, "steps", main_table(folder))
    put(page, "parts", parts(folder))
    put(page, "after", by_function(read(folder, CONVOLUTIONS), 10))
    options.svg.write_text(plot(folder))
    with tempfile.TemporaryDirectory() as profile:
        run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--virtual-time-budget=2000", f"--user-data-dir={profile}", "--window-size=1200,920",
             f"--screenshot={options.png.resolve()}", f"file://{(folder / 'change.html').resolve()}"],
            errors=folder / "chromium.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("build", type=pathlib.Path, help="folder of the build")
    measuring.add_argument("folder", type=pathlib.Path, help="of what is measured")
    measuring.add_argument("--threads", type=int, required=True)
    measuring.add_argument("--side", type=int, default=800, help="of the pictures")
    measuring.add_argument("--rounds", type=int, default=3)
    measuring.add_argument("--steps", type=int, default=1, help="timed of each stage in each round")
    measuring.set_defaults(action=measure)
    reporting = commands.add_parser("report")
    reporting.add_argument("folder", type=pathlib.Path, help="of what is measured")
    reporting.add_argument("--page", type=pathlib.Path, required=True, help="page that has the blocks between marks")
    reporting.add_argument("--svg", type=pathlib.Path, required=True, help="file of the plot")
    reporting.add_argument("--png", type=pathlib.Path, required=True, help="file of the profiler's picture")
    reporting.set_defaults(action=report)
    options = parser.parse_args()
    options.action(options)


if __name__ == "__main__":
    main()
