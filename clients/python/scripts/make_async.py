#!/usr/bin/env python3
"""Makes `_async_commands.py` from `_commands.py`; with `--check`, only compares.

The two differ in `async` and `await` alone, so one of them is written by hand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "tiller_client"
SOURCE = PACKAGE / "_commands.py"
TARGET = PACKAGE / "_async_commands.py"


def convert(source: str) -> str:
    _, body = source.split("from __future__", 1)
    text = (
        '"""The commands for asyncio. Made from `_commands.py` by `scripts/make_async.py`: do not edit."""'
        "\n\nfrom __future__" + body
    )
    text = text.replace("class Commands:", "class AsyncCommands:")
    text = re.sub(r"^    def ", "    async def ", text, flags=re.MULTILINE)
    return re.sub(r"\bself\.(_ask|_ask_or_none|_tell|request)\(", r"await self.\1(", text)


def main() -> int:
    made = convert(SOURCE.read_text("utf-8"))
    if "--check" in sys.argv[1:]:
        if TARGET.read_text("utf-8") != made:
            print(f"{TARGET.name} is out of date: run {Path(__file__).name}")
            return 1
        return 0
    TARGET.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
