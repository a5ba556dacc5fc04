from __future__ import annotations

import queue
import threading

from support import SECONDS, TillerTest
from tiller_client import Answer, Dialog, Display, Notice

QUESTIONS = """
export default function (pi) {
  pi.registerCommand("ask", {
    description: "Ask everything",
    handler: async (args, ctx) => {
      const answers = [
        await ctx.ui.select("Which?", ["red", "green"]),
        await ctx.ui.confirm("Sure?", "Really?"),
        await ctx.ui.input("Name?", "your name"),
        await ctx.ui.editor("Text?", "dear"),
      ];
      ctx.ui.setStatus("build", "3 of 7");
      ctx.ui.setWidget("plan", ["look", "fix"]);
      ctx.ui.notify(JSON.stringify(answers.map((one) => one ?? null)), "warning");
    },
  });
}
"""


class Dialogs(TillerTest):
    def ask(self, **options: object) -> tuple[list[Display], Notice]:
        """What the extension shows after its questions."""
        shown: list[Display] = []
        notices: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        tiller = self.client(
            "say hi\n",
            "-e",
            self.extension(QUESTIONS),
            on_notify=notices.put,
            on_display=shown.append,
            **options,
        )
        result = tiller.prompt("/ask").result(SECONDS)
        self.assertEqual((result.status, result.ok), ("handled", True))
        return shown, notices.get(timeout=SECONDS)

    def test_every_kind_is_answered(self) -> None:
        asked: list[Dialog] = []

        def answer(dialog: Dialog) -> Answer:
            asked.append(dialog)
            if dialog.method == "confirm":
                return True
            return dialog.options[-1] if dialog.method == "select" else "Ada"

        shown, notice = self.ask(on_dialog=answer)
        self.assertEqual(notice, Notice('["green",true,"Ada","Ada"]', "warning"))
        self.assertEqual([dialog.method for dialog in asked], ["select", "confirm", "input", "editor"])
        self.assertEqual(asked[0].options, ("red", "green"))
        self.assertEqual(
            (asked[1].message, asked[2].placeholder, asked[3].prefill), ("Really?", "your name", "dear")
        )
        self.assertEqual(
            shown, [Display("setStatus", "build", "3 of 7"), Display("setWidget", "plan", ("look", "fix"))]
        )

    def test_without_a_callback_dialogs_are_cancelled(self) -> None:
        _, notice = self.ask()
        self.assertEqual(notice.message, "[null,false,null,null]")

    def test_a_callback_that_fails_cancels(self) -> None:
        def fail(dialog: Dialog) -> Answer:
            raise RuntimeError(dialog.title)

        with self.assertLogs("tiller_client", "ERROR"):
            _, notice = self.ask(on_dialog=fail)
        self.assertEqual(notice.message, "[null,false,null,null]")

    def test_a_callback_may_use_the_client(self) -> None:
        ready = threading.Event()

        def answer(dialog: Dialog) -> Answer:
            self.assertTrue(ready.wait(SECONDS))
            return None if dialog.method == "confirm" else str(tiller.get_state()["messageCount"])

        tiller = self.client("say hi\n", "-e", self.extension(QUESTIONS), on_dialog=answer)
        ready.set()
        self.assertEqual(tiller.prompt("/ask").result(SECONDS).status, "handled")
