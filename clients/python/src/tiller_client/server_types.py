"""The data and the records of a server of sessions (`tiller serve`).

Written by hand. When tiller's schema has them, `generated.py` has them too, and can replace this
module.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

from .generated import StateData

#: How a client takes part in an open session.
AttachMode: TypeAlias = Literal["control", "watch", "takeover"]


class ReplayData(TypedDict):
    """What `attach` sends again."""

    #: How many records follow the response as they were written before.
    records: int
    #: True if the server no longer has all of them. Then it sends none.
    truncated: bool


class _OpenSessionDataRequired(TypedDict):
    #: The handle of the session.
    sessionId: str
    state: StateData


class OpenSessionData(_OpenSessionDataRequired, total=False):
    """The data of `open_session` and `attach`."""

    #: If `attach` was called with `since`.
    replay: ReplayData


class _OpenSessionRequired(TypedDict):
    #: The handle, which `attach` takes.
    sessionId: str
    #: The id of the stored session, which `open_session` takes.
    durableId: str
    cwd: str
    #: `asleep`: dropped from memory; the next command reads it again.
    status: Literal["running", "idle", "asleep", "closing"]
    #: Whether this client is attached.
    attached: bool
    #: How many clients are attached.
    clients: int
    messageCount: int
    queuedMessageCount: int
    #: When the session last did something, in milliseconds since 1970.
    lastActive: int


class OpenSession(_OpenSessionRequired, total=False):
    """An open session in `list_open_sessions`."""

    #: Absent if the session is only in memory.
    sessionFile: str
    name: str
    #: The provider and the id of the model, such as `tiller/demo`.
    model: str


class OpenSessionsData(TypedDict):
    """The data of `list_open_sessions`."""

    sessions: list[OpenSession]


class _SessionClosedRecordRequired(TypedDict):
    type: Literal["session_closed"]
    sessionId: str
    reason: Literal["closed", "ended", "crashed", "server_stopping"]


class SessionClosedRecord(_SessionClosedRecordRequired, total=False):
    """A session has ended."""

    error: str


class SessionDetachedRecord(TypedDict):
    """The client gets no more records of a session."""

    type: Literal["session_detached"]
    sessionId: str
    reason: Literal["taken_over", "too_slow"]


class ExtensionUiClosedEvent(TypedDict):
    """A dialog was answered by another client, or is no longer open."""

    type: Literal["extension_ui_closed"]
    sessionId: str
    id: str


class ServerStoppingEvent(TypedDict):
    """The server ends. Runs have this many seconds to finish."""

    type: Literal["server_stopping"]
    seconds: float
