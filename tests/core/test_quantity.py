"""Quantities written into objects say exactly what they stand for."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.core import quantity


@pytest.mark.parametrize(
    ("value", "binary", "text"),
    [
        pytest.param("0.5", False, "500m", id="thousandths"),
        pytest.param("2.5", False, "2500m", id="more than one, and thousandths"),
        pytest.param("12", False, "12", id="a whole number"),
        pytest.param(2000 * 1024**2, True, "2000Mi", id="the largest unit that leaves nothing over"),
        pytest.param(2 * 1024**3 + 1, True, "2147483649", id="none if there is none"),
        pytest.param(0, True, "0", id="nothing"),
    ],
)
def test_exact(value, binary, text):
    assert quantity.exact(Decimal(value), binary=binary) == text


@given(st.integers(0, 10**18), st.booleans())
def test_nothing_is_lost(thousandths, binary):
    value = Decimal(thousandths) / 1000

    assert quantity.parse(quantity.exact(value, binary=binary)) == value
