"""The programs in the documents, run as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support import PACKAGE, REPOSITORY, SECONDS, TillerTest, tiller_bin


class Documents(TillerTest):
    def run_examples(self, document: Path, count: int) -> None:
        examples = document.read_text("utf-8").split("```python\n")[1:]
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
        self.run_examples(PACKAGE / "README.md", 3)

    def test_examples_of_the_page_for_hosts_run(self) -> None:
        self.run_examples(REPOSITORY / "docs" / "hosts" / "python.md", 10)
