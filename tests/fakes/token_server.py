"""A token server of a few lines: who logs in as me:secret (or anyone, when it is open) gets a token."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager

from tests.adapters.answers import Answer, Answers, Asked

LOGIN = "me:secret"


class TokenServer(Answers):
    """``/token`` by basic login. ``open_to_all`` grants anonymous tokens; ``answer_instead`` breaks it."""

    def __init__(self, *, open_to_all: bool = False) -> None:
        super().__init__({"/token": self._token})
        self.open_to_all = open_to_all
        self.answer_instead: Answer | None = None
        self.address = ""

    @property
    def realm(self) -> str:
        return f"http://{self.address}/token"

    def _token(self, asked: Asked) -> Answer:
        if self.answer_instead is not None:
            return self.answer_instead
        login = asked.headers.get("Authorization")
        expected = f"Basic {base64.b64encode(LOGIN.encode()).decode()}"
        if login == expected or (login is None and self.open_to_all):
            return 200, {"Content-Type": "application/json"}, b'{"token": "granted"}'
        return 401, {}, b'{"errors": [{"code": "UNAUTHORIZED"}]}'

    @contextmanager
    def running(self) -> Iterator[TokenServer]:
        with self.serving() as address:
            self.address = address
            yield self
