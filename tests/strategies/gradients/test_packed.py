"""Gradients in one block, without processes."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from gradsync.strategies.bucketed import buckets
from gradsync.strategies.gradients.packed import Packed, same_kind


def parameter(*shape: int, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape, dtype=dtype))


def test_gradients_go_to_their_places_scaled_and_come_back_without_a_copy():
    channels_last = nn.Parameter(torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last))
    parameters = [parameter(3, 2), channels_last, parameter(5)]
    for item in parameters:
        item.grad = torch.randn_like(item)
    before = [item.grad.clone() for item in parameters]
    packed = Packed(parameters)
    for item in parameters:
        packed.take(item, 0.5)
    packed.give_back()
    assert packed.block.numel() == sum(item.numel() for item in parameters)
    for item, gradient in zip(parameters, before, strict=True):
        assert torch.equal(item.grad, gradient * 0.5)
        assert item.grad.stride() == item.stride()
    packed.block.zero_()
    assert all(not item.grad.any() for item in parameters), "the gradients are views of the block"


@given(st.lists(st.integers(1, 700_000), min_size=1, max_size=12), st.floats(0.1, 4))
def test_buckets_hold_every_parameter_once_in_order_and_close_when_full(sizes: list[int], megabytes: float):
    parameters = [nn.Parameter(torch.empty(size, device="meta")) for size in sizes]
    found = list(buckets(parameters, megabytes))
    assert [item for bucket in found for item in bucket] == parameters
    for number, bucket in enumerate(found):
        limit = (min(1.0, megabytes) if number == 0 else megabytes) * 2**20
        assert sum(item.nbytes for item in bucket[:-1]) < limit


def test_a_block_holds_one_kind_of_number():
    single, double = parameter(2), parameter(3, dtype=torch.float64)
    kinds = [[item.dtype for item in group] for group in same_kind([single, double, single])]
    assert kinds == [[torch.float32], [torch.float64], [torch.float32]]
