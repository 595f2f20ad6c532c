#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lays out the pages of the built documentation in Chromium, in windows of 1280, 800, 500 and 400 pixels. No page may
scroll sideways or cut off code, tables, formulas or pictures: what is wider than the page has a bar of its own. The
samples of the front page are visible in full at 1280 pixels, and have bars of their own in narrower windows.

    check_layout.py <folder of the site>
"""

import html
import json
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = """<html><body><iframe id="view" style="height: 900px; border: 0"></iframe><pre></pre><script>
const view = document.getElementById("view"), faults = [];
let looked_at = 0;
function look(page, width) {
  const inner = view.contentDocument, contents = inner.querySelector("div.contents"), name = `${page}, ${width} px: `;
  if (inner.documentElement.scrollWidth > width) faults.push(name + "scrolls sideways");
  const edge = contents.getBoundingClientRect().right + 1;
  const scrolls = (e) => /auto|scroll/.test(view.contentWindow.getComputedStyle(e).overflowX);
  for (const e of contents.querySelectorAll("div.fragment, table, img, .katex-display, div.memproto")) {
    if (!e.getClientRects().length) continue;
    ++looked_at;
    let outer = e.parentElement;
    while (outer !== contents && !scrolls(outer)) outer = outer.parentElement;
    if (e.getBoundingClientRect().right > edge && outer === contents)
      faults.push(name + "cut off: " + e.outerHTML.slice(0, 60) + " " + e.textContent.slice(0, 40));
    if (!e.matches("table.samples div.fragment")) continue;
    if (e.getBoundingClientRect().right > edge || (width >= 1280 && e.scrollWidth > e.clientWidth))
      faults.push(name + "not in full: " + e.textContent.slice(0, 40));
  }
}
async function main(pages) {
  for (const page of pages) {
    view.style.width = "1280px";
    await new Promise((done) => { view.onload = done; view.src = page; });
    await new Promise((done) => setTimeout(done, 150));
    for (const width of [1280, 800, 500, 400]) {
      view.style.width = width + "px";
      look(page, width);
    }
  }
  document.querySelector("pre").textContent = JSON.stringify([looked_at, faults]);
}
main(%s);
</script></body></html>"""


def main():
    site = pathlib.Path(sys.argv[1]).resolve()
    pages = ["index.html", *sorted(path.name for path in site.glob("p_*.html"))]
    with tempfile.TemporaryDirectory() as folder:
        wrapper = pathlib.Path(folder) / "wrapper.html"
        wrapper.write_text(SCRIPT % json.dumps([(site / page).as_uri() for page in pages]))
        printed = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--allow-file-access-from-files", "--virtual-time-budget=600000", "--window-size=1400,1000",
             f"--user-data-dir={folder}/profile", "--dump-dom", wrapper.as_uri()],
            check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300).stdout
    result = html.unescape(printed.partition("<pre>")[2].partition("</pre>")[0])
    if not result:
        sys.exit("Chromium did not finish")
    looked_at, faults = json.loads(result)
    print(f"{len(pages)} pages, {looked_at} elements in four windows, {len(faults)} faults")
    sys.exit("\n".join(faults).replace(site.as_uri() + "/", "") if faults or not looked_at else 0)


if __name__ == "__main__":
    main()
