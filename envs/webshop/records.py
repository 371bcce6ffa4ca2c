"""Reads the original's JSON files record by record, with precise error messages."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, TextIO

from agentgym.errors import DataError

Record = tuple[Mapping[str, Any], Mapping[str, Any] | None, Sequence[Mapping[str, Any]]]
"""A product in the original schema, its entry of `items_ins_v2` or None, its human instructions."""

NO_PRICE = 100.0
NO_ATTRIBUTES = "DUMMY_ATTR"
_CHUNK = 1 << 20
_NOT_PRICE = re.compile(r"[^0-9.]")


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The original's files in a folder."""

    products: Path
    annotations: Path
    human: Path | None

    @classmethod
    def find(cls, data_dir: Path, num_products: int | None) -> DataFiles:
        """Finds `items_shuffle*.json`, `items_ins_v2*.json` and perhaps `items_human_ins.json`.

        If there are several, as in the original's folder, the files with the number of products
        in their names (`items_shuffle_1000.json`) are used, else those without a number.

        Raises:
            DataError: A file is missing or the choice is ambiguous.
        """
        human = data_dir / "items_human_ins.json"
        return cls(
            _chosen(data_dir, "items_shuffle", num_products),
            _chosen(data_dir, "items_ins_v2", num_products),
            human if os.path.exists(human) else None,
        )

    def records(self, num_products: int | None) -> Iterator[Record]:
        """Yields the first `num_products` entries of the products file (all if None)."""
        annotations = dict(_pairs(self.annotations))
        human = dict(_pairs(self.human)) if self.human else {}
        for number, product in enumerate(islice(_elements(self.products), num_products)):
            where = f"{self.products.name}, record {number}"
            asin = _field(_is(product, dict, where), "asin", str, where)
            annotation = annotations.get(asin)
            instructions = json.loads(human[asin]) if asin in human else []
            _is(instructions, list, f"human instructions of {where}")
            yield product, json.loads(annotation) if annotation else None, instructions


def _chosen(data_dir: Path, stem: str, num_products: int | None) -> Path:
    found = sorted(data_dir.glob(f"{stem}*.json")) if os.path.isdir(data_dir) else []
    for name in (f"{stem}_{num_products}.json", f"{stem}.json"):
        if data_dir / name in found:
            return data_dir / name
    if len(found) == 1:
        return found[0]
    have = "several fit: " + ", ".join(path.name for path in found) if found else "there is none"
    raise DataError(f"Expected a file {stem}*.json in the WebShop data folder {data_dir}; {have}.")


class _JsonReader:
    """Reads JSON values one by one from a file that is too large for memory."""

    _decoder = json.JSONDecoder()

    def __init__(self, file: TextIO, path: Path):
        self._file, self._path = file, path
        self._text, self._at, self._grow = "", 0, _CHUNK

    def _fill(self) -> bool:
        try:
            more = self._file.read(self._grow)
        except UnicodeDecodeError as error:
            raise DataError(f"{self._path} is not UTF-8 text: {error}") from error
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)

    def peek(self) -> str:
        """Returns the next non-blank character, "" at the end of the file."""
        while True:
            while self._at < len(self._text):
                if not self._text[self._at].isspace():
                    return self._text[self._at]
                self._at += 1
            if not self._fill():
                return ""

    def take(self, wanted: str, where: str) -> str:
        """Skips one of the expected characters and returns it."""
        found = self.peek()
        if not found or found not in wanted:
            names = " or ".join(repr(char) for char in wanted)
            self.fail(
                where, f"expected {names}, found {found!r}" if found else "the file ends here"
            )
        self._at += 1
        return found

    def value(self, where: str) -> tuple[Any, str]:
        """Returns the next value and its text."""
        self.peek()
        self._grow = _CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                near_end = error.pos >= len(self._text) - 8
                self._grow *= 2  # a long value is parsed again only a few times
                if not (near_end or error.msg.startswith("Unterminated")) or not self._fill():
                    self.fail(where, f"invalid or truncated JSON ({error.msg})")
            except (ValueError, RecursionError) as error:  # a long number, deep nesting
                self.fail(where, f"JSON that cannot be read ({error})")
            else:
                text, self._at = self._text[self._at : end], end
                return value, text

    def fail(self, where: str, problem: str) -> NoReturn:
        raise DataError(f"{self._path}, {where}: {problem}.")


