"""Batches of any structure: what goes to the model and what to the loss, in which form, and what is no batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import default_collate

from gradsync.data.batches import Batch, Collate, Layout, Refused, arranged, collated, cut, tensors_in
from gradsync.errors import InputError


class Point(NamedTuple):
    x: Any
    y: Any


def batch_of(*samples: Any, layout: Layout = Layout(torch.float64)) -> Batch:  # noqa: B008
    return arranged(default_collate(list(samples)), len(samples), len(samples), layout)


def model(*args: Any, **keywords: Any) -> tuple[Any, ...]:
    return args, keywords


def test_all_but_the_last_of_a_tuple_go_to_the_model():
    batch = batch_of((torch.zeros(3), 1), (torch.ones(3), 2))
    (inputs,), keywords = batch.call(model)
    assert keywords == {}
    assert inputs.dtype == torch.float64
    assert batch.target.tolist() == [1, 2]
    several = batch_of(*[(torch.zeros(3), {"mask": torch.ones(2), "name": "a"}, 0.5)] * 4)
    (first, second), _ = several.call(model)
    assert first.shape == (4, 3)
    assert second["mask"].dtype == several.target.dtype == torch.float64
    assert second["name"] == ["a"] * 4


@pytest.mark.parametrize("key", ["labels", "target", "targets"])
def test_a_dict_goes_to_the_model_as_keywords_without_its_labels(key: str):
    batch = batch_of(*[{"tokens": torch.zeros(5, dtype=torch.int32), key: torch.tensor(1, dtype=torch.int16)}] * 2)
    args, keywords = batch.call(model)
    assert args == ()
    assert list(keywords) == ["tokens"]
    assert keywords["tokens"].dtype == torch.int32
    assert batch.target.dtype == torch.int64


def test_a_dict_without_labels_is_input_and_target():
    batch = batch_of(*[{"image": torch.zeros(2)}] * 3)
    ((whole,), _) = batch.call(model)
    assert whole["image"].shape == batch.target["image"].shape == (3, 2)


def test_images_come_in_the_layout_of_the_model_and_yes_and_no_stay_so():
    layout = Layout(torch.float32, torch.channels_last)
    batch = batch_of(*[(torch.zeros(3, 4, 4, dtype=torch.float64), True)] * 2, layout=layout)
    assert batch.inputs[0].is_contiguous(memory_format=torch.channels_last)
    assert batch.target.dtype == torch.bool


@given(samples=st.integers(1, 9), pieces=st.integers(1, 9))
def test_pieces_are_the_whole_in_order(samples: int, pieces: int):
    pieces = min(pieces, samples)
    numbers = torch.arange(samples)
    whole = batch_of(*[(Point(number, {"name": str(int(number))}), number) for number in numbers])
    parts = whole.split(pieces)
    assert [part.samples for part in parts] == [len(each) for each in numbers.tensor_split(pieces)]
    assert torch.cat([part.target for part in parts]).tolist() == list(range(samples))
    points = [part.inputs[0] for part in parts]
    assert all(isinstance(point, Point) for point in points)
    assert torch.cat([point.x for point in points]).tolist() == list(range(samples))
    assert [name for point in points for name in point.y["name"]] == [str(number) for number in range(samples)]
    assert {part.global_count for part in parts} == {samples}


def test_what_has_no_samples_in_it_is_kept_whole():
    assert cut({"rate": 0.5, "words": ["a", "b"]}, slice(1)) == {"rate": 0.5, "words": ["a"]}
    assert list(tensors_in({"a": [torch.zeros(1)], "b": "c"})) == [torch.zeros(1)]


def test_a_batch_of_unequal_sizes_is_refused():
    with pytest.raises(InputError, match=r"a batch of 3 samples has tensors of unequal sizes \(3×2, 2\)"):
        arranged((torch.zeros(3, 2), torch.zeros(2)), 3, 3, Layout())
    with pytest.raises(InputError, match=r"unequal sizes \(3×2, a single number\)"):
        arranged({"x": torch.zeros(3, 2), "labels": torch.tensor(1)}, 3, 3, Layout())


def test_samples_of_unequal_sizes_are_refused_with_their_shapes():
    found = Collate(None)([(torch.zeros(3), 0), (torch.zeros(4), 0)])
    assert isinstance(found, Refused)
    with pytest.raises(InputError, match=r"equal sizes: \(3, int\) and \(4, int\) .*HINT: pad or crop"):
        collated(found)


def test_a_dataset_may_bring_its_own_collate_fn():
    class Padded:
        def collate_fn(self, samples: list[Any]) -> Any:
            return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)

    assert collated(Collate(Padded())([torch.ones(1), torch.ones(3)])).tolist() == [[1, 0, 0], [1, 1, 1]]
    part = torch.utils.data.Subset(Padded(), [0])  # type: ignore[arg-type]
    assert collated(Collate(part)([torch.ones(1), torch.ones(3)])).shape == (2, 3)


@pytest.mark.parametrize("sample", [torch.zeros(3), (torch.zeros(3),), "text"])
def test_what_is_no_sample_is_refused(sample: Any):
    with pytest.raises(InputError, match=r"it must be \(input, target\), \(input, ..., target\), or a dict"):
        batch_of(sample)
