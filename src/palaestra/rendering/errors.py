"""What can go wrong with frame buffers and viewers. Plain exceptions: this package needs nothing else of ours."""

from __future__ import annotations


class FrameBufferError(OSError):
    """A frame buffer cannot be used; the text says why."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class FrameBufferNotFound(FrameBufferError):
    """There is no such frame buffer, or no folder to make it in."""


class InvalidFrameBuffer(FrameBufferError):
    """The file is not a frame buffer of this version and user."""


class InvalidRequest(ValueError):
    """A viewer requests something that cannot be shown, or one viewer too many."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint
