#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The text of the generated pictures stays within the picture, and no text covers another.

    pictures.py [<svg>...]     default: the pictures in the tree, and charts of made-up runs

Widths are those of bench/text_width.py, and, where it is installed, also Chromium's.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
import plot_peers
from text_width import text_width

# Prints the left, top, right and bottom of every text of the picture, with its words.
SCRIPT = """<html><body>%s<pre></pre><script>
const boxes = [...document.querySelectorAll("svg text")].map((e) => {
  const b = e.getBBox();
  return [b.x, b.y, b.x + b.width, b.y + b.height, e.textContent];
});
document.querySelector("pre").textContent = JSON.stringify(boxes);
</script></body></html>"""


def boxes_by_metrics(svg):
    picture = xml.etree.ElementTree.fromstring(svg)
    for element in picture.iter("{http://www.w3.org/2000/svg}text"):
        size = float(element.get("font-size", picture.get("font-size")))
        width = text_width(element.text, size, element.get("font-weight") == "bold")
        if element.get("font-family") == "monospace":
            width = 0.602 * size * len(element.text)
        x, y = float(element.get("x")), float(element.get("y"))
        x -= {"end": width, "middle": width / 2}.get(element.get("text-anchor"), 0)
        yield x, y - 0.93 * size, x + width, y + 0.24 * size, element.text


def boxes_by_chromium(svg):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        page.write_text(SCRIPT % svg)
        printed = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={folder}/profile", "--dump-dom", page.as_uri()],
            check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120).stdout
    tree = xml.etree.ElementTree.fromstring(printed[printed.index("<pre>"):printed.index("</pre>")] + "</pre>")
    return json.loads(tree.text)


def faults(svg):
    """What is wrong with the text of a picture: a list of sentences."""
    view = xml.etree.ElementTree.fromstring(svg).get("viewBox").split()
    width, height = float(view[2]), float(view[3])
    found = []
    for measure in (boxes_by_metrics, boxes_by_chromium)[:2 if shutil.which("chromium") else 1]:
        boxes = list(measure(svg))
        assert boxes, "no text"
        for left, top, right, bottom, words in boxes:
            if left < 0 or top < 0 or right > width or bottom > height:
                found.append(f"{measure.__name__}: '{words}' is at {left:.0f} to {right:.0f} and {top:.0f} to "
                             f"{bottom:.0f} of {width:.0f} x {height:.0f}")
        for i, (left, top, right, bottom, words) in enumerate(boxes):
            for other in boxes[:i]:
                # Lines of text may touch.
                if min(right, other[2]) - max(left, other[0]) > 0 and min(bottom, other[3]) - max(top, other[1]) > 3:
                    found.append(f"{measure.__name__}: '{words}' covers '{other[4]}'")
    return found


def made_up_runs():
    """Runs with labels of every length, with and without spaces, and with ratios of every size."""
    words = ["deformable attention", "and gradients,", "encoder,", "17821 x 4 <queries>", "of 8 & 16 heads"]
    labels = [" ".join((words * 4)[:n]) for n in range(1, 15)] + ["M" * n for n in (5, 20, 50, 200)]
    for most in (1.01, 9, 120, 9000):
        rows = [{"problem": f"{i} {label}", "threads": 1, "allocator": "tuned",
                 "ms": {"vecdet": 1.0, **{name: most ** (1 / (1 + (i + k) % 4)) for k, name in
                                          enumerate(list(plot_peers.KINDS)[:1 + i % 5])}}}
                for i, label in enumerate(labels)]
        yield {"results": rows, "processor": "a processor with a long name " * 6, "date": "2026-01-01",
               "versions": {"torchvision": "0.27.0", "torch": "2.14.1", "onnxruntime": "1.23"}}


def main():
    if sys.argv[1:]:
        pictures = {name: pathlib.Path(name).read_text() for name in sys.argv[1:]}
    else:
        pictures = {path.name: path.read_text() for path in sorted((ROOT / "docs").glob("*.svg"))}
        committed = json.loads((ROOT / "bench/peers.json").read_text())
        pictures |= {f"made-up chart {i}": plot_peers.svg(run, "dark")
                     for i, run in enumerate([committed, *made_up_runs()])}
    wrong = [f"{name}: {fault}" for name, svg in pictures.items() for fault in faults(svg)]
    sys.exit("\n".join(wrong) or print(f"{len(pictures)} pictures") or 0)


if __name__ == "__main__":
    main()
