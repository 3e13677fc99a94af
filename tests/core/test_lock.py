"""A seat's lock: what is pinned, what was started, what passed, and what to go back to."""

from __future__ import annotations

from aeonctl.core.lock import Entry, LockedImage, LockedModel, Parts, SeatLock


def entry(name: str, at: float = 0.0, *, passed_at: float | None = None) -> Entry:
    digest = f"sha256:{name.encode().hex():0<64}"
    parts = Parts(image=LockedImage(ref="r/i:t", digest=digest), model=LockedModel(repo="o/m", revision=name))
    return Entry(parts=parts, spec_hash=f"spec-{name}", at=at, passed_at=passed_at)


EMPTY = SeatLock(seat="cpu/try")


def test_nothing_is_in_use_and_nothing_passed() -> None:
    assert (EMPTY.current(), EMPTY.last_passed()) == (None, None)


def test_a_pass_is_marked_wherever_the_spec_is() -> None:
    lock = EMPTY.with_start(entry("a", 1)).with_locked(entry("a", 2)).with_start(entry("b", 3))
    marked = lock.with_passed("spec-a", 9.0)
    assert marked.locked is not None
    assert marked.locked.passed_at == 9.0
    assert [one.passed_at for one in marked.history] == [9.0, None]
    assert marked.with_passed("spec-unknown", 10.0) == marked


def test_an_equal_start_moves_to_the_end_and_keeps_its_mark() -> None:
    lock = EMPTY.with_start(entry("a", 1, passed_at=5.0)).with_start(entry("b", 2)).with_start(entry("a", 3))
    assert [(one.parts.model.revision, one.at, one.passed_at) for one in lock.history] == [
        ("b", 2, None),
        ("a", 3, 5.0),
    ]
    assert lock.with_locked(entry("a", 4)).locked == entry("a", 4, passed_at=5.0)


def test_back_to_the_latest_that_passed_and_is_not_in_use() -> None:
    lock = EMPTY.with_start(entry("a", 1, passed_at=4.0)).with_start(entry("b", 2, passed_at=5.0))
    assert lock.last_passed() == entry("a", 1, passed_at=4.0)
    broken = lock.with_start(entry("c", 3))
    assert broken.last_passed() == entry("b", 2, passed_at=5.0)
    assert broken.with_locked(entry("b", 6)).last_passed() == entry("a", 1, passed_at=4.0)


def test_the_last_that_passed_outlives_many_starts() -> None:
    lock = EMPTY.with_start(entry("good", 1, passed_at=2.0))
    for number in range(30):
        lock = lock.with_start(entry(f"bad{number}", 3 + number))
    assert len(lock.history) == 21
    assert lock.last_passed() == entry("good", 1, passed_at=2.0)


def test_it_survives_its_file() -> None:
    lock = EMPTY.with_start(entry("a", 1, passed_at=5.0)).with_locked(entry("b", 2))
    assert SeatLock.parse(lock.model_dump(mode="json"), "here") == lock
