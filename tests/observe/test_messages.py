"""The payload of one message at one rank, as Comm counts it: zero is what tells the root of a rooted operation."""

from __future__ import annotations

import pytest
import torch

from gradsync.observe.messages import MESSAGES, Message

TENSOR = torch.zeros(3)


@pytest.mark.parametrize(
    ("operation", "root", "others"),
    [
        ("gather", (0, 36), (12, 0)),
        ("scatter", (36, 0), (0, 12)),
        ("reduce", (0, 12), (12, 0)),
        ("broadcast", (12, 0), (0, 12)),
        ("all_gather", (12, 36), (12, 36)),
        ("all_reduce", (12, 12), (12, 12)),
        ("send", (12, 0), (12, 0)),
        ("receive", (0, 12), (0, 12)),
    ],
)
def test_sent_and_received(operation: str, root: tuple[int, int], others: tuple[int, int]):
    message = Message(operation, TENSOR, TENSOR.nbytes, 1)
    assert message.payload(1, 4) == root
    assert message.payload(0, 4) == message.payload(3, 4) == others


def test_arguments_are_read_by_name():
    assert MESSAGES["all_reduce"]({"tensor": TENSOR}).amount == 12
    assert MESSAGES["all_to_all"]({"input_tensor_list": [TENSOR, TENSOR]}).amount == 24
    assert MESSAGES["gather"]({"tensor": TENSOR, "group_dst": 2}).root == 2
    assert MESSAGES["scatter"]({"tensor": TENSOR}).root == 0
    assert MESSAGES["broadcast"]({"tensor": TENSOR, "src": 3}).root == 3
