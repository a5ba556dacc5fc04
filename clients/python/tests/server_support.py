"""Servers of many sessions for tests: the fake one, and `tiller serve` if the program has it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
import unittest
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal

from fake_server import FakeServer
from support import SECONDS, TillerTest, tiller_bin
from tiller_client import Server, Session

QUESTION = """
export default function (pi) {
  pi.registerCommand("ask", {
    description: "Ask",
    handler: async (args, ctx) => {
      const answer = await ctx.ui.select("Which?", ["red", "green"]);
      ctx.ui.notify(JSON.stringify(answer ?? null), "info");
    },
  });
}
"""


@cache
def has_serve() -> bool:
    """Whether the program under test has `serve`. Without it the word is a message to a model."""
    command = [tiller_bin(), "serve", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    return done.returncode == 0 and "--listen" in done.stdout


class RealServer:
    """A process of `tiller serve` on both kinds of sockets."""

    def __init__(self, folder: Path, env: dict[str, str], script: str) -> None:
        files = {"model.script": script or "say Hello.\n", "question.ts": QUESTION}
        for name, text in files.items():
            (folder / name).write_text(text, "utf-8")
        agent = folder / ".pi" / "agent"
        agent.mkdir(parents=True, exist_ok=True)
        listen = [f"unix:{agent / 'tiller.sock'}", "ws://127.0.0.1:0"]
        command = [tiller_bin(), "serve", "--listen", listen[0], "--listen", listen[1]]
        options = ["--script", str(folder / "model.script"), "-e", str(folder / "question.ts")]
        self.process = subprocess.Popen(
            [*command, "--", *options], cwd=folder, env=env, stdout=subprocess.PIPE, start_new_session=True
        )
        addresses = [self._read_address(), self._read_address()]
        self.unix = next(address for address in addresses if address.startswith("unix:"))
        self.ws = next(address for address in addresses if address.startswith("ws:"))
        self.token = (agent / "serve-token").read_text("utf-8").strip()

    def _read_address(self) -> str:
        stdout = self.process.stdout
        assert stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([stdout], [], [], SECONDS)
            byte = os.read(stdout.fileno(), 1) if ready else b""
            if not byte:
                raise AssertionError(f"tiller serve did not get ready: {line!r}")
            line += byte
        record: dict[str, str] = json.loads(line)
        assert record["type"] == "listening"
        return record["address"]

    def stop(self) -> None:
        """Ends the server in order."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(SECONDS)
        self.end()

    def end(self) -> None:
        """Ends the server at once, which takes less time."""
        self.process.kill()
        self.process.wait(SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()


class Relay:
    """A socket between a client and the server, whose connections the test can cut."""

    def __init__(self, folder: Path, address: str) -> None:
        self._target = address
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        if address.startswith("unix:"):
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(folder / "relay.sock"))
            self.address = f"unix:{folder / 'relay.sock'}"
        else:
            self._listener = socket.socket()
            self._listener.bind(("127.0.0.1", 0))
            self.address = "ws://127.0.0.1:%d" % self._listener.getsockname()[1]
        self._listener.listen()
        self._spawn(self._accept)

    def cut(self) -> None:
        """Ends all connections."""
        for pair in self._pairs:
            for side in pair:
                shut(side)

    def close(self) -> None:
        self.cut()
        shut(self._listener)
        for thread in self._threads:
            thread.join(SECONDS)
        self._listener.close()
        for pair in self._pairs:
            for side in pair:
                side.close()

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = self._connect()
            self._pairs.append((client, server))
            self._spawn(copy, client, server)
            self._spawn(copy, server, client)

    def _connect(self) -> socket.socket:
        if self._target.startswith("unix:"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target[5:])
            return server
        host, _, port = self._target[5:].partition(":")
        return socket.create_connection((host, int(port)))


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    shut(target)


def shut(side: socket.socket) -> None:
    try:
        side.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class ServerTest(TillerTest):
    """A test with a server of sessions. Subclasses choose the server and the socket."""

    server_kind: Literal["fake", "real"] = "fake"
    socket_kind: Literal["unix", "ws"] = "unix"

    def setUp(self) -> None:
        if self.server_kind == "real" and not has_serve():
            raise unittest.SkipTest("skipped: this tiller has no `serve`")
        super().setUp()

    def serve(self, script: str = "") -> FakeServer | RealServer:
        """Starts a server, which ends with the test."""
        if self.server_kind == "real":
            self.running: FakeServer | RealServer = RealServer(self.folder, self.env, script)
        else:
            self.running = FakeServer(self.folder, script)
            self.running.start()
        self.addCleanup(self.running.end)
        return self.running

    @property
    def address(self) -> str:
        return self.running.unix if self.socket_kind == "unix" else self.running.ws

    def connect_options(self, options: dict[str, Any]) -> dict[str, Any]:
        made = {"address": self.address, "token": self.running.token, "timeout": SECONDS}
        return {**made, "start_timeout": SECONDS, **options}

    def connect(self, **options: Any) -> Server:
        """A connection to the server, which ends with the test."""
        server = Server.connect(**self.connect_options(options))
        self.addCleanup(server.close)
        return server

    def relay(self) -> Relay:
        relay = Relay(self.folder, self.address)
        self.addCleanup(relay.close)
        return relay

    def eventually(self, condition: Callable[[], bool]) -> None:
        """Waits until the server says so. The condition sends a command, which paces the loop."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, "the condition does not come true")

    def session(self, server: Server, **options: Any) -> Session:
        return server.open_session(**self.session_options(options))

    def session_options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"cwd": self.work, "model": "tiller/script", **options}
