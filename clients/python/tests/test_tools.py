from __future__ import annotations

import threading
from typing import Annotated

from support import SECONDS, TillerTest, until
from tiller_client import CommandRefused, ToolContext, ToolResult, Tools


class HostTools(TillerTest):
    def test_a_function_is_called(self) -> None:
        tiller = self.client('call add {"a": 2, "b": 3}\n\nexpect tool-result 5\nsay Five.\n')

        @tiller.tool
        def add(a: Annotated[int, "the first number"], b: int = 0) -> int:
            """Adds two numbers."""
            return a + b

        self.assertEqual(add(1, 1), 2)
        offered = {tool["name"]: tool for tool in tiller.get_tools()["tools"]}
        self.assertEqual(offered["add"]["source"], "host")
        self.assertEqual(offered["add"]["description"], "Adds two numbers.")
        self.assertEqual(tiller.prompt("Add").result(SECONDS).check().text, "Five.")

    def test_a_registry_is_passed_at_the_start(self) -> None:
        tools = Tools()

        @tools.tool(name="look")
        def look_around() -> ToolResult:
            return ToolResult("a shore", details={"seen": 1})

        self.assertEqual(look_around().text, "a shore")
        tiller = self.client("call look\n\nexpect tool-result a shore\nsay Land.\n", tools=tools)
        turn = tiller.prompt("Look")
        end = until(turn, lambda event: event["type"] == "tool_execution_end")
        assert end["type"] == "tool_execution_end"
        self.assertEqual(end["result"].get("details"), {"seen": 1})
        turn.result(SECONDS).check()

    def test_an_exception_is_an_error_result(self) -> None:
        def fail() -> str:
            raise ValueError("the tide is out")

        tiller = self.client("call fail\n\nexpect tool-error the tide is out\nsay A pity.\n", tools=[fail])
        self.assertEqual(tiller.prompt("Try").result(SECONDS).check().text, "A pity.")

    def test_an_error_result_can_be_returned(self) -> None:
        def fail() -> ToolResult:
            return ToolResult("no", is_error=True)

        tiller = self.client("call fail\n\nexpect tool-error no\nsay OK.\n", tools=[fail])
        tiller.prompt("Try").result(SECONDS).check()

    def test_progress_is_shown(self) -> None:
        seen = threading.Event()

        def work(context: ToolContext) -> str:
            context.update("half")
            # The result waits until the update was seen: updates that arrive together are merged.
            seen.wait(SECONDS)
            return "whole"

        tiller = self.client("call work\n\nsay Done.\n", tools=[work])
        turn = tiller.prompt("Work")
        update = until(turn, lambda event: event["type"] == "tool_execution_update")
        self.assertIn("half", str(update))
        seen.set()
        turn.result(SECONDS).check()

    def test_an_abort_cancels_the_call(self) -> None:
        cancelled = threading.Event()
        entered = threading.Event()

        def wait(context: ToolContext) -> str:
            entered.set()
            if context.cancelled.wait(SECONDS):
                cancelled.set()
            context.raise_if_cancelled()
            return "too late"

        tiller = self.client("call wait\n", tools=[wait])
        turn = tiller.prompt("Wait")
        self.assertTrue(entered.wait(SECONDS))
        turn.abort()
        self.assertTrue(cancelled.wait(SECONDS))
        self.assertEqual(turn.result(SECONDS).status, "aborted")

    def test_calls_of_one_turn_run_at_the_same_time(self) -> None:
        both = threading.Barrier(2)

        def meet(name: str) -> str:
            both.wait(SECONDS)
            return name

        script = 'call meet {"name": "a"}\ncall meet {"name": "b"}\n\nexpect tool-result b\nsay Met.\n'
        tiller = self.client(script, tools=[meet])
        self.assertEqual(tiller.prompt("Meet").result(SECONDS).check().text, "Met.")

    def test_a_tool_can_use_the_client(self) -> None:
        tiller = self.client("call rename\n\nsay Done.\n")

        @tiller.tool
        def rename() -> str:
            tiller.set_session_name("harbour")
            return str(tiller.get_state().get("sessionName"))

        self.assertTrue(callable(rename))
        tiller.prompt("Go").result(SECONDS).check()
        self.assertEqual(tiller.get_state().get("sessionName"), "harbour")

    def test_a_name_that_is_taken_is_refused(self) -> None:
        tiller = self.client("expect tools lacks mine\nsay OK.\n")

        def ls() -> str:
            return ""

        with self.assertRaisesRegex(CommandRefused, "conflicts with an existing tool"):
            tiller.tool(ls)
        tiller.tool(name="mine")(ls)
        tiller.remove_tool("mine")
        tiller.prompt("Go").result(SECONDS).check()

    def test_tools_can_be_selected(self) -> None:
        tiller = self.client("expect tools read\nsay OK.\n")
        self.assertEqual(tiller.set_active_tools(["read"])["tools"], ["read"])
        tiller.prompt("Go").result(SECONDS).check()
        with self.assertRaisesRegex(CommandRefused, "Tool not found: saw"):
            tiller.set_active_tools(["saw"])
