"""Two sources on one image, the room for a pull, and the verdict without a seat."""

from __future__ import annotations

import pytest

from aeonctl.core.host import Docker, Host
from aeonctl.core.image import FactsFrom, ImageFacts, Layer
from aeonctl.core.images import Room, check_room, drift, facts_line, room_for, with_row
from aeonctl.core.rows import ImageRow
from aeonctl.errors import HostError

ROW = ImageRow(
    id="x",
    family="aeon",
    ref="r/i:t",
    platforms=("linux/amd64",),
    sm=("12.0",),
    not_for_sm=("8.9",),
    cuda="13.0",
    driver_branch_min=580,
    local_bytes=1000,
    why="a test",
    source="a test",
)
LAYERS = tuple(Layer(diff_id=name, size=size) for name, size in (("a", 100), ("b", 50), ("c", 50)))
IMAGE = ImageFacts(ref="r/i:t", layers=LAYERS, compressed_bytes=200)


def test_the_row_fills_what_the_image_does_not_say() -> None:
    own = ImageFacts(ref="r/i:t", sm=("12.1",), not_for_sm=("10.0",), cuda="12.9")
    both = with_row(own, ROW)
    assert (both.sm, both.not_for_sm, both.cuda, both.driver_branch_min) == (("12.1",), ("10.0", "8.9"), "12.9", 580)
    assert (both.unpacked_bytes, both.row, with_row(own, None)) == (1000, "x", own)


def test_only_what_both_speak_of_can_differ() -> None:
    assert drift(ImageFacts(ref="r/i:t"), ROW) == ()
    assert drift(ImageFacts(ref="r/i:t", cuda="13.0", sm=("12.0",), platforms=("linux/amd64",)), ROW) == ()
    (words,) = drift(ImageFacts(ref="r/i:t", sm=("12.1", "12.0")), ROW)
    assert words.startswith("compute capabilities: the registry says 12.0, 12.1, the catalogue 12.0;")


@pytest.mark.parametrize(
    ("chains", "room"),
    [
        ((), Room(200, 500, 0)),
        ((("a",), ("a", "b", "x")), Room(50, 125, 150)),
        ((("b", "c"),), Room(200, 500, 0)),
        ((("a", "b", "c", "d"),), Room(0, 0, 200)),
    ],
)
def test_what_lies_on_the_same_layers_is_not_fetched_again(chains: tuple[tuple[str, ...], ...], room: Room) -> None:
    assert room_for(IMAGE, chains) == room


def test_sizes_that_are_not_known() -> None:
    assert room_for(ImageFacts(ref="r/i:t"), ()) is None
    assert room_for(ImageFacts(ref="r/i:t", unpacked_bytes=7), ()) == Room(0, 7, 0)
    assert room_for(ImageFacts(ref="r/i:t", compressed_bytes=0), ()) == Room(0, 0, 0)
    unknown = ImageFacts(ref="r/i:t", layers=(Layer(diff_id=None, size=10),), compressed_bytes=10)
    assert room_for(unknown, (("a",),)) == Room(10, 25, 0)


def test_no_room_is_said_with_numbers() -> None:
    def host(free: int | None) -> Host:
        return Host(docker=Docker(image_root="/d", image_root_free_bytes=free))

    room = room_for(IMAGE, (("a",),))
    check_room(IMAGE, room, host(None))
    check_room(IMAGE, None, host(1))
    check_room(IMAGE, room, host(350))
    with pytest.raises(HostError) as caught:
        check_room(IMAGE, room, host(349))
    assert caught.value.message == "there is no room for r/i:t: 350 B are needed, 349 B are free"
    assert caught.value.causes == (
        "100 B to download and 250 B unpacked (estimated); 100 B of it are here already",
        "Docker keeps its images in /d",
    )


def test_where_the_facts_are_from() -> None:
    lines = [
        facts_line(ImageFacts(ref="r", facts_from=source, bytes_moved=4321))
        for source in (FactsFrom.REGISTRY, FactsFrom.LOCAL, FactsFrom.CATALOGUE, FactsFrom.UNKNOWN)
    ]
    assert lines == [
        "facts from the registry's manifest and config, 4.3 kB moved",
        "it is here, facts from its own config",
        "facts from the catalogue, nobody was asked (--check asks the registry)",
        "nothing is known of it",
    ]
