"""The connection to a tiller process, and the end of that process.

A transport carries records in both directions and knows nothing of their meaning. `StdioTransport`
starts a process; another transport needs the same five methods.

The threads of a transport hold the transport and never the client, so a client that is no longer
used can be garbage collected; its finalizer calls `request_close`, which never blocks.
"""

from __future__ import annotations

import atexit
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ._framing import LineSplitter, decode
from .errors import ProtocolError, ServerExited, ServerNotFound, TillerError

#: Called with the records of one read, in order. Called by a thread of the transport.
Receive = Callable[[list[dict[str, Any]]], None]
#: Called once, after the last record.
Ended = Callable[[TillerError], None]

#: After SIGTERM tiller ends within two seconds and gives a slow reader two more.
TERMINATE_SECONDS = 5.0
#: How long output that is still in the pipes of an ended process is read.
DRAIN_SECONDS = 2.0
STDERR_TAIL_BYTES = 8 * 1024


class Transport(Protocol):
    """What a client needs from a connection."""

    def open(self, receive: Receive, ended: Ended) -> None:
        """Connects. Raises `ServerNotFound` if that is impossible."""
        ...

    def send(self, line: bytes) -> None:
        """Queues a line. Never blocks and never fails; the end of the connection is told by `ended`."""
        ...

    def request_close(self) -> None:
        """Starts to close the connection. Never blocks, so a finalizer may call it."""
        ...

    def close(self) -> None:
        """Closes the connection and waits for its end, for a bounded time."""
        ...

    def stderr_tail(self) -> str:
        """The last lines that the server wrote for people."""
        ...


class StdioTransport:
    """A tiller process, its three pipes and its end.

    Four daemon threads: one writes stdin, one reads stdout, one reads stderr, and one ends the
    process: it closes stdin, waits, terminates, kills, and always collects the exit code.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        close_seconds: float = 5.0,
    ) -> None:
        self._command = list(command)
        self._cwd = cwd
        self._env = dict(env) if env is not None else None
        self._close_seconds = close_seconds
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._end: queue.SimpleQueue[TillerError | None] = queue.SimpleQueue()
        self._tail = bytearray()
        self._threads: dict[str, threading.Thread] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._receive: Receive = lambda records: None
        self._ended: Ended = lambda error: None

    @property
    def pid(self) -> int | None:
        """The process id of tiller."""
        return self._process.pid if self._process else None

    def open(self, receive: Receive, ended: Ended) -> None:
        self._receive = receive
        self._ended = ended
        try:
            # Its own session: Ctrl-C in the host's terminal is the host's business. If the host is
            # killed, stdin closes, and tiller ends by itself.
            process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ServerNotFound(f"cannot start {self._command[0]!r}: {error}") from error
        self._process = process
        atexit.register(self.close)
        for name, target in (
            ("write", self._write),
            ("read", self._read),
            ("stderr", self._read_stderr),
            ("end", self._supervise),
        ):
            thread = threading.Thread(
                target=target, args=(process,), name=f"tiller-{name}-{process.pid}", daemon=True
            )
            self._threads[name] = thread
            thread.start()

    def send(self, line: bytes) -> None:
        self._outbox.put(line)

    def request_close(self) -> None:
        self._end.put(None)

    def close(self) -> None:
        self.request_close()
        end = self._threads.get("end")
        if end is not None and end is not threading.current_thread():
            end.join(self._close_seconds + TERMINATE_SECONDS + 3 * DRAIN_SECONDS)

    def stderr_tail(self) -> str:
        return bytes(self._tail).decode("utf-8", "replace")

    def _write(self, process: subprocess.Popen[bytes]) -> None:
        stdin = process.stdin
        assert stdin is not None
        try:
            while (line := self._outbox.get()) is not None:
                stdin.write(line)
                stdin.flush()
        except OSError:
            # tiller reads no more. The end of stdout follows; this makes sure of it.
            self.request_close()
        try:
            stdin.close()
        except OSError:
            pass  # The rest of a line that cannot be delivered.

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        splitter = LineSplitter()
        broken: TillerError | None = None
        with process.stdout as stdout:
            while data := os.read(stdout.fileno(), 1 << 16):
                broken = broken or self._deliver(splitter.feed(data))
            broken = broken or self._deliver(splitter.rest())
        self._end.put(broken)

    def _deliver(self, lines: list[bytes]) -> TillerError | None:
        """Passes records on. After an error the output is still read, so that tiller can end."""
        broken = deliver(lines, self._receive)
        if broken is not None:
            self._end.put(broken)
        return broken

    def _read_stderr(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr as stderr:
            while data := os.read(stderr.fileno(), 1 << 13):
                self._tail += data
                del self._tail[:-STDERR_TAIL_BYTES]

    def _supervise(self, process: subprocess.Popen[bytes]) -> None:
        """Waits until the end is requested or stdout has ended, then ends the process."""
        reason = self._end.get()
        self._outbox.put(None)
        for seconds, escalate in (
            (self._close_seconds, process.terminate),
            (TERMINATE_SECONDS, process.kill),
        ):
            try:
                process.wait(seconds)
                break
            except subprocess.TimeoutExpired:
                escalate()
        process.wait()
        for name in ("read", "stderr", "write"):
            self._threads[name].join(DRAIN_SECONDS)
        atexit.unregister(self.close)
        self._ended(reason or ServerExited(process.returncode, self.stderr_tail()))


def deliver(lines: list[bytes], receive: Receive) -> TillerError | None:
    """Passes the records of these lines on. Returns why that failed, if it did."""
    records: list[dict[str, Any]] = []
    broken: TillerError | None = None
    for line in lines:
        try:
            record = decode(line)
        except TillerError as error:
            broken = error
            break
        if record is not None:
            records.append(record)
    if records:
        try:
            receive(records)
        except Exception as error:  # A bug of this package must not leave callers waiting.
            broken = ProtocolError(f"cannot handle a record of tiller: {error!r}")
    return broken
