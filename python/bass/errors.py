"""What goes wrong, by whose doing: what a call raises. Each message names the thing and the mend."""


class Error(Exception):
    """Of all that the engine refuses or cannot do."""


class InvalidArgumentError(Error, ValueError):
    """An option, a prompt or a call is wrong."""


class InvalidFileError(Error, OSError):
    """A model's file is missing, broken or of another kind than needed."""


class ResourceExhaustedError(Error, MemoryError):
    """Memory does not suffice; the message says how much was needed."""


class CancelledError(Error):
    """What was asked for was cancelled."""


class UnavailableError(Error, RuntimeError):
    """The engine was closed, belongs to another process, or the device that was named cannot be used."""


class InternalError(Error, RuntimeError):
    """A defect of BASS."""
