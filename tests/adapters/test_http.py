"""The engine's HTTP over real sockets."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress

import pytest

from aeonctl.adapters.http import RequestsHttp
from aeonctl.ports import Reply
from tests.adapters.answers import Answers
from tests.adapters.real_registry import free_port


def test_get_and_post() -> None:
    answers = Answers({"/health": (200, {}, b""), "/v1/chat": (200, {}, '{"text": "né"}'.encode())})
    http = RequestsHttp()
    with answers.serving() as address:
        assert http.get(f"http://{address}/health", timeout=5) == Reply(200, None, "")
        reply = http.post(f"http://{address}/v1/chat", {"n": 1}, timeout=5, key="secret\n")
    assert reply == Reply(200, {"text": "né"}, '{"text": "né"}')
    first, second = answers.asked
    assert "Authorization" not in first.headers
    assert (second.headers["Authorization"], json.loads(second.body)) == ("Bearer secret", {"n": 1})


@pytest.mark.parametrize("body", [b"[" * 100_000, b"{", b"\xff\xfe"])
def test_a_body_that_is_not_json(body: bytes) -> None:
    with Answers({"/x": (500, {}, body)}).serving() as address:
        reply = RequestsHttp().get(f"http://{address}/x", timeout=5)
    assert reply is not None
    assert (reply.status, reply.json) == (500, None)


def test_a_redirect_is_an_answer() -> None:
    with Answers({"/x": (307, {"Location": "/y"}, b"")}).serving() as address:
        reply = RequestsHttp().get(f"http://{address}/x", timeout=5)
    assert reply is not None
    assert reply.status == 307


def test_proxies_and_netrc_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with Answers({"/x": (200, {}, b"1")}).serving() as address:
        assert RequestsHttp().get(f"http://{address}/x", timeout=5) == Reply(200, 1, "1")


def test_nothing_answers() -> None:
    http = RequestsHttp()
    assert http.get(f"http://127.0.0.1:{free_port()}/health", timeout=5) is None
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert http.get(f"http://127.0.0.1:{silent.getsockname()[1]}/health", timeout=0.1) is None


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", b"nonsense\r\n\r\n"])
def test_an_answer_that_breaks_off(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(said)

        thread = threading.Thread(target=once)
        thread.start()
        assert RequestsHttp().get(f"http://127.0.0.1:{server.getsockname()[1]}/x", timeout=5) is None
        thread.join()


def test_a_stream_is_read_as_it_comes_and_hung_up() -> None:
    released = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    hung_up = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def once() -> None:
            connection, _ = server.accept()
            with connection:
                asked = b""
                while not asked.endswith(b"{}"):
                    asked += connection.recv(65536)
                connection.sendall(head + b"8\r\ndata: a\n\r\n" + b"3\r\n\nda\r\n")
                released.wait(10)
                connection.sendall(b"6\r\nta: b\n\r\n")
                with suppress(ConnectionResetError):
                    assert connection.recv(1) == b""
                hung_up.set()

        thread = threading.Thread(target=once)
        thread.start()
        stream = RequestsHttp().stream(f"http://127.0.0.1:{server.getsockname()[1]}/x", {}, timeout=5)
        assert stream is not None
        assert (stream.status, stream.content_type) == (200, "text/event-stream")
        lines = stream.lines()
        assert next(lines) == "data: a"
        released.set()
        assert next(lines) == "data: b"
        stream.close()
        thread.join()
    assert hung_up.is_set()


def test_a_stream_that_breaks_off_ends() -> None:
    said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n9\r\ndata"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(said)

        thread = threading.Thread(target=once)
        thread.start()
        stream = RequestsHttp().stream(f"http://127.0.0.1:{server.getsockname()[1]}/x", {}, timeout=5)
        assert stream is not None
        assert list(stream.lines())[:1] == ["data: a"]
        stream.close()
        thread.join()
    assert RequestsHttp().stream(f"http://127.0.0.1:{free_port()}/x", {}, timeout=5) is None
