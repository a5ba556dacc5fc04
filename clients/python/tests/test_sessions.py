from __future__ import annotations

import inspect

from support import PACKAGE, SECONDS, TillerTest
from tiller_client import AsyncClient, Client, CommandRefused

#: Commands without a method of the same name, because a method of another name sends them.
ELSEWHERE = {"hello", "host_tool_update", "host_tool_result"}


class Surface(TillerTest):
    def test_every_command_has_a_method(self) -> None:
        commands = self.client().server["commands"]
        missing = [name for name in commands if name not in ELSEWHERE and not hasattr(Client, name)]
        self.assertEqual(missing, [])

    def test_both_clients_have_the_same_methods(self) -> None:
        for name, method in inspect.getmembers(Client):
            if name.startswith("_"):
                continue
            with self.subTest(method=name):
                if inspect.isfunction(method):
                    one = list(inspect.signature(method).parameters)
                    two = list(inspect.signature(getattr(AsyncClient, name)).parameters)
                    self.assertEqual(one, two)
                else:
                    one_kind: object = inspect.getattr_static(Client, name)
                    other_kind: object = inspect.getattr_static(AsyncClient, name)
                    self.assertEqual(type(one_kind).__name__, type(other_kind).__name__)

    def test_the_async_commands_are_up_to_date(self) -> None:
        namespace: dict[str, object] = {"__file__": str(PACKAGE / "scripts" / "make_async.py"), "__name__": "made"}
        exec((PACKAGE / "scripts" / "make_async.py").read_text("utf-8"), namespace)
        convert = namespace["convert"]
        assert callable(convert)
        source = (PACKAGE / "src" / "tiller_client" / "_commands.py").read_text("utf-8")
        made = (PACKAGE / "src" / "tiller_client" / "_async_commands.py").read_text("utf-8")
        self.assertEqual(made, convert(source), "run scripts/make_async.py")


class Sessions(TillerTest):
    def test_a_session_is_stored_listed_and_opened_again(self) -> None:
        tiller = self.client("say Hello.\n")
        tiller.set_session_name("harbour")
        tiller.prompt("Hi").result(SECONDS).check()
        path = tiller.get_state().get("sessionFile")
        assert path is not None
        tiller.close()

        again = self.client("say Again.\n")
        sessions = again.list_sessions()["sessions"]
        self.assertEqual([session.get("name") for session in sessions], ["harbour"])
        self.assertFalse(again.switch_session(path)["cancelled"])
        messages = again.get_messages()["messages"]
        self.assertEqual([message["role"] for message in messages], ["user", "assistant"])
        self.assertEqual(again.get_last_assistant_text(), "Hello.")
        stats = again.get_session_stats()
        self.assertEqual((stats["userMessages"], stats["assistantMessages"]), (1, 1))

    def test_a_session_is_forked_and_cloned(self) -> None:
        tiller = self.client("say One.\n\nsay Two.\n")
        tiller.prompt("First").result(SECONDS).check()
        tiller.prompt("Second").result(SECONDS).check()
        points = tiller.get_fork_messages()["messages"]
        self.assertEqual([point["text"] for point in points], ["First", "Second"])
        self.assertEqual(tiller.clone()["cancelled"], False)
        self.assertEqual(len(tiller.get_messages()["messages"]), 4)
        self.assertEqual(tiller.fork(points[1]["entryId"]).get("text"), "Second")
        self.assertEqual(len(tiller.get_messages()["messages"]), 2)
        with self.assertRaisesRegex(CommandRefused, "fork: Invalid entry ID for forking"):
            tiller.fork("nowhere")

    def test_entries_form_a_tree(self) -> None:
        tiller = self.client("say One.\n")
        tiller.prompt("First").result(SECONDS).check()
        data = tiller.get_entries()
        ids = [str(entry["id"]) for entry in data["entries"]]
        self.assertEqual(data["leafId"], ids[-1])
        self.assertEqual(len(tiller.get_entries(since=ids[0])["entries"]), len(ids) - 1)
        tiller.set_label(ids[-1], "here")
        self.assertEqual(tiller.navigate_tree(ids[-1])["cancelled"], False)
        self.assertEqual(len(tiller.get_tree()["tree"]), 1)
        self.assertTrue(tiller.export_html(self.folder / "page.html")["path"].endswith("page.html"))

    def test_a_new_session_aborts_the_run(self) -> None:
        tiller = self.client("hang\n")
        turn = tiller.prompt("Go")
        self.assertFalse(tiller.new_session()["cancelled"])
        result = turn.result(SECONDS)
        self.assertEqual((result.status, result.reason), ("aborted", "sessionChanged"))
        self.assertEqual(tiller.get_state()["messageCount"], 0)

    def test_models_and_modes(self) -> None:
        tiller = self.client("say hi\n")
        self.assertEqual(tiller.set_model("tiller", "demo")["id"], "demo")
        levels = tiller.get_available_thinking_levels()["levels"]
        self.assertIn("low", levels)
        tiller.set_thinking_level("low")
        tiller.set_steering_mode("all")
        tiller.set_follow_up_mode("all")
        tiller.set_interrupt_mode("immediate")
        tiller.set_auto_retry(False)
        tiller.set_auto_compaction(False)
        state = tiller.get_state()
        self.assertEqual((state["thinkingLevel"], state["steeringMode"]), ("low", "all"))
        self.assertFalse(state["autoCompactionEnabled"])
        cycled = tiller.cycle_thinking_level()
        self.assertIsNotNone(cycled)
        self.assertIsInstance(tiller.get_available_models()["models"], list)

    def test_what_tiller_says_about_itself(self) -> None:
        tiller = self.client("say hi\n")
        self.assertEqual(tiller.server["server"], "tiller")
        self.assertEqual(tiller.get_capabilities()["wire"], "pi-delta")
        self.assertEqual(tiller.get_diagnostics()["diagnostics"], [])
        self.assertEqual(tiller.reload()["skills"], 0)
        self.assertEqual(tiller.get_commands()["commands"], [])

    def test_a_shell_command_runs(self) -> None:
        tiller = self.client("say hi\n")
        done = tiller.bash("echo out; exit 3")
        self.assertEqual((done["output"], done.get("exitCode")), ("out\n", 3))

    def test_any_command_can_be_requested(self) -> None:
        tiller = self.client("say hi\n")
        self.assertEqual(tiller.request({"type": "get_state"})["messageCount"], 0)
        with self.assertRaisesRegex(CommandRefused, "frob: Unknown command: frob"):
            tiller.request({"type": "frob"})
