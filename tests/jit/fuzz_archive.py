"""Archives that PyTorch wrote, changed at random: bytes, members, and the words of their texts."""

from __future__ import annotations

import io
import random
import re
import warnings
import zipfile

KNOWN = """
Tensor int float bool str List[int] Optional[Tensor] Dict[str,int] None NoneType self x torch ops
CONSTANTS __torch__ annotate fork return if else for while in not and with class def pass 0 1 -1
99999999999999999999 1e400 True inf ( ) [ ] { } , : = . * ** -> # lambda import yield await async
exec eval open __import__ getattr range len uninitialized unchecked_cast __new__ __setstate__
__getstate__ "text" ' \\
"""
WORDS = [*KNOWN.split(), "\n", "  ", '"""', "\x00"]
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


def members(raw):
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(contents):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Names may be there twice.
        for name, content in contents:
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def changed_bytes(dice, content):
    found = bytearray(content)
    for _ in range(dice.choice((1, 2, 8))):
        if not found:
            break
        place = dice.randrange(len(found))
        action = dice.randrange(4)
        if action == 0:
            found[place] = dice.randrange(256)
        elif action == 1:
            del found[place : place + dice.randrange(1, 9)]
        elif action == 2:
            found[place:place] = found[place : place + dice.randrange(1, 30)]
        else:
            found[place] ^= 1 << dice.randrange(8)
    return bytes(found)


def changed_text(dice, content):
    """A text with words replaced, moved, doubled or taken out; or lines."""
    text = content.decode("utf-8", "replace")
    parts = text.splitlines(keepends=True) if dice.random() < 0.3 else TOKEN.findall(text)
    for _ in range(dice.choice((1, 1, 2, 5))):
        if len(parts) < 2:
            break
        a, b = dice.randrange(len(parts)), dice.randrange(len(parts))
        action = dice.randrange(6)
        if action == 0:
            parts[a] = dice.choice(WORDS)
        elif action == 1:
            parts[a], parts[b] = parts[b], parts[a]
        elif action == 2:
            parts[a] = parts[b]
        elif action == 3:
            del parts[a]
        elif action == 4:
            parts.insert(a, parts[b])
        else:
            parts.insert(a, dice.choice(WORDS))
    return "".join(parts).encode("utf-8", "replace")


def changed_members(dice, contents):
    """Members that are gone, doubled, renamed, or have changed places."""
    found = list(contents)
    a, b = dice.randrange(len(found)), dice.randrange(len(found))
    (name, content), (other, its) = found[a], found[b]
    action = dice.randrange(5)
    if action == 0:
        found[a], found[b] = (name, its), (other, content)
    elif action == 1:
        del found[a]
    elif action == 2:
        names = (name + "x", name[:-1] or "x", "../" + name, name.upper())
        found[a] = (dice.choice(names), content)
    elif action == 3:
        found.append((name, its))
    else:
        found[a] = (other, content)
    return found


def mutated(dice, raw):
    """One changed archive."""
    if dice.random() < 0.1:
        return changed_bytes(dice, raw)
    contents = list(members(raw).items())
    for _ in range(dice.choice((1, 1, 2))):
        action = dice.random()
        if action < 0.15:
            contents = changed_members(dice, contents)
            continue
        texts = [at for at, (name, _) in enumerate(contents) if name.endswith(".py")]
        pickles = [at for at, (name, _) in enumerate(contents) if name.endswith(".pkl")]
        chosen = texts if action < 0.65 else pickles if action < 0.9 else range(len(contents))
        if not chosen:
            continue
        at = dice.choice(list(chosen))
        name, content = contents[at]
        change = changed_text if action < 0.65 else changed_bytes
        contents[at] = (name, change(dice, content))
    return zipped(contents)


def cases(files, count, seed=0):
    """(the number of a case, its archive)."""
    sounds = [(path.name, path.read_bytes()) for path in files]
    for number in range(count):
        dice = random.Random(f"{seed} {number}")
        name, raw = dice.choice(sounds)
        yield f"{number} {name}", mutated(dice, raw)
