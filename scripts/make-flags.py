#!/usr/bin/env python3
"""Boil vLLM's own argument parser, dumped as JSON, down to the table that plans are checked against.

usage: make-flags.py DUMP.json > profiles/vllm/VERSION.json

A dump holds one record per argparse action (options, nargs, choices, accepted_option_strings, type). The table keeps
what decides whether ``vllm serve`` takes an option: every accepted spelling, its shape, its choices.
"""

import json
import re
import sys
from pathlib import Path

JSON_TYPES = {"loads", "parse_dataclass", "union_dict_and_str", "_parse_type"}


def row(action: dict) -> tuple[str, dict]:
    """One flag: its canonical name and how it is written."""
    spellings = action["accepted_option_strings"]
    longs = [name for name in action["options"] if name.startswith("--")]
    dest = "--" + action["dest"].replace("_", "-")
    name = dest if dest in longs else longs[0]
    entry: dict = {"kind": "value"}
    if action["nargs"] == 0:
        entry["kind"] = "flag"
        negatives = [s for s in spellings if s.startswith("--no-")]
        if negatives and name not in negatives:
            entry["negative"] = negatives[0]
    elif action["nargs"] in ("+", "*"):
        entry["kind"] = "list"
    elif action["type"] in JSON_TYPES:
        entry["kind"] = "json"
    if action["type"] in ("int", "float"):
        entry["number"] = action["type"]
    elif action["type"] in ("human_readable_int", "human_readable_int_or_auto"):
        entry["number"] = "human"
    if action["choices"]:
        entry["choices"] = [str(choice) for choice in action["choices"]]
    aliases = [s for s in spellings if s not in (name, entry.get("negative"))]
    if aliases:
        entry["aliases"] = sorted(aliases)
    return name, entry


def main() -> None:
    dump = json.loads(Path(sys.argv[1]).read_text())
    flags = dict(row(action) for action in dump["flags"] if action["options"] and action["dest"] != "help")
    known = {"--speculative-config", "--compilation-config"} & flags.keys()
    for name in known:  # parsed by an optional type in argparse, JSON in meaning
        flags[name]["kind"] = "json"
    version = re.match(r"[\d.]+", dump["version"])
    assert version is not None
    table = {
        "version": version[0],
        "why": "vLLM refuses an option that it does not know only after ten seconds of imports, inside the container",
        "source": f"vLLM {version[0]}'s own argument parser, {len(dump['all_accepted'])} accepted spellings",
        "flags": dict(sorted(flags.items())),
    }
    body = json.dumps(table, indent=None, separators=(", ", ": "))
    lines = re.sub(r'(?<=[{}]), "--', ',\n  "--', body).replace('"flags": {', '"flags": {\n  ')
    sys.stdout.write(lines.replace("}}}", "}\n}}\n"))


main()
