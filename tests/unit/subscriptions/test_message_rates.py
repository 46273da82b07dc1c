"""Rates of messages: over a minute, an hour and a day, in bounded memory."""

import pytest

from headrace.subscriptions.message_rates import MessageRate, MessageRates, RateSpan


def sampled(
    seconds: int, per_second: int, rates: MessageRates[str] | None = None
) -> MessageRates[str]:
    """Return rates after a time of a steady load on key t."""
    rates = rates or MessageRates()
    for at in range(0, seconds + 1, 10):
        rates.sample({"t": at * per_second}, float(at))
    return rates


@pytest.mark.parametrize(
    ("span", "seconds"), [(RateSpan.MINUTE, 60), (RateSpan.HOUR, 3600), (RateSpan.DAY, 86400)]
)
def test_a_steady_load_has_its_rate_in_each_span(span: RateSpan, seconds: int) -> None:
    rates = sampled(100_000, 5)
    assert rates.rate("t", span) == MessageRate(5 * seconds, 5.0)


def test_a_load_that_ends_is_gone_from_the_minute_and_stays_in_the_hour() -> None:
    rates = sampled(1200, 3)
    for at in range(1210, 1290, 10):
        rates.sample({"t": 3600}, float(at))
    assert rates.rate("t") == MessageRate(0, 0.0)
    assert rates.rate("t", RateSpan.HOUR).messages == 3600


def test_a_key_without_two_samples_has_no_rate() -> None:
    rates: MessageRates[str] = MessageRates()
    assert rates.rate("t") == MessageRate(0, 0.0)
    rates.sample({"t": 100}, 0.0)
    assert rates.rate("t") == MessageRate(0, 0.0)


def test_a_timer_that_is_early_or_late_loses_no_sample() -> None:
    rates: MessageRates[str] = MessageRates()
    for at, total in ((0.0, 0), (9.9, 99), (20.3, 203), (29.8, 298)):
        rates.sample({"t": total}, at)
    assert rates.rate("t") == MessageRate(298, 10.0)


def test_a_total_that_falls_begins_again() -> None:
    rates = sampled(60, 5)
    rates.sample({"t": 7}, 70.0)
    assert rates.rate("t") == MessageRate(0, 0.0)
    rates.sample({"t": 27}, 80.0)
    assert rates.rate("t") == MessageRate(20, 2.0)


def test_keys_that_are_gone_are_forgotten() -> None:
    rates = sampled(60, 5)
    rates.sample({"other": 1}, 70.0)
    assert len(rates) == 1
    assert rates.rate("t") == MessageRate(0, 0.0)
