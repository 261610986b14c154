"""What a user, a file or the machine can cause: one exception, whose message names the thing and the mend."""


class UserError(Exception):
    """Ends the command with exit code 2 (bad usage, bad file) or 1 (failed while running)."""

    def __init__(self, message: str, exit_code: int = 2):
        super().__init__(message)
        self.exit_code = exit_code


class Interrupted(Exception):
    """A signal asked for the end; all that is worth keeping is on disk."""

    def __init__(self, signal_number: int):
        super().__init__(f"ended by signal {signal_number}")
        self.exit_code = 128 + signal_number
