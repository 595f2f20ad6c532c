#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the C interface from the public headers and the functions in include/vecdet/c:

    include/vecdet/c/generated/enumerations.hpp  enumerations in C, and their sizes
    include/vecdet/c/generated/params.hpp        structs of parameters in C
    include/vecdet/c/generated/fields.hpp        what copies between them and those in C++
    include/vecdet/c/generated/presets.cpp       functions that return structs of parameters
    include/vecdet/c/generated/*_losses.hpp      functions of losses: see c_losses.py
    include/vecdet/c.h                           the C header
    test/c/symbols.txt                           the names of its functions
    python/vecdet/_c.py                          the tables of the NumPy package
    python/vecdet                                keywords of functions: see python_keywords.py
    python/vecdet/_gradients.py                  losses with gradients: see python_gradients.py
    python/vecdet/torch/_functions.py            functions on tensors: see torch_functions.py
    include/vecdet/torch/generated,
    include/vecdet/impl/torch/generated          operators of PyTorch: see torch_operators.py

    c_interface.py            writes them
    c_interface.py --check    fails if one of them is out of date

The enumerations and structs of parameters are those of the public headers that a function in
include/vecdet/c names: vecdet_X for X. The header copies each typedef of these files and each
function that begins with VECDET_C, with the comment before it.
"""

from __future__ import annotations

import pathlib
import re
import sys
import textwrap

import c_losses
import declarations
import layout
import python_gradients
import python_keywords
import torch_functions
import torch_operators
from declarations import Enum, Field, Struct, one_line

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "include/vecdet/c"
# In the order of the header.
PARTS = ["types.hpp", "core.cpp",
         *sorted({path.name for path in SOURCES.glob("*.cpp")} - {"core.cpp"})]

# ---- Enumerations and structs of parameters

# The names of enumerators in C: {} is the one in C++. Without a row, VECDET_<ENUM>_{}.
ENUMERATORS = {
    "angle_convention": "ANGLES_{}", "rotated_format": "ROTATED_{}",
    "box_format": "{}", "box_loss": "{}_LOSS", "conv3x3_tile": "{}", "dense_detector": "{}",
    "empty_iou": "EMPTY_IOU_{}", "feature_layout": "{}", "iou_kind": "{}", "isa": "{}",
    "nms_format": "NMS_{}", "nms_order": "NMS_BY_{}", "nms_overlap": "NMS_{}",
    "query_class_cost": "QUERY_COST_{}", "conv3x3_use": "CONV3X3_{}", "reduction": "{}",
    "score_kind": "{}", "set_class_loss": "SET_LOSS_{}", "size_clamp": "CLAMP_{}",
    "soft_nms_method": "SOFT_NMS_{}", "yolo_layout": "YOLO_{}", "yolo_scores": "YOLO_{}",
}
RENAMED = {"VECDET_NMS_BY_IMAGE_SCORE": "VECDET_NMS_BY_IMAGE",
           "VECDET_NMS_BY_IMAGE_CLASS_SCORE": "VECDET_NMS_BY_IMAGE_AND_CLASS"}

# Fields that are arguments of the functions in C.
ARGUMENTS = {("regression_loss_params", "box_weights")}

TYPES = {"double": "double", "bool": "int", "index_t": "int64_t", "std::uint64_t": "uint64_t",
         "lasting<vector_view<const float>>": "const float*",
         "lasting<vector_view<const index_t>>": "vecdet_integer_list",
         "lasting<vector_view<const double>>": "vecdet_number_list"}
# Of an array with one element per row, whose number the function knows.
PER_ROW = "lasting<vector_view<const float>>"

ENUMS, STRUCTS = declarations.read()
TEXTS = {name: c_losses.expanded((SOURCES / name).read_text()) for name in PARTS}
CODE = {name: re.sub(r"//[^\n]*", "", text) for name, text in TEXTS.items()}
FUNCTIONS = {
    name: dict(re.findall(r"^VECDET_C [^(]*?\bvecdet_(\w+)\((.*?)\) \{", code, re.M | re.S))
    for name, code in CODE.items()}


def enumerator(enum: Enum, value: str) -> str:
    pattern = ENUMERATORS.get(enum.name, enum.name + "_{}")
    name = "VECDET_" + pattern.format(value).upper()
    return RENAMED.get(name, name)


def fields_of(struct: Struct) -> list[Field]:
    return [field for field in struct.fields if (struct.name, field.name) not in ARGUMENTS]


def types_in(code: str) -> list[str]:
    """The enumerations and structs that the code names, each after those that it contains."""
    result: list[str] = []

    def add(name: str) -> None:
        if name in STRUCTS:
            for field in fields_of(STRUCTS[name]):
                add(field.type)
        if (name in STRUCTS or name in ENUMS) and name not in result:
            result.append(name)

    for name in re.findall(r"\bvecdet_(\w+)", code):
        add(name)
    return result


def in_c(text: str, struct: Struct | None = None, field: Field | None = None) -> str:
    """A comment of a public header for C: names in C, 0 for false, null for empty."""
    own = ENUMS.get(field.type) if field else None
    others = [ENUMS[f.type] for f in struct.fields if f.type in ENUMS] if struct else []
    functions = {name for names in FUNCTIONS.values() for name in names}

    def name_of(found: re.Match[str]) -> str:
        word = found[1]
        if struct and word in struct.constants:
            return struct.constants[word]
        if own and word in own.values:
            return enumerator(own, word)
        for enum in others:
            if "_" in word and word in enum.values:
                return enumerator(enum, word)
        if word in functions and ("_" in word or found[2]):
            return f"vecdet_{word}()"
        if word in STRUCTS and word in USED:
            return f"vecdet_{word}"
        return found[0]

    text = re.sub(r"; see \w+\.hpp[^.]*", "", text)
    text = re.sub(r"\b(\w+)\b(\(\))?", name_of, text)
    if field and field.type == "bool":
        text = re.sub(r"\b([Ii])f false\b", r"\1f 0", text)
    if field and field.type == PER_ROW:
        text = text.replace("empty: ", "null: ")
    return text


def value_in_c(struct: Struct, field: Field) -> str:
    """The default of a field; empty if its type has one."""
    value = struct.constants.get(field.default, field.default).strip("{}")
    if field.type in ENUMS:
        return enumerator(ENUMS[field.type], value.split("::")[-1])
    if field.type in STRUCTS:
        return f"vecdet_{value.replace('::', '_')}" if value else ""
    if field.type == "bool":
        return str(int(value == "true"))
    return {"-std::numeric_limits<double>::infinity()": "-infinity", "no_limit": "INT64_MAX",
            }.get(value, re.sub(r"(\d)\.0\b", r"\1", value))


def phrase(text: str) -> str:
    """A single sentence as a phrase: without capital and full stop."""
    if not re.search(r"\. ", text):
        text = text.removesuffix(".")
        text = re.sub(r"^[A-Z](?=[a-z]*\b)", lambda found: found[0].lower(), text)
    return text


def block(head: str, rows: list[tuple[str, str]], tail: str) -> str:
    """A typedef with its rows of code and comment. Comments stand behind their rows, aligned in
    neighbouring ones, or before a row if they do not fit there."""
    before: set[int] = set()
    while True:
        widths: dict[int, int] = {}
        run: list[int] = []
        for k in range(len(rows) + 1):
            if k < len(rows) and rows[k][1] and k not in before:
                run.append(k)
            else:
                width = max((len(rows[own][0]) for own in run), default=0)
                widths.update(dict.fromkeys(run, width))
                run = []
        too_long = [k for k, width in widths.items()
                    if len(f"  {'':{width}}  ///< {rows[k][1]}") > 100]
        if not too_long:
            break
        before.add(max(too_long, key=lambda k: len(rows[k][1])))
    lines = [head]
    for k, (code, comment) in enumerate(rows):
        lines += layout.comment(comment, "  ") if k in before else []
        lines.append(f"  {code:{widths[k]}}  ///< {comment}" if k in widths else "  " + code)
    return "\n".join([*lines, tail])


def functions_with(name: str) -> list[str]:
    """The functions that take the parameters, without the variants of a loss."""
    found = [function for functions in FUNCTIONS.values() for function, code in functions.items()
             if re.search(rf"\bconst vecdet_{name}\*", code)]
    return [function for function in found
            if re.sub("_(unreduced|and_grad|grad)$", "", function) not in found
            or not re.search("_(unreduced|and_grad|grad)$", function)]


def definition(name: str) -> str:
    """The typedef of an enumeration or a struct of parameters."""
    if name in ENUMS:
        enum = ENUMS[name]
        if not enum.comment:
            sys.exit(f"{enum.header}: {name} has no comment")
        lines = layout.comment(in_c(enum.comment))
        names = [enumerator(enum, value) for value in enum.values]
        line = f"typedef enum vecdet_{name} {{ {', '.join(names)} }} vecdet_{name};"
        if any(enum.values.values()) or len(line) > 100:
            codes = [own + "," * (own != names[-1]) for own in names]
            comments = [in_c(phrase(comment)) for comment in enum.values.values()]
            line = block(f"typedef enum vecdet_{name} {{", list(zip(codes, comments)),
                         f"}} vecdet_{name};")
        return "\n".join([*lines, line]) + "\n"
    struct = STRUCTS[name]
    users = [f"vecdet_{function}()" for function in functions_with(name)]
    listed = ", ".join(users[:-1]) + " and " + users[-1] if len(users) > 1 else "".join(users)
    comment = f"Parameters of {listed}. " if users else ""
    rows = []
    for field in fields_of(struct):
        own = TYPES.get(field.type) or f"vecdet_{field.type}"
        if field.type not in TYPES and field.type not in ENUMS and field.type not in STRUCTS:
            sys.exit(f"{struct.header}: {name}.{field.name} has a type unknown in C: {field.type}")
        code = f"{own} {field.name}" + (f"[{field.size}]" if field.size else "") + ";"
        text = in_c(phrase(field.comment), struct, field)
        if value := value_in_c(struct, field):
            if not text:
                text = f"default {value}"
            else:
                text += f" Default {value}." if text.endswith(".") else f"; default {value}"
        rows.append((code, text))
    return "\n".join([*layout.comment(comment + in_c(struct.comment, struct)), block(
        f"typedef struct vecdet_{name} {{", rows, f"}} vecdet_{name};")]) + "\n"


def bare(name: str) -> str:
    """The typedef without its comments, which are in c.h."""
    return re.sub(r"^ *///[^\n]*\n| +///<[^\n]*", "", definition(name), flags=re.M)


