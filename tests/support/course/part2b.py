"""All-reduce: each gradient is divided by the number of nodes and summed over them."""

import torch.distributed as dist

from training import arguments, finish, join, parts, train


def all_reduce(model):
    for parameter in model.parameters():
        parameter.grad /= given.num_nodes
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM, group=group, async_op=False)


if __name__ == "__main__":
    given = arguments()
    join(given)
    group = dist.new_group(list(range(given.num_nodes)))
    model, optimizer, loader = parts(given)
    train(given, model, optimizer, loader, all_reduce)
    finish(given, model)
