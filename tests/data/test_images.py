from __future__ import annotations

import torch

from gradsync.data.images import Augmentation, Images, crop_and_mirror


def some_images(count: int = 6, padding: int = 2) -> Images:
    pixels = torch.randint(0, 256, (count, 5, 7, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    return Images(pixels, torch.arange(count), (0.1, 0.2, 0.3), (0.5, 0.6, 0.7), padding)


def test_a_batch_is_normalised_as_mean_and_std_say_and_lies_channels_last():
    images = some_images()
    inputs, labels = images.batch(torch.tensor([4, 1]))
    pixel = images.pixels[4, 2, 3].double() / 255
    expected = (pixel - torch.tensor([0.1, 0.2, 0.3])) / torch.tensor([0.5, 0.6, 0.7])
    torch.testing.assert_close(inputs[0, :, 2, 3].double(), expected, atol=1e-6, rtol=0)
    assert inputs.shape == (2, 3, 5, 7)
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    assert labels.tolist() == [4, 1]


def test_crop_and_mirror_match_the_same_done_image_by_image():
    images = some_images()
    draws = Augmentation.draw(6, 2, torch.Generator().manual_seed(3))
    got = crop_and_mirror(images.pixels, draws, 2)
    assert draws.mirror.any()
    assert not draws.mirror.all()
    for i in range(6):
        padded = torch.zeros(9, 11, 3, dtype=torch.uint8)
        padded[2:7, 2:9] = images.pixels[i]
        crop = padded[draws.top[i] : draws.top[i] + 5, draws.left[i] : draws.left[i] + 7]
        assert torch.equal(got[i], crop.flip(1) if draws.mirror[i] else crop)