def presets(name: str) -> str:
    """The functions that return a struct of parameters: its presets, and its defaults unless a
    preset returns these."""
    struct = STRUCTS[name]
    result = []
    if not any(preset.is_default for preset in struct.presets):
        result.append(f"/// The defaults of vecdet_{name}.\n"
                      f"VECDET_C vecdet_{name} vecdet_{name}_default(void) {{\n"
                      f"  return c_params_of<vecdet_{name}>({name}());\n}}\n")
    for preset in struct.presets:
        if not preset.comment:
            sys.exit(f"{struct.header}: {name}::{preset.name} has no comment")
        text = in_c(preset.comment, struct) + " These are the defaults." * preset.is_default
        arguments = ", ".join(f"{TYPES[own.type]} {own.name}" for own in preset.parameters)
        values = ", ".join(own.name + " != 0" * (own.type == "bool") for own in preset.parameters)
        result.append("\n".join(layout.comment(text)) +
                      f"\nVECDET_C vecdet_{name} vecdet_{name}_{preset.name}({arguments or 'void'})"
                      f" {{\n  return c_params_of<vecdet_{name}>({name}::{preset.name}({values}));"
                      "\n}\n")
    return "\n".join(result)


def enumerator_count(name: str) -> str:
    """The trait of an enumeration in C that checks need."""
    return (f"template <>\ninline constexpr int enumerators<vecdet_{name}> = "
            f"{len(ENUMS[name].values)};\n")


