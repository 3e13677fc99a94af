"""Which seat is meant, and which of the host's GPUs it takes."""

from __future__ import annotations

from typing import NamedTuple

from aeonctl.core.catalog import Catalog, not_found
from aeonctl.core.host import Gpu, Host, vram_gib
from aeonctl.core.rows import Seat
from aeonctl.errors import ConfigurationError, HostError, RefusedError


class Choice(NamedTuple):
    """A seat and the GPUs for it. ``card_match`` says how the GPUs compare with the card that the seat is for:
    ``same``, ``other``, ``unknown`` (a GPU that no row knows) or ``none-needed``."""

    seat: Seat
    gpus: tuple[Gpu, ...]
    card_match: str


def choose_seat(wanted: str, host: Host, catalog: Catalog) -> Choice:
    """The seat called ``wanted``: by its full id (``rtx-5090/quality``), or by its name for the card that is present.

    ConfigurationError seat_not_found | seat_ambiguous; HostError no_gpu | driver_*; RefusedError no_seat_for_card.
    """
    if "/" in wanted:
        seat = catalog.seat(wanted)
        _require_gpu(seat, host)
        return _take_gpus(seat, host, catalog)
    named = [seat for seat in catalog.seats.values() if seat.name == wanted]
    if not named:
        names = [*catalog.seats, *(seat.name for seat in catalog.seats.values())]
        raise not_found("seat", wanted, names)
    without_gpu = [seat for seat in named if seat.gpus == 0]
    if without_gpu:
        return _take_gpus(without_gpu[0], host, catalog)
    _require_gpu(named[0], host)
    return _take_gpus(_for_card_present(wanted, named, host, catalog), host, catalog)


def _for_card_present(wanted: str, named: list[Seat], host: Host, catalog: Catalog) -> Seat:
    """Among seats of one name, the one for the card in the machine; the one that uses all its GPUs comes first."""
    counts: dict[str, int] = {}
    for gpu in host.gpus or ():
        if match := catalog.card_of(gpu, host):
            counts[match.card.id] = counts.get(match.card.id, 0) + 1
    fitting = [seat for seat in named if seat.gpus <= counts.get(str(seat.card), 0)]
    whole = [seat for seat in fitting if seat.gpus == counts[str(seat.card)]]
    candidates = whole or fitting
    cards = {seat.card for seat in candidates}
    if len(cards) > 1:
        ids = ", ".join(seat.id for seat in candidates)
        raise ConfigurationError(
            "seat_ambiguous",
            f"this machine has several cards with a seat called {wanted!r}",
            cause=f"it could be {ids}",
            hint=f"name it in full: --seat {candidates[0].id}",
            seats=[seat.id for seat in candidates],
        )
    if candidates:
        return max(candidates, key=lambda seat: seat.gpus)
    raise RefusedError(
        "no_seat_for_card",
        f"there is no seat {wanted!r} for {describe_gpus(host, catalog)}",
        cause=tuple(f"{seat.id} is for {_card_words(seat, catalog)}" for seat in named),
        hint="aeonctl seats lists what fits this machine; --seat CARD/NAME asks for another card's seat all the same",
        seats=[seat.id for seat in named],
    )


def _card_words(seat: Seat, catalog: Catalog) -> str:
    card = catalog.cards[str(seat.card)]
    count = f"{seat.gpus} x " if seat.gpus > 1 else ""
    return f"{count}{card.title} (sm {card.sm}, {card.vram_gib[0]:.0f} GiB and more, {card.memory} memory)"


def describe_gpus(host: Host, catalog: Catalog) -> str:
    """The machine's GPUs in words: ``NVIDIA H200 (sm 9.0, 139.8 GiB; 2 of them)``."""
    if not host.gpus:
        return "a machine without a GPU" if host.gpus is not None else "GPUs that cannot be seen"
    kinds: dict[str, int] = {}
    for gpu in host.gpus:
        size = vram_gib(gpu, host.memory)
        match = catalog.card_of(gpu, host)
        name = gpu.name or (match.card.title if match else "an unknown GPU")
        words = f"{name} (sm {gpu.sm or 'unknown'}, {f'{size:.1f} GiB' if size is not None else 'memory unknown'})"
        kinds[words] = kinds.get(words, 0) + 1
    return ", ".join(words if count == 1 else f"{count} x {words}" for words, count in kinds.items())


def _require_gpu(seat: Seat, host: Host) -> None:
    if seat.gpus == 0 or host.gpus:
        return
    if host.gpus is None or host.driver.problem == "no_devices":
        raise driver_error(host)
    raise HostError(
        "no_gpu",
        f"seat {seat.id} needs a GPU, and {host.name} has none",
        hint="without a GPU: aeonctl up --seat cpu/try, or --rehearse rtx-5090 to see a seat without running it",
        seat=seat.id,
    )


_DRIVER_REMEDY = {
    "library_missing": "install the NVIDIA driver (under WSL2: on Windows only), then run aeonctl doctor",
    "not_loaded": "load the driver's kernel module (sudo modprobe nvidia), or reboot; then run aeonctl doctor",
    "mismatch": "the driver was updated while its old module stays loaded: reboot",
    "blocked": "remove NVIDIA packages installed inside the WSL distribution; the driver belongs on Windows alone",
    "no_devices": "install the driver with the open kernel module (a package named …-open); Blackwell needs it",
}


def driver_error(host: Host) -> HostError:
    """Why no GPU can be seen, as the driver said it."""
    problem = host.driver.problem or "failed"
    code = "driver_missing" if problem == "library_missing" else f"driver_{problem}"
    return HostError(
        code,
        "the NVIDIA driver does not answer, so no GPU can be seen",
        cause=host.driver.detail or host.unknown.get("gpus") or (),
        hint=_DRIVER_REMEDY.get(problem, "run aeonctl doctor for what is known"),
    )


def _take_gpus(seat: Seat, host: Host, catalog: Catalog) -> Choice:
    """The GPUs of the seat's card, those with the most free memory first; else whatever is there."""
    if seat.gpus == 0:
        return Choice(seat, (), "none-needed")
    gpus = list(host.gpus or ())
    matches = {gpu.index: catalog.card_of(gpu, host) for gpu in gpus}
    same = [gpu for gpu in gpus if (match := matches[gpu.index]) and match.card.id == seat.card]
    pool = same or gpus
    pool = sorted(pool, key=lambda gpu: (-(gpu.vram_free_bytes or 0), gpu.index))
    chosen = tuple(sorted(pool[: seat.gpus], key=lambda gpu: gpu.index))
    if same:
        return Choice(seat, chosen, "same")
    known = any(matches[gpu.index] for gpu in chosen)
    return Choice(seat, chosen, "other" if known else "unknown")
