"""What is said when a program is refused, without the places of files."""

from __future__ import annotations

import re
import warnings


def refusal_text(torch, function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.jit.script(function)
        except Exception as error:
            text = re.sub(r'File ".*?"', 'File ""', str(error))
            return f"{type(error).__name__}\n{text}"
    raise AssertionError("compiled")
