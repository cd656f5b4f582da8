"""The last passes of a run."""

from fleetrec.train.recent_passes import NUM_KEPT, RecentPasses
from unit.train.making_passes import make_evaluated, make_trained


def test_only_the_last_passes_are_kept():
    recent = RecentPasses()
    for index in range(NUM_KEPT + 5):
        recent.add(make_trained(index))
    assert recent.get(4) is None
    assert recent.get(5) == make_trained(5)


def test_the_age_counts_from_the_arrival_of_the_data():
    recent = RecentPasses()
    recent.add(make_trained(0, arrived_at=1000.0))
    recent.add(make_trained(1, arrived_at=None))
    recent.add(make_evaluated(2))
    assert recent.age_s(0, now=1060.5) == 60.5
    assert recent.age_s(0, now=900.0) == 0.0  # clocks of machines differ
    assert recent.age_s(1, now=1060.5) is None
    assert recent.age_s(2, now=1060.5) is None
