from __future__ import annotations

import os
import subprocess
import sys

from support import PACKAGE, SECONDS, TillerTest, tiller_bin


class Readme(TillerTest):
    def test_examples_run(self) -> None:
        examples = (PACKAGE / "README.md").read_text("utf-8").split("```python\n")[1:]
        self.assertEqual(len(examples), 3)
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
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertNotEqual(run.stdout.strip(), "")
