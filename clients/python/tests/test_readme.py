"""The programs in the documents, run as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fake_server import FakeServer
from server_support import RealServer, has_serve
from support import PACKAGE, REPOSITORY, SECONDS, TillerTest, tiller_bin

README = PACKAGE / "README.md"
PAGE = REPOSITORY / "docs" / "hosts" / "python.md"


class Documents(TillerTest):
    def run_examples(self, document: Path, count: int, fence: str = "python") -> None:
        """Runs the programs that begin with this fence: `python server` needs a server of sessions."""
        examples = document.read_text("utf-8").split(f"```{fence}\n")[1:]
        self.assertEqual(len(examples), count)
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "tiller").symlink_to(tiller_bin())
        env = {**self.env, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(PACKAGE / "src")}
        for example in examples:
            code = example.split("```")[0]
            run = subprocess.run(
                [sys.executable, "-c", code],
                cwd=self.work,
                env=env,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
            self.assertEqual(run.returncode, 0, code + run.stderr)
            self.assertNotEqual(run.stdout.strip(), "", code)

    def test_examples_of_the_readme_run(self) -> None:
        self.run_examples(README, 3)

    def test_examples_of_the_page_for_hosts_run(self) -> None:
        self.run_examples(PAGE, 10)


class ServerDocuments(Documents):
    def with_fake_server(self) -> None:
        agent = self.folder / ".pi" / "agent"
        agent.mkdir(parents=True)
        server = FakeServer(agent, "say One.\n\nsay Two.\n")
        server.start()
        self.addCleanup(server.end)

    def with_real_server(self) -> None:
        if not has_serve():
            self.skipTest("skipped: this tiller has no `serve`")
        self.addCleanup(RealServer(self.folder, self.env, "").end)

    def test_examples_of_the_readme_run(self) -> None:
        self.with_fake_server()
        self.run_examples(README, 2, "python server")

    def test_examples_of_the_page_for_hosts_run(self) -> None:
        self.with_fake_server()
        self.run_examples(PAGE, 3, "python server")

    def test_examples_of_the_readme_run_with_tiller(self) -> None:
        self.with_real_server()
        self.run_examples(README, 2, "python server")

    def test_examples_of_the_page_for_hosts_run_with_tiller(self) -> None:
        self.with_real_server()
        self.run_examples(PAGE, 3, "python server")
