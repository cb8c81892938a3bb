"""What PyPI shows of README.md: its links lead into the repository of [project.urls] Source.

PyPI has no files of ours.  Without that address the words of a link stay, and the link goes: an address
that we do not have must not be guessed.  Run by hatchling at each build; imports nothing else.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

__all__ = ["Readme", "for_pypi"]

IMAGE = re.compile(r"!\[[^\]]*\]\((?!https?:)([^)\s]+)\)\n*")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])+)\]\((?!https?:|#)([^)\s]+)\)")


class Readme(MetadataHookInterface):
    """Sets the metadata's description."""

    def update(self, metadata: dict[str, Any]) -> None:
        source = metadata.get("urls", {}).get("Source")
        text = for_pypi((Path(self.root) / "README.md").read_text(encoding="utf-8"), source)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def for_pypi(text: str, source: str | None) -> str:
    """Return the text with no link that is relative; `source` is the address of a repository on a forge."""
    if source is None:
        return LINK.sub(lambda link: link[1], IMAGE.sub("", text))
    text = IMAGE.sub(lambda image: image[0].replace(image[1], f"{source.rstrip('/')}/raw/HEAD/{image[1]}"), text)
    return LINK.sub(lambda link: f"[{link[1]}]({source.rstrip('/')}/blob/HEAD/{link[2]})", text)
