"""ConnectFour: two-player Connect Four with an alpha-beta search opponent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.rendering.scene import GOLD, RED, Cell, Scene, from_map
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

MARKS = "XO"
STONES = {"X": Cell(shape="disc", color=RED), "O": Cell(shape="disc", color=GOLD), ".": Cell()}
RESIGN = "resign"
WIN = 1000  # greater than any heuristic value


@dataclass(frozen=True)
class Grid:
    """The shape of a board. Sets of its cells are bit masks.

    Cell (row, column), row 0 at the bottom, is bit `column * (rows + 1) + row`. The bit above each
    column stays empty, so that no line continues from the top of a column into the next column.
    """

    rows: int = 6
    columns: int = 7

    @cached_property
    def directions(self) -> tuple[int, ...]:
        """Bit distances between neighbours in a column, a row and the two diagonals."""
        return 1, self.rows + 1, self.rows, self.rows + 2

    @cached_property
    def bottom(self) -> int:
        """The bottom row."""
        return sum(1 << column * (self.rows + 1) for column in range(self.columns))

    @cached_property
    def full(self) -> int:
        """All cells."""
        return self.bottom * ((1 << self.rows) - 1)


def has_four(grid: Grid, stones: int) -> bool:
    """Returns whether there are four stones in a row, column or diagonal."""
    for step in grid.directions:
        pairs = stones & stones >> step
        if pairs & pairs >> 2 * step:
            return True
    return False


def completing(grid: Grid, stones: int) -> int:
    """Returns the cells (empty or not) that complete four in a row with three of the stones."""
    cells = 0
    for step in grid.directions:
        up, down = stones << step, stones >> step
        two_up, two_down = up & stones << 2 * step, down & stones >> 2 * step
        cells |= two_up & (stones << 3 * step | down) | two_down & (stones >> 3 * step | up)
    return cells & grid.full


def drops(grid: Grid, filled: int) -> int:
    """Returns the lowest empty cell of each column that is not full."""
    return (filled + grid.bottom) & grid.full


@cache
def column_masks(grid: Grid) -> tuple[int, ...]:
    """Returns the cells of each column."""
    return tuple(((1 << grid.rows) - 1) << c * (grid.rows + 1) for c in range(grid.columns))


@cache
def inner_first(grid: Grid) -> tuple[int, ...]:
    """Returns the cells of each column, inner columns first, for better alpha-beta pruning."""
    order = sorted(range(grid.columns), key=lambda c: abs(2 * c - grid.columns + 1))
    return tuple(column_masks(grid)[column] for column in order)


def estimate(grid: Grid, mine: int, theirs: int) -> int:
    """Returns a heuristic value: 8 per open threat and 1 per stone in an inner column."""
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
        theirs: stones of the opponent, without four in a row.
        depth: remaining search depth in moves. Leaves are evaluated with `estimate`.
        low: alpha. Lower values may be overestimated, up to this bound.
        high: beta. Higher values may be underestimated, down to this bound.

    Returns:
        WIN + the number of empty cells at the end for a win (faster wins are better), the negative
        of that for a loss, 0 for a draw, or the estimate.
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
    """Returns the columns of highest value for the player to move, by a search of `depth` moves."""
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
    """Returns the winning columns, or else the blocking columns, or else all legal columns."""
    options = drops(grid, mine | theirs)
    for stones in (mine, theirs):
        if threats := completing(grid, stones) & options:
            options = threats
            break
    return [column for column, mask in enumerate(column_masks(grid)) if options & mask]


@dataclass
class State:
    """The moves of an episode.

    Attributes:
        moves: columns (from 0) that X and O have played in turn.
        stones: cells of X and of O (see `Grid`), derived from the moves.
        resigned: mark of the player who resigned, if any.
    """

    moves: list[int]
    stones: tuple[int, int] = (0, 0)
    resigned: str = ""


def drop(grid: Grid, state: State, column: int) -> None:
    """Drops a stone of the player to move into a column that is not full."""
    player = len(state.moves) % 2
    cell = drops(grid, state.stones[0] | state.stones[1]) & column_masks(grid)[column]
    stones = list(state.stones)
    stones[player] |= cell
    state.stones = (stones[0], stones[1])
    state.moves.append(column)


@cache
def openings(columns: int) -> Tasks:
    """Returns openings of 0 to 3 moves. Every fourth class of positions is a test class.

    Openings that lead to the same position or its mirror image form one class.
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
    """Two-player Connect Four on a board whose columns fill from the bottom.

    ## Description
    `player_0` plays X and moves first. `player_1` plays O. A stone falls to the lowest empty cell
    of its column. The first player with four stones in a row, column or diagonal wins. A full board
    without four in a row is a draw. On the standard board of 6 rows and 7 columns, X wins with
    perfect play by starting in the middle column.

    ## Action Space
    Text: the number of a column that is not full, `1` to `7` from the left. With
    `action_mode="discrete"`: its index.

    ## Observation Space
    Text: the agent's mark, whose turn it is, the last move, and the board, with "." for an empty
    cell.

    ## Rewards
    Term `task`, at the end of the game: 1 for a win, 0 for a draw, -1 for a loss. Zero-sum. An
    invalid action costs `invalid_penalty`.

    ## Starting State
    The task is an opening of 0 to 3 moves that are already played: `opening/`, `opening/4`,
    `opening/4-4-3`. Openings that lead to the same position or its mirror image belong to the same
    split.

    ## Episode End
    - Termination: a player wins, the board is full, or a player loses by `max_invalid` invalid
      actions in a row.
    - Truncation: after `max_turns` turns. Invalid actions count as turns.

    ## Information
    The common keys. `success`: the agent wins. `progress`: 1 for a win, 0.5 for a draw, otherwise
    0.

    ## Arguments
    - `rows` (int, default 6): number of rows, from 4 to 9.
    - `columns` (int, default 7): number of columns, from 4 to 9.
    - `depth` (int, default 5): search depth of the "alphabeta" player in moves, from 1 to 12.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lose the game.

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "greedy"): the opponent's policy.
        - "random": uniformly random moves.
        - "greedy": wins if possible, otherwise blocks if necessary, otherwise moves at random.
        - "alphabeta": alpha-beta search, sampled uniformly from equally good moves.

    ## Notes
    The expert is "alphabeta".

    ## References
    Allis, A Knowledge-based Approach of Connect-Four (1988), and Allen (1988) solved the game.
    Tromp, John's Connect Four Playground, covers boards of other sizes.

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
        if not 1 <= depth <= 12:  # higher depths are slow
            raise ConfigError(f"depth must be from 1 to 12, got {depth}.")
        super().__init__(**kwargs)
        self.grid = Grid(rows, columns)
        self.depth = depth
        self.actions = tuple(str(column + 1) for column in range(columns))
        self.tasks = openings(columns)
        self.instructions = (
            "You play Connect Four against an opponent.\n"
            "Rules:\n"
            f"- The board has {columns} columns and {rows} rows.\n"
            "- Players take turns dropping a stone into a column. It falls to the lowest empty "
            "cell.\n"
            "- The first player with four stones in a row, column or diagonal wins. A full board "
            "is a draw.\n"
            f"Action: the number of a column that is not full, 1 to {columns} from the left, for "
            "example: 4\n"
            "Scoring: 1 for a win, 0 for a draw, -1 for a loss. You lose after "
            f"{self.max_invalid} invalid action{'s' * (self.max_invalid > 1)} in a row."
        )

    def _start(self, task: str) -> None:
        self.state = State([])
        for column in filter(None, task.removeprefix("opening/").split("-")):
            drop(self.grid, self.state, int(column) - 1)

    def _winner(self) -> str | None:
        """Returns the mark of the winner, or None."""
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
            status = "The game is a draw."
        elif won:
            status = "You win." if won == MARKS[me] else "You lose."
        else:
            status = "It is your turn." if len(moves) % 2 == me else "It is your opponent's turn."
        if self.state.resigned:
            status += f" {self.state.resigned} resigned."
        board = self.picture()
        last = f" {MARKS[(len(moves) + 1) % 2]} played {moves[-1] + 1}." if moves else ""
        return TimeStep(
            text=f"You are {MARKS[me]}. {status}{last}\n{board}",
            state_key=f"You are {MARKS[me]}. {status}\n{board}",
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

    def _frame(self, agent: str | None) -> Scene:
        return from_map((line.split() for line in self.picture().split("\n")), STONES)

    def picture(self) -> str:
        """Returns the column numbers and the board, top row first."""
        grid, (crosses, noughts) = self.grid, self.state.stones
        lines = [" ".join(self.actions)]
        for row in reversed(range(grid.rows)):
            bits = (1 << column * (grid.rows + 1) + row for column in range(grid.columns))
            marks = ("X" if crosses & b else "O" if noughts & b else "." for b in bits)
            lines.append(" ".join(marks))
        return "\n".join(lines)


env, raw_env, parallel_env = make_pettingzoo(ConnectFour)
