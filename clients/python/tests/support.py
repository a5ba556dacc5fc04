"""A folder, an environment and clients for one test."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import unittest
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tiller_client import AsyncClient, Client, Event

PACKAGE = Path(__file__).resolve().parent.parent
REPOSITORY = PACKAGE.parent.parent

#: No wait of a test is longer. A test that reaches it fails.
SECONDS = 60.0


def tiller_bin() -> str:
    """The program under test: `TILLER_BIN`, or the debug build of this repository."""
    program = os.environ.get("TILLER_BIN") or str(REPOSITORY / "target" / "debug" / "tiller")
    found = shutil.which(program)
    if found is None:
        raise RuntimeError(f"{program} is not a program: build tiller, or set TILLER_BIN")
    return os.path.abspath(found)


class TillerTest(unittest.TestCase):
    """Each test has a folder of its own, which is also the home of the user."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tiller-client-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.work = self.folder / "work"
        self.work.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PI_OFFLINE": "1"}

    def options(self, script: str | None, args: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
        """The arguments of `start`: a scripted model, or the demo model."""
        made: dict[str, Any] = {
            "command": tiller_bin(),
            "cwd": self.work,
            "env": self.env,
            "timeout": SECONDS,
            "start_timeout": SECONDS,
        }
        if script is None:
            made.update(model="tiller/demo", args=list(args))
        else:
            path = self.folder / "model.script"
            path.write_text(script, "utf-8")
            made.update(model="tiller/script", args=["--script", str(path), *args])
        return {**made, **options}

    def client(self, script: str | None = None, *args: str, **options: Any) -> Client:
        """A client that is closed when the test ends."""
        client = Client.start(**self.options(script, args, options))
        self.addCleanup(client.close)
        return client

    def async_client(self, script: str | None = None, *args: str, **options: Any) -> AsyncClient:
        return AsyncClient.start(**self.options(script, args, options))

    def extension(self, source: str) -> str:
        """The path of an extension with this source."""
        path = self.folder / "extension.ts"
        path.write_text(source, "utf-8")
        return str(path)

    def assert_gone(self, pid: int | None) -> None:
        """The process has ended, and its exit code was collected."""
        assert pid is not None
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)


def join_thread(name: str) -> None:
    """Waits for the end of a thread, if it still runs."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(SECONDS)
            if thread.is_alive():
                raise AssertionError(f"the thread {name} does not end")


def kinds(events: list[Event]) -> list[str]:
    """The types of events, without the steps of answers."""
    return [event["type"] for event in events if event["type"] != "message_update"]


def until(events: Iterable[Event], wanted: Callable[[Event], bool]) -> Event:
    """The first event of a stream that is wanted."""
    for event in events:
        if wanted(event):
            return event
    raise AssertionError("the stream ended before the event came")
