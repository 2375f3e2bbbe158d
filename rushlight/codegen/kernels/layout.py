"""Moving operands of heavy kernels into the shapes in which products read them, in LLVM IR.

`@turn` transposes, `@spread` pads rows and splits their columns by a stride, `@gather` lays windows
out as the columns of a panel, `@weave` puts the columns together again. Loads never leave their
operand; stores may run one vector past a row, so scratch has that much behind its end.
"""

from __future__ import annotations

from rushlight.codegen.kernels.emit import Function, Int, Target

__all__ = ["copied", "layout_texts", "turned", "zeroed"]


def copied(f: Function, source: str, target: str, count: Int) -> None:
    """Copy floats; zeros fill the last vector."""
    with f.loop(0, count, f.lanes) as at:
        f.store(f.load_first(f.at(source, at), f.sub(count, at)), f.at(target, at))


def zeroed(f: Function, target: str, count: Int) -> None:
    """Set floats to zero, and those up to a whole vector."""
    with f.loop(0, count, f.lanes) as at:
        f.store("zeroinitializer", f.at(target, at))


def turned(f: Function, rows: list[str]) -> list[str]:
    """As many vectors as they have lanes to their transpose, by halves that change places."""
    lanes, distance = f.lanes, f.lanes // 2
    while distance:
        found = list(rows)
        for i in range(lanes):
            if i & distance:
                continue
            low = [j if not j & distance else lanes + j - distance for j in range(lanes)]
            high = [j + distance if not j & distance else lanes + j for j in range(lanes)]
            pair = rows[i], rows[i + distance]
            found[i], found[i + distance] = f.shuffle(*pair, low), f.shuffle(*pair, high)
        rows, distance = found, distance // 2
    return rows


def turn_text(target: Target) -> str:
    """target[column, row] = source[row, column]"""
    f = Function(
        target,
        "turn",
        ("ptr %x", "i64 %xrs", "ptr %y", "i64 %yrs", "i64 %rows", "i64 %columns"),
    )
    lanes = target.lanes
    with f.loop(0, "%rows", lanes) as row, f.loop(0, "%columns", lanes) as column:
        height, width = f.sub("%rows", row), f.sub("%columns", column)
        source = f.at(f.at("%x", f.mul(row, "%xrs")), column)
        place = f.at(f.at("%y", f.mul(column, "%yrs")), row)
        tall, wide = f.compare("sge", height, lanes), f.compare("sge", width, lanes)
        is_whole = f.value(f"and i1 {tall}, {wide}")
        with f.when(is_whole):
            lines = [f.load(f.at(source, f.mul("%xrs", i))) for i in range(lanes)]
            for i, line in enumerate(turned(f, lines)):
                f.store(line, f.at(place, f.mul("%yrs", i)))
        with f.when(f.value(f"xor i1 {is_whole}, true")):
            end = f.sub(height, 1)
            lines = []
            for i in range(lanes):
                line = f.at(source, f.mul("%xrs", f.least(i, end)))
                lines.append(f.load_first(line, width))
            for i, line in enumerate(turned(f, lines)):
                with f.when(f.compare("sgt", width, i)):
                    f.store_first(line, f.at(place, f.mul("%yrs", i)), height)
    return f.text()


def spread_text(target: Target) -> str:
    """Rows of an image, `jump` apart, with zeros around them: target[row][phase][place] is column
    place * step + phase - left, for as many phases as are asked for. A row outside of the image is
    zeros."""
    f = Function(
        target,
        "spread",
        (
            "ptr %x", "ptr %y", "i64 %first", "i64 %rows", "i64 %height", "i64 %width", "i64 %left",
            "i64 %step", "i64 %pitch", "i64 %line", "i64 %phases", "i64 %jump",
        ),
    )  # fmt: skip
    lanes = target.lanes
    with f.loop(0, "%rows") as number:
        place = f.at("%y", f.mul(number, "%line"))
        zeroed(f, place, "%line")
        row = f.add("%first", f.mul(number, "%jump"))
        with f.when(f.value(f"icmp ult i64 {row}, %height")):
            source = f.at("%x", f.mul(row, "%width"))
            with f.loop(0, "%phases") as phase:
                lead = f.sub("%left", phase)
                round_up = f.sub("%step", 1)
                start = f.div(f.most(f.add(lead, round_up), 0), "%step")
                stop = f.div(f.most(f.add(f.add(lead, "%width"), round_up), 0), "%step")
                stop = f.least(stop, "%pitch")
                count = f.sub(stop, start)
                begin = f.at(source, f.sub(f.mul(start, "%step"), lead))
                end = f.at(place, f.add(f.mul(phase, "%pitch"), start))
                with f.when(f.compare("eq", "%step", 1)):
                    copied(f, begin, end, count)
                with f.when(f.compare("eq", "%step", 2)), f.loop(0, count, lanes) as at:
                    rest = f.sub(f.mul(f.sub(count, at), 2), 1)
                    two = f.at(begin, f.mul(at, 2))
                    pair = (
                        f.load_first(two, rest),
                        f.load_first(f.at(two, lanes), f.sub(rest, lanes)),
                    )
                    even = f.shuffle(*pair, range(0, 2 * lanes, 2))
                    f.store(even, f.at(end, at))
                with f.when(f.compare("sgt", "%step", 2)), f.loop(0, count) as at:
                    number_ = f.load(f.at(begin, f.mul(at, "%step")), "float")
                    f.store(number_, f.at(end, at), "float")
    return f.text()


def gather_text(target: Target) -> str:
    """Columns of a panel, `count` places from `first` on: row (channel * crow + tap * trow) holds
    what lies at the tap's offset from each place, places being `width` to an image row."""
    f = Function(
        target,
        "gather",
        (
            "ptr %x", "ptr %y", "i64 %channels", "i64 %plane", "ptr %taps", "i64 %count",
            "i64 %crow", "i64 %trow", "i64 %yrs", "i64 %row", "i64 %width", "i64 %first",
            "i64 %size",
        ),
    )  # fmt: skip
    top, left = f.div("%first", "%width"), f.rem("%first", "%width")
    begin = f.add(f.mul(top, "%row"), left)
    head = f.least(f.sub("%width", left), "%size")
    with f.loop(0, "%channels") as channel, f.loop(0, "%count") as tap:
        source = f.at(f.at("%x", f.mul(channel, "%plane")), f.word("%taps", tap))
        number = f.add(f.mul(channel, "%crow"), f.mul(tap, "%trow"))
        place = f.at("%y", f.mul(number, "%yrs"))
        copied(f, f.at(source, begin), place, head)
        # Whole rows behind the first one.
        line = f.slot("ptr")
        f.store(f.at(source, f.mul(f.add(top, 1), "%row")), line, "ptr", 8)
        with f.loop(head, "%size", "%width") as done:
            here = f.load(line, "ptr", 8)
            f.store(f.at(here, "%row"), line, "ptr", 8)
            copied(f, here, f.at(place, done), f.least("%width", f.sub("%size", done)))
    return f.text()


def weave_text(target: Target) -> str:
    """target[place * step] = source[place]"""
    f = Function(target, "weave", ("ptr %x", "ptr %y", "i64 %step", "i64 %count"))
    with f.loop(0, "%count") as at:
        f.store(f.load(f.at("%x", at), "float"), f.at("%y", f.mul(at, "%step")), "float")
    return f.text()


def layout_texts(target: Target) -> list[str]:
    return [make(target) for make in (turn_text, spread_text, gather_text, weave_text)]
