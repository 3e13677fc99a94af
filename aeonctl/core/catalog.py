"""Everything aeonctl knows, as rows found by id; a user's row replaces the bundled one of the same id.

Kinds are read when first asked for, so that a command pays for what it uses.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeVar

from aeonctl.core.base import Row, invalid
from aeonctl.core.flags import FlagTable, FlagTables
from aeonctl.core.guard import GuardRow
from aeonctl.core.host import Gpu, Host, vram_gib
from aeonctl.core.image import FactsFrom, ImageFacts, parse_reference
from aeonctl.core.rows import Card, ImageRow, ModelRow, Rule, Rung, Seat
from aeonctl.errors import ConfigurationError

AnyRow = TypeVar("AnyRow", bound=Row)


class Document(NamedTuple):
    """One file under profiles/: where it is from, its name without suffix, and its content as plain data."""

    origin: str
    name: str
    data: object


Read = Callable[[str], Iterable[Document]]
"""Reads every document of a kind (``seats``), the bundled ones first."""


class CardMatch(NamedTuple):
    """A GPU's card, and whether its name is one that the card's row lists."""

    card: Card
    by_name: bool


class Catalog:
    """The knowledge under profiles/, checked when read. A broken row is a ConfigurationError that names its key."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def _documents(self, kind: str) -> Iterator[tuple[str, object]]:
        """Every row of a kind with its origin; a file holds one row, or a list of them."""
        for document in self._read(kind):
            rows = document.data if isinstance(document.data, list) else [document.data]
            for row in rows:
                yield document.origin, row

    def _by_id(self, kind: str, row_class: type[AnyRow]) -> dict[str, AnyRow]:
        rows: dict[str, AnyRow] = {}
        for origin, data in self._documents(kind):
            row = row_class.parse(data, origin)
            rows[str(getattr(row, "id", origin))] = row
        return rows

    @cached_property
    def cards(self) -> dict[str, Card]:
        """GPU product classes."""
        return self._by_id("cards", Card)

    @cached_property
    def images(self) -> dict[str, ImageRow]:
        """Known images."""
        return self._by_id("images", ImageRow)

    @cached_property
    def models(self) -> dict[str, ModelRow]:
        """Known models and drafters."""
        return self._by_id("models", ModelRow)

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """Rules, in the order in which they are applied."""
        return self._by_id("rules", Rule)

    @cached_property
    def flags(self) -> FlagTables:
        """vLLM's options per version."""
        tables = (FlagTable.parse(data, origin) for origin, data in self._documents("vllm"))
        return FlagTables({table.version: table for table in tables})

    @cached_property
    def seats(self) -> dict[str, Seat]:
        """Seats whose card, image and models exist."""
        seats = self._by_id("seats", Seat)
        for seat in seats.values():
            self._check_references(seat)
        return seats

    @cached_property
    def rungs(self) -> dict[str, Rung]:
        """Fallback ladders, in the order in which rungs are tried; every seat that a rung names exists."""
        rungs = self._by_id("ladders", Rung)
        for rung in rungs.values():
            missing = [f"seats: there is no {seat!r}" for seat in rung.seats if seat not in self.seats]
            if missing:
                raise invalid(f"rung {rung.id}", missing)
        return rungs

    @cached_property
    def guard(self) -> dict[str, GuardRow]:
        """When the memory guard acts, by kind of memory."""
        return self._by_id("guard", GuardRow)

    def _check_references(self, seat: Seat) -> None:
        wanted: list[tuple[str, str, dict[str, object]]] = [
            ("image", seat.image, dict(self.images)),
            ("model.id", seat.model.id, dict(self.models)),
        ]
        if seat.card is not None:
            wanted.append(("card", seat.card, dict(self.cards)))
        if seat.drafter is not None:
            wanted.append(("drafter.id", seat.drafter.id, dict(self.models)))
        missing = [f"{key}: there is no {value!r}" for key, value, rows in wanted if value not in rows]
        if missing:
            raise invalid(f"seat {seat.id}", missing)

    def rows(self, kind: str, row_class: type[AnyRow]) -> dict[str, AnyRow]:
        """The rows of another kind (``phases``, ``signatures``) by id."""
        return self._by_id(kind, row_class)

    def host(self, name: str) -> Host:
        """The recorded host called ``name``; ConfigurationError with the nearest name when there is none."""
        names: list[str] = []
        for document in self._read("hosts"):
            names.append(document.name)
            if document.name == name:
                return recorded_host(document.data, document.origin, name)
        raise not_found("host", name, names, hint="aeonctl doctor --save host.yaml records this machine for --as")

    def seat(self, seat_id: str) -> Seat:
        """The seat with that full id; ConfigurationError with the nearest one when there is none."""
        if seat := self.seats.get(seat_id):
            return seat
        raise not_found("seat", seat_id, [*self.seats, *{seat.name for seat in self.seats.values()}])

    def card_of(self, gpu: Gpu, host: Host) -> CardMatch | None:
        """The card of a GPU: by compute capability, memory kind and size; a row that lists its name wins."""
        size = vram_gib(gpu, host.memory)
        fits = [
            card
            for card in self.cards.values()
            if card.sm == gpu.sm
            and (gpu.memory is None or card.memory is gpu.memory)
            and (size is None or card.vram_gib[0] <= size <= card.vram_gib[1])
        ]
        named = next((card for card in fits if gpu.name in card.names), None)
        if named is not None:
            return CardMatch(named, by_name=True)
        if size is None or not fits:
            return None
        return CardMatch(fits[0], by_name=gpu.name is None)

    def image_row(self, ref: str) -> ImageRow | None:
        """The row that knows ``ref`` under its own or another tag, with or without its digest."""
        plain = ref.partition("@")[0]
        for row in self.images.values():
            repository = row.ref.rpartition(":")[0]
            if plain in (row.ref, *(f"{repository}:{tag}" for tag in row.also)):
                return row
        return None


