"""Make an instance of a JSON schema, with words and numbers taken from the conversation where they fit."""

import json
import re
from typing import Any

_WORD = re.compile(r"\b[A-Z][\w-]+\b")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LARGEST_DEPTH = 12


def instance(schema: Any, prompt: str, *, root: Any = None, depth: int = 0) -> Any:
    """Return a value that satisfies the schema's types, enums, constants, required keys and plain bounds."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > _LARGEST_DEPTH:
        return None
    if "$ref" in schema:
        return instance(_resolve(root, str(schema["$ref"])), prompt, root=root, depth=depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return _mentioned(schema["enum"], prompt)
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            merged = {**schema, **schema[key][0]}
            merged.pop(key)
            return instance(merged, prompt, root=root, depth=depth + 1)
    kind = schema.get("type") or ("object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        wanted = schema.get("properties", {})
        return {name: instance(inner, prompt, root=root, depth=depth + 1) for name, inner in wanted.items()}
    if kind == "array":
        count = max(1, int(schema.get("minItems", 1)))
        return [
            instance(schema.get("items", {"type": "string"}), prompt, root=root, depth=depth + 1) for _ in range(count)
        ]
    return _scalar(str(kind), schema, prompt)


def as_json(schema: Any, prompt: str) -> str:
    """Return an instance as JSON text."""
    return json.dumps(instance(schema, prompt), ensure_ascii=False)


def _scalar(kind: str, schema: dict[str, Any], prompt: str) -> Any:
    if kind in {"integer", "number"}:
        found = _NUMBER.search(prompt)
        low, high = schema.get("minimum", float("-inf")), schema.get("maximum", float("inf"))
        low, high = (
            max(low, schema.get("exclusiveMinimum", low - 1) + 1),
            min(high, schema.get("exclusiveMaximum", high + 1) - 1),
        )
        number = min(max(float(found[0]) if found else 1.0, low), high)
        return int(number) if kind == "integer" or number == int(number) else number
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    return _string(schema, prompt)


def _string(schema: dict[str, Any], prompt: str) -> str:
    names = _WORD.findall(prompt)[1:]
    text = names[0] if names else "rehearsal"
    text = text.ljust(int(schema.get("minLength", 0)), "x")
    return text[: int(schema["maxLength"])] if "maxLength" in schema else text


def _mentioned(choices: list[Any], prompt: str) -> Any:
    words = prompt.lower()
    return next((choice for choice in choices if str(choice).lower() in words), choices[0])


def _resolve(root: Any, reference: str) -> Any:
    found = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step, {}) if isinstance(found, dict) else {}
    return found
