"""How long a stage may run: seconds and a number (tokens, positions), whichever is reached first."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Budget:
    """None: no limit of that kind. What earlier runs of the stage used counts."""

    seconds: float | None = None
    count: int | None = None
    unit: str = "tokens"

    def fraction(self, used_s: float, n_done: int) -> float:
        """How much of the budget is used, 0 to 1."""
        by_time = used_s / self.seconds if self.seconds else 0.0
        by_count = n_done / self.count if self.count else 0.0
        return min(1.0, max(by_time, by_count))

    def is_spent(self, used_s: float, n_done: int, next_s: float = 0.0) -> bool:
        """`next_s`: time that must be left for a further piece of work."""
        if n_done > 0 and self.seconds is not None and used_s + next_s >= self.seconds:
            return True
        return self.fraction(used_s, n_done) >= 1.0
