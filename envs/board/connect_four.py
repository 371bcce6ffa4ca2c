"""ConnectFour: four in a row on a board whose columns fill from the bottom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from agentgym.core import TimeStep
from agentgym.errors import ConfigError
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks

MARKS = "XO"
RESIGN = "resign"
WIN = 1000  # more than any estimate of an undecided position


@dataclass(frozen=True)
class Grid:
    """A board's shape, and sets of its cells as the bits of an integer.

    Cell (row, column), row 0 at the bottom, is bit `column * (rows + 1) + row`. The bit above each
    column stays empty, so that no line runs from one column's top into the next one's bottom.
    """

    rows: int = 6
    columns: int = 7

    @property
    def directions(self) -> tuple[int, ...]:
        """The distances between neighbours in a column, a row and the two diagonals."""
        return 1, self.rows + 1, self.rows, self.rows + 2

    @property
    def bottom(self) -> int:
        """The lowest cell of every column."""
        return sum(1 << column * (self.rows + 1) for column in range(self.columns))

    @property
    def full(self) -> int:
        """All cells."""
        return self.bottom * ((1 << self.rows) - 1)


def has_four(grid: Grid, stones: int) -> bool:
    """Returns whether four of the stones stand in a row, column or diagonal."""
    for step in grid.directions:
        pairs = stones & stones >> step
        if pairs & pairs >> 2 * step:
            return True
    return False


def completing(grid: Grid, stones: int) -> int:
    """Returns the cells (taken or not) that would make four in a row with three of the stones."""
    cells = 0
    for step in grid.directions:
        up, down = stones << step, stones >> step
        two_up, two_down = up & stones << 2 * step, down & stones >> 2 * step
        cells |= two_up & (stones << 3 * step | down) | two_down & (stones >> 3 * step | up)
    return cells & grid.full


def drops(grid: Grid, filled: int) -> int:
    """Returns the cells where the next stone of each column that is not full would come to lie."""
    return (filled + grid.bottom) & grid.full


@cache
def column_masks(grid: Grid) -> tuple[int, ...]:
    """Returns the cells of each column."""
    return tuple(((1 << grid.rows) - 1) << c * (grid.rows + 1) for c in range(grid.columns))


@cache
def inner_first(grid: Grid) -> tuple[int, ...]:
    """Returns the columns' cells, those in the middle first: the better moves, more often."""
    order = sorted(range(grid.columns), key=lambda c: abs(2 * c - grid.columns + 1))
    return tuple(column_masks(grid)[column] for column in order)


def estimate(grid: Grid, mine: int, theirs: int) -> int:
    """Returns how good an undecided position looks: open threats count 8, inner columns 1."""
    free = grid.full & ~(mine | theirs)
    inner = inner_first(grid)[0] | inner_first(grid)[1]
    threats = (completing(grid, mine) & free).bit_count()
    threats -= (completing(grid, theirs) & free).bit_count()
    return 8 * threats + (mine & inner).bit_count() - (theirs & inner).bit_count()


def search(grid: Grid, mine: int, theirs: int, depth: int, low: int, high: int) -> int:
    """Returns the value of a position to the player to move, by alpha-beta search.

    Args:
        grid: the shape of the board.
        mine: stones of the player to move.
        theirs: stones of the other; they have no four yet.
        depth: how many more moves to look ahead; below, `estimate` decides.
        low: values of at most this may be returned too high (but at most this).
        high: values of at least this may be returned too low (but at least this).

    Returns:
        WIN + the cells left empty at the win (so that sooner is better), minus that for a loss,
        0 for a draw, or the estimate.
    """
    filled = mine | theirs
    options = drops(grid, filled)
    if not options:
        return 0
    left = (grid.full & ~filled).bit_count()
    if completing(grid, mine) & options:
        return WIN + left - 1
    forced = completing(grid, theirs) & options
    if forced:
        if forced & (forced - 1):
            return -WIN - left + 2
        options = forced
    if depth <= 0:
        return estimate(grid, mine, theirs)
    best = -2 * WIN
    for column in inner_first(grid):
        cell = options & column
        if cell:
            value = -search(grid, theirs, mine | cell, depth - 1, -high, -max(low, best))
            if value > best:
                best = value
                if best >= high:
                    break
    return best


def best_columns(grid: Grid, mine: int, theirs: int, depth: int) -> list[int]:
    """Returns the columns of greatest value to the player to move, looking `depth` moves ahead."""
    best, columns = -2 * WIN, []
    for column, mask in enumerate(column_masks(grid)):
        cell = drops(grid, mine | theirs) & mask
        if not cell:
            continue
        if has_four(grid, mine | cell):
            value = WIN + (grid.full & ~(mine | theirs)).bit_count() - 1
        else:
            value = -search(grid, theirs, mine | cell, depth - 1, -2 * WIN, 1 - best)
        if value > best:
            best, columns = value, []
        if value == best:
            columns.append(column)
    return columns


