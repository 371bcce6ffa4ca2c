"""`ProposeSolve`: a proposer writes a task, and several solvers try it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np

from agentgym.envs.propose_solve.domain import Domain, Problem
from agentgym.envs.propose_solve.expressions import Expressions
from agentgym.envs.propose_solve.programs import Programs
from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards
from agentgym.tasks import Tasks, task_draws
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import LONGEST, command

DOMAINS = ("expressions", "programs")


@dataclass
class State:
    """The state of an episode.

    Attributes:
        kind: the kind of the task.
        examples: proposals that the proposer must not repeat.
        problem: the task, once it is proposed.
        given: whether the task was drawn because the proposer had written no valid one.
        answers: the answers of the solvers.
        right: whether they are right.
    """

    kind: str
    examples: list[str]
    problem: Problem | None = None
    given: bool = False
    answers: list[str] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)


def learnability(right: list[bool]) -> float:
    """Returns the reward of a proposer: 1 - the mean success, 0 if all or no answers are right."""
    mean = sum(right) / len(right)
    return 1 - mean if 0 < mean < 1 else 0.0


@lru_cache(maxsize=64)
def verified(domain: Domain, kind: str, proposal: str, test: bool) -> Problem:
    """Returns the task of a proposal: see `Domain.verify`. Repetitions are not verified again."""
    return domain.verify(kind, proposal, test=test)


class ProposeSolve(TextGame):
    """A proposer writes a task that the environment verifies, and solvers try to solve it.

    ## Description
    player_0, the proposer, writes a task of the requested kind that is none of the examples. The
    environment verifies it. Then all others, the solvers, answer it without seeing each other's
    answers. The proposer gains most from tasks that few solvers solve, and nothing from those that
    all or none solve.

    - "expressions": arithmetic. Solvers compute the value. A quarter of all expressions are kept
      for the test tasks.
    - "programs": a Python program with inputs (extra `code`). In "deduction", solvers find the
      output, in "abduction" an input for an output, and in "induction" a program for inputs with
      outputs, which must also be right for hidden inputs. Programs run in a sandbox without a clock
      and are refused if they fail.

    ## Action Space
    Text:

    - Proposer: an expression such as `3 * (4 + 5)`, or a program with a function `f`, followed by a
      line `input: ARGUMENTS`, such as `input: 3, [1, 2]` (six such lines for induction).
    - Solvers: the answer: a number, a Python literal, arguments, or a program with a function `f`.

    ## Observation Space
    Text: the request with the examples for the proposer, and the task for solvers. After the end,
    a solver sees whether its answer is right, and the proposer sees all answers.

    ## Rewards
    Term `task`:

    - Solvers: 1 for a right answer, else 0.
    - Proposer: 1 - the share of right answers, and 0 if all or none are right.

    An invalid proposal costs `invalid_penalty` (term `invalid`). After `max_invalid` ones in a row,
    a random task is drawn, and the proposer gets no reward for it. All answers are valid actions.

    ## Starting State
    The task, `train/N` or `test/N`, determines the kind and the examples. Few starts exist for a
    solver: the seed decides what scripted proposers propose. A quarter of all proposals are
    reserved for test episodes: in training they are invalid.

    ## Episode End
    Termination: all solvers have answered. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `success` and `progress` of a solver: whether its answer is right, and 1 or 0.
    Those of the proposer: whether its reward is above 0, and its reward.

    ## Arguments
    - `domain` ("expressions" or "programs", default "expressions"): the space of tasks.
    - `kind` (str, default "any"): the kind of tasks, or "any" for a random one per episode. Only
      "programs" has several: "deduction", "abduction" and "induction".
    - `solvers` (int, default 4): number of solvers, from 2 to 16.
    - `examples` (int, default 2): number of examples, from 0 to 10.
    - `terms` (int, default 3), `largest` (int, default 20): limits of expressions.
    - `max_turns` (int or None, default None): turns before truncation.
    - `seat` (single seat only): player_0 (proposer) or another one (solver).
    - `opponents` (single seat only, default "weak"): the players of the other seats.
      - "random": random tasks, and random numbers as answers.
      - "weak": random tasks, and the right answer with the probability 1 / the number of numbers of
        an expression or of lines of a program.
      - "expert": random tasks, and the right answer. In abduction and induction it is the
        proposer's.

    ## Notes
    Roles have the names `proposer` and `solver`, and with several kinds `deduction-proposer` and so
    on, so that recipes with statistics per role, such as `rae`, keep one baseline per kind and role
    as in Absolute Zero.

    ## References
    - Absolute Zero: Reinforced Self-play Reasoning with Zero Data (arXiv 2505.03335): the kinds of
      tasks, the checks and the reward of the proposer. Changed: several solvers answer in one
      episode (theirs: samples of an estimate), the sandbox makes programs deterministic (theirs: a
      second run), examples are random programs (theirs: earlier proposals), and an induction task
      shows no message of the proposer.
    - Self-Challenging Language Model Agents (arXiv 2506.01716): tasks count only if they can be
      verified.
    - R-Zero (arXiv 2508.05004) and Agent0 (arXiv 2511.16043): a proposer at the edge of a solver's
      ability.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(3, 18)
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "the proposer writes a task, and test examples are few",
        "semantic.duplicate_tasks": "the proposer writes a task, and the solver's start is equal",
    }
    state: State
    levels = ("random", "weak", "expert")
    expert_level = "expert"
    default_opponents = "weak"

    def __init__(
        self,
        *,
        domain: str = "expressions",
        kind: str = "any",
        solvers: int = 4,
        examples: int = 2,
        terms: int = 3,
        largest: int = 20,
        num_players: int | None = None,
        **kwargs,
    ):
        if domain not in DOMAINS:
            hint = did_you_mean(domain, DOMAINS)
            raise ConfigError(f"domain must be one of {', '.join(DOMAINS)}, got {domain!r}.{hint}")
        for name, number, low, high in (("solvers", solvers, 2, 16), ("examples", examples, 0, 10)):
            if not low <= number <= high:
                raise ConfigError(f"{name} must be from {low} to {high}, got {number}.")
        if num_players not in (None, solvers + 1):
            raise ConfigError(
                f"num_players must be solvers + 1 = {solvers + 1}, or None, got {num_players}."
            )
        self.domain: Domain = Programs() if domain == "programs" else Expressions(terms, largest)
        kinds = self.domain.kinds
        if kind not in ("any", *kinds):
            raise ConfigError(f"kind must be any or one of {', '.join(kinds)}, got {kind!r}.")
        self.kinds = kinds if kind == "any" else (kind,)
        super().__init__(num_players=solvers + 1, **kwargs)
        self.examples = examples
        self.instructions = (
            "player_0 writes a task, and the other players solve it.\n"
            "\n"
            "Rules:\n"
            f"{self.domain.rules}"
            "\n"
            "Action: only the task, or only the answer.\n"
            "\n"
            "Score: 1 for a right answer. player_0 gets 1 minus the share of right answers, but "
            "nothing if all or none are right."
        )

    def role(self, agent: str) -> str:
        """Returns "proposer" or "solver", with the kind of the task if there are several."""
        kind = self.state.kind if self.episode is not None else self.kinds[0]
        return self._role(agent, kind)

    def possible_roles(self, agent: str) -> tuple[str, ...]:
        """Returns the role of each kind of task."""
        return tuple(self._role(agent, kind) for kind in self.kinds)

    def _role(self, agent: str, kind: str) -> str:
        side = "proposer" if agent == self.possible_agents[0] else "solver"
        return f"{kind}-{side}" if len(self.kinds) > 1 else side

    def _start(self, task: str) -> None:
        below = task_draws(task, "propose").below
        kind = self.kinds[below(len(self.kinds))]
        drawn = [self._sample(task, kind, below) for _ in range(self.examples)]
        self.state = State(kind, [problem.proposal for problem in drawn])

    def _sample(self, task: str, kind: str, below: Callable[[int], int]) -> Problem:
        proposal = self.domain.sample(task, kind, below)
        return verified(self.domain, kind, proposal, task.startswith("test/"))

    def _acting(self) -> tuple[str, ...]:
        if self.state.problem is None:
            return self.possible_agents[:1]
        return () if self.state.right else self.possible_agents[1:]

    def _look(self, agent: str) -> TimeStep:
        state, proposes = self.state, agent == self.possible_agents[0]
        if state.problem is None:
            text = self._request() if proposes else "The proposer writes a task."
            return TimeStep(text)
        if not state.right:
            text = "The solvers answer." if proposes else "Your answer?"
            return TimeStep(f"{state.problem.question}\n{text}")
        # A solver sees its own answer: a right one of others would solve the task once more.
        verdicts = [
            f"{name}: {answer[:200]} ({'right' if right else 'wrong'})"
            for name, answer, right in zip(
                self.possible_agents[1:], state.answers, state.right, strict=True
            )
            if proposes or name == agent
        ]
        own = state.right[self.possible_agents.index(agent) - 1]
        gain = self._gain() if proposes else float(own)
        return TimeStep(
            text="\n".join([state.problem.question, *verdicts]), success=gain > 0, progress=gain
        )

    def _request(self) -> str:
        examples = "\n\n".join(self.state.examples)
        other = f"\n\nIt must differ from these tasks:\n{examples}" if examples else ""
        return f"{self.domain.asks(self.state.kind)}{other}"

    def _gain(self) -> float:
        return 0.0 if self.state.given else learnability(self.state.right)

    def _parse(self, agent: str, action: str) -> str:
        if agent != self.possible_agents[0]:
            if len(action) > LONGEST:
                raise InvalidMove(f"An answer has at most {LONGEST} characters.")
            return command(action)
        problem = self._verify(action)
        if problem.proposal in self.state.examples:
            raise InvalidMove("This task is one of the examples. Write another one.")
        return action

    def _verify(self, proposal: str) -> Problem:
        test = self._episode.task.startswith("test/")
        return verified(self.domain, self.state.kind, proposal, test)

    def _fallback(self, agent: str) -> str:
        self.state.given = self.state.given or agent == self.possible_agents[0]
        return super()._fallback(agent)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        if state.problem is None:
            state.problem = self._verify(moves[self.possible_agents[0]])
            return {}
        state.answers = [moves[agent] for agent in self.possible_agents[1:]]
        state.right = [
            self.domain.right(state.kind, state.problem, answer) for answer in state.answers
        ]
        return self._pay([self._gain(), *map(float, state.right)])

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        if self.state.problem is None:
            return self._proposal(rng)
        return self.domain.guess(self.state.problem, rng)

    def _proposal(self, rng: np.random.Generator) -> str:
        task, state = self._episode.task, self.state

        def below(bound: int) -> int:
            return int(rng.integers(bound))

        drawn = self._sample(task, state.kind, below).proposal
        for _ in range(20):
            if drawn not in state.examples:
                break
            drawn = self._sample(task, state.kind, below).proposal
        return drawn

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        problem = self.state.problem
        if problem is None:
            return self._proposal(rng)
        knows = level == "expert" or rng.random() < 1 / problem.size
        return problem.solution if knows else self.domain.guess(problem, rng)


env, raw_env, parallel_env = make_pettingzoo(ProposeSolve)
