from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
import threading
import unittest.mock
import weakref

from support import PACKAGE, SECONDS, TillerTest, join_thread, tiller_bin
from tiller_client import (
    Client,
    ClientClosed,
    ProtocolError,
    ServerExited,
    ServerNotFound,
    Timeout,
    _transport,
)

#: A server that answers `hello` and then does what its argument says.
FAKE = """
import json, signal, sys, time
hello = json.loads(sys.stdin.readline())
data = {"server": "fake", "version": "9", "promptResults": True, "sequence": {"epoch": "e"}}
what = sys.argv[1]
if what == "old":
    data = {"server": "fake", "version": "0"}
if what == "silent":
    sys.stdin.read()
if what == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(json.dumps({"id": hello["id"], "type": "response", "command": "hello", "success": True, "data": data}), flush=True)
if what == "stubborn":
    print("I stay", file=sys.stderr, flush=True)
    while True:
        time.sleep(60)
sys.stdin.readline()
print({"garbage": "this is not json", "blank": ""}.get(what, "{}"), flush=True)
sys.stdin.read()
"""


class Ends(TillerTest):
    def fake(self, what: str, **options: object) -> Client:
        script = self.folder / "fake.py"
        script.write_text(FAKE, "utf-8")
        # The transport's own arguments follow, which the fake ignores.
        command = [sys.executable, str(script), what]
        client = Client.start(command=command, **{"timeout": SECONDS, **options})  # type: ignore[arg-type]
        self.addCleanup(client.close)
        return client

    def test_close_ends_the_process_and_its_threads(self) -> None:
        tiller = self.client("say hi\n")
        pid = tiller.pid
        tiller.close()
        self.assert_gone(pid)
        names = [thread.name for thread in threading.enumerate() if thread.name.endswith(f"-{pid}")]
        self.assertEqual(names, [])
        tiller.close()

    def test_close_during_a_run_delivers_its_end(self) -> None:
        tiller = self.client("say I go on\nhang\n")
        stream = tiller.events()
        turn = tiller.prompt("Go")
        next(turn.text_stream())
        tiller.close()
        result = turn.result(SECONDS)
        self.assertEqual((result.status, result.reason), ("aborted", "shutdown"))
        self.assertEqual(list(stream)[-1]["type"], "agent_settled")
        with self.assertRaises(ClientClosed):
            tiller.get_state()

    def test_an_exception_in_the_block_ends_the_process(self) -> None:
        with self.assertRaises(ZeroDivisionError), self.client("hang\n") as tiller:
            tiller.prompt("Go")
            raise ZeroDivisionError
        self.assert_gone(tiller.pid)

    def test_a_killed_server_fails_everything_that_is_pending(self) -> None:
        tiller = self.client("say I go on\nhang\n")
        pid = tiller.pid
        assert pid is not None
        stream = tiller.events()
        turn = tiller.prompt("Go")
        failures: list[BaseException] = []

        def wait() -> None:
            try:
                tiller.bash("sleep 600")
            except ServerExited as error:
                failures.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        next(turn.text_stream())
        os.kill(pid, signal.SIGKILL)
        waiting.join(SECONDS)
        self.assertEqual(len(failures), 1)
        for iterate in (lambda: list(turn), lambda: list(stream), lambda: turn.result(SECONDS), tiller.get_state):
            with self.assertRaises(ServerExited) as exited:
                iterate()
            self.assertEqual(exited.exception.exit_code, -signal.SIGKILL)
        self.assert_gone(pid)

    def test_a_bad_command_line_is_explained(self) -> None:
        with self.assertRaises(ServerExited) as exited:
            self.client("say hi\n", "--no-such-option")
        self.assertEqual(exited.exception.exit_code, 2)
        self.assertIn("--no-such-option", exited.exception.stderr_tail)
        self.assertIn("--no-such-option", str(exited.exception))

    def test_a_missing_program_is_explained(self) -> None:
        with self.assertRaisesRegex(ServerNotFound, "cannot start '/no/such/tiller'"):
            Client.start(command="/no/such/tiller")

    def test_an_old_server_is_refused(self) -> None:
        with self.assertRaisesRegex(ProtocolError, "needs a newer tiller: fake 0 has no promptResults"):
            self.fake("old")

    def test_a_silent_server_is_refused_in_time(self) -> None:
        with self.assertRaises(Timeout):
            self.fake("silent", start_timeout=0.05)

    def test_a_line_that_is_not_json_fails_the_request(self) -> None:
        tiller = self.fake("garbage")
        with self.assertRaisesRegex(ProtocolError, "this is not json"):
            tiller.get_state()

    def test_a_server_that_does_not_end_is_killed(self) -> None:
        tiller = self.fake("stubborn")
        transport = tiller._transport  # pyright: ignore[reportPrivateUsage]
        assert isinstance(transport, _transport.StdioTransport)
        transport._close_seconds = 0.05  # pyright: ignore[reportPrivateUsage]
        with unittest.mock.patch.object(_transport, "TERMINATE_SECONDS", 0.05):
            tiller.close()
        self.assert_gone(tiller.pid)
        self.assertEqual(tiller.stderr_tail, "I stay\n")

    def test_a_forgotten_client_ends_its_process(self) -> None:
        tiller = self.client_without_cleanup("hang\n")
        pid = tiller.pid

        @tiller.tool
        def busy() -> str:
            """A tool that refers to the client."""
            return str(tiller.pid)

        reference = weakref.ref(tiller)
        tiller.prompt("Go")
        del tiller, busy
        gc.collect()
        self.assertIsNone(reference())
        join_thread(f"tiller-end-{pid}")
        self.assert_gone(pid)

    def client_without_cleanup(self, script: str) -> Client:
        return Client.start(**self.options(script, (), {}))

    def test_a_forgotten_async_client_ends_its_process(self) -> None:
        async def scenario() -> int | None:
            tiller = await self.async_client("hang\n")
            await tiller.prompt("Go")
            return tiller.pid

        pid = asyncio.run(scenario())
        gc.collect()
        join_thread(f"tiller-end-{pid}")
        self.assert_gone(pid)

    def test_the_exit_of_the_interpreter_ends_the_process(self) -> None:
        program = (
            "from tiller_client import Client\n"
            f"tiller = Client.start(command={tiller_bin()!r}, model='tiller/demo', args=['--no-session'])\n"
            "print(tiller.pid)\n"
        )
        env = {**self.env, "PYTHONPATH": str(PACKAGE / "src")}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=SECONDS, check=True
        )
        self.assertEqual(done.stderr, "")
        self.assert_gone(int(done.stdout))

    def test_a_killed_host_leaves_no_process(self) -> None:
        program = (
            "import sys\nfrom tiller_client import Client\n"
            f"tiller = Client.start(command={tiller_bin()!r}, model='tiller/demo', args=['--no-session'])\n"
            "print(tiller.pid, flush=True)\nsys.stdin.read()\n"
        )
        env = {**self.env, "PYTHONPATH": str(PACKAGE / "src")}
        with subprocess.Popen(
            [sys.executable, "-c", program],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as host:
            assert host.stdout is not None
            pid = int(host.stdout.readline())
            # Opened while the process lives, so that its number cannot mean another one.
            descriptor = open_process(pid)
            host.kill()
        self.addCleanup(os.close, descriptor)
        # Readable when it has ended. Its exit code belongs to the process that adopts it.
        self.assertEqual(select.select([descriptor], [], [], SECONDS)[0], [descriptor])


def open_process(pid: int) -> int:
    if not hasattr(os, "pidfd_open"):
        raise unittest.SkipTest("skipped: this system has no pidfd_open")
    return os.pidfd_open(pid)
