#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes one program of the C++ samples of Markdown pages, a function each; or runs the Python samples.

    samples.py <file to write> <page>...
    samples.py --python <page>...

A fenced block of ``cpp`` (or ``python``) is a sample. What a reader need not see stands in HTML
comments: <!-- before: code --> ahead of the block, for what it uses, and <!-- after: code --> behind
it, for what must hold: check(condition). Blocks with int main() are programs of their own, and tested
elsewhere: they say where in <!-- tested by NAME -->.
"""

import pathlib
import re
import sys

FENCE = re.compile(
    r"(?:<!-- before:(?P<before>(?:(?!-->).)*)-->\n)?"
    r"```(?P<language>cpp|python)\n(?P<code>.*?)^```\n"
    r"(?:<!-- after:(?P<after>.*?)-->)?", re.M | re.S)

HEAD = """\
// Made by docs/site/samples.py of the samples in the documentation's pages.
#include <vecdet/profile.hpp>
#include <vecdet/vecdet.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tbb/task_arena.h>

namespace {

int failures = 0;
const char* sample = "";

[[maybe_unused]] void check(bool condition, const char* what) {
  if (condition) return;
  std::cerr << sample << ": does not hold: " << what << "\\n";
  ++failures;
}
#define check(...) check((__VA_ARGS__), #__VA_ARGS__)

/// What a call says that must throw.
template <class Call>
[[maybe_unused]] std::string message_of(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

"""


def samples_of(page, language):
    text = pathlib.Path(page).read_text()
    for found in FENCE.finditer(text):
        if found["language"] == language:
            yield text.count("\n", 0, found.start("code")) + 1, found


def write_program(target, pages):
    functions = []
    body = []
    for page in pages:
        for line, found in samples_of(page, "cpp"):
            if re.search(r"^int main\(", found["code"], re.M):
                if "<!-- tested by " not in pathlib.Path(page).read_text():
                    sys.exit(f"{page}:{line}: a program that nothing tests")
                continue
            code = re.sub(r"^#include .*$", "", found["code"], flags=re.M)
            functions.append(f"{pathlib.Path(page).name}:{line}")
            body.append(f"void sample_{len(functions)}() {{\n{found['before'] or ''}\n"
                        f"#line {line} \"{page}\"\n{code}\n{found['after'] or ''}\n}}\n")
    calls = "".join(f"  sample = \"{name}\";\n  sample_{i}();\n" for i, name in enumerate(functions, 1))
    main = (f"}}  // namespace\n\nint main() {{\n  try {{\n{calls}  }} catch (const std::exception& error) {{\n"
            "    std::cerr << sample << \": \" << error.what() << \"\\n\";\n    return 1;\n  }\n"
            f"  std::cout << \"{len(functions)} samples, \" << failures << \" failed\\n\";\n"
            "  return failures != 0;\n}\n")
    pathlib.Path(target).write_text(HEAD + "\n".join(body) + "\n" + main)


def run_python(pages):
    count = 0
    for page in pages:
        for line, found in samples_of(page, "python"):
            code = "\n".join(filter(None, (found["before"], found["code"], found["after"])))
            exec(compile(code, f"{page}:{line}", "exec"), {})
            count += 1
    print(f"{count} Python samples ran")
    return 0 if count else 1


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--python":
        sys.exit(run_python(sys.argv[2:]))
    write_program(sys.argv[1], sys.argv[2:])


if __name__ == "__main__":
    main()
