#!/usr/bin/env python3
"""A chat with tiller in the terminal: streaming, a tool of its own, and dialogs of extensions.

All arguments go to tiller; without `--model` it uses its demo model, which needs no key. Ctrl-C
stops the answer, Ctrl-D leaves. TILLER_BIN names another program than `tiller`.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Annotated

from tiller_client import Answer, Client, CommandRefused, Dialog, Event

DEPTHS = {"Fowey": 12, "Kiel": 10, "Porto": 9}
#: The lines of stdin; None cancels a question or, at the end of stdin, leaves.
lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
stdin_ended, asking, aborted = threading.Event(), threading.Event(), threading.Event()


def depth(harbour: Annotated[str, "the name of a harbour"]) -> str:
    """Looks up the depth of a harbour."""
    if harbour not in DEPTHS:
        raise LookupError(f"unknown harbour: {harbour}")  # The model reads this.
    return f"{DEPTHS[harbour]} m"


def read_stdin() -> None:
    # Without a buffer, whose lock would stop the interpreter from ending while this thread waits.
    for line in open(0, "rb", buffering=0, closefd=False):
        lines.put(line.decode("utf-8", "replace").strip())
    stdin_ended.set()
    lines.put(None)


def read_line(label: str) -> str | None:
    print(label, end="", flush=True)
    line = lines.get()
    if line is None and stdin_ended.is_set():
        lines.put(None)  # For the next question, too.
    return line


def answer(dialog: Dialog) -> Answer:
    """Asks the user; an empty line cancels. Runs in a thread of its own, while `main` waits."""
    options = [f"  {number}. {option}" for number, option in enumerate(dialog.options, 1)]
    print(f"\n? {dialog.title} {dialog.message}".rstrip(), *options, sep="\n")
    asking.set()
    labels = {"confirm": "y/n: ", "select": "number: "}
    line = None if aborted.is_set() else read_line(labels.get(dialog.method, ": "))
    asking.clear()
    if not line or dialog.method in ("input", "editor"):
        return line or None
    if dialog.method == "confirm":
        return line.lower() in ("y", "yes")
    return dict(enumerate(dialog.options, 1)).get(int(line)) if line.isdecimal() else None


def show(event: Event) -> None:
    if event["type"] == "message_update":
        step = event["assistantMessageEvent"]
        print(step["delta"] if step["type"] == "text_delta" else "", end="", flush=True)
    elif event["type"] == "tool_execution_start":
        print(f"\n[{event['toolName']} {json.dumps(event['args'], ensure_ascii=False)}]", flush=True)
    elif event["type"] == "tool_execution_end" and event["isError"]:
        print("[failed]", flush=True)


def main(args: list[str]) -> None:
    threading.Thread(target=read_stdin, daemon=True).start()
    command, model = os.environ.get("TILLER_BIN", "tiller"), None if "--model" in args else "tiller/demo"
    with Client.start(command=command, model=model, args=args, tools=[depth], on_dialog=answer) as tiller:
        while True:
            try:
                if (line := read_line("> ")) is None and stdin_ended.is_set():
                    break
                aborted.clear()
                if line:
                    for event in (turn := tiller.prompt(line)):
                        show(event)
                    result = turn.result()
                    why = result.error or result.reason or f"{result.usage['totalTokens']} tokens"
                    print(f"\n({result.status}: {why})")
            except CommandRefused as refused:
                print(refused.error)
            except KeyboardInterrupt:
                aborted.set()
                if asking.is_set():
                    lines.put(None)
                tiller.abort()
                print("\n(aborted)")


if __name__ == "__main__":
    main(sys.argv[1:])