def greedy_columns(grid: Grid, mine: int, theirs: int) -> list[int]:
    """Returns the columns that win at once, else those that stop the other from it, else all."""
    options = drops(grid, mine | theirs)
    for stones in (mine, theirs):
        if threats := completing(grid, stones) & options:
            options = threats
            break
    return [column for column, mask in enumerate(column_masks(grid)) if options & mask]


@dataclass
class State:
    """The columns (from 0) that X and O have played in turn, and the mark of who gave up, if any.

    `stones` are the cells of X and of O (see `Grid`): they follow from the moves.
    """

    moves: list[int]
    stones: tuple[int, int] = (0, 0)
    resigned: str = ""


def drop(grid: Grid, state: State, column: int) -> None:
    """Puts a stone of whoever is to move into a column that is not full."""
    player = len(state.moves) % 2
    cell = drops(grid, state.stones[0] | state.stones[1]) & column_masks(grid)[column]
    stones = list(state.stones)
    stones[player] |= cell
    state.stones = (stones[0], stones[1])
    state.moves.append(column)


@cache
def openings(columns: int) -> Tasks:
    """Openings of 0 to 3 moves; of every four that are not mirrored positions, one is for testing.

    Openings that lead to the same or the mirrored position belong together.
    """
    grid = Grid(4, columns)
    names: tuple[list[str], list[str]] = ([], [])
    classes: dict[tuple[tuple[int, int], ...], int] = {}
    for moves in _sequences(columns, 3):
        both = []
        for turned in (moves, tuple(columns - 1 - move for move in moves)):
            state = State([])
            for move in turned:
                drop(grid, state, move)
            both.append(state.stones)
        number = classes.setdefault(tuple(sorted(both)), len(classes))
        name = "opening/" + "-".join(str(move + 1) for move in moves)
        names[number % 4 == 3].append(name)
    return Tasks(*names)


def _sequences(columns: int, plies: int) -> list[tuple[int, ...]]:
    sequences: list[tuple[int, ...]] = [()]
    longest = sequences
    for _ in range(plies):
        longest = [(*moves, column) for moves in longest for column in range(columns)]
        sequences = sequences + longest
    return sequences


