# SPDX-License-Identifier: Apache-2.0
"""Writes keywords of Python's functions, with defaults and documentation, from the structs of
parameters in the public headers. A comment before a function asks for it:

    # Keywords of set_loss_params: boxes is num_boxes
    def set_loss_and_grad(logits, ..., *, alpha: float = 0.75, ...):

`X_params::preset` instead of `X_params` means the defaults of a preset. The comment may end with
`without x, y`, fields that are no keywords, and then `with a, b`, keyword-only parameters that are
no fields. Written are, in place:

- in the signature, one line per keyword. A default of None stays: None means the preset's value;
- in the docstring, if it has Args, one entry per keyword or group of keywords with one comment, up
  to the sentence with the default. Sentences behind that one are written by hand, and stay;
- the arguments of a call of the function that params_of(_c.set_loss_params) made, if every field is
  a keyword, and the last ones of a call of the operator of the same name, from the first field on,
  unless all fields are among its arguments.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import textwrap

import layout
from declarations import Enum, Field, Struct, split

_MARK = re.compile(
    r"^# Keywords of (?P<struct>\w+)(?:::(?P<preset>\w+))?"
    r"(?:: (?P<renamed>\w+ is \w+(?:,(?: |\n# )\w+ is \w+)*))?"
    r"(?:,?(?: |\n# )without (?P<without>\w+(?:,(?: |\n# )(?!with )\w+)*))?"
    r"(?:,(?: |\n# )with (?P<own>\w+(?:,(?: |\n# )\w+)*))?\n(?:@\w+\n)*"
    r"def (?P<name>\w+)\(\n", re.M)
# The operators' numbers of enumerators: python/vecdet/torch/_names.py.
NUMBERS = {"box_loss": "BOX_LOSSES", "query_class_cost": "CLASS_COSTS",
           "set_class_loss": "CLASS_LOSSES", "soft_nms_method": "DECAYS",
           "mask_rule": "MASK_RULES", "mask_pixels": "MASK_PIXELS",
           "angle_convention": "CONVENTIONS", "rotated_format": "ROTATED_FORMATS"}
_ANNOTATIONS = {"double": "float", "index_t": "int", "bool": "bool", "std::uint64_t": "int",
                "lasting<vector_view<const float>>": "ArrayLike | None",
                "lasting<vector_view<const index_t>>": "Sequence[int] | None",
                "lasting<vector_view<const double>>": "Sequence[float] | None"}


class Keywords:
    """The keywords of one function."""

    def __init__(self, mark: re.Match[str], structs: dict[str, Struct], enums: dict[str, Enum]):
        self.function, self.struct, self.enums = mark["name"], structs[mark["struct"]], enums
        self.preset = mark["preset"]
        self.names = dict(re.findall(r"(\w+) is (\w+)", mark["renamed"] or ""))
        without = re.findall(r"\w+", mark["without"] or "")
        self.own = re.findall(r"\w+", mark["own"] or "")
        known = {field.name for field in self.struct.fields}
        if unknown := [name for name in [*self.names, *without] if name not in known]:
            raise SystemExit(f"{self.function}: {self.struct.name} has no field {unknown[0]}")
        presets = {own.name: own.values for own in self.struct.presets}
        if self.preset and self.preset not in presets:
            raise SystemExit(f"{self.function}: {self.struct.name} has no preset {self.preset}")
        values = presets.get(self.preset, {})
        self.fields = [dataclasses.replace(field, default=values.get(field.name, field.default))
                       for field in self.struct.fields if field.name not in without]

    def name(self, field: Field) -> str:
        return self.names.get(field.name, field.name)

    def value(self, field: Field, value: str) -> str:
        """A default in Python."""
        value = self.struct.constants.get(value, value)
        if field.type.startswith("lasting"):
            return "None"
        if field.size:
            return f"({value.strip('{}')})"
        if field.type in self.enums:
            return f'"{value.split("::")[-1]}"'
        if field.type == "bool":
            return value.capitalize()
        return value + ".0" if field.type == "double" and re.fullmatch(r"-?\d+", value) else value

    def declaration(self, field: Field, default: str) -> str:
        annotation = "str" if field.type in self.enums else _ANNOTATIONS[field.type]
        if field.size:
            annotation = f"Sequence[{annotation}]"
        if default == "None" and not annotation.endswith("None"):
            return f"{self.name(field)}: {annotation} | None = None"
        return f"{self.name(field)}: {annotation} = {self.value(field, field.default)}"

    def text(self, field: Field, is_optional: bool) -> str:
        """The documentation of a field up to its default."""
        own = self.enums.get(field.type)
        keywords = [each.name for each in self.fields]
        text = field.comment or (own.comment if own else "")
        for enum in [own] if own else [self.enums[f.type] for f in self.struct.fields
                                       if f.type in self.enums]:
            for name in enum.values:
                if own or "_" in name:
                    text = re.sub(rf"\b{name}\b", f'"{name}"', text)
        text = re.sub(r"; see \w+\.hpp[^.]*", "", text)
        text = re.sub(r"; 1 / .* gives the mean", "", text)  # Python's functions have a reduction
        text = re.sub(r", used instead of (\w+)",
                      lambda found: found[0] if found[1] in keywords else "", text)
        if self.preset:  # it is not that of SSD
            text = re.sub(r"; SSD: [^.;]*", "", text)
        if self.function.startswith("mask_"):  # structs for boxes serve masks, too
            text = text.replace("boxes", "masks")
        text = re.sub(r"\b(\w+)_params\b", r"\1", text)
        text = re.sub(r"`(\w+)`", r"``\1``", text).replace("If false", "If False")
        text = re.sub(r"^[A-Z](?=[a-z]*\b)", lambda found: found[0].lower(), text).removesuffix(".")
        if own:
            values = [f'"{name}"' + f" ({comment.removesuffix('.')})" * bool(comment)
                      for name, comment in own.values.items()]
            text += f": {', '.join(values[:-1])} or {values[-1]}"
        if field.type.startswith("lasting"):
            return text.replace("empty: ", "None: ") + "."
        default = self.value(field, field.default).removesuffix(".0")
        others = [re.split("[:.]", preset.comment)[0] + ": "
                  + self.value(field, preset.values[field.name]).removesuffix(".0")
                  for preset in self.struct.presets if is_optional and field.name in preset.values]
        return f"{text}{'. ' * bool(text)}Default {'; '.join([default, *others])}."

    def signature(self, lines: list[str]) -> list[str]:
        """The lines of a signature, one parameter each. Keyword-only parameters are fields."""
        names = {*self.own, *map(self.name, self.struct.fields)}
        after = lines.index("    *,") + 1 if "    *," in lines else len(lines)
        for line in lines[after:]:
            if (name := line.strip().partition(":")[0]) not in names:
                raise SystemExit(f"{self.function}: {self.struct.name} has no field {name}")
        place = len(lines)
        for field in reversed(self.fields):
            pattern = re.compile(rf"    {self.name(field)}: .* = (.*),")
            for k, line in enumerate(lines):
                if found := pattern.fullmatch(line):
                    lines[k] = f"    {self.declaration(field, found[1])},"
                    place = k
                    break
            else:
                lines.insert(place, f"    {self.declaration(field, '')},")
        return lines

    def arguments(self, entries: list[str], signature: list[str]) -> list[str]:
        """The entries of Args."""
        names = {self.name(field) for field in self.fields}
        optional = {found[1] for line in signature
                    if (found := re.fullmatch(r"    (\w+): .* = None,", line))}
        kept, place, more = [], None, {}
        for entry in entries:
            own = re.match(r"[\w, ]+", entry)
            listed = own[0].split(", ") if own else []
            if not names & set(listed):
                kept.append(entry)
                continue
            place = len(kept) if place is None else place
            after = re.search(r"\b(?:Defaults? .*?|None: all 1)\.(?=\s|$)(.*)", entry)
            for name in listed:
                more[name] = after[1] if after else ""
        groups: list[tuple[list[Field], str]] = []
        for field in self.fields:
            text = self.text(field, self.name(field) in optional)
            if groups and field.comment and groups[-1][0][0].comment == field.comment:
                groups[-1][0].append(field)
            else:
                groups.append(([field], text))
        written = []
        for fields, text in groups:
            if len(fields) > 1:
                values = [self.value(field, field.default).removesuffix(".0") for field in fields]
                text = text[:text.rindex("Default ")] + f"Defaults {', '.join(values)}."
            listed = [self.name(field) for field in fields]
            written.append(f"{', '.join(listed)}: {text}{more.get(listed[0], '')}")
        place = len(kept) if place is None else place
        return kept[:place] + written + kept[place:]

    def call(self, before: str) -> str:
        """The call's end in one line, or in lines of its own. `before` is its line up to there."""
        values = [f'choice({field.type}, function, "{self.name(field)}", {self.name(field)})'
                  if field.type in self.enums else self.name(field) for field in self.fields]
        text = ", ".join(value.replace(" ", "\0") for value in ["function", *values]) + ")"
        if len(before) + len(text) <= 100:
            return text.replace("\0", " ")
        return "\n" + textwrap.fill(text, 100, initial_indent=" " * 8,
                                    subsequent_indent=" " * 8).replace("\0", " ")

    def operator_call(self, text: str, start: int) -> str:
        """The text with the fields as the last arguments of the call of _ops."""
        call = re.compile(rf"( *return )?_ops\.{self.function}\(((?:[^()]|\([^()]*\))*)\)")
        found = call.search(text, start)
        if not found:
            return text
        arguments = split(re.sub(r"\s+", " ", found[2]))
        values = [f'number({NUMBERS[field.type]}, "{self.name(field)}", {self.name(field)})'
                  if field.type in self.enums else self.name(field) for field in self.fields]
        if all(value in arguments for value in values):
            return text  # all are there, in the operator's order
        first = next(k for k, argument in enumerate(arguments)
                     if argument in values or argument.startswith("number("))
        head = f"{found[1] or ''}_ops.{self.function}("
        laid_out = layout.call(head, arguments[:first] + values)
        return text[:found.start()] + laid_out + text[found.end():]