def copies(name: str) -> str:
    """The trait of a struct in C that copies need."""
    rows = "".join(f'    copy(p.{field.name}, c.{field.name}, "params.{field.name}");\n'
                   for field in fields_of(STRUCTS[name]))
    has_arrays = any(field.type == PER_ROW for field in fields_of(STRUCTS[name]))
    return (f"template <>\nstruct fields_of<vecdet_{name}> {{\n"
            f"  static constexpr bool has_arrays = {str(has_arrays).lower()};\n"
            "  template <class Params, class C, class Copy>\n"
            f"  static void each(Params& p, C& c, const Copy& copy) {{\n{rows}  }}\n}};\n")


USED: list[str] = []
USED += types_in("".join(CODE.values()))
# Of each part: the types that only its functions use. Those of several parts are in types.hpp.
OWN = {part: [name for name in types_in(code)
              if not any(name in types_in(other) for part2, other in CODE.items() if part2 != part)]
       for part, code in CODE.items()}
OWN["types.hpp"] += [name for name in USED if not any(name in own for own in OWN.values())]
IN_ORDER = [name for part in PARTS for name in OWN[part]]  # of the header

ENUMERATIONS = """\
// SPDX-License-Identifier: Apache-2.0
// Enumerations in C, and the numbers of their enumerators, for checks. Enumerators have the same
// order as those in C++. c.h has their comments.
//
// Generated by packaging/c_interface.py from the public headers.
// clang-format off
#pragma once

{types}
namespace vecdet_c {{

template <class CEnum>
inline constexpr int enumerators = 0;

{counts}
}}  // namespace vecdet_c
"""

