#!/usr/bin/env python3
"""Sessions written by tiller are opened by the real pi, and the other way round.

Run by hand, with pi installed (it is not part of the test suite):

    cargo build --release
    python3 tests/interop/pi.py PATH/TO/pi [target/release/tiller]

tiller plays a scripted conversation with tool calls into a session file. pi opens the file and must
show the same messages; pi then renames the session, and tiller must read the name and everything
else back. Nothing talks to a network.
"""
import json
import os
import subprocess
import sys
import tempfile

SCRIPT = """\
think Let me look.
call read {"path": "notes.md"}

say The notes say hello.

say You are welcome.
"""


class Agent:
    """One program in RPC mode."""

    def __init__(self, command, cwd, home):
        env = {"PATH": os.environ["PATH"], "HOME": home, "PI_OFFLINE": "1"}
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, **request):
        """Sends a command and returns the data of its response."""
        self.process.stdin.write(json.dumps({"id": "ask", **request}) + "\n")
        self.process.stdin.flush()
        record = self.until(lambda record: record.get("id") == "ask")
        assert record["success"], record
        return record.get("data")

    def until(self, wanted):
        for line in self.process.stdout:
            record = json.loads(line)
            if wanted(record):
                return record
        raise SystemExit("the program ended before it answered")

    def prompt(self, message):
        self.ask(type="prompt", message=message)
        self.until(lambda record: record["type"] == "agent_settled")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.read()
        assert self.process.wait(20) == 0


def outline(messages):
    """What both must agree on: roles, words, calls."""
    lines = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            words = block.get("text") or block.get("thinking") or json.dumps(block.get("arguments"), sort_keys=True)
            lines.append(f"{message['role']} {block['type']}: {words}")
    return lines


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    pi = os.path.abspath(sys.argv[1])
    tiller = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "target/release/tiller")
    with tempfile.TemporaryDirectory() as root:
        home, cwd = os.path.join(root, "home"), os.path.join(root, "work")
        os.makedirs(home)
        os.makedirs(cwd)
        with open(os.path.join(cwd, "notes.md"), "w", encoding="utf-8") as file:
            file.write("hello\n")
        script = os.path.join(root, "script.txt")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)

        ours = Agent([tiller, "--mode", "rpc", "--script", script], cwd, home)
        ours.prompt("What do the notes say? \U0001f600")
        ours.prompt("Thanks.\u2028")
        path = ours.ask(type="get_state")["sessionFile"]
        said = outline(ours.ask(type="get_messages")["messages"])
        ours.close()
        assert os.path.exists(path), "the session was not kept"

        theirs = Agent([pi, "--mode", "rpc", "--session", path], cwd, home)
        shown = outline(theirs.ask(type="get_messages")["messages"])
        assert shown == said, f"pi shows something else:\n{shown}\n{said}"
        assert len(theirs.ask(type="get_fork_messages")["messages"]) == 2
        theirs.ask(type="set_session_name", name="renamed by pi")
        theirs.close()

        ours = Agent([tiller, "--mode", "rpc", "--script", script, "--session", path], cwd, home)
        state = ours.ask(type="get_state")
        assert state["sessionName"] == "renamed by pi", state
        assert outline(ours.ask(type="get_messages")["messages"]) == said
        ours.close()
    print(f"ok: {len(said)} blocks agree, both ways")


if __name__ == "__main__":
    main()
