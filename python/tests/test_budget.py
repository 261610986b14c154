"""When a stage ends."""

import pytest

from bass_draft.budget import Budget


@pytest.mark.parametrize("budget, used_s, n_done, expected", [
    (Budget(seconds=10.0), 4.0, 0, 0.4),
    (Budget(count=50), 1e6, 10, 0.2),
    (Budget(seconds=10.0, count=50), 4.0, 40, 0.8),
    (Budget(seconds=10.0, count=50), 20.0, 40, 1.0),
    (Budget(), 20.0, 40, 0.0),
])
def test_the_fraction_is_that_of_the_nearer_limit(budget, used_s, n_done, expected):
    assert budget.fraction(used_s, n_done) == pytest.approx(expected)
    assert budget.is_spent(used_s, n_done) == (expected == 1.0)


def test_no_work_is_begun_that_time_is_not_left_for_but_the_first():
    assert Budget(seconds=10.0).is_spent(8.0, 5, next_s=3.0)
    assert not Budget(seconds=10.0).is_spent(8.0, 5, next_s=1.0)
    assert not Budget(seconds=10.0).is_spent(0.0, 0, next_s=30.0)