class ConnectFour(TextGame):
    """Four in a row on a board whose columns fill from the bottom, for two.

    ## Description
    player_0 has X and begins; player_1 has O. A stone falls to the lowest empty cell of its column.
    Who first has four in a row, column or diagonal wins; a full board is a draw. From an empty
    board of 6 rows and 7 columns, X wins under perfect play, beginning in the middle.

    ## Action Space
    Text: the number of a column that is not full, `1` to `7` from the left. With
    `action_mode="discrete"`: its index.

    ## Observation Space
    Text: one's mark, whose turn it is, the last move, and the board, "." for an empty cell.

    ## Rewards
    Term `task`, at the end: 1 for a win, -1 for a loss, 0 for a draw. Zero-sum. An invalid action
    costs `invalid_penalty`.

    ## Starting State
    The task is an opening of 0 to 3 moves already made: `opening/`, `opening/4`, `opening/4-4-3`.
    Openings that lead to the same position or its mirror are all training or all test tasks.

    ## Episode End
    Termination: a win, a full board, or `max_invalid` invalid actions in a row, which lose the
    game. Truncation: after `max_turns` turns (invalid actions count).

    ## Information
    The common keys; `success` is a win; `progress` is 1 for a win, 0.5 for a draw.

    ## Arguments
    `rows`, `columns`: from 4 to 9, default 6 and 7. `depth`: how many moves the "alphabeta" player
    looks ahead, default 5. `max_turns`: default None. `max_invalid`: default 3. As a single seat:
    `seat` ("player_0", "player_1" or None: drawn) and `opponents`: "random", "greedy" (the default:
    wins if it can, else blocks if it must, else random) or "alphabeta" (searches, at random among
    equally good moves).

    ## Example Transcript
    ```
    You are O. It is your turn. X played 4.
    1 2 3 4 5 6 7
    . . . . . . .
    . . . . . . .
    . . . . . . .
    . . . . . . .
    . . . . . . .
    . . . X . . .
    > 4
    ```

    ## Baselines
    Mean return (share of wins) of a single seat, seat and test opening drawn, 100 episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | -0.13 (0.43) | 1.00 (1.00) |
    | greedy | -0.98 (0.01) | 1.00 (1.00) |
    | alphabeta | -1.00 (0.00) | 0.00 (0.46) |

    ## Registered Configurations
    `ConnectFour-v0`.

    ## References
    Allis, A Knowledge-based Approach of Connect-Four (1988) and Allen (1988) solved the game.
    Tromp, John's Connect Four Playground: boards of other sizes.

    ## Version History
    v0: first version.
    """

    State = State
    state: State
    zero_sum = True
    levels = ("random", "greedy", "alphabeta")
    expert_level = "alphabeta"
    default_opponents = "greedy"

    def __init__(self, *, rows: int = 6, columns: int = 7, depth: int = 5, **kwargs):
        for name, size in (("rows", rows), ("columns", columns)):
            if not 4 <= size <= 9:
                raise ConfigError(f"{name} must be from 4 to 9, got {size}.")
        if not 1 <= depth <= 12:  # 10 take about a second a move
            raise ConfigError(f"depth must be from 1 to 12, got {depth}.")
        super().__init__(**kwargs)
        self.grid = Grid(rows, columns)
        self.depth = depth
        self.actions = tuple(str(column + 1) for column in range(columns))
        self.tasks = openings(columns)
        self.instructions = (
            f"You play connect four on a board of {columns} columns and {rows} rows. Players take "
            "turns dropping a stone into a column; it falls to the lowest empty cell. Four of your "
            "stones in a row, column or diagonal win. On your turn, say only the number of a "
            f"column that is not full, 1 to {columns} from the left. Who says something else "
            f"{self.max_invalid} times in a row loses."
        )

    def _start(self, task: str) -> None:
        self.state = State([])
        for column in filter(None, task.removeprefix("opening/").split("-")):
            drop(self.grid, self.state, int(column) - 1)

    def _winner(self) -> str | None:
        """Returns the winning mark, or None while there is none."""
        state = self.state
        if state.resigned:
            return MARKS[state.resigned == "X"]
        last = (len(state.moves) + 1) % 2
        return MARKS[last] if has_four(self.grid, state.stones[last]) else None

    def _full(self) -> bool:
        return len(self.state.moves) == self.grid.rows * self.grid.columns

    def _acting(self) -> tuple[str, ...]:
        if self._winner() or self._full():
            return ()
        return (self.possible_agents[len(self.state.moves) % 2],)

    def _look(self, agent: str) -> TimeStep:
        moves, won = self.state.moves, self._winner()
        me = self.possible_agents.index(agent)
        draw = won is None and self._full()
        if draw:
            says = "The game is a draw."
        elif won:
            says = "You win." if won == MARKS[me] else "You lose."
        else:
            says = "It is your turn." if len(moves) % 2 == me else "It is the other's turn."
        if self.state.resigned:
            says += f" {self.state.resigned} gave up."
        board = self.picture()
        last = f" {MARKS[(len(moves) + 1) % 2]} played {moves[-1] + 1}." if moves else ""
        return TimeStep(
            text=f"You are {MARKS[me]}. {says}{last}\n{board}",
            state_key=f"You are {MARKS[me]}. {says}\n{board}",
            success=won == MARKS[me],
            progress=1.0 if won == MARKS[me] else 0.5 * draw,
            admissible=tuple(
                action
                for column, action in enumerate(self.actions)
                if moves.count(column) < self.grid.rows
            ),
        )

    def _advance(self, moves: dict[str, str]) -> Rewards:
        ((agent, move),) = moves.items()
        if move == RESIGN:
            self.state.resigned = MARKS[self.possible_agents.index(agent)]
        else:
            drop(self.grid, self.state, int(move) - 1)
        won = self._winner()
        if won is None:
            return {}
        return self._pay(1.0 if mark == won else -1.0 for mark in MARKS)

    def _fallback(self, agent: str) -> str:
        return RESIGN

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        me = self.possible_agents.index(agent)
        mine, theirs = self.state.stones[me], self.state.stones[1 - me]
        if level == "greedy":
            columns = greedy_columns(self.grid, mine, theirs)
        else:
            columns = best_columns(self.grid, mine, theirs, self.depth)
        return self.actions[columns[int(rng.integers(len(columns)))]]

    def picture(self) -> str:
        """Returns the board, top row first, under the numbers of its columns."""
        grid, (crosses, noughts) = self.grid, self.state.stones
        lines = [" ".join(self.actions)]
        for row in reversed(range(grid.rows)):
            bits = [1 << column * (grid.rows + 1) + row for column in range(grid.columns)]
            lines.append(
                " ".join("X" if crosses & b else "O" if noughts & b else "." for b in bits)
            )
        return "\n".join(lines)


env, raw_env, parallel_env = make_pettingzoo(ConnectFour)
