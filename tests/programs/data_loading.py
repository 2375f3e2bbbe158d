"""Datasets through loaders: batches of dicts and tuples, workers, a sharded stream, a failure."""

import collections

import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    TensorDataset,
    get_worker_info,
    random_split,
)

Item = collections.namedtuple("Item", "image label")


class Squares(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError(f"no item {index}")
        return {"x": torch.full((2,), float(index)), "y": index**2, "name": f"item{index}"}


class Numbers(IterableDataset):
    def __init__(self, stop):
        self.stop = stop

    def __iter__(self):
        info = get_worker_info()
        if info is None:
            return iter(range(self.stop))
        return iter(range(info.id, self.stop, info.num_workers))


def items(batch):
    return Item(torch.stack([b["x"] for b in batch]), torch.tensor([b["y"] for b in batch]))


def main():
    for batch in DataLoader(Squares(5), batch_size=2):
        print(batch)
    for workers in (0, 2):
        loader = DataLoader(Squares(5), batch_size=2, num_workers=workers, collate_fn=items)
        print(len(loader), [batch.label.tolist() for batch in loader])
    loader = DataLoader(Numbers(9), batch_size=2, num_workers=2, persistent_workers=True)
    for epoch in range(2):
        print(epoch, [batch.tolist() for batch in loader])

    pairs = TensorDataset(torch.arange(6).reshape(3, 2), torch.tensor([0.5, 1.5, 2.5]))
    joined = ConcatDataset([pairs, Subset(pairs, [2, 0])])
    print([(x.tolist(), y.item()) for x, y in DataLoader(joined, batch_size=None)])
    batches = BatchSampler(SequentialSampler(joined), batch_size=3, drop_last=False)
    for x, y in DataLoader(joined, batch_sampler=batches, num_workers=1):
        print(x, y)
    print([len(part) for part in random_split(joined, [0.5, 0.3, 0.2])])
    shuffled = [y.item() for _, y in DataLoader(joined, shuffle=True, num_workers=2)]
    print(sorted(shuffled))

    broken = iter(DataLoader(Squares(3), sampler=[0, 7, 1], num_workers=2))
    print(next(broken)["name"])
    try:
        next(broken)
    except IndexError as error:
        lines = str(error).splitlines()
        print(lines[0], lines[1], lines[-1], sep="\n")
    print(next(broken)["y"])


if __name__ == "__main__":
    main()
