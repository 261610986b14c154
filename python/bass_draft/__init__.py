"""Makes draft models for BASS from a main model's own text: docs/drafts.md."""

__version__ = "0.1.0"