def _elements(path: Path) -> Iterator[Any]:
    """Yields the elements of a file that holds one JSON array."""
    with path.open(encoding="utf-8-sig") as file:
        reader = _JsonReader(file, path)
        reader.take("[", "start of the file")
        if reader.peek() == "]":
            return
        number, separator = 0, ","
        while separator == ",":
            yield reader.value(f"record {number}")[0]
            separator = reader.take(",]", f"after record {number}")
            number += 1


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yields (key, JSON text of the value) of a file that holds one JSON object."""
    with path.open(encoding="utf-8-sig") as file:
        reader = _JsonReader(file, path)
        reader.take("{", "start of the file")
        if reader.peek() == "}":
            return
        number, separator = 0, ","
        while separator == ",":
            where = f"entry {number}"
            if reader.peek() != '"':
                reader.fail(where, "expected a product's asin in double quotes")
            key, _ = reader.value(where)
            reader.take(":", f"{where} ({key!r})")
            yield key, reader.value(f"{where} ({key!r})")[1]
            separator = reader.take(",}", f"after {where} ({key!r})")
            number += 1


def normalised(records: Iterable[Record], source: str) -> Iterator[dict[str, Any]]:
    """Yields products by the original's loading rules.

    An asin "nan", longer than 10 characters or already seen drops the record.

    Raises:
        DataError: A field is missing or has the wrong type. The message names the field.
    """
    seen: set[str] = set()
    for number, (product, annotation, human) in enumerate(records):
        where = f"{source}, record {number}"
        asin = _field(product, "asin", str, where)
        if asin == "nan" or len(asin) > 10 or asin in seen:
            continue
        seen.add(asin)
        where = f"{where} (asin {asin})"
        yield {
            **_page(product, where),
            **_annotation(annotation, f"annotation of {where}"),
            "human": [
                _human(entry, f"human instruction {i} of {where}") for i, entry in enumerate(human)
            ],
        }


def _page(product: Mapping[str, Any], where: str) -> dict[str, Any]:
    bullets = _field(product, "small_description", (list, str), where)
    bullets = bullets if isinstance(bullets, list) else [bullets]
    pricing = _pricing(product.get("pricing"), where)
    images = product.get("images") or [""]
    options, option_images = _options(product.get("customization_options"), where)
    return {
        "asin": product["asin"],
        "category": _field(product, "category", str, where),
        "query": _field(product, "query", str, where).lower().strip(),
        "product_category": _field(product, "product_category", str, where),
        "title": _field(product, "name", str, where),
        "description": _field(product, "full_description", str, where),
        "bullet_points": _texts(bullets, f"{where}, field 'small_description'"),
        "pricing": pricing,
        "price_tag": "$" + " to $".join(str(price) for price in pricing),
        "options": options,
        "option_images": option_images,
        "main_image": str(_is(images, list, f"{where}, field 'images'")[0] or ""),
    }


def _pricing(text: Any, where: str) -> list[float]:
    if not text:
        return [NO_PRICE]
    where = f"{where}, field 'pricing'"
    pieces = _is(text, str, where).split("$")[1:]
    try:
        prices = [float(_NOT_PRICE.sub("", piece)) for piece in pieces]
    except ValueError:
        prices = []
    if not prices or not all(map(math.isfinite, prices)):
        raise DataError(f"{where}: expected '$12.99' or '$5.00 to $9.00', found {text!r}.")
    return prices[:2]


def _options(options: Any, where: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    where = f"{where}, field 'customization_options'"
    values: dict[str, list[str]] = {}
    images: dict[str, str] = {}
    for name, contents in _is(options or {}, dict, where).items():
        if contents is None:
            continue
        values[name.lower()] = found = []
        for content in _is(contents, list, f"{where}[{name!r}]"):
            _is(content, dict, f"{where}[{name!r}]")
            value = _field(content, "value", str, f"{where}[{name!r}]")
            found.append(value.strip().replace("/", " | ").lower())
            if content.get("image"):
                images[found[-1]] = str(content["image"])
    return values, images


def _annotation(annotation: Mapping[str, Any] | None, where: str) -> dict[str, Any]:
    if annotation is None:
        return {"attributes": [NO_ATTRIBUTES], "instruction": None, "instruction_attributes": []}
    _is(annotation, dict, where)
    attributes = annotation.get("attributes", [NO_ATTRIBUTES])
    instruction = annotation.get("instruction")
    wanted = annotation.get("instruction_attributes") or []
    if instruction is not None:
        _is(instruction, str, f"{where}, field 'instruction'")
        if not wanted:
            raise DataError(
                f"{where}: an instruction needs at least one of 'instruction_attributes'."
            )
    return {
        "attributes": _texts(attributes, f"{where}, field 'attributes'"),
        "instruction": instruction,
        "instruction_attributes": _texts(wanted, f"{where}, field 'instruction_attributes'"),
    }


def _human(entry: Any, where: str) -> list[Any]:
    _is(entry, dict, where)
    options = _field(entry, "instruction_options", (list, dict), where)
    return [
        _field(entry, "instruction", str, where),
        _texts(
            _field(entry, "instruction_attributes", list, where),
            f"{where}, field 'instruction_attributes'",
        ),
        options
        if isinstance(options, dict)
        else _texts(options, f"{where}, field 'instruction_options'"),
    ]


def _field(record: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str) -> Any:
    if name not in record:
        raise DataError(f"{where}: the field {name!r} is missing.")
    return _is(record[name], kind, f"{where}, field {name!r}")


def _is(value: Any, kind: type | tuple[type, ...], where: str) -> Any:
    if isinstance(value, kind):
        return value
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = " or ".join({list: "an array", dict: "an object", str: "a string"}[k] for k in kinds)
    raise DataError(f"{where}: expected {names}, found {value!r:.80}.")


def _texts(values: Any, where: str) -> list[str]:
    for value in _is(values, list, where):
        _is(value, str, where)
    return values
