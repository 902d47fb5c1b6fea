from __future__ import annotations

import pytest
import torch
from torch import nn

from gradsync import models
from gradsync.errors import InputError

PARAMETERS = {
    "vgg11": 9_231_114,
    "resnet18": 11_173_962,
    "alexnet": 61_100_840,
    "mnist-cnn": 690_590,
    "logistic": 7_850,
    "gpt": 10_770_432,
}


def build(name: str, norm: str = "batch") -> nn.Module:
    shape, classes = models.native_data(name)
    return models.build(name, shape=shape, classes=classes, norm=norm, is_tokens=name == "gpt")


def layers(model: nn.Module, kind: type[nn.Module]) -> int:
    return sum(isinstance(part, kind) for part in model.modules())


@pytest.mark.parametrize("name", models.MODELS)
def test_parameter_count_and_output(name: str):
    model = build(name)
    assert models.count_parameters(model) == PARAMETERS[name]
    shape, classes = models.native_data(name)
    if name == "gpt":
        assert model(torch.zeros(2, *shape, dtype=torch.long)).shape == (2, *shape, classes)
    else:
        assert model(torch.zeros(2, *shape)).shape == (2, classes)


def test_layers_are_those_of_the_reports():
    vgg = build("vgg11")
    kinds = (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.Linear)
    assert [layers(vgg, kind) for kind in kinds] == [8, 8, 5, 1]
    alexnet = build("alexnet")
    assert [layers(alexnet, kind) for kind in (nn.Conv2d, nn.Linear)] == [5, 3]


@pytest.mark.parametrize("name", models.MODELS)
def test_norm_none_takes_batchnorm_out(name: str):
    model = build(name, norm="none")
    assert layers(model, nn.BatchNorm2d) == 0
    assert all(conv.bias is not None for conv in model.modules() if isinstance(conv, nn.Conv2d))


def test_unknown_model_shows_the_nearest():
    with pytest.raises(InputError, match=r"Did you mean vgg11\?.*Known:.*resnet18"):
        models.native_data("vgg-11")


def test_a_model_for_other_images_is_refused_with_those_that_fit():
    with pytest.raises(InputError, match=r"vgg11 takes 3×32×32 images, the data has 1×28×28.*mnist-cnn, logistic"):
        models.build("vgg11", shape=(1, 28, 28), classes=10)


def test_channels_last_only_for_convolutions_and_where_faster():
    assert models.memory_format("vgg11", build("vgg11"), "fp32") == torch.channels_last
    assert models.memory_format("alexnet", nn.Sequential(nn.Conv2d(1, 1, 1)), "fp32") == torch.contiguous_format
    assert models.memory_format("logistic", build("logistic"), "fp32") == torch.contiguous_format


def test_what_depends_on_how_a_batch_is_shared_out_is_found():
    with_norm = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert "BatchNorm" in models.by_share(with_norm, sync_bn=False)[0]
    assert models.by_share(with_norm, sync_bn=True) == []
    for layer in (
        nn.Dropout(0.1),
        nn.MultiheadAttention(4, 2, dropout=0.1),
        nn.LSTM(2, 2, num_layers=2, dropout=0.1),
    ):
        assert models.by_share(nn.Sequential(layer), sync_bn=True) == ["dropout draws differ between workers"]
    assert models.by_share(nn.Sequential(nn.Dropout(0.0), nn.LSTM(2, 2)), sync_bn=True) == []
