#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a run of bench/bench_peers.py as docs/peers-light.svg and docs/peers-dark.svg. Writes the rows of the chart
and the range of speed-ups into README.md, and all rows into docs/figures.md.

    bench/plot_peers.py [run file]     default: bench/peers.json, the committed run

The chart and README's table show one thread, with glibc's malloc tuned to keep freed memory. They thus compare
kernels: what fresh memory costs depends on the machine. They show one of several similar problems. In the tables,
~ marks times whose median is more than a third above the least one.
"""

import json
import math
import pathlib
import re
import sys
import textwrap

import figures

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLOURS = {"light": {"text": "#1f2328", "grid": "#d0d7de", "bar": "#0969da", "other": "#8250df", "onnx": "#bf8700"},
           "dark": {"text": "#e6edf3", "grid": "#30363d", "bar": "#4493f8", "other": "#ab7df8", "onnx": "#d29922"}}
KINDS = {"torchvision": "bar", "PyTorch": "bar", "PyTorch and SciPy": "bar", "torch.compile": "other", "ONNX Runtime": "onnx"}
LABELS, LEFT, WIDTH, ROW, TOP = 252, 262, 800, 19, 58


# Similar problems, left out of the chart.
NOT_IN_CHART = ("CIoU", "IoU,", "matching, 32 boxes", "NMS, 5000", "matching of 16 x 300 queries, 7",
                "matching of 8 x 3900", "deformable attention, ", "deformable attention and gradients, decoder",
                "3x3 convolution and gradients, 100 x 100")
# The tables' columns.
COLUMNS = {"torchvision or PyTorch": ("torchvision", "PyTorch", "PyTorch and SciPy"),
           "torch.compile": ("torch.compile",), "ONNX Runtime": ("ONNX Runtime",)}


def headline(run):
    return [r for r in run["results"] if r["threads"] == 1 and r["allocator"] == "tuned"
            and not r["problem"].startswith(NOT_IN_CHART)]


def bars(run):
    return [(row["problem"], name, ms / row["ms"]["vecdet"]) for row in headline(run)
            for name, ms in row["ms"].items() if name != "vecdet"]


def svg(run, theme):
    colour = COLOURS[theme]
    rows = bars(run)
    decades = math.ceil(math.log10(max(ratio for _, _, ratio in rows)))
    scale = (WIDTH - LEFT - 70) / decades
    height = TOP + ROW * len(rows) + 14
    versions = run["versions"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
           f'height="{height}" font-family="sans-serif" font-size="12" fill="{colour["text"]}">',
           f'<text x="8" y="18" font-size="15" font-weight="bold">vecdet: speed-up, one thread, log scale, tuned malloc</text>',
           f'<text x="8" y="35" font-size="11">torchvision {versions["torchvision"].split("+")[0]}, PyTorch '
           f'{versions["torch"].split("+")[0]}, ONNX Runtime {versions["onnxruntime"].split("+")[0]}; '
           f'{run["processor"]}; {run["date"]}</text>']
    for decade in range(decades + 1):
        x = LEFT + scale * decade
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 8}" stroke="{colour["grid"]}"/>')
        out.append(f'<text x="{x:.1f}" y="{TOP - 10}" font-size="10" text-anchor="middle">{10 ** decade}x</text>')
    last = None
    for i, (problem, name, ratio) in enumerate(rows):
        y = TOP + ROW * i
        if problem != last:
            out.append(f'<text x="{LABELS}" y="{y + 13}" text-anchor="end">{problem}</text>')
        last = problem
        length = max(1.0, scale * math.log10(max(ratio, 1)))
        out.append(f'<rect x="{LEFT}" y="{y + 2}" width="{length:.1f}" height="{ROW - 5}" rx="2" '
                   f'fill="{colour[KINDS[name]]}"/>')
        inside = length > 110
        out.append(f'<text x="{LEFT + 5 if inside else LEFT + length + 5:.1f}" y="{y + 13}" font-size="10" '
                   f'fill="{"#ffffff" if inside else colour["text"]}">{name}</text>')
        shift = 5 if inside else 12 + 6 * len(name)
        out.append(f'<text x="{LEFT + length + shift:.1f}" y="{y + 13}" font-weight="bold">{ratio:.{0 if ratio >= 10 else 1}f}x</text>')
    return "\n".join(out) + "\n</svg>\n"


def milliseconds(ms):
    return f"{ms:,.0f} ms" if ms >= 1000 else f"{ms:.3g} ms"


def table(rows, with_setting):
    lines = ["| problem | " + ("threads | allocator | " if with_setting else "") + " | ".join(["vecdet", *COLUMNS]) + " |",
             "|---|" + ("--:|---|" if with_setting else "") + "--:|" * (1 + len(COLUMNS))]
    for row in rows:
        ms = row["ms"]
        shown = {name: milliseconds(least) + (" ~" if figures.is_unsteady(least, row["median_ms"][name]) else "")
                 for name, least in ms.items()}
        cells = [shown["vecdet"]]
        for names in COLUMNS.values():
            found = [name for name in names if name in ms]
            cells.append(f"{shown[found[0]]}, {ms[found[0]] / ms['vecdet']:.1f}x" if found else "")
        setting = f"{row['threads']} | {row['allocator']} | " if with_setting else ""
        lines.append(f"| {row['problem']} | {setting}" + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def machine(run):
    """What was measured, where and when."""
    versions = {name: version.split("+")[0] for name, version in run["versions"].items()}
    instruction_set = next(name for flag, name in (("avx512", "AVX-512"), ("avx2", "AVX2"), ("", "neither AVX2 nor AVX-512"))
                           if flag in run["torch.compile"])
    blas = f", {run['blas']}" if "blas" in run else ""
    return textwrap.fill(
        f"Measured on {run['date']}: {run['processor']}, {run['processors']} virtual processors, {instruction_set}; "
        f"{run['system']}; PyTorch {versions['torch']}{blas}, torchvision {versions['torchvision']}, ONNX Runtime "
        f"{versions['onnxruntime']}. Each time is the minimum of {run['rounds']} rounds.", 120) + "\n"


def put(path, mark, text):
    page = path.read_text()
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, rest = page.split(begin)
    path.write_text(before + begin + text + end + rest.split(end)[1])


def main():
    run = json.loads(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "bench/peers.json").read_text())
    for theme in COLOURS:
        (ROOT / f"docs/peers-{theme}.svg").write_text(svg(run, theme))
    ratios = [ratio for _, _, ratio in bars(run)]
    readme = ROOT / "README.md"
    put(readme, "peers", table(headline(run), False) + "\n" + machine(run))
    readme.write_text(re.sub(r"[\d.]+ to \d+ times faster", f"{min(ratios):.1f} to {max(ratios):.0f} times faster",
                             readme.read_text()))
    put(ROOT / "docs/figures.md", "peers", machine(run) + "\n" + table(run["results"], True))


if __name__ == "__main__":
    main()
