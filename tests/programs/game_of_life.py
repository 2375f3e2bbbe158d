"""Conway's Game of Life with roll, indexing and masks."""

import torch


def neighbours(board):
    total = torch.zeros_like(board)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if dy or dx:
                total += torch.roll(board, shifts=(dy, dx), dims=(0, 1))
    return total


def step(board):
    count = neighbours(board)
    return ((count == 3) | ((board == 1) & (count == 2))).to(board.dtype)


def show(board):
    for row in board.tolist():
        print("".join(".#"[cell] for cell in row))


board = torch.zeros(8, 10, dtype=torch.int32)
board[0, 1] = board[1, 2] = 1
board[2, :3] = 1
board[5:7, 6:8] = 1
for generation in range(4):
    print("generation", generation, "alive", board.sum().item())
    show(board)
    board = step(board)
print(board.nonzero().t())
print(board.any(1).int(), torch.where(board.sum(0) > 0)[0])
windows = board.unfold(0, 2, 2).unfold(1, 2, 2)
print(windows.shape, windows.sum((-1, -2)))
flipped = board.flip(0).t()[::3]
print(flipped, flipped.is_contiguous(), flipped.stride())
period = step(step(board))
print(torch.equal(period, board), (period ^ board).count_nonzero())
