"""The errors that this package raises. All of them are a `TillerError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


class ClientClosed(TillerError):
    """The client was closed, or has never been started."""


class CommandRefused(TillerError):
    """tiller has refused a command. A refused command changes nothing."""

    def __init__(self, command: str, error: str) -> None:
        #: The name of the command, such as `prompt`.
        self.command = command
        #: tiller's reason, a sentence for people.
        self.error = error
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
