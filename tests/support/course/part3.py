"""DistributedDataParallel averages the gradients during backward."""

from torch.nn.parallel import DistributedDataParallel

from training import arguments, finish, join, parts, train

if __name__ == "__main__":
    given = arguments()
    join(given)
    model, optimizer, loader = parts(given)
    train(given, DistributedDataParallel(model), optimizer, loader)
    finish(given, model)
