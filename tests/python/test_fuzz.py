"""Arguments that nobody means: each is refused by TypeError or ValueError, or right."""

import numpy as np
import pytest

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

DTYPES = ["f4", "f8", "f2", ">f4", "u1", "i1", "i8", "?", "c8", "O", "U2", "M8[s]", "V4"]


@st.composite
def arrays(draw):
    shape = draw(st.one_of(st.just([2, 1, 28, 28]), st.lists(st.sampled_from([0, 1, 2, 3, 10, 28]), max_size=5)))
    array = np.zeros(shape, draw(st.sampled_from(DTYPES)) if draw(st.booleans()) else "f4")
    for axis in range(array.ndim):
        array = np.flip(array, axis) if draw(st.booleans()) else array
    if array.ndim and draw(st.booleans()):
        array = array[:: draw(st.sampled_from([1, 2, -1]))]
    if draw(st.booleans()):
        array.flags.writeable = False
    return array


anything = st.one_of(
    arrays(), st.none(), st.integers(), st.text(max_size=3), st.lists(st.floats(), max_size=3), st.binary()
)


@settings(max_examples=400, deadline=None, database=None, derandomize=True)
@given(
    given_input=anything, out=anything, stream=st.one_of(st.none(), st.none(), st.integers(-2, 2), st.text(max_size=1))
)
def test_run(small, given_input, out, stream):
    session = small.create_session()
    try:
        result = session.run(given_input, out, stream=stream)
    except (TypeError, ValueError):
        return
    assert stream is None and result.shape == (len(given_input), 10) and result.dtype == np.float32
    assert out is None or result is out
    np.testing.assert_array_equal(result, session.run(np.zeros((len(given_input), 1, 28, 28), np.float32)))


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(data=st.binary(max_size=200), cut=st.integers(0, 2000), place=st.integers(0, 4000), byte=st.integers(0, 255))
def test_bytes(small, data, cut, place, byte):
    import mobicuda

    plan = bytearray(small.serialize())
    plan[place] = byte
    for damaged in (bytes(data), bytes(plan), bytes(plan[: cut * 100])):
        for load in (mobicuda.Engine.deserialize, mobicuda.Engine.from_onnx):
            try:
                load(damaged)
            except mobicuda.Error:
                pass