PARAMS = """\
// SPDX-License-Identifier: Apache-2.0
// Structs of parameters in C. fields.hpp copies between them and those in C++. c.h has their
// comments.
//
// Generated by packaging/c_interface.py from the public headers.
// clang-format off
#pragma once

#include <vecdet/c/generated/enumerations.hpp>
#include <vecdet/c/types.hpp>

#include <cstdint>

{types}"""

FIELDS = """\
// SPDX-License-Identifier: Apache-2.0
// The fields that structs of parameters in C have in common with those in C++, for copies.
//
// Generated by packaging/c_interface.py from the public headers.
// clang-format off
#pragma once

#include <vecdet/c/generated/params.hpp>

namespace vecdet_c {{

/// each(p, c, copy) calls copy for each field of a struct in C++ and in C.
template <class C>
struct fields_of;

{copies}
}}  // namespace vecdet_c
"""

PRESETS = """\
// SPDX-License-Identifier: Apache-2.0
// The functions that return structs of parameters.
//
// Generated by packaging/c_interface.py from the public headers.
// clang-format off
{includes}
using namespace vecdet_c;

{functions}"""


def enumerations_file() -> str:
    names = [name for name in IN_ORDER if name in ENUMS]
    return ENUMERATIONS.format(types="\n".join(map(bare, names)),
                               counts="\n".join(map(enumerator_count, names)))


def params_file() -> str:
    names = [name for name in IN_ORDER if name in STRUCTS]
    return PARAMS.format(types="\n".join(map(bare, names)))


def fields_file() -> str:
    return FIELDS.format(
        copies="\n".join(copies(name) for name in IN_ORDER if name in STRUCTS))


def presets_file() -> str:
    names = [name for name in IN_ORDER if name in STRUCTS]
    headers = sorted({f"#include <vecdet/{STRUCTS[name].header}>\n" for name in names}
                     | {"#include <vecdet/c/support.hpp>\n"})
    return PRESETS.format(includes="".join(headers), functions="\n".join(map(presets, names)))


# ---- The header

