"""Many sessions on one connection, against the fake server and `tiller serve`."""

from __future__ import annotations

import gc
import os
import queue
import threading
import unittest.mock
import weakref

from fake_server import FakeServer
from server_support import ServerTest
from support import SECONDS, kinds, until
from tiller_client import (
    Answer,
    ClientClosed,
    CommandRefused,
    ConnectFailed,
    ConnectionLost,
    Dialog,
    Event,
    EventsLost,
    Notice,
    ProtocolError,
    Server,
    Session,
    SessionClosed,
    SessionDetached,
    Timeout,
    Tools,
)

GATE = "chunk words\nsay one two\ncall gate {}\n\nsay three four\n"


class Gate:
    """A tool that waits until the test opens it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()

    def gate(self) -> str:
        """Waits."""
        self.entered.set()
        self.leave.wait(SECONDS)
        return "open"


class Base:
    """Keeps the scenarios from being run by themselves."""

    class Scenarios(ServerTest):
        def gate(self) -> Gate:
            gate = Gate()
            self.addCleanup(gate.leave.set)
            return gate

        def assert_code(self, code: str, refused: CommandRefused) -> None:
            self.assertEqual(refused.code, code, refused)

        def test_sessions_run_side_by_side(self) -> None:
            self.serve(GATE)
            server = self.connect()
            gate = self.gate()
            one = self.session(server, tools=[gate.gate])
            turn = one.prompt("First")
            self.assertTrue(gate.entered.wait(SECONDS))
            open_gate = self.gate()
            open_gate.leave.set()
            with self.session(server, tools=[open_gate.gate]) as two:
                self.assertNotEqual(one.handle, two.handle)
                other = two.prompt("Second")
                self.assertEqual("".join(other.text_stream()), "one twothree four")
                self.assertEqual(other.result(SECONDS).check().text, "three four")
                self.assertFalse(two.get_state()["isStreaming"])
                self.assertTrue(one.get_state()["isStreaming"])
            gate.leave.set()
            events = list(turn)
            self.assertEqual(kinds(events)[0], "agent_start")
            self.assertEqual(kinds(events)[-1], "prompt_result")
            self.assertEqual(turn.result(SECONDS).check().text, "three four")
            numbers = [one.seq_of(event) for event in events]
            self.assertEqual(numbers, sorted(set(numbers)))
            one.close()
            self.assertEqual(server.list_open_sessions(), [])

        def test_each_session_has_its_own_tools(self) -> None:
            self.serve("call where {}\n\nsay Done.\n")
            server = self.connect()
            called: list[str] = []
            sessions: list[Session] = []
            for place in ("Kiel", "Cork"):

                def where(place: str = place) -> str:
                    """Where the boat is."""
                    called.append(place)
                    return place

                session = self.session(server, name=place)
                session.tool(description="Where the boat is.")(where)
                sessions.append(session)
            turns = [session.prompt("Go") for session in reversed(sessions)]
            for turn in turns:
                turn.result(SECONDS).check()
            self.assertEqual(sorted(called), ["Cork", "Kiel"])
            for session, place in zip(sessions, ("Kiel", "Cork")):
                content = str(session.get_messages()["messages"])
                self.assertIn(place, content)

        def test_dialogs_are_answered_per_session(self) -> None:
            self.serve()
            server = self.connect()
            for answer in ("red", "green"):
                notices: queue.SimpleQueue[Notice] = queue.SimpleQueue()

                def choose(dialog: Dialog, answer: str = answer) -> Answer:
                    return answer

                session = self.session(server, on_dialog=choose, on_notify=notices.put)
                self.assertEqual(session.prompt("/ask").result(SECONDS).status, "handled")
                self.assertEqual(notices.get(timeout=SECONDS).message, f'"{answer}"')

        def test_the_first_answer_to_a_dialog_counts(self) -> None:
            self.serve()
            first, second = self.connect(), self.connect()
            asked: queue.SimpleQueue[Dialog] = queue.SimpleQueue()
            closed: queue.SimpleQueue[bool] = queue.SimpleQueue()

            def wait(dialog: Dialog) -> Answer:
                asked.put(dialog)
                closed.put(dialog.closed.wait(SECONDS))
                return "too late"

            notices: queue.SimpleQueue[Notice] = queue.SimpleQueue()
            opened = self.session(first, on_dialog=wait, on_notify=notices.put)
            # A client without `on_dialog` does not cancel a dialog for the others.
            bystander = self.connect().attach(opened.handle)
            # The command is answered when its handler has ended.
            statuses: queue.SimpleQueue[str] = queue.SimpleQueue()
            prompt = threading.Thread(
                target=lambda: statuses.put(opened.prompt("/ask").result(SECONDS).status), daemon=True
            )
            prompt.start()
            self.assertEqual(asked.get(timeout=SECONDS).title, "Which?")
            # A dialog that is open is sent to a client that joins.
            answering = second.attach(opened.handle, on_dialog=lambda dialog: dialog.options[1])
            self.assertTrue(closed.get(timeout=SECONDS))
            self.assertEqual(statuses.get(timeout=SECONDS), "handled")
            self.assertEqual(notices.get(timeout=SECONDS).message, '"green"')
            for session in (answering, bystander):
                session.detach()

        def test_limits_apply_to_one_session(self) -> None:
            self.serve("call gate {}\n\nsay Done.\n")
            server = self.connect()
            gate = self.gate()
            gate.leave.set()
            one, two = (self.session(server, tools=[gate.gate]) for _ in range(2))
            self.assertEqual(one.set_limits(max_turns=1)["limits"].get("maxTurns"), 1)
            self.assertNotIn("maxTurns", two.get_limits()["limits"])
            limited, whole = one.prompt("Go"), two.prompt("Go")
            result = limited.result(SECONDS)
            self.assertEqual((result.status, result.reason), ("limit", "maxTurns"))
            self.assertEqual(whole.result(SECONDS).check().text, "Done.")

        def test_an_abort_stops_one_session(self) -> None:
            self.serve("say I could go on\nhang\n")
            server = self.connect()
            one, two = self.session(server), self.session(server)
            turns = [one.prompt("Go"), two.prompt("Go")]
            for turn in turns:
                next(turn.text_stream())
            turns[0].abort()
            self.assertEqual(turns[0].result(SECONDS).status, "aborted")
            self.assertTrue(two.get_state()["isStreaming"])
            two.close()
            self.assertEqual(turns[1].result(SECONDS).status, "aborted")

        def test_a_watcher_sees_everything_and_changes_nothing(self) -> None:
            self.serve(GATE)
            gate = self.gate()
            opened = self.session(self.connect(), tools=[gate.gate])
            turn = opened.prompt("Go")
            self.assertTrue(gate.entered.wait(SECONDS))
            watched = self.connect().attach(opened.handle, mode="watch")
            stream = watched.events(timeout=SECONDS)
            # The beginning of what is still open comes first.
            self.assertEqual(next(stream)["type"], "agent_start")
            with self.assertRaises(CommandRefused) as refused:
                watched.prompt("Me too")
            self.assert_code("watching", refused.exception)
            self.assertTrue(watched.get_state()["isStreaming"])
            gate.leave.set()
            text = ""
            for event in stream:
                if event["type"] == "message_update":
                    step = event["assistantMessageEvent"]
                    text += step["delta"] if step["type"] == "text_delta" else ""
                if event["type"] == "agent_settled":
                    break
            self.assertTrue(text.endswith("three four"), text)
            turn.result(SECONDS).check()
            watched.detach()
            self.assertFalse(opened.get_state()["isStreaming"])

        def test_a_watcher_cannot_close_the_session(self) -> None:
            self.serve()
            opened = self.session(self.connect())
            with self.connect().attach(opened.handle, mode="watch") as watched:
                with self.assertRaises(CommandRefused) as refused:
                    watched.close()
                self.assert_code("watching", refused.exception)
            self.assertFalse(opened.get_state()["isStreaming"])

        def test_a_second_client_takes_over(self) -> None:
            self.serve("say First.\nhang\n\nsay Second.\n")
            first, second = self.connect(), self.connect()
            opened = self.session(first)
            turn = opened.prompt("Go")
            next(turn.text_stream())
            stream = opened.events()
            taken = second.attach(opened.handle, mode="takeover")
            for fails in (lambda: list(stream), lambda: turn.result(SECONDS), opened.get_state):
                with self.assertRaises(SessionDetached) as detached:
                    fails()
                self.assertEqual(detached.exception.reason, "taken_over")
                self.assertEqual(detached.exception.handle, opened.handle)
            opened.close()
            taken.abort()
            self.assertEqual(taken.prompt("Again").result(SECONDS).check().text, "Second.")
            # The connection of the first client still works.
            [listed] = first.list_open_sessions()
            self.assertEqual((listed["attached"], listed["clients"]), (False, 1))

        def test_a_detached_session_goes_on(self) -> None:
            self.serve(GATE)
            server = self.connect()
            gate = self.gate()
            gate.leave.set()
            session = self.session(server, tools=[gate.gate], name="harbour")
            stream = session.events()
            session.prompt("Go").result(SECONDS).check()
            session.detach()
            self.assertEqual(list(stream)[-1]["type"], "agent_settled")
            with self.assertRaises(ClientClosed):
                session.get_state()
            self.eventually(lambda: server.list_open_sessions()[0]["clients"] == 0)
            [listed] = server.list_open_sessions()
            self.assertEqual((listed["sessionId"], listed.get("name")), (session.handle, "harbour"))
            self.assertEqual((listed["attached"], listed["clients"], listed["status"]), (False, 0, "idle"))
            with server.attach(session.handle) as again:
                self.assertEqual(again.state["messageCount"], listed["messageCount"])
                with self.assertRaisesRegex(ValueError, "has the session .* already"):
                    server.attach(session.handle)
            self.assertEqual(len(server.list_open_sessions()), 1)

        def test_a_lost_connection_fails_what_waits_and_is_continued(self) -> None:
            self.serve(GATE)
            relay = self.relay()
            gate = self.gate()
            watcher = self.connect()
            lost = self.connect(address=relay.address)
            session = self.session(lost, tools=[gate.gate])
            expected = watcher.attach(session.handle, mode="watch").events(timeout=SECONDS)
            stream = session.events()
            turn = session.prompt("Go")
            self.assertTrue(gate.entered.wait(SECONDS))
            relay.cut()
            seen: list[Event] = []
            with self.assertRaises(ConnectionLost):
                for event in stream:
                    seen.append(event)
            for fails in (lambda: turn.result(SECONDS), session.get_state, lost.list_open_sessions):
                with self.assertRaises(ConnectionLost):
                    fails()
            session.close()
            gate.leave.set()

            server = self.connect()
            self.eventually(lambda: server.list_open_sessions()[0]["clients"] == 1)
            again = server.attach(session.handle, since=session.last_seq, epoch=session.epoch)
            again.abort()
            missed = again.events(timeout=SECONDS)
            settled = until(expected, lambda event: event["type"] == "agent_settled")
            for event in missed:
                seen.append(event)
                if event["type"] == "agent_settled":
                    break
            numbers = [session.seq_of(event) for event in seen]
            self.assertEqual(numbers, sorted(set(numbers)))
            self.assertEqual(kinds(seen).count("agent_start"), 1)
            results = [event for event in seen if event["type"] == "prompt_result"]
            self.assertEqual([result.get("clientMessageId") for result in results], [turn.client_message_id])
            self.assertEqual(settled["type"], "agent_settled")
            self.assertEqual(again.epoch, session.epoch)
            self.assertFalse(again.get_state()["isStreaming"])

        def test_events_of_another_numbering_are_lost(self) -> None:
            self.serve("say Hello.\n")
            server = self.connect()
            opened = self.session(server)
            opened.prompt("Hi").result(SECONDS).check()
            other = self.connect()
            with self.assertRaises(EventsLost):
                other.attach(opened.handle, since=1, epoch="another")
            with self.assertRaises(ValueError):
                other.attach(opened.handle, since=1)
            attached = other.attach(opened.handle)
            self.assertEqual(len(attached.get_messages()["messages"]), 2)

        def test_a_session_replays_its_own_events(self) -> None:
            self.serve("say Hello.\n")
            server = self.connect()
            self.session(server).prompt("Hi").result(SECONDS).check()
            session = self.session(server)
            turn = session.prompt("Hi")
            turn.result(SECONDS).check()
            events: list[Event] = []
            for event in session.replay(0, epoch=session.epoch, timeout=SECONDS):
                events.append(event)
                if event["type"] == "agent_settled":
                    break
            results = [event for event in events if event["type"] == "prompt_result"]
            self.assertEqual([result.get("clientMessageId") for result in results], [turn.client_message_id])

        def test_a_closed_session_ends_for_every_client(self) -> None:
            self.serve("say I could go on\nhang\n")
            first, second = self.connect(), self.connect()
            opened = self.session(first)
            attached = second.attach(opened.handle)
            stream = attached.events()
            turn = opened.prompt("Go")
            next(turn.text_stream())
            opened.close()
            opened.close()
            self.assertEqual(turn.result(SECONDS).status, "aborted")
            with self.assertRaises(SessionClosed) as closed:
                list(stream)
            self.assertEqual((closed.exception.reason, closed.exception.handle), ("closed", opened.handle))
            with self.assertRaises(SessionClosed):
                attached.get_state()
            attached.close()
            with self.assertRaises(CommandRefused) as refused:
                second.attach(opened.handle)
            self.assert_code("unknown_session", refused.exception)

        def test_a_stored_session_is_opened_again(self) -> None:
            self.serve("say Hello.\n")
            server = self.connect()
            with self.session(server) as session:
                session.prompt("Hi").result(SECONDS).check()
                durable_id = session.state["sessionId"]
                with self.assertRaises(CommandRefused) as refused:
                    server.open_session(session_id=durable_id)
                self.assert_code("session_in_use", refused.exception)
                self.assertEqual(refused.exception.handle, session.handle)
            self.assertIn(durable_id, [stored["id"] for stored in server.list_sessions()["sessions"]])
            again = server.open_session(session_id=durable_id)
            self.assertEqual(len(again.get_messages()["messages"]), 2)

        def test_a_session_that_cannot_be_opened_is_explained(self) -> None:
            self.serve()
            server = self.connect()
            with self.assertRaises(CommandRefused) as refused:
                server.open_session(cwd=self.folder / "nowhere")
            self.assert_code("cannot_open", refused.exception)
            self.assertIn("nowhere", refused.exception.error)
            with self.assertRaises(CommandRefused) as refused:
                server.request({"type": "get_state"})
            self.assert_code("missing_session_id", refused.exception)

        def test_a_stopping_server_ends_its_sessions(self) -> None:
            running = self.serve("say Hello.\n")
            stopping: queue.SimpleQueue[float] = queue.SimpleQueue()
            server = self.connect(on_stopping=stopping.put)
            session = self.session(server)
            stream = session.events()
            running.stop()
            self.assertEqual(stopping.get(timeout=SECONDS), 30)
            with self.assertRaises(SessionClosed) as closed:
                for event in stream:
                    self.assertEqual(event["type"], "server_stopping")
            self.assertEqual(closed.exception.reason, "server_stopping")
            with self.assertRaises(SessionClosed):
                session.prompt("Hi")
            with self.assertRaisesRegex(ConnectionLost, "the server has stopped"):
                while True:
                    server.list_open_sessions()

        def test_events_that_are_not_taken_hold_nothing_back(self) -> None:
            self.serve("repeat 20000 x\n")
            server = self.connect()
            flooded, quiet = self.session(server), self.session(server)
            stream = flooded.events()
            turn = flooded.prompt("Go")
            while not turn.done:
                quiet.get_state()
            self.assertEqual(sum(len(piece) for piece in turn.text_stream()), 20000)
            self.assertEqual(next(stream)["type"], "agent_start")

        def test_long_lines_pass_in_both_directions(self) -> None:
            self.serve("say Hello.\n\nsay Hello.\n")
            session = self.session(self.connect())
            for text in ("ä🚢\u2028" * 50, "ä🚢\u2028\n" * 300_000):
                session.prompt(text).result(SECONDS).check()
                content = session.get_messages()["messages"][-2]
                assert content["role"] == "user" and not isinstance(content["content"], str)
                [block] = content["content"]
                self.assertEqual(block["type"] == "text" and block["text"], text)

        def test_closing_the_connection_ends_streams_quietly(self) -> None:
            self.serve("say Hello.\n")
            server = self.connect()
            session = self.session(server)
            stream = session.events()
            server.close()
            server.close()
            self.assertEqual(list(stream), [])
            with self.assertRaises(ClientClosed):
                session.get_state()
            with self.assertRaises(ClientClosed):
                server.list_open_sessions()
            self.assertEqual(len(self.connect().list_open_sessions()), 1)

    class WebSocketScenarios(Scenarios):
        socket_kind = "ws"

        def test_a_wrong_token_is_refused(self) -> None:
            self.serve()
            with self.assertRaisesRegex(ConnectFailed, "ws://.* refuses the token") as failed:
                self.connect(token="wrong")
            self.assertEqual(failed.exception.status, 401)

        def test_the_token_is_read_from_a_file(self) -> None:
            running = self.serve()
            path = self.folder / "token"
            path.write_text(f"{running.token}\n", "utf-8")
            self.connect(token=None, token_file=path)
            with unittest.mock.patch.dict(os.environ, {"PI_CODING_AGENT_DIR": str(self.folder / "none")}):
                with self.assertRaisesRegex(ConnectFailed, "cannot read the token.*none/serve-token"):
                    self.connect(token=None)


class OnFakeUnixSocket(Base.Scenarios):
    pass


class OnFakeWebSocket(Base.WebSocketScenarios):
    pass


class OnUnixSocket(Base.Scenarios):
    server_kind = "real"


class OnWebSocket(Base.WebSocketScenarios):
    server_kind = "real"


class Corners(ServerTest):
    """Situations that only the fake server can bring about."""

    def fake(self) -> FakeServer:
        assert isinstance(self.running, FakeServer)
        return self.running

    def test_the_default_address_is_in_the_agent_folder(self) -> None:
        with unittest.mock.patch.dict(os.environ, {"PI_CODING_AGENT_DIR": str(self.folder)}):
            with self.assertRaisesRegex(ConnectFailed, f"cannot connect to unix:{self.folder}/tiller.sock"):
                Server.connect()

    def test_other_addresses_are_refused(self) -> None:
        for address in ("", "unix:", "ws:", "ws://", "http://localhost:1", "wss://a", "ws://a:x", "ws://a/?b"):
            with self.subTest(address=address), self.assertRaisesRegex(ConnectFailed, "is not an address"):
                Server.connect(address, token="t")

    def test_a_process_of_one_session_is_refused(self) -> None:
        self.serve()
        self.fake().commands.remove("open_session")
        with self.assertRaisesRegex(ProtocolError, "fake 9 does not serve many sessions"):
            self.connect()

    def test_a_server_that_is_not_one_is_refused(self) -> None:
        self.serve()
        address = "ws://127.0.0.1:1"
        with self.assertRaisesRegex(ConnectFailed, "cannot connect to ws://127.0.0.1:1"):
            self.connect(address=address)

    def test_models_are_named_with_their_provider(self) -> None:
        self.serve()
        server = self.connect()
        with self.assertRaisesRegex(ValueError, "not of the form provider/id"):
            server.open_session(model="demo")
        with self.assertRaisesRegex(ValueError, "either model, or provider"):
            server.open_session(model="tiller/demo", provider="tiller")

    def test_a_session_that_opens_too_late_is_closed(self) -> None:
        self.serve()
        fake = self.fake()
        server = self.connect(timeout=0.05)
        held = fake.held["open_session"] = []
        with self.assertRaises(Timeout):
            self.session(server)
        fake.run(lambda: [answer() for answer in held])
        other = self.connect()
        self.eventually(lambda: not other.list_open_sessions())

    def test_a_forgotten_session_is_detached(self) -> None:
        self.serve("say Hello.\n")
        server = self.connect()
        session = self.session(server, on_notify=print)
        reference = weakref.ref(session)
        session.prompt("Hi").result(SECONDS)
        del session
        gc.collect()
        self.assertIsNone(reference())
        self.eventually(lambda: not server.list_open_sessions()[0]["attached"])

    def test_events_are_kept_for_a_while_after_attach(self) -> None:
        self.serve("repeat 100 x\n\nsay Hello.\n")
        server = self.connect()
        session = self.session(server)
        with unittest.mock.patch("tiller_client.server.MAX_EARLY_EVENTS", 50):
            attached = self.connect().attach(session.handle)
        session.prompt("Go").result(SECONDS).check()
        attached.get_state()
        early = attached.events(timeout=SECONDS)
        with self.assertRaisesRegex(EventsLost, "more than 50 events"):
            list(early)
        later = attached.events(timeout=SECONDS)
        session.prompt("Go").result(SECONDS).check()
        self.assertEqual(next(later)["type"], "agent_start")

    def test_a_record_that_cannot_be_handled_ends_its_session_only(self) -> None:
        self.serve("say Hello.\n")
        server = self.connect()
        broken, other = self.session(server), self.session(server)
        fake = self.fake()
        fake.run(lambda: fake.sessions[broken.handle].emit({"type": "message_end"}))
        turn = other.prompt("Hi")
        self.assertEqual(turn.result(SECONDS).check().text, "Hello.")
        stream = broken.events(timeout=SECONDS)
        fake.run(lambda: fake.sessions[broken.handle].emit({"type": "host_tool_call"}))
        with self.assertRaisesRegex(ProtocolError, "cannot handle a record"):
            list(stream)
        with self.assertRaises(ProtocolError):
            broken.get_state()
        self.assertEqual(other.get_state()["messageCount"], 2)

    def test_a_call_of_a_tool_that_is_open_in_a_replay_is_run(self) -> None:
        self.serve(GATE)
        relay = self.relay()
        gate = Gate()
        self.addCleanup(gate.leave.set)
        lost = self.connect(address=relay.address)
        session = self.session(lost, tools=[gate.gate])
        turn = session.prompt("Go")
        self.assertTrue(gate.entered.wait(SECONDS))
        relay.cut()
        with self.assertRaises(ConnectionLost):
            turn.result(SECONDS)
        calls: list[str] = []

        tools = Tools()

        @tools.tool(name="gate")
        def gate_again() -> str:  # pyright: ignore[reportUnusedFunction]
            """Waits no more."""
            calls.append("gate")
            return "open"

        again_server = self.connect()
        self.eventually(lambda: again_server.list_open_sessions()[0]["clients"] == 0)
        again = again_server.attach(
            session.handle, since=1, epoch=session.epoch, tools=tools
        )
        until(again.events(timeout=SECONDS), lambda event: event["type"] == "agent_settled")
        self.assertEqual(calls, ["gate"])
