"""How long steps may take."""

from orchard.backends.images.pace import Pace


def test_what_is_expected_is_no_silence() -> None:
    pace = Pace()
    assert pace.silence(5.0) == 5.0  # nothing is known yet
    pace.allow(60.0)
    assert (pace.silence(50.0), pace.silence(70.0)) == (0.0, 10.0)


def test_a_step_may_take_some_times_as_long_as_the_slowest_one() -> None:
    pace = Pace()
    pace.learn(2.0, 100)
    pace.learn(1.0, 100)
    pace.expect(100)
    assert (pace.silence(6.0), pace.silence(7.0)) == (0.0, 1.0)


def test_larger_images_may_take_longer_and_then_count() -> None:
    pace = Pace()
    pace.learn(2.0, 100)
    pace.expect(1600)
    assert (pace.silence(96.0), pace.silence(97.0)) == (0.0, 1.0)
    pace.learn(1.0, 1600)  # the first one was slow for another reason
    pace.expect(1600)
    assert pace.silence(4.0) == 1.0
    pace.learn(10.0, 1600)
    pace.expect(1600)
    assert pace.silence(31.0) == 1.0
    pace.learn(50.0, 100)  # of a smaller one: something else slowed it down
    pace.expect(100)
    assert pace.silence(31.0) == 1.0
