"""Programs with breaks and raises in handlers, `finally`, `with`, loops and comprehensions."""

from __future__ import annotations

import sys

from rushlight.capture.marks import disable, graph_break

LOG: list[object] = []


@disable
def note(*what):
    LOG.append(what)
    return what[0]


@disable
def handled():
    """What is being handled, as the caller's callees see it."""
    return repr(sys.exc_info()[1])


@disable
def fail(kind=KeyError):
    raise kind("native")


class Own(ValueError):
    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


class Ctx:
    def __init__(self, swallows):
        self.swallows = swallows

    def __enter__(self):
        note("in")
        return self

    def __exit__(self, kind, value, trace):
        note("out", kind and kind.__name__)
        return self.swallows


def in_a_handler(x):
    y = x + 1
    try:
        raise ValueError("a")
    except ValueError:
        y = y * 2
        note(handled())
        y = y * 3
    return y + 1, handled()


def named_handler(x):
    try:
        raise Own("a", 3)
    except Own as error:
        y = x * error.code
        note(str(error), handled())
        y = y + error.code
    return y * 2


def nested_handlers(x):
    try:
        raise ValueError("outer")
    except ValueError:
        y = x + 1
        try:
            raise KeyError("inner")
        except KeyError:
            y = y * 2
            note(handled())
            y = y * 3
        note(handled())
        y = y - 1
    note(handled())
    return y + x


def raised_again(x):
    try:
        try:
            raise ValueError("a")
        except ValueError:
            y = x * 2
            note(handled())
            raise
    except ValueError as error:
        y = y + 5
        note(str(error))
    return y * 2


def raised_in_a_handler(x):
    try:
        try:
            raise ValueError("a")
        except ValueError:
            y = x * 2
            graph_break()
            raise KeyError("b")  # noqa: B904
    except KeyError as error:
        note(repr(error), repr(error.__context__))
        return y + 1


def raised_from(x):
    y = x + 1
    try:
        try:
            raise ValueError("a")
        except ValueError as error:
            raise KeyError("b") from error
    except KeyError as error:
        note(repr(error.__cause__))
        y = y * 2
    return y


def left_by_a_finally(x):
    y = x + 1
    try:
        y = y * 2
        raise ValueError("out")
    finally:
        y = y * 3
        note("finally", handled())
        y = y * 4


def returned_from_finally(x):
    y = x + 1
    try:
        y = y * 2
        raise ValueError("gone")
    finally:
        note("finally")
        return y * 3  # noqa: B012


def native_error_handled(x):
    y = x + 1
    try:
        fail()
    except KeyError as error:
        y = y * 2
        note(str(error), handled())
        y = y + 1
    return y * 3


def swallowed(x):
    y = x
    with Ctx(True):
        y = y + 1
        raise ValueError("a")
    y = y * 2
    note("behind")
    return y + 1


def left_through_with(x):
    y = x + 1
    with Ctx(False):
        y = y * 2
        note("inside")
        y = y * 2
        raise ValueError(3)


def break_in_with_of_a_loop(x):
    for i in range(3):
        with Ctx(i == 1):
            x = x + i
            if i == 1:
                raise ValueError("a")
            graph_break()
            x = x * 2
    return x


def handler_in_a_loop(x):
    for i in range(4):
        try:
            x = x + i
            if i % 2:
                raise ValueError(i)
            x = x * 2
        except ValueError as error:
            note(error.args)
            x = x - 1
            continue
        else:
            x = x + 3
        finally:
            x = x + 10
    return x


def in_a_comprehension(x):
    return [x * note(i) + i for i in range(3)], {i: x + note(i) for i in range(2)}


def in_a_generator(x):
    return sum(x * note(i) for i in range(3)) + 1


def callee(x):
    try:
        y = x + 1
        raise ValueError("a")
    except ValueError:
        note(handled())
        return y * 2


def in_a_callee(x):
    try:
        raise KeyError("outer")
    except KeyError:
        y = callee(x * 2)
        note(handled())
        return y + 1


def caught_from_a_callee(x):
    def raises(v):
        note(v * 2)
        raise Own("b", 4)

    try:
        raises(x)
    except ValueError as error:
        return x + error.code, type(error).__name__, error.args


def wrong_handler(x):
    try:
        y = x * 2
        raise ValueError("not mine")
    except KeyError:
        return y


def while_with_break(x):
    n = 0
    while True:
        try:
            n += 1
            x = x + 1
            if n == 2:
                raise StopIteration
            note(n)
        except StopIteration:
            graph_break()
            x = x * 2
            break
    return x, n


PROGRAMS = [
    in_a_handler, named_handler, nested_handlers, raised_again, raised_in_a_handler, raised_from,
    left_by_a_finally, returned_from_finally, native_error_handled, swallowed, left_through_with,
    break_in_with_of_a_loop, handler_in_a_loop, in_a_comprehension, in_a_generator, in_a_callee,
    caught_from_a_callee, wrong_handler, while_with_break,
]  # fmt: skip


# Graphs over tensors, where no more is between the breaks.
COUNTS = {
    in_a_handler: 2, named_handler: 2, nested_handlers: 4, raised_again: 2, swallowed: 2,
    handler_in_a_loop: 3, caught_from_a_callee: 1, left_by_a_finally: 1, native_error_handled: 1,
}  # fmt: skip


def outcome(f, x):
    """What a program does: result or exception with its chain, notes, what is handled after it."""
    LOG.clear()
    try:
        result = repr(f(x))
    except Exception as error:
        chain = error.__context__, error.__cause__
        result = type(error), error.args, [type(other) for other in chain]
    return result, repr(LOG), sys.exc_info()
