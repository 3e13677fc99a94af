"""YAML read as plain data only: what JSON can say too, every key once, and no alias that grows without end."""

from __future__ import annotations

import math
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_VALUES = 200_000
_DEEPEST = 100
_TAG = "tag:yaml.org,2002:"
_SCALARS = {f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null")}
_TEXT, _MERGE = f"{_TAG}str", f"{_TAG}merge"


class PlainYamlError(Exception):
    """Text that is not plain YAML; its words begin with line and column where they are known."""


def load_yaml(text: str) -> object:
    """The one document in ``text`` (None when it is empty); PlainYamlError says where it is wrong."""
    _check_depth(text)
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:
        raise PlainYamlError(_words(error)) from error
    try:
        node = loader.get_single_node()
        return None if node is None else _Plain(loader).value(node, 0)
    except yaml.YAMLError as error:
        raise PlainYamlError(_words(error)) from error
    except RecursionError as error:
        raise PlainYamlError("nested too deeply") from error
    finally:
        loader.dispose()


def _check_depth(text: str) -> None:
    """Refuse text that nests deeper than any profile, before a parser recurses into it."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _DEEPEST:
                    raise PlainYamlError(f"{_place(event.start_mark)}nested more than {_DEEPEST} levels deep")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError as error:
        raise PlainYamlError(_words(error)) from error


class _Plain:
    """Turns nodes into values, counting them: an alias counts for all that it stands for."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._count = 0

    def value(self, node: Any, depth: int) -> object:
        self._count += 1
        if self._count > _MOST_VALUES:
            raise PlainYamlError(f"{_place(node.start_mark)}more than {_MOST_VALUES} values; do aliases repeat it?")
        if depth > _DEEPEST:
            raise PlainYamlError(
                f"{_place(node.start_mark)}nested more than {_DEEPEST} levels deep; does an alias loop?"
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(item, depth + 1) for item in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, depth)
        raise PlainYamlError(f"{_place(node.start_mark)}{node.tag.removeprefix(_TAG)} is not plain data")

    def _mapping(self, node: Any, depth: int) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            if key_node.tag != _TEXT or not isinstance(key_node, yaml.ScalarNode):
                merge = key_node.tag == _MERGE
                problem = (
                    "merge keys (<<) are not read: write the keys out" if merge else "a key must be text: quote it"
                )
                raise PlainYamlError(_place(key_node.start_mark) + problem)
            key = str(key_node.value)
            if key in result:
                raise PlainYamlError(f"{_place(key_node.start_mark)}the key {key!r} is written twice")
            result[key] = self.value(value_node, depth + 1)
        return result

    def _scalar(self, node: Any) -> object:
        if node.tag not in _SCALARS:
            kind = node.tag.removeprefix(_TAG)
            problem = f"{node.value[:40]!r} reads as a {kind}: put quotes around it if it is text"
            raise PlainYamlError(_place(node.start_mark) + problem)
        if node.tag == f"{_TAG}int" and ":" in node.value:  # YAML 1.1 would make 1342 of 22:22
            raise PlainYamlError(f"{_place(node.start_mark)}{node.value[:40]!r} reads as a number to base 60: quote it")
        try:
            value: object = self._loader.construct_object(node)
        except (ValueError, KeyError, IndexError, OverflowError) as error:
            kind = node.tag.removeprefix(_TAG)
            raise PlainYamlError(
                f"{_place(node.start_mark)}{node.value[:40]!r} is not a valid {kind}: quote text"
            ) from error
        if isinstance(value, float) and not math.isfinite(value):
            raise PlainYamlError(f"{_place(node.start_mark)}{node.value!r} is not a finite number")
        return value


def _place(mark: Any) -> str:
    return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "


def _words(error: yaml.YAMLError) -> str:
    """A parser's complaint as one line with its place."""
    if isinstance(error, yaml.MarkedYAMLError):
        return _place(error.problem_mark or error.context_mark) + (error.problem or error.context or "not valid YAML")
    return " ".join(str(error).split()) or "not valid YAML"
