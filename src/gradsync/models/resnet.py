"""ResNet-18 (He et al. 2015) for 32×32 images: a 3×3 stem without pooling, four stages of two blocks."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

from gradsync.models.blocks import conv_norm


class ResidualBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, norm: str) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *conv_norm(inputs, outputs, norm, stride=stride),
            nn.ReLU(inplace=True),
            *conv_norm(outputs, outputs, norm),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Sequential(*([] if same else conv_norm(inputs, outputs, norm, kernel=1, stride=stride)))

    def forward(self, x: Tensor) -> Tensor:
        return relu(self.residual(x) + self.shortcut(x))


def resnet18(channels: int, classes: int, norm: str) -> nn.Module:
    layers = [*conv_norm(channels, 64, norm), nn.ReLU(inplace=True)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [ResidualBlock(inputs, outputs, stride, norm), ResidualBlock(outputs, outputs, 1, norm)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))
