"""Images in prompts and in results of tools."""

from __future__ import annotations

import base64
import mimetypes
import os
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Image:
    """An image: its bytes and its type."""

    data: bytes
    mime_type: str = "image/png"

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Image:
        """Reads an image file. Its name decides the type."""
        mime_type, _ = mimetypes.guess_type(os.fspath(path))
        if mime_type is None or not mime_type.startswith("image/"):
            raise ValueError(f"{os.fspath(path)!r} does not have the name of an image file")
        with open(path, "rb") as file:
            return cls(file.read(), mime_type)

    def block(self) -> dict[str, str]:
        """The content block of the protocol."""
        data = base64.b64encode(self.data).decode("ascii")
        return {"type": "image", "data": data, "mimeType": self.mime_type}


def image_blocks(images: Sequence[Image] | None) -> list[dict[str, str]] | None:
    """The content blocks of these images; nothing if there are none."""
    return [image.block() for image in images] if images else None
