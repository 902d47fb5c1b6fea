"""The built-in models by name, and the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from gradsync.config.plugin import call, is_reference
from gradsync.errors import InputError, unknown
from gradsync.models.alexnet import alexnet
from gradsync.models.convnet import mnist_cnn
from gradsync.models.logistic import logistic
from gradsync.models.resnet import resnet18
from gradsync.models.vgg import vgg11

InputShape = tuple[int, ...]


@dataclass(frozen=True)
class Model:
    """How a built-in model is built, and the data it was made for."""

    build: Callable[[InputShape, int, str], nn.Module]
    """(shape, classes, norm) -> module"""

    shape: InputShape
    classes: int = 10
    any_shape: bool = False

    channels_last: tuple[str, ...] = ("fp64", "fp32", "bf16")
    """Precisions in which channels-last is the faster layout (benchmarks/memory_format.py)."""


def convolutional(build: Callable[[int, int, str], nn.Module]) -> Callable[[InputShape, int, str], nn.Module]:
    return lambda shape, classes, norm: build(shape[0], classes, norm)


MODELS: dict[str, Model] = {
    "vgg11": Model(convolutional(vgg11), (3, 32, 32)),
    "resnet18": Model(convolutional(resnet18), (3, 32, 32)),
    "alexnet": Model(convolutional(alexnet), (3, 224, 224), classes=1000, channels_last=("bf16",)),
    "mnist-cnn": Model(convolutional(mnist_cnn), (1, 28, 28)),
    "logistic": Model(lambda shape, classes, norm: logistic(shape, classes), (1, 28, 28), any_shape=True),
}

# What synthetic data looks like for a model we know nothing about.
OWN_MODEL_DATA = ((3, 32, 32), 10)


def find_model(name: str) -> Model:
    if name not in MODELS:
        raise unknown("model", name, MODELS, "Or give your own as package.module:function or path/file.py:function.")
    return MODELS[name]


def native_data(name: str) -> tuple[InputShape, int]:
    """Shape and number of classes of the data a model was made for."""
    if is_reference(name):
        return OWN_MODEL_DATA
    return find_model(name).shape, find_model(name).classes


def build(name: str, *, shape: InputShape, classes: int, norm: str = "batch") -> nn.Module:
    if is_reference(name):
        if norm != "batch":
            raise InputError(f"--norm {norm} is for the built-in models: build {name} without BatchNorm yourself.")
        module = call(name, "model")
        if not isinstance(module, nn.Module):
            raise InputError(f"--model {name} returned {type(module).__name__}: it must return a torch.nn.Module.")
        return module
    model = find_model(name)
    if shape != model.shape and not model.any_shape:
        raise InputError(
            f"{name} takes {by(model.shape)} images, the data has {by(shape)}. "
            f"Use --data synthetic, data of that size, or a model for these images: {', '.join(fitting(shape))}."
        )
    return model.build(shape, classes, norm)


def memory_format(name: str, module: nn.Module, precision: str) -> torch.memory_format:
    """Channels-last for convolutional models where it is faster."""
    faster = is_reference(name) or precision in find_model(name).channels_last
    if faster and any(isinstance(part, nn.Conv2d) for part in module.modules()):
        return torch.channels_last
    return torch.contiguous_format


def fitting(shape: InputShape) -> list[str]:
    return [name for name, model in MODELS.items() if model.any_shape or model.shape == shape]


def by(shape: InputShape) -> str:
    return "×".join(map(str, shape))


def by_share(module: nn.Module, sync_bn: bool) -> list[str]:
    """What the model computes differently when a batch is split: N workers then differ from one, by design."""
    found = []
    if not sync_bn and any(isinstance(part, _BatchNorm) for part in module.modules()):
        found.append("BatchNorm normalizes each worker's share by itself (--sync-bn, --norm none)")
    if any(drops(part) for part in module.modules()):
        found.append("dropout draws differ between workers")
    return found


def drops(part: nn.Module) -> bool:
    """Dropout layers have a p; attention and recurrent layers a number named dropout."""
    rate = part.p if isinstance(part, _DropoutNd) else getattr(part, "dropout", 0.0)
    return isinstance(rate, (int, float)) and rate > 0


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
