"""What every implementation of ``ports.Engines`` does, shown on all of them: the fake, the rehearsal, a real Docker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aeonctl.core.container import Mount
from aeonctl.core.image import FactsFrom
from aeonctl.errors import AeonError, EngineError, HostError
from aeonctl.ports import EngineRecord, EngineStatus
from tests.adapters.engine_kits import ENVIRONMENT, IMAGE, Behaviour, Bench, FakeKit, Kit, docker_kit, rehearsal_kit

STAYS = Behaviour(prints=(b"up\n",))


@pytest.fixture(params=["fake", "rehearsal", pytest.param("docker", marks=pytest.mark.docker)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    kit: Kit
    if request.param == "fake":
        kit = FakeKit()
    elif request.param == "rehearsal":
        kit = rehearsal_kit(tmp_path)
    else:
        kit = docker_kit(request.getfixturevalue("docker_host"))
    bench = Bench(kit)
    yield bench
    bench.clear()


def ended(bench: Bench, name: str) -> EngineRecord:
    """Its record once it has ended."""

    def look() -> EngineRecord | None:
        record = bench.engines.find(name)
        return record if record is not None and record.status is EngineStatus.EXITED else None

    return bench.until(look)


def test_nothing_has_the_name_before(bench: Bench) -> None:
    assert bench.engines.find("aeonctl-contract-nobody") is None


def test_a_started_engine_is_found_with_all_that_it_was_given(bench: Bench) -> None:
    labels = {"io.aeonctl.seat": "rtx-5090/quality", "io.aeonctl.plan": '{"a": "it\'s \\"b\\"", "ü": [1, 2]}'}
    spec = bench.spec(STAYS, labels=labels, restart="no")

    started = bench.engines.start(spec, ENVIRONMENT)

    assert started.name == spec.name
    assert started.status is EngineStatus.RUNNING
    assert started.ours
    assert labels.items() <= started.labels.items()
    assert started.image == IMAGE
    assert started.exit_code is None
    assert started.error is None
    assert not started.oom_killed
    assert started.started_at is not None
    assert started.restart_policy == "no"
    assert started.ident
    assert started.rehearsal is bench.kit.rehearses
    assert bench.engines.find(spec.name) == started
    assert started in bench.engines.ours()


def test_a_taken_name_is_refused_and_left_alone(bench: Bench) -> None:
    spec = bench.spec(STAYS)
    first = bench.engines.start(spec, ENVIRONMENT)

    with pytest.raises(HostError) as refusal:
        bench.engines.start(spec, ENVIRONMENT)

    assert refusal.value.code == "name_in_use"
    assert bench.engines.find(spec.name) == first


def test_the_name_of_an_ended_engine_is_still_taken(bench: Bench) -> None:
    spec = bench.spec(Behaviour(code=0))
    bench.engines.start(spec, ENVIRONMENT)
    ended(bench, spec.name)

    with pytest.raises(HostError) as refusal:
        bench.engines.start(spec, ENVIRONMENT)

    assert refusal.value.code == "name_in_use"


def test_a_container_without_our_label_is_seen_but_not_ours(bench: Bench) -> None:
    spec = bench.spec(STAYS, labels={"maintainer": "somebody"})
    bench.engines.start(spec, ENVIRONMENT)

    record = bench.engines.find(spec.name)

    assert record is not None
    assert not record.ours
    assert spec.name not in {entry.name for entry in bench.engines.ours()}


@pytest.mark.parametrize("code", [0, 3, 137])
def test_the_exit_code_is_known(bench: Bench, code: int) -> None:
    spec = bench.spec(Behaviour(prints=(b"bye\n",), code=code))
    bench.engines.start(spec, ENVIRONMENT)

    assert ended(bench, spec.name).exit_code == code


def test_a_killed_engine_leaves_with_137(bench: Bench) -> None:
    spec = bench.spec(STAYS)
    bench.engines.start(spec, ENVIRONMENT)

    bench.engines.signal(spec.name, "SIGKILL")

    assert ended(bench, spec.name).exit_code == 137


def test_a_terminated_engine_says_goodbye(bench: Bench) -> None:
    spec = bench.spec(Behaviour(prints=(b"up\n",), farewell=b"down\n"))
    bench.engines.start(spec, ENVIRONMENT)
    bench.until(lambda: b"".join(bench.engines.log(spec.name, follow=False)) == b"up\n")

    bench.engines.signal(spec.name, "SIGTERM")

    assert ended(bench, spec.name).exit_code == 0
    assert b"".join(bench.engines.log(spec.name, follow=False)) == b"up\ndown\n"


def test_signals_to_nobody_do_nothing(bench: Bench) -> None:
    spec = bench.spec(Behaviour(code=0))
    bench.engines.signal(spec.name, "SIGTERM")
    bench.engines.start(spec, ENVIRONMENT)
    ended(bench, spec.name)

    bench.engines.signal(spec.name, "SIGTERM")
    bench.engines.signal(spec.name, "SIGKILL")

    assert ended(bench, spec.name).exit_code == 0


def test_a_followed_log_has_every_byte_in_order_and_ends_with_the_engine(bench: Bench) -> None:
    prints = (
        b"first\n",
        b"10%\r50%\r100%\n",
        "Grüße €\n".encode(),
        b"\x00 \x1b[31mred\x1b[0m\n",
        b"no newline at the end",
    )
    spec = bench.spec(Behaviour(prints=prints, code=3))
    bench.engines.start(spec, ENVIRONMENT)

    assert b"".join(bench.engines.log(spec.name, follow=True)) == b"".join(prints)

    assert ended(bench, spec.name).exit_code == 3
    assert b"".join(bench.engines.log(spec.name, follow=True)) == b"".join(prints)
    assert b"".join(bench.engines.log(spec.name, follow=False)) == b"".join(prints)


def test_a_followed_log_comes_while_the_engine_runs_and_stops_when_closed(bench: Bench) -> None:
    spec = bench.spec(Behaviour(prints=(b"one\n", b"two\n")))
    bench.engines.start(spec, ENVIRONMENT)
    log = bench.engines.log(spec.name, follow=True)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.extend(log), daemon=True)
    reader.start()
    bench.until(lambda: b"".join(got) == b"one\ntwo\n")

    log.close()
    reader.join(10)

    assert not reader.is_alive()
    record = bench.engines.find(spec.name)
    assert record is not None
    assert record.status is EngineStatus.RUNNING
    log.close()


def test_an_unfollowed_log_ends_at_once(bench: Bench) -> None:
    spec = bench.spec(STAYS)
    bench.engines.start(spec, ENVIRONMENT)

    bench.until(lambda: b"".join(bench.engines.log(spec.name, follow=False)) == b"up\n")


@pytest.mark.parametrize(("tail", "expected"), [(0, b""), (1, b"c\n"), (2, b"b\nc\n"), (99, b"a\nb\nc\n")])
def test_the_tail_of_a_log(bench: Bench, tail: int, expected: bytes) -> None:
    spec = bench.spec(Behaviour(prints=(b"a\n", b"b\n", b"c\n"), code=0))
    bench.engines.start(spec, ENVIRONMENT)
    ended(bench, spec.name)

    assert b"".join(bench.engines.log(spec.name, follow=False, tail=tail)) == expected


def test_no_engine_has_no_log(bench: Bench) -> None:
    with pytest.raises(EngineError) as refusal:
        bench.engines.log("aeonctl-contract-nobody", follow=True)

    assert refusal.value.code == "not_running"


def test_variables_come_by_value_and_from_the_environment(bench: Bench) -> None:
    env = {"PLAIN": 'a "b" $HOME `c`', "AEONCTL_TEST_SECRET": None, "AEONCTL_TEST_ABSENT": None, "EMPTY": ""}
    spec = bench.spec(Behaviour(tells=tuple(env), code=0), env=env)
    bench.engines.start(spec, ENVIRONMENT)

    said = b"".join(bench.engines.log(spec.name, follow=True)).decode().splitlines()

    assert said == [
        'PLAIN=a "b" $HOME `c`',
        "AEONCTL_TEST_SECRET=it's $ecret",
        "AEONCTL_TEST_ABSENT=not set",
        "EMPTY=",
    ]


def test_the_restart_policy_can_be_set_and_cleared(bench: Bench) -> None:
    spec = bench.spec(STAYS)
    bench.engines.start(spec, ENVIRONMENT)
    for policy in ("unless-stopped", "no"):
        bench.engines.set_restart(spec.name, policy)
        record = bench.engines.find(spec.name)
        assert record is not None
        assert record.restart_policy == policy


def test_the_restart_policy_of_nobody_cannot_be_set(bench: Bench) -> None:
    with pytest.raises(EngineError) as refusal:
        bench.engines.set_restart("aeonctl-contract-nobody", "no")

    assert refusal.value.code == "not_running"


def test_removing_is_for_ended_engines_and_harmless_twice(bench: Bench) -> None:
    spec = bench.spec(STAYS)
    bench.engines.remove(spec.name)
    bench.engines.start(spec, ENVIRONMENT)

    with pytest.raises(EngineError) as refusal:
        bench.engines.remove(spec.name)
    assert refusal.value.code == "still_running"

    bench.engines.signal(spec.name, "SIGKILL")
    ended(bench, spec.name)
    bench.engines.remove(spec.name)
    bench.engines.remove(spec.name)
    assert bench.engines.find(spec.name) is None
    assert spec.name not in {entry.name for entry in bench.engines.ours()}


def test_a_taken_port_is_refused_and_leaves_nothing(bench: Bench) -> None:
    with bench.kit.busy_port() as port:
        spec = bench.spec(STAYS, port=port)
        with pytest.raises(HostError) as refusal:
            bench.engines.start(spec, ENVIRONMENT)

    assert refusal.value.code == "port_in_use"
    assert bench.engines.find(spec.name) is None


def test_a_published_port_is_known(bench: Bench) -> None:
    with bench.kit.busy_port() as port:
        pass
    spec = bench.spec(STAYS, port=port)

    assert bench.engines.start(spec, ENVIRONMENT).published == (port,)


def test_a_failed_start_leaves_nothing(bench: Bench) -> None:
    spec = bench.spec(STAYS).model_copy(update={"mounts": (Mount(source="/nowhere/at/all", target="/model"),)})

    with pytest.raises(AeonError) as refusal:
        bench.engines.start(spec, ENVIRONMENT)

    assert refusal.value.code == "start_failed"
    assert bench.engines.find(spec.name) is None


def test_an_image_must_be_here_before_a_start(bench: Bench) -> None:
    spec = bench.spec(STAYS).model_copy(update={"image": "aeonctl-test/absent:1"})
    if bench.kit.rehearses:
        assert bench.engines.start(spec, ENVIRONMENT).image == "aeonctl-test/absent:1"
        return

    with pytest.raises(HostError) as refusal:
        bench.engines.start(spec, ENVIRONMENT)

    assert refusal.value.code == "image_missing"
    assert bench.engines.find(spec.name) is None


def test_cpu_time_grows(bench: Bench) -> None:
    spec = bench.spec(Behaviour(burns=True))
    bench.engines.start(spec, ENVIRONMENT)

    first = bench.until(lambda: bench.engines.cpu_seconds(spec.name))
    bench.until(lambda: (bench.engines.cpu_seconds(spec.name) or 0) > first)

    bench.engines.signal(spec.name, "SIGKILL")
    ended(bench, spec.name)
    assert bench.engines.cpu_seconds(spec.name) is None


def test_nobody_uses_no_cpu(bench: Bench) -> None:
    assert bench.engines.cpu_seconds("aeonctl-contract-nobody") is None


def test_images_that_are_here_and_that_are_not(bench: Bench) -> None:
    assert bench.engines.image("aeonctl-test/absent:1") is None

    facts = bench.engines.image(IMAGE)

    assert facts == bench.kit.image
    if not bench.kit.rehearses:
        assert facts is not None
        assert facts.facts_from is FactsFrom.LOCAL
        assert facts.arch in {"amd64", "arm64"}
        assert facts.unpacked_bytes


def test_describing_never_raises(bench: Bench) -> None:
    assert bench.engines.describe().reachable is (None if bench.kit.rehearses else True)
