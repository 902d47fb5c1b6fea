"""Gather and scatter: rank 0 collects each gradient of all ranks, averages it, and hands the mean out again."""

import torch
import torch.distributed as dist

from training import arguments, finish, join, parts, train


def gather_and_scatter(model):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    for parameter in model.parameters():
        everyone = [torch.zeros_like(parameter.grad) for _ in range(size)] if rank == 0 else None
        dist.gather(parameter.grad, gather_list=everyone, dst=0, group=group, async_op=False)
        means = [torch.stack(everyone).mean(dim=0)] * size if rank == 0 else None
        dist.scatter(parameter.grad, scatter_list=means, src=0, group=group, async_op=False)


if __name__ == "__main__":
    given = arguments()
    join(given)
    group = dist.new_group(list(range(given.num_nodes)))
    model, optimizer, loader = parts(given)
    train(given, model, optimizer, loader, gather_and_scatter)
    finish(given, model)
