#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a run of bench/bench_peers.py as docs/peers-light.svg and docs/peers-dark.svg. Writes the rows of the chart
and the usual speed-ups into README.md, and all rows into docs/figures.md.

    bench/plot_peers.py [run file]     default: bench/peers.json, the committed run

The chart and README's table show one thread, with glibc's malloc tuned to keep freed memory. They thus compare
kernels: what fresh memory costs depends on the machine. They show one of several similar problems. In the tables,
~ marks times whose median is more than a third above the least one.
"""

import html
import json
import math
import pathlib
import re
import sys
import textwrap

import figures
from text_width import lines_of, text_width

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLOURS = {"light": {"text": "#1f2328", "grid": "#d0d7de", "bar": "#0969da", "other": "#8250df", "onnx": "#bf8700"},
           "dark": {"text": "#e6edf3", "grid": "#30363d", "bar": "#4493f8", "other": "#ab7df8", "onnx": "#d29922"}}
KINDS = {"torchvision": "bar", "PyTorch": "bar", "PyTorch and SciPy": "bar", "torch.compile": "other", "ONNX Runtime": "onnx"}
MARGIN, LABELS, LEFT, WIDTH, ROW = 8, 292, 302, 800, 19
LINE = 15  # of labels and of the text at the top
VALUE = 64  # the width of "1,000x"

# Similar problems, left out of the chart.
NOT_IN_CHART = ("CIoU", "IoU,", "matching, 32 boxes", "NMS, 5000", "matching of 16 x 300 queries, 7",
                "matching of 8 x 3900", "deformable attention, ", "deformable attention and gradients, decoder",
                "3x3 convolution and gradients, 100 x 100", "CTC and gradient, 26", "CTC and gradient, 40 x 32",
                "CTC and gradient, 400", "batch normalisation, relu", "pasting of 100 masks, 800 x 1066, as numbers")
# The tables' columns.
COLUMNS = {"torchvision or PyTorch": ("torchvision", "PyTorch", "PyTorch and SciPy"),
           "torch.compile": ("torch.compile",), "ONNX Runtime": ("ONNX Runtime",)}


def headline(run):
    return [r for r in run["results"] if r["threads"] == 1 and r["allocator"] == "tuned"
            and not r["problem"].startswith(NOT_IN_CHART)]


def bars(run):
    return [(row["problem"], name, ms / row["ms"]["vecdet"]) for row in headline(run)
            for name, ms in row["ms"].items() if name != "vecdet"]


def text(x, y, words, attributes=""):
    return f'<text x="{x:.1f}" y="{y}"{attributes}>{html.escape(words)}</text>'


def svg(run, theme):
    """The picture. A problem's label is as many lines as it needs, and so is the text at the top."""
    colour = COLOURS[theme]
    rows = bars(run)
    decades = max(1, math.ceil(math.log10(max(ratio for _, _, ratio in rows))))
    scale = (WIDTH - LEFT - VALUE - MARGIN) / decades
    versions = run["versions"]
    about = (f'torchvision {versions["torchvision"].split("+")[0]}, PyTorch {versions["torch"].split("+")[0]}, '
             f'ONNX Runtime {versions["onnxruntime"].split("+")[0]}; {run["processor"]}; {run["date"]}')
    out = [text(MARGIN, 18, "vecdet: speed-up, one thread, log scale, tuned malloc", ' font-size="15" font-weight="bold"')]
    y = 35
    for line in lines_of(about, WIDTH - 2 * MARGIN, 11):
        out.append(text(MARGIN, y, line, ' font-size="11"'))
        y += LINE
    top = y + 8
    y = top
    for problem in dict.fromkeys(problem for problem, _, _ in rows):
        label = lines_of(problem, LABELS - MARGIN, 12)
        for i, line in enumerate(label):
            out.append(text(LABELS, y + 13 + LINE * i, line, ' text-anchor="end"'))
        label_end = y + LINE * len(label) + ROW - LINE
        for name, ratio in [(name, ratio) for of, name, ratio in rows if of == problem]:
            length = max(1.0, scale * math.log10(max(ratio, 1)))
            out.append(f'<rect x="{LEFT}" y="{y + 2}" width="{length:.1f}" height="{ROW - 5}" rx="2" '
                       f'fill="{colour[KINDS[name]]}"/>')
            width = text_width(name, 10)
            inside = length > width + 10
            out.append(text(LEFT + 5 if inside else LEFT + length + 5, y + 13, name,
                            f' font-size="10" fill="{"#ffffff" if inside else colour["text"]}"'))
            out.append(text(LEFT + length + (5 if inside else width + 12), y + 13,
                            f"{ratio:.{0 if ratio >= 10 else 1}f}x", ' font-weight="bold"'))
            y += ROW
        y = max(y, label_end)
    height = y + 14
    grid = []
    for decade in range(decades + 1):
        x = LEFT + scale * decade
        grid.append(f'<line x1="{x:.1f}" y1="{top - 6}" x2="{x:.1f}" y2="{height - 8}" stroke="{colour["grid"]}"/>')
        grid.append(text(x, top - 10, f"{10 ** decade}x", ' font-size="10" text-anchor="middle"'))
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
                      f'height="{height}" font-family="sans-serif" font-size="12" fill="{colour["text"]}">',
                      *grid, *out, "</svg>"]) + "\n"


def usual(run):
    """A range that holds half or more of the speed-ups over PyTorch and torchvision in README's table: without the
    lowest sixth and, so that it does not flatter, the highest third."""
    names = COLUMNS["torchvision or PyTorch"]
    ratios = sorted(row["ms"][name] / row["ms"]["vecdet"] for row in headline(run) for name in names if name in row["ms"])
    return math.floor(ratios[len(ratios) // 6]), math.ceil(ratios[-(len(ratios) // 3) - 1])


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
        f"{versions['onnxruntime']}. Each time is the minimum of {run['rounds']} rounds; "
        "`~` marks one whose median is more than a third above it.", 120) + "\n"


def put(path, mark, text):
    page = path.read_text()
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, rest = page.split(begin)
    path.write_text(before + begin + text + end + rest.split(end)[1])


def main():
    run = json.loads(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "bench/peers.json").read_text())
    for theme in COLOURS:
        (ROOT / f"docs/peers-{theme}.svg").write_text(svg(run, theme))
    readme = ROOT / "README.md"
    put(readme, "peers", table(headline(run), False) + "\n" + machine(run))
    readme.write_text(re.sub(r"mostly \d+ to \d+ times as fast", "mostly {} to {} times as fast".format(*usual(run)),
                             readme.read_text()))
    put(ROOT / "docs/figures.md", "peers", machine(run) + "\n" + table(run["results"], True))


if __name__ == "__main__":
    main()
