"""What the scripts of the course share: arguments, the group, a model, its data, and the loop with its output.

As the VGG-11 reports describe them: started by hand on every node, with the address of the first one.

    python part2b.py --master-ip 10.10.1.1 --num-nodes 4 --rank 0
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

PORT = 51001


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--master-ip", "--master_ip", default="127.0.0.1")
    parser.add_argument("--num-nodes", "--num_nodes", type=int, default=int(os.environ.get("WORLD_SIZE", 1)))
    parser.add_argument("--rank", type=int, default=int(os.environ.get("RANK", 0)))
    parser.add_argument("--model", default="small", help="small, or vgg11 for figures like those of the reports")
    parser.add_argument("--batch-size", type=int, default=16, help="of each node")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--slow-seconds", type=float, default=0.05)
    return parser.parse_args()


def join(given):
    """With plain arguments as in the course, or by the environment of torchrun."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        host = given.master_ip if "://" in given.master_ip else f"tcp://{given.master_ip}:{PORT}"
        dist.init_process_group("gloo", init_method=host, rank=given.rank, world_size=given.num_nodes)


class Net(nn.Module):
    """Few and large parameters, so that little of the traffic is headers."""

    def __init__(self, slow):
        super().__init__()
        self.slow = slow
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(3072, 96), nn.ReLU(), nn.Linear(96, 10))

    def forward(self, images):
        time.sleep(self.slow)
        return self.layers(images)


def vgg11(slow):
    layers, channels = [], 3
    for width in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
        if width == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
    net = Net(slow)
    net.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))
    return net


def parts(given, own_share=True):
    """Model, optimizer and the batches: of this rank, or of all."""
    torch.set_num_threads(1)
    torch.manual_seed(2317)
    slow = given.slow_seconds if given.rank == given.slow_rank else 0.0
    model = vgg11(slow) if given.model == "vgg11" else Net(slow)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=0.0001)
    count = given.steps * given.batch_size * given.num_nodes
    data = TensorDataset(torch.randn(count, 3, 32, 32), torch.randint(0, 10, (count,)))
    sampler = DistributedSampler(data, given.num_nodes, given.rank) if own_share else None
    return model, optimizer, DataLoader(data, given.batch_size, sampler=sampler)


def train(given, model, optimizer, loader, agree=lambda model: None):
    """``agree``: what is done between backward and the optimizer's step."""
    criterion = nn.CrossEntropyLoss()
    running = 0.0
    for number, (images, labels) in enumerate(loader, start=1):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        agree(model)
        optimizer.step()
        running += loss.item()
        if number % 4 == 0:
            print(f"rank {given.rank}: [epoch 1, batch {number}] loss: {running:.4f}\n", end="", flush=True)
            running = 0.0


def finish(given, model):
    digest = hashlib.sha256(b"".join(item.detach().numpy().tobytes() for item in model.parameters())).hexdigest()
    print(f"rank {given.rank}: final parameters {digest}\n", end="", flush=True)
    dist.destroy_process_group()
