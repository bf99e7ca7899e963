"""Comparing models to the bit."""

from numpy.testing import assert_array_equal


def assert_same_model(one, two):
    """Both have learned the same, to the last bit; the engine is not part of it."""
    (header, arrays), (other, others) = one.to_checkpoint(), two.to_checkpoint()
    for params in (header["params"], other["params"]):
        params.pop("engine")
    assert header == other
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        assert array.dtype == others[name].dtype, name
        assert_array_equal(array, others[name], err_msg=name)
