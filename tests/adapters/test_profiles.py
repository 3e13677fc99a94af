"""Profile files as plain data, and what is said of those that are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeonctl.adapters.profiles import ProfileFiles, bundled_folder, configuration_folder, plain_data
from aeonctl.errors import ConfigurationError, ExitCode

BOMB = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]" for n in range(9))


@pytest.fixture
def profiles(tmp_path: Path) -> ProfileFiles:
    return ProfileFiles({"XDG_CONFIG_HOME": str(tmp_path / "config")}, bundled=tmp_path / "bundled")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_bundled_come_first_then_the_users(profiles: ProfileFiles, tmp_path: Path) -> None:
    bundled, user = tmp_path / "bundled/seats", tmp_path / "config/aeonctl/profiles/seats"
    write(bundled / "b.yaml", "id: b")
    write(bundled / "a/quality.yml", "- id: a")
    write(bundled / "c.json", '{"id": null}')
    write(bundled / "README.md", "no profile")
    write(bundled / ".hidden/x.yaml", "[")
    mine = write(user / "mine.yaml", "id: b\nn: [1, 2.5, true, null, '07']")
    assert list(profiles.read("seats")) == [
        ("profiles/seats/a/quality.yml", "a/quality", [{"id": "a"}]),
        ("profiles/seats/b.yaml", "b", {"id": "b"}),
        ("profiles/seats/c.json", "c", {"id": None}),
        (str(mine), "mine", {"id": "b", "n": [1, 2.5, True, None, "07"]}),
    ]
    assert list(profiles.read("cards")) == []


def test_a_version_is_a_name(profiles: ProfileFiles, tmp_path: Path) -> None:
    write(tmp_path / "bundled/vllm/0.33.0.json", "{}")
    assert next(iter(profiles.read("vllm"))).name == "0.33.0"


def test_the_bundled_folder_is_the_checkouts_here() -> None:
    assert (bundled_folder("profiles") / "vllm/0.33.0.json").is_file()
    assert {document.name for document in ProfileFiles({}).read("vllm")} >= {"0.27.1", "0.32.0", "0.33.0"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "/home/me/.config/aeonctl"),
        ({"XDG_CONFIG_HOME": "/xdg"}, "/xdg/aeonctl"),
        ({"XDG_CONFIG_HOME": "relative"}, "/home/me/.config/aeonctl"),
        ({"XDG_CONFIG_HOME": ""}, "/home/me/.config/aeonctl"),
    ],
)
def test_where_the_users_files_are(environment: dict[str, str], expected: str) -> None:
    assert configuration_folder(environment, Path("/home/me")) == Path(expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' is written twice"),
        ("a: {b: 1, b: 2}", "line 1, column 11: the key 'b' is written twice"),
        ("a: 2026-09-18", "line 1, column 4: '2026-09-18' reads as a timestamp: put quotes around it if it is text"),
        ("a: 22:22", "line 1, column 4: '22:22' reads as a number to base 60: quote it"),
        ("a: .inf", "line 1, column 4: '.inf' is not a finite number"),
        ("8.9: x", "line 1, column 1: a key must be text: quote it"),
        ("? [a]\n: x", "line 1, column 3: a key must be text: quote it"),
        ("a: &x {b: 1}\nc:\n  <<: *x", "line 3, column 3: merge keys (<<) are not read: write the keys out"),
        ("a: !!python/name:os.system x", "line 1, column 4: 'x' reads as a python/name:os.system"),
        ("a: !!binary aGk=", "line 1, column 4: 'aGk=' reads as a binary"),
        ("a: !!set {b}", "line 1, column 4: set is not plain data"),
        ("a: !!int x", "line 1, column 4: 'x' is not a valid int"),
        ("a: " + "9" * 5000, "line 1, column 4: '9999"),
        ("a: b\n c: d", "line 2, column 3: mapping values are not allowed"),
        ("a: *x", "line 1, column 4: found undefined alias"),
        ("a: &x [*x]", "does an alias loop?"),
        (BOMB, "do aliases repeat it?"),
        ("[" * 5000, "nest"),
        ("- " * 5000, "nest"),
        ("--- a\n--- b", "line 2, column 1: but found another document"),
        ("a: \x07", "control characters are not allowed"),
    ],
)
def test_yaml_that_is_not_plain(profiles: ProfileFiles, tmp_path: Path, text: str, words: str) -> None:
    write(tmp_path / "bundled/cards/card.yaml", text)
    with pytest.raises(ConfigurationError) as caught:
        list(profiles.read("cards"))
    error = caught.value
    assert (error.code, error.message) == ("profile_invalid", "profiles/cards/card.yaml cannot be read")
    assert words in error.causes[0]
    assert error.exit_code is ExitCode.CONFIGURATION


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1,\n "b" 2}', "line 2, column 6: Expecting ':' delimiter"),
        ('{"a": 1, "a": 2}', "the key 'a' is written twice"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ("[" * 100_000, "recursion"),
        ("9" * 5000, "digits"),
        ("", "line 1, column 1"),
    ],
)
def test_json_that_is_not_plain(profiles: ProfileFiles, tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path / "host.json", text)
    with pytest.raises(ConfigurationError) as caught:
        profiles.file(path)
    assert caught.value.code == "host_invalid"
    assert words in caught.value.causes[0]


def test_a_host_file_that_the_user_names(profiles: ProfileFiles, tmp_path: Path) -> None:
    path = write(tmp_path / "box.yaml", "cpu: amd64")
    assert profiles.file(path) == (str(path), "box", {"cpu": "amd64"})
    fifo = tmp_path / "large.yaml"
    with fifo.open("wb") as stream:
        stream.truncate(9_000_000)
    for bad in (tmp_path / "absent.yaml", tmp_path, fifo, Path("a\0b")):
        with pytest.raises(ConfigurationError) as caught:
            profiles.file(bad)
        assert caught.value.code == "host_invalid"
        assert caught.value.causes[0]


def test_bytes_that_are_no_text(profiles: ProfileFiles, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"a: 1\nb: \xff")
    with pytest.raises(ConfigurationError) as caught:
        profiles.file(tmp_path / "x.yaml")
    assert caught.value.causes == ("line 2: not UTF-8 text",)
    (tmp_path / "x.yaml").write_bytes(b"\xef\xbb\xbfa: 1")
    assert profiles.file(tmp_path / "x.yaml").data == {"a": 1}


@pytest.mark.parametrize("kind", ["hosts", "cards"])
def test_a_file_that_may_not_be_read(profiles: ProfileFiles, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "bundled" / kind
    folder.mkdir(parents=True)
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "folder.yaml").mkdir()
    assert list(profiles.read(kind)) == []


def test_templates_by_name_and_the_users_wins(profiles: ProfileFiles, tmp_path: Path) -> None:
    mine = write(tmp_path / "config/aeonctl/templates/mine.j2", "{{ mine }}")
    assert profiles.template("mine.j2") == "{{ mine }}"
    for absent in ("absent.j2", "../profiles/x.yaml", "../../secret", "", "a\0b"):
        with pytest.raises(ConfigurationError) as caught:
            profiles.template(absent)
        assert caught.value.code == "template_not_found"
    assert "mine.j2" in caught.value.causes[0]
    mine.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError) as caught:
        profiles.template("mine.j2")
    assert caught.value.code == "template_error"


def is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or type(value) in (str, int, float, bool)


YAML_PIECES = st.lists(
    st.sampled_from(
        [*"[]{}:,-?&*!|>'\"%@`# \n\t", "a", "1", "~", "- ", ": ", "<<", "&a ", "*a", "!!int ", "0x", ".", "é"]
    ),
    max_size=60,
).map(lambda pieces: "".join(pieces).encode())


@pytest.mark.parametrize("is_json", [False, True])
@given(content=st.binary(max_size=200) | YAML_PIECES | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_plain_data_or_a_named_error(content: bytes, is_json: bool) -> None:
    problem: ConfigurationError | None = None
    try:
        assert is_plain(plain_data(content, "here", "profile_invalid", is_json=is_json))
    except ConfigurationError as error:
        problem = error
    assert problem is None or (problem.code == "profile_invalid" and all(problem.causes))


def test_nothing_here_depends_on_the_working_folder(tmp_path: Path) -> None:
    before = bundled_folder("profiles")
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert bundled_folder("profiles") == before
    finally:
        os.chdir(here)
