"""Where a process of its own must start to find the modules that support tests."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).parent
