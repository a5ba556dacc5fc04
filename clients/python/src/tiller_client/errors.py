"""The errors that this package raises. All of them are a `TillerError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Result


class TillerError(Exception):
    """The base of all errors of this package."""


class ServerNotFound(TillerError):
    """The program cannot be started: it does not exist or is not executable."""


class ServerExited(TillerError):
    """tiller has ended although the client was not closed.

    All pending requests and iterators fail with this error.
    """

    def __init__(self, exit_code: int | None, stderr_tail: str) -> None:
        #: The exit code; negative if a signal ended the process, as in `subprocess`.
        self.exit_code = exit_code
        #: The last lines that tiller wrote to stderr.
        self.stderr_tail = stderr_tail
        said = stderr_tail.strip()
        super().__init__(f"tiller exited with {exit_code}" + (f": {said}" if said else ""))


class ConnectFailed(TillerError):
    """There is no connection to a server of sessions: no server, a wrong address or a wrong token."""

    def __init__(self, message: str, status: int | None = None) -> None:
        #: The HTTP status with which the server has refused a WebSocket; 401 if the token is wrong.
        self.status = status
        super().__init__(message)


class ConnectionLost(TillerError):
    """The connection to a server of sessions has ended although it was not closed.

    Its sessions go on in the server. Connect again, and continue them with `Server.attach`.
    """


class SessionClosed(TillerError):
    """A session of a server has ended, but not by `close` of this client."""

    def __init__(self, handle: str, reason: str, error: str | None = None) -> None:
        #: The handle of the session, such as `s1-5f0c`.
        self.handle = handle
        #: `closed` (by another client), `ended` (by itself), `crashed` or `server_stopping`.
        self.reason = reason
        #: The error of a session that has crashed.
        self.error = error
        super().__init__(f"the session {handle} has ended: {reason}" + (f": {error}" if error else ""))


class SessionDetached(TillerError):
    """This client gets no more records of a session, which goes on in the server."""

    def __init__(self, handle: str, reason: str) -> None:
        #: The handle of the session, such as `s1-5f0c`.
        self.handle = handle
        #: `taken_over` by another client, or `too_slow`.
        self.reason = reason
        super().__init__(f"this client was detached from the session {handle}: {reason}")


class ClientClosed(TillerError):
    """The client was closed, or has never been started."""


class CommandRefused(TillerError):
    """tiller has refused a command. A refused command changes nothing."""

    def __init__(
        self,
        command: str,
        error: str,
        code: str | None = None,
        handle: str | None = None,
        owner: dict[str, Any] | None = None,
    ) -> None:
        #: The name of the command, such as `prompt`.
        self.command = command
        #: tiller's reason, a sentence for people.
        self.error = error
        #: A stable name of the reason, such as `unknown_session`. Only servers of sessions send it.
        self.code = code
        #: With the code `session_in_use`, the handle of the session if the same server has it open.
        self.handle = handle
        #: With the code `session_in_use`, the process that has the session, if it is another one:
        #: `program`, `pid`, `host`, `started`, and its `address` if it is a server.
        self.owner = owner
        super().__init__(f"{command}: {error}")


class ProtocolError(TillerError):
    """tiller has written something that this client does not understand."""


class Timeout(TillerError, TimeoutError):
    """The time that the caller allowed is over."""


class EventsLost(TillerError):
    """A replay would have a gap: tiller no longer has all of the requested events."""


class RunFailed(TillerError):
    """A prompt did not end well. Raised by `Result.check`."""

    def __init__(self, result: Result) -> None:
        #: The result with its status and reason.
        self.result = result
        why = result.error or result.reason
        super().__init__(f"the prompt ended with status {result.status}" + (f": {why}" if why else ""))
