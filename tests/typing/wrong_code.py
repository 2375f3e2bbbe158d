"""Mistakes that the type checker must find: see test_types_of_users.py."""

import rushlight as torch

torch.no_such_function(1)
torch.stack(3)
torch.sum(torch.ones(2), keepdimension=True)
