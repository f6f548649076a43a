"""What guidellm takes from torch: the loader of its prompts, read one after another in this process. It is put on PYTHONPATH in
place of torch, whose packages are larger than all the other clients together and whose GPU libraries nothing here uses."""
import sys
import types


class IterableDataset:
    def __class_getitem__(cls, item):
        return cls


class DataLoader:
    def __class_getitem__(cls, item):
        return cls

    def __init__(self, dataset, batch_size=1, collate_fn=None, **_):
        assert batch_size == 1
        self.dataset, self.collate_fn = dataset, collate_fn

    def __iter__(self):
        return (self.collate_fn([row]) for row in self.dataset)


class Generator:
    def manual_seed(self, seed):
        return self


def _module(name, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


dataloader = _module("torch.utils.data.dataloader", DataLoader=DataLoader)
dataset = _module("torch.utils.data.dataset", IterableDataset=IterableDataset)
data = _module("torch.utils.data", dataloader=dataloader, dataset=dataset, DataLoader=DataLoader,
               IterableDataset=IterableDataset, get_worker_info=lambda: None)
utils = _module("torch.utils", data=data)