ITEM = re.compile(
    r"(?P<comment>(?:^///[^\n]*\n)*)"
    r"(?:^(?P<typedef>typedef (?:enum|struct) (?P<type>\w+)[^;{]*(?:\{(?P<body>.*?)\} \w+)?;)"
    r"|^VECDET_C (?P<result>[^(]*?)(?P<function>vecdet_\w+)\((?P<arguments>.*?)\) \{)",
    re.M | re.S)

HEADER = """\
// SPDX-License-Identifier: Apache-2.0
// vecdet's C interface: SIMD kernels of object detectors on plain arrays. Link it with -lvecdet.
//
// A function returns a vecdet_status, and writes its results to the caller's memory. Sizes are
// numbers of elements. Arrays are contiguous unless a stride is given. Boxes are x1 y1 x2 y2 unless
// a comment gives another format. `params` may be null, which means the defaults, and so may
// `workspace`: the call then uses one that belongs to the thread. Any number of threads may call at
// the same time, each with its own workspace.
//
// Before version 1.0, a release with a new minor number may change the layout of a struct.
//
// Generated by packaging/c_interface.py from the public headers and include/vecdet/c.
#ifndef VECDET_C_H
#define VECDET_C_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
"""

FOOTER = """
#ifdef __cplusplus
}
#endif

#endif
"""


def declaration(item):
    text = f"{one_line(item['result'])} {item['function']}({one_line(item['arguments'])});"
    return "\n".join(textwrap.wrap(text, 100, subsequent_indent="    ", break_long_words=False))


def parts():
    """The title and the items of each part. Its own types come before its functions, or before a
    struct that contains them, and presets before the first function that takes them."""
    with_presets = {name: functions_with(name)[:1] for name in USED if name in STRUCTS}
    for name in PARTS:
        text = TEXTS[name]
        found = re.match(r"// SPDX[^\n]*\n((?://[^\n]*\n)*)", text)
        if not found:
            sys.exit(f"{name} does not begin with the licence")
        title = found[1]
        if name == "types.hpp":
            title = title.split("//\n")[0]
        items: list[re.Match[str]] = []
        types = list(OWN[name])

        def add(names):
            for own in names:
                types.remove(own)
                items.extend(ITEM.finditer(definition(own)))

        for item in ITEM.finditer(text):
            if not item["comment"]:
                sys.exit(f"{name}: {item['function'] or item['type']} has no comment")
            add([own for own in types_in(item["typedef"] or "") if own in types]
                if item["typedef"] else list(types))
            for own, first in with_presets.items():
                if first == [short(item["function"] or "")]:
                    items.extend(ITEM.finditer(presets(own)))
            items.append(item)
        add(list(types))
        yield title, items


def header():
    lines = [HEADER]
    for title, items in parts():
        lines.append(f"// {'-' * 96}\n{title}")
        for item in items:
            body = item["typedef"] or declaration(item)
            lines.append(item["comment"] + body + "\n")
    return "\n".join(lines) + FOOTER


def symbols(text):
    """The names of the functions in the header, one a line, as `LC_ALL=C sort` orders them."""
    return "".join(f"{name}\n" for name in sorted(set(re.findall(r"\b(vecdet_\w+)\(", text))))


# ---- ctypes

SCALARS = {"int": "c_int", "int64_t": "c_int64", "uint64_t": "c_uint64", "double": "c_double",
           "float": "c_float", "uint8_t": "c_uint8"}

TABLE = '''\
# SPDX-License-Identifier: Apache-2.0
"""The types and functions of include/vecdet/c.h for ctypes.

Generated by packaging/c_interface.py from the public headers and include/vecdet/c."""

from ctypes import Structure, c_char_p, c_double, c_int, c_int64, c_uint64, c_void_p
'''


def short(name):
    return name.removeprefix("vecdet_")