def entries_of(text: str) -> list[str]:
    """The entries of Args, each in one line; a table stays as it is."""
    result: list[str] = []
    for line in text.split("\n"):
        if re.match(r" {8}\S", line):
            result.append(line.strip())
        elif "==" in result[-1] or "\n" in result[-1] or not line.strip() or "====" in line:
            result[-1] += "\n" + line
        else:
            result[-1] += " " + line.strip()
    return result


def laid_out(entry: str) -> str:
    if "\n" in entry:
        return "        " + entry
    return textwrap.fill(entry, 100, initial_indent=" " * 8, subsequent_indent=" " * 12,
                         break_long_words=False, break_on_hyphens=False)


def written(text: str, structs: dict[str, Struct], enums: dict[str, Enum]) -> str:
    """The text of a module with the keywords of its functions."""
    position = 0
    while mark := _MARK.search(text, position):
        keywords = Keywords(mark, structs, enums)
        start, end = mark.end(), text.index("\n) ->", mark.end())
        stop = re.compile(r"\n\S|\Z").search(text, end + 6)
        assert stop
        after = len(text) - stop.start()  # of what follows the function
        signature = keywords.signature(text[start:end].split("\n"))
        text = text[:start] + "\n".join(signature) + text[end:]
        found = re.compile(r"    Args:\n(.*?)\n(?=\n    \S|    \"{3})", re.S).search(
            text, start, len(text) - after)
        if found:
            entries = keywords.arguments(entries_of(found[1]), signature)
            text = text[:found.start(1)] + "\n".join(map(laid_out, entries)) + text[found.end(1):]
        made = re.search(rf"^(\w+) = params_of\(_c\.{mark['struct']}\b", text, re.M)
        if made and not mark["without"]:
            call = re.compile(rf"\b{made[1]}\((?:[^()]|\([^()]*\))*\)")
            if used := call.search(text, start, len(text) - after):
                before = text[:text.index("(", used.start()) + 1]
                text = before + keywords.call(before.split("\n")[-1]) + text[used.end():]
        text = keywords.operator_call(text, start)
        position = mark.end()
    return text


def modules(package: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in sorted(package.rglob("*.py")) if _MARK.search(path.read_text())]
