"""A slow guard, like one that calls another service."""

import os
import time
from pathlib import Path

SECONDS = 20


def review(event):
    marker = Path(os.environ.get("TMPDIR", "/tmp")) / "hooklatch-review.pid"
    marker.write_text(str(os.getpid()))
    time.sleep(SECONDS)