def ctype(text, structs, is_result=False):
    """The ctypes type of a C type. Pointers are addresses."""
    text = one_line(text)
    if text.endswith("*"):
        is_text = re.fullmatch(r"const char ?\*", text)
        return "c_char_p" if is_text else "c_void_p"
    text = text.removeprefix("const ").strip()
    if text == "void":
        return "None"
    if text in structs:
        return short(text)
    return SCALARS.get(text, "c_int")  # enums are ints


def fields(body, structs):
    for line in body.splitlines():
        found = re.match(r"\s*((?:const )?\w+ ?\*?) ?\*?(\w+)(?:\[(\d+)\])?;", line)
        if found:
            of = ctype(found[1], structs)
            yield found[2], f"{of} * {found[3]}" if found[3] else of


def tuple_of(names, rest=""):
    """Names, and what follows them, on one line or in several."""
    line = f"{', '.join(names)}{rest}" if rest else f"({', '.join(names)})"
    if len(line) <= 80:
        return line
    return "(\n" + textwrap.fill(", ".join(names) + ",", 100, initial_indent="    ",
                                 subsequent_indent="    ") + f"\n){rest}"


def table():
    enums, classes, functions = [], [], []
    structs = set()
    for _, items in parts():
        for item in items:
            if item["typedef"] and item["body"] and item["typedef"].startswith("typedef enum"):
                body = re.sub(r"///[^\n]*", "", item["body"])
                names = [short_constant(name.strip()) for name in body.split(",")]
                enums.append(tuple_of(names, f" = range({len(names)})"))
            elif item["typedef"] and item["body"]:
                structs.add(item["type"])
                rows = "".join(f"        (\"{name}\", {of}),\n"
                               for name, of in fields(item["body"], structs))
                classes.append(f"class {short(item['type'])}(Structure):\n"
                               f"    _fields_ = [\n{rows}    ]\n")
            elif item["function"]:
                arguments = []
                if one_line(item["arguments"]) != "void":
                    for argument in item["arguments"].split(","):
                        arguments.append(ctype(re.sub(r"\w+$", "", one_line(argument)), structs))
                head = f'    "{item["function"]}": ({ctype(item["result"], structs)}, ['
                rows = textwrap.fill(", ".join(arguments) + "]),", 96, initial_indent=" " * 8,
                                     subsequent_indent=" " * 8)
                functions.append(head + "\n" + rows if arguments else head + "]),")
    names = [f"{name} = " + tuple_of([f'"{value}"' for value in ENUMS[name].values])
             for name in USED if name in ENUMS]
    return (TABLE + "\n" + "\n".join(enums) + "\n\n# The names of enumerators.\n"
            + "\n".join(names) + "\n\n\n" + "\n\n".join(classes)
            + "\n\n# The result and the arguments of each function.\nFUNCTIONS = {\n"
            + "\n".join(functions) + "\n}\n")


def short_constant(name):
    return name.removeprefix("VECDET_")


def main():
    files = [(SOURCES / "generated/enumerations.hpp", enumerations_file()),
             (SOURCES / "generated/params.hpp", params_file()),
             (SOURCES / "generated/fields.hpp", fields_file()),
             (SOURCES / "generated/presets.cpp", presets_file()),
             *c_losses.files(SOURCES),
             (ROOT / "include/vecdet/c.h", header()),
             (ROOT / "test/c/symbols.txt", symbols(header())),
             (ROOT / "python/vecdet/_c.py", table())]
    files += torch_operators.files(STRUCTS, ENUMS)
    package = ROOT / "python/vecdet"
    modules = {path: python_keywords.written(path.read_text(), STRUCTS, ENUMS)
               for path in python_keywords.modules(package)}
    files += modules.items()
    losses = package / "_losses.py"
    files.append((package / "_gradients.py", python_gradients.written(modules[losses])))
    files.append((package / "torch/_functions.py", torch_functions.written(
        {path: modules.get(path) or path.read_text() for path in sorted(package.glob("_*.py"))},
        STRUCTS, ENUMS)))
    for path, text in files:
        if sys.argv[1:] != ["--check"]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path} is out of date: run packaging/c_interface.py")


if __name__ == "__main__":
    main()
