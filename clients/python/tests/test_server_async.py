"""Many sessions on one connection with asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from server_support import ServerTest
from support import SECONDS, TillerTest
from tiller_client import (
    Answer,
    AsyncServer,
    AsyncSession,
    ClientClosed,
    CommandRefused,
    ConnectFailed,
    ConnectionLost,
    Dialog,
    Event,
    EventsLost,
    Notice,
    Server,
    Session,
    SessionClosed,
    SessionDetached,
    Timeout,
    aio,
)

GATE = "chunk words\nsay one two\ncall gate {}\n\nsay three four\n"


class Base:
    """Keeps the scenarios from being run by themselves."""

    class Scenarios(ServerTest):
        def connect_async(self, **options: Any) -> AsyncServer:
            return aio.Server.connect(**self.connect_options(options))

        def session_async(self, server: AsyncServer, **options: Any) -> AsyncSession:
            return server.open_session(**self.session_options(options))

        def run_scenario(self, scenario: Callable[[], Awaitable[None]]) -> None:
            async def limited() -> None:
                await asyncio.wait_for(scenario(), SECONDS)

            asyncio.run(limited())

        def test_sessions_run_side_by_side(self) -> None:
            self.serve(GATE)

            async def scenario() -> None:
                gate = asyncio.Event()

                async def wait() -> str:
                    """Waits."""
                    await gate.wait()
                    return "open"

                async def pass_by() -> str:
                    """Does not wait."""
                    return "open"

                async with self.connect_async() as server:
                    one = await self.session_async(server)
                    one.tool(name="gate")(wait)
                    turn = await one.prompt("First")
                    async with self.session_async(server) as two:
                        two.tool(name="gate")(pass_by)
                        other = await two.prompt("Second")
                        text = "".join([piece async for piece in other.text_stream()])
                        self.assertEqual(text, "one twothree four")
                        (await other.result()).check()
                        self.assertTrue((await one.get_state())["isStreaming"])
                    gate.set()
                    self.assertEqual((await turn.result()).check().text, "three four")
                    events = [event async for event in turn]
                    self.assertEqual(events[-1]["type"], "prompt_result")
                    [listed] = await server.list_open_sessions()
                    self.assertEqual(listed["sessionId"], one.handle)
                    await one.close()
                    stored = await server.list_sessions()
                    self.assertIn(one.state["sessionId"], [session["id"] for session in stored["sessions"]])

            self.run_scenario(scenario)

        def test_the_first_answer_to_a_dialog_counts(self) -> None:
            self.serve()

            async def scenario() -> None:
                asked: asyncio.Queue[str] = asyncio.Queue()
                notices: asyncio.Queue[str] = asyncio.Queue()

                async def wait(dialog: Dialog) -> Answer:
                    await asked.put(dialog.title)
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        await asked.put("cancelled")
                        raise
                    return "too late"

                async def notify(notice: Notice) -> None:
                    await notices.put(notice.message)

                async with self.connect_async() as first, self.connect_async() as second:
                    opened = await self.session_async(first, on_dialog=wait, on_notify=notify)
                    # The command is answered when its handler has ended.
                    turn = opened.prompt("/ask")
                    self.assertEqual(await asked.get(), "Which?")
                    async with second.attach(opened.handle, on_dialog=lambda dialog: dialog.options[0]):
                        self.assertEqual(await asked.get(), "cancelled")
                        self.assertEqual((await turn.result()).status, "handled")
                        self.assertEqual(await notices.get(), '"red"')

            self.run_scenario(scenario)

        def test_watching_and_taking_over(self) -> None:
            self.serve("say First.\nhang\n\nsay Second.\n")

            async def scenario() -> None:
                async with self.connect_async() as first, self.connect_async() as second:
                    opened = await self.session_async(first)
                    turn = await opened.prompt("Go")
                    async for _ in turn.text_stream():
                        break
                    async with second.attach(opened.handle, mode="watch") as watched:
                        with self.assertRaises(CommandRefused) as refused:
                            await watched.abort()
                        self.assertEqual(refused.exception.code, "watching")
                        self.assertEqual((await anext(watched.events()))["type"], "agent_start")
                    taken = await second.attach(opened.handle, mode="takeover")
                    with self.assertRaises(SessionDetached):
                        await turn.result()
                    await taken.abort()
                    self.assertEqual((await (await taken.prompt("Again")).result()).check().text, "Second.")

            self.run_scenario(scenario)

        def test_a_lost_connection_is_continued(self) -> None:
            self.serve("say I could go on\nhang\n")

            async def scenario() -> None:
                relay = self.relay()
                seen: list[Event] = []
                lost = await self.connect_async(address=relay.address)
                session = await self.session_async(lost)
                stream = session.events()
                turn = await session.prompt("Go")
                async for _ in turn.text_stream():
                    break
                relay.cut()
                with self.assertRaises(ConnectionLost):
                    async for event in stream:
                        seen.append(event)
                with self.assertRaises(ConnectionLost):
                    await turn.result()
                async with self.connect_async() as server:
                    while (await server.list_open_sessions())[0]["clients"] > 0:
                        pass
                    with self.assertRaises(EventsLost):
                        await server.attach(session.handle, since=1, epoch="another")
                    again = await server.attach(session.handle, since=session.last_seq, epoch=session.epoch)
                    await again.abort()
                    async for event in again.events():
                        seen.append(event)
                        if event["type"] == "agent_settled":
                            break
                numbers = [session.seq_of(event) for event in seen]
                self.assertEqual(numbers, sorted(set(numbers)))
                results = [event for event in seen if event["type"] == "prompt_result"]
                self.assertEqual([result["status"] for result in results], ["aborted"])
                await lost.close()

            self.run_scenario(scenario)

        def test_a_closed_session_ends_for_every_client(self) -> None:
            self.serve()

            async def scenario() -> None:
                async with self.connect_async() as first, self.connect_async() as second:
                    opened = await self.session_async(first)
                    attached = await second.attach(opened.handle)
                    stream = attached.events()
                    await opened.close()
                    with self.assertRaises(SessionClosed):
                        await anext(stream)
                    await attached.close()
                    with self.assertRaises(CommandRefused) as refused:
                        await second.attach(opened.handle)
                    self.assertEqual(refused.exception.code, "unknown_session")
                    with self.assertRaises(ClientClosed):
                        self.session_async(first).prompt("Hi")

            self.run_scenario(scenario)

        def test_a_stopping_server_ends_its_sessions(self) -> None:
            running = self.serve()

            async def scenario() -> None:
                stopping: asyncio.Queue[float] = asyncio.Queue()
                async with self.connect_async(on_stopping=stopping.put) as server:
                    session = await self.session_async(server)
                    stream = session.events()
                    await asyncio.get_running_loop().run_in_executor(None, running.stop)
                    self.assertEqual(await stopping.get(), 30)
                    with self.assertRaises(SessionClosed) as closed:
                        async for event in stream:
                            self.assertEqual(event["type"], "server_stopping")
                    self.assertEqual(closed.exception.reason, "server_stopping")
                    with self.assertRaisesRegex(ConnectionLost, "the server has stopped"):
                        while True:
                            await server.list_open_sessions()

            self.run_scenario(scenario)

    class WebSocketScenarios(Scenarios):
        socket_kind = "ws"

        def test_a_wrong_token_is_refused(self) -> None:
            self.serve()

            async def scenario() -> None:
                with self.assertRaises(ConnectFailed) as failed:
                    await self.connect_async(token="wrong")
                self.assertEqual(failed.exception.status, 401)

            self.run_scenario(scenario)


class OnFakeUnixSocket(Base.Scenarios):
    pass


class OnFakeWebSocket(Base.WebSocketScenarios):
    def test_a_session_that_opens_too_late_is_closed(self) -> None:
        running = self.serve()
        held: list[Callable[[], None]] = []

        async def scenario() -> None:
            async with self.connect_async(timeout=0.05) as server, self.connect_async() as other:
                running.held["open_session"] = held  # type: ignore[union-attr]
                with self.assertRaises(Timeout):
                    await self.session_async(server)
                running.run(lambda: [answer() for answer in held])  # type: ignore[union-attr]
                while await other.list_open_sessions():
                    pass

        self.run_scenario(scenario)


class OnUnixSocket(Base.Scenarios):
    server_kind = "real"


class OnWebSocket(Base.WebSocketScenarios):
    server_kind = "real"


class Surface(TillerTest):
    def test_both_kinds_of_servers_and_sessions_have_the_same_methods(self) -> None:
        for one, two in ((Server, AsyncServer), (Session, AsyncSession)):
            for name, method in inspect.getmembers(one, inspect.isfunction):
                if not name.startswith("_"):
                    with self.subTest(method=name):
                        parameters = list(inspect.signature(method).parameters)
                        self.assertEqual(parameters, list(inspect.signature(getattr(two, name)).parameters))
