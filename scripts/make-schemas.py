#!/usr/bin/env python3
"""Write the JSON Schema of every kind of file under profiles/, so that editors complete and check them.

usage: make-schemas.py [FOLDER]   (profiles/schemas when none is given)

The schemas come from the classes that read the files. A file under cards, checks, images, models, seats, rules, ladders
or guard holds one row or a list of rows; a host file holds one host, a vllm file one table of options.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from aeonctl.core.base import Value  # noqa: E402
from aeonctl.core.checks import CheckRow  # noqa: E402
from aeonctl.core.flags import FlagTable  # noqa: E402
from aeonctl.core.guard import GuardRow  # noqa: E402
from aeonctl.core.host import Host  # noqa: E402
from aeonctl.core.kernels import ArchitectureRow, KernelRow  # noqa: E402
from aeonctl.core.rows import Card, ImageRow, ModelRow, Rule, Rung, Seat  # noqa: E402

ROWS: dict[str, type[Value]] = {
    "architectures": ArchitectureRow,
    "cards": Card,
    "checks": CheckRow,
    "images": ImageRow,
    "kernels": KernelRow,
    "models": ModelRow,
    "seats": Seat,
    "rules": Rule,
    "ladders": Rung,
    "guard": GuardRow,
}
SINGLE: dict[str, type[Value]] = {"hosts": Host, "vllm": FlagTable}


def schema(row: type[Value], *, many: bool) -> dict[str, Any]:
    """The schema of a file with one row, or with one row or a list of them."""
    body = row.model_json_schema()
    definitions = body.pop("$defs", {})
    _accept_what_validators_accept(body)
    if not many:
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **body, "$defs": definitions}
    definitions[row.__name__] = body
    reference = {"$ref": f"#/$defs/{row.__name__}"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{body['title']} or a list of them",
        "anyOf": [reference, {"type": "array", "items": reference}],
        "$defs": definitions,
    }


def _accept_what_validators_accept(body: dict[str, Any]) -> None:
    """A rule's ``when`` may be one mapping instead of a list with one."""
    when = body.get("properties", {}).get("when")
    if when is not None:
        body["properties"]["when"] = {"anyOf": [when["items"], {"type": "array", "items": when["items"]}]}


def texts() -> dict[str, str]:
    """Every schema file's content by kind."""
    kinds = {kind: schema(row, many=True) for kind, row in ROWS.items()}
    kinds |= {kind: schema(row, many=False) for kind, row in SINGLE.items()}
    return {kind: json.dumps(body, indent=2, sort_keys=True) + "\n" for kind, body in kinds.items()}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "profiles" / "schemas"
    folder.mkdir(parents=True, exist_ok=True)
    for kind, text in texts().items():
        (folder / f"{kind}.schema.json").write_text(text)


if __name__ == "__main__":
    main()
