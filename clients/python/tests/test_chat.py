"""examples/chat.py, run as a program with stdin and stdout as pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from support import PACKAGE, REPOSITORY, SECONDS, TillerTest, tiller_bin

QUESTIONS = """
export default (pi) => pi.registerTool({
  name: "paint", label: "Paint", description: "Paints the boat",
  parameters: {type: "object", properties: {}},
  execute: async (id, args, signal, update, {ui}) => {
    const colour = await ui.select("Which colour?", ["red", "green"]);
    if (colour === undefined) throw new Error("no colour");
    const sure = await ui.confirm("Sure?", "Paint is wet.");
    const name = await ui.input("Name?", "of the boat");
    return {content: [{type: "text", text: `${name} is ${colour}: ${sure}`}], details: {}};
  },
});
"""


class Chat(TillerTest):
    def start(self, script: str | None, *args: str) -> subprocess.Popen[str]:
        arguments = ["--no-session", *args]
        if script is not None:
            path = self.folder / "chat.script"
            path.write_text(script, "utf-8")
            arguments += ["--model", "tiller/script", "--script", str(path)]
        # A process that was started with SIGINT ignored would pass that on.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        chat = subprocess.Popen(
            [sys.executable, str(REPOSITORY / "examples" / "chat.py"), *arguments],
            cwd=self.work,
            env={**self.env, "PYTHONPATH": str(PACKAGE / "src"), "TILLER_BIN": tiller_bin()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.end, chat)
        return chat

    def end(self, chat: subprocess.Popen[str]) -> None:
        if chat.poll() is None:
            chat.kill()
        chat.communicate(timeout=SECONDS)

    def talk(self, script: str | None, lines: str, *args: str) -> str:
        """What the program prints for these lines and the end of stdin."""
        chat = self.start(script, *args)
        stdout, stderr = chat.communicate(lines, timeout=SECONDS)
        self.assertEqual((chat.returncode, stderr), (0, ""))
        return stdout

    def read_until(self, chat: subprocess.Popen[str], text: str) -> None:
        assert chat.stdout is not None
        seen = ""
        while text not in seen:
            data = os.read(chat.stdout.fileno(), 4096).decode()
            self.assertNotEqual(data, "", seen)
            seen += data

    def test_the_program_has_fewer_than_100_lines(self) -> None:
        lines = (REPOSITORY / "examples" / "chat.py").read_text("utf-8").splitlines()
        self.assertLess(len(lines), 100)

    def test_the_built_in_model_answers(self) -> None:
        output = self.talk(None, "What is 2 + 3?\n\n")
        self.assertIn("5", output)
        # The empty line is not sent.
        self.assertEqual(output.count("(done: "), 1)

    def test_the_tool_is_called(self) -> None:
        script = (REPOSITORY / "examples" / "scripts" / "harbour.script").read_text("utf-8")
        output = self.talk(script, "How deep?\n")
        self.assertIn('[depth {"harbour": "Fowey"}]', output)
        self.assertIn("[failed]", output)
        self.assertIn("Fowey has 12 m.\n(done: 120 tokens)", output)

    def test_dialogs_are_answered_from_the_terminal(self) -> None:
        script = "call paint\n\nexpect tool-result Ada is green: true\nsay Painted.\n"
        output = self.talk(script, "Paint\n2\ny\nAda\n", "-e", self.extension(QUESTIONS))
        self.assertIn("? Which colour?\n  1. red\n  2. green\nnumber: ", output)
        self.assertIn("? Sure? Paint is wet.\ny/n: ", output)
        self.assertIn("Painted.\n(done: ", output)

    def test_the_end_of_stdin_cancels_dialogs_and_leaves(self) -> None:
        script = "call paint\n\nexpect tool-error has no colour\nsay Never mind.\n"
        output = self.talk(script, "Paint\n", "-e", self.extension(QUESTIONS))
        self.assertIn("Never mind.\n(done: ", output)

    def test_a_failed_answer_is_shown(self) -> None:
        self.assertIn("(error: no such key)", self.talk("error fatal no such key\n", "Hello\n"))

    def test_ctrl_c_aborts_the_answer_and_the_chat_goes_on(self) -> None:
        chat = self.start("say I could go on\nhang\n\nsay Second answer.\n")
        assert chat.stdin is not None
        chat.stdin.write("Go\n")
        chat.stdin.flush()
        self.read_until(chat, "go on")
        chat.send_signal(signal.SIGINT)
        self.read_until(chat, "(aborted)\n> ")
        stdout, stderr = chat.communicate("Again\n", timeout=SECONDS)
        self.assertEqual((chat.returncode, stderr), (0, ""))
        self.assertIn("Second answer.\n(done: ", stdout)

    def test_ctrl_c_at_the_prompt_is_harmless(self) -> None:
        chat = self.start("say Here.\n")
        self.read_until(chat, "> ")
        chat.send_signal(signal.SIGINT)
        self.read_until(chat, "(aborted)\n> ")
        stdout, stderr = chat.communicate("Hello\n", timeout=SECONDS)
        self.assertEqual((chat.returncode, stderr), (0, ""))
        self.assertIn("Here.\n(done: ", stdout)

    def test_ctrl_c_cancels_a_dialog(self) -> None:
        asks_again = QUESTIONS.replace('throw new Error("no colour")', 'await ui.select("Really?", ["a"])')
        chat = self.start("call paint\n\nsay Second answer.\n", "-e", self.extension(asks_again))
        assert chat.stdin is not None
        chat.stdin.write("Paint\n")
        chat.stdin.flush()
        self.read_until(chat, "number: ")
        chat.send_signal(signal.SIGINT)
        self.read_until(chat, "(aborted)\n> ")
        stdout, stderr = chat.communicate("Again\n", timeout=SECONDS)
        self.assertEqual((chat.returncode, stderr), (0, ""))
        self.assertIn("Second answer.\n(done: ", stdout)