_MOST_LISTED = 40
"""Names that an error lists; more are no help to a reader."""


def not_found(what: str, name: str, known: Iterable[str], *, hint: str | None = None) -> ConfigurationError:
    """``what`` called ``name`` does not exist; did you mean the nearest?"""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return ConfigurationError(
        f"{what}_not_found",
        f"there is no {what} called {name!r}",
        cause=f"known: {', '.join(names)}" if 0 < len(names) <= _MOST_LISTED else (),
        hint=f"did you mean {close[0]}?" if close else hint or f"aeonctl {what}s",
        name=name,
        known=names,
    )


def recorded_host(data: object, origin: str, name: str) -> Host:
    """A host file's content as a Host, marked as recorded."""
    host = Host.parse(data, origin, "host_invalid")
    return host.model_copy(update={"recorded": True, "name": name})


def facts_from_row(row: ImageRow, ref: str | None = None) -> ImageFacts:
    """What the catalogue says of an image, marked as such."""
    arches = tuple(platform.partition("/")[2] for platform in row.platforms)
    return ImageFacts(
        ref=ref or row.ref,
        facts_from=FactsFrom.CATALOGUE,
        digest=row.digest if ref in (None, row.ref) else parse_reference(str(ref)).digest,
        platforms=row.platforms,
        arch=arches[0] if len(arches) == 1 else None,
        sm=row.sm or None,
        ptx=row.ptx,
        not_for=row.not_for,
        not_for_sm=row.not_for_sm,
        cuda=row.cuda,
        driver_branch_min=row.driver_branch_min,
        vllm=row.vllm,
        cpu_only=row.cpu_only,
        compressed_bytes=row.pull_bytes,
        unpacked_bytes=row.local_bytes,
        entrypoint=row.entrypoint,
        family=row.family,
        row=row.id,
        advice=row.advice,
    )
