# SPDX-License-Identifier: Apache-2.0
"""Reads the enumerations and the structs of parameters that the public headers declare: fields with
types, defaults and documentation, and presets. What is generated for a binding comes from these.

A struct of parameters is `struct X_params { ... };`, not a template, with one field or several of
the same type per declaration. A field is documented by `///` before it or `///<` behind it. A
preset is a static function that returns the struct."""

from __future__ import annotations

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include/vecdet"


@dataclasses.dataclass
class Enum:
    name: str
    header: str
    comment: str
    values: dict[str, str]  # name: comment


@dataclasses.dataclass
class Field:
    type: str
    name: str
    default: str  # an expression in C++; empty: the type's
    comment: str
    size: int = 0  # of an array


@dataclasses.dataclass
class Preset:
    name: str
    comment: str
    parameters: list[Field]
    values: dict[str, str]  # that the function sets
    is_default: bool  # another name of the struct's defaults


@dataclasses.dataclass
class Struct:
    name: str
    header: str
    comment: str
    constants: dict[str, str]
    fields: list[Field]
    presets: list[Preset]


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def comment_of(lines: str) -> str:
    """The text of lines that begin with /// or ///<."""
    return one_line(re.sub(r"^\s*///<?", "", lines, flags=re.M))


def split(text: str) -> list[str]:
    """The parts between commas that are outside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "({<[") - (character in ")}>]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _end(text: str, start: int) -> int:
    """The position after the bracket that closes the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] in "({") - (text[position] in ")}")
        if not depth:
            return position + 1
    raise ValueError(f"no end of {text[start:start + 40]!r}")


def _fields(declaration: str, comment: str) -> list[Field]:
    found = re.match(r"((?:std::|vecdet::)?\w+(?:<.*>)?) (.*)$", declaration)
    if not found:
        raise ValueError(f"not a field: {declaration!r}")
    result = []
    for declarator in split(found[2]):
        name, _, default = map(str.strip, declarator.partition("="))
        array = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", name)
        if not array:
            raise ValueError(f"not a field: {declaration!r}")
        result.append(Field(found[1].removeprefix("vecdet::"), array[1], default, comment,
                            int(array[2] or 0)))
    return result


_COMMENT = re.compile(r"(?:[ \t]*///(?!<)[^\n]*\n)+")
_TRAILING = re.compile(r"[ \t]*///<[^\n]*\n(?:[ \t]*///<[^\n]*\n)*")


def _struct(name: str, header: str, comment: str, body: str, bodies: str) -> Struct:
    result = Struct(name, header, comment, {}, [], [])
    position, pending = 0, ""
    while position < len(body):
        if found := re.compile(r"[ \t]*(//(?!/)[^\n]*)?\n").match(body, position):
            position, pending = found.end(), ""
            continue
        if found := _COMMENT.match(body, position):
            position, pending = found.end(), comment_of(found[0])
            continue
        stop = re.compile(r"[;({=]").search(body, position)
        if not stop:
            break
        if stop[0] == "(":  # a function
            closed = _end(body, stop.start())
            head, arguments = body[position:stop.start()], body[stop.start() + 1:closed - 1]
            after = re.compile(r"[;{]|(?<!:):[^{]*\{[^}]*\} *\{|= default;").search(body, closed)
            assert after
            position = after.end()
            definition = ""
            if after[0].endswith("{"):
                position = _end(body, after.end() - 1)
                definition = body[after.end():position - 1]
            if found := re.fullmatch(rf"\s*static {name} (\w+)", head):
                own = definition or re.findall(
                    rf"inline {name} {name}::{found[1]}\([^)]*\) \{{(.*?)\}}\n", bodies, re.S)[0]
                parameters = [field for part in split(one_line(arguments))
                              for field in _fields(part, "")]
                values = dict(re.findall(r"params\.(\w+) = ([^;=]+);", own))
                result.presets.append(Preset(
                    found[1], pending, parameters, values,
                    not parameters and own.strip() == "return {};"))
        else:
            end = body.index(";", position)
            declaration = one_line(body[position:end])
            position = end + 1
            if found := _TRAILING.match(body, position):
                position, pending = found.end(), comment_of(found[0])
            if found := re.fullmatch(r"static constexpr \w+ (\w+) = (.*)", declaration):
                result.constants[found[1]] = found[2]
            else:
                result.fields += _fields(declaration, pending)
        pending = ""
    return result


def _enum(name: str, header: str, comment: str, body: str) -> Enum:
    values: dict[str, str] = {}
    pending = ""
    for line in map(str.strip, body.splitlines()):
        code, _, trailing = line.partition("///<")
        if code.startswith("///"):
            pending += code + "\n"
            continue
        for value in split(code):
            values[value] = comment_of(pending)
            pending = ""
        if trailing:
            last = list(values)[-1]
            values[last] = one_line(values[last] + " " + trailing)
    return Enum(name, header, comment, values)


_DECLARATION = re.compile(
    r"(?P<comment>(?:^///[^\n]*\n)*)"
    r"^(?:enum class (?P<enum>\w+) \{(?P<values>.*?)\};"
    r"|struct (?P<struct>\w+_params) \{\n(?P<body>.*?)^\};)", re.M | re.S)


def read() -> tuple[dict[str, Enum], dict[str, Struct]]:
    """The enumerations and the structs of parameters of all public headers, by name."""
    enums, structs = {}, {}
    for path in sorted(INCLUDE.glob("*.hpp")):
        text = path.read_text()
        impl = INCLUDE / "impl" / path.name
        bodies = impl.read_text() if impl.exists() else ""
        for found in _DECLARATION.finditer(text):
            if text[:found.start()].endswith(">\n"):  # a template
                continue
            comment = comment_of(found["comment"])
            if found["enum"]:
                enums[found["enum"]] = _enum(found["enum"], path.name, comment, found["values"])
            else:
                structs[found["struct"]] = _struct(found["struct"], path.name, comment,
                                                   found["body"], bodies)
    return enums, structs
