"""`Team`: several roles around any single-agent environment, with a shared reward."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from agentgym.core import TextEnv
from agentgym.envs.team.edges import drawn_edges
from agentgym.envs.team.roles import ACCEPT, MAX_NOTE, REJECT, SCORES, Role, as_roles, checked
from agentgym.errors import ConfigError
from agentgym.multiagent.env_game import EnvGame, EnvGameState
from agentgym.multiagent.episode import GameEpisode
from agentgym.multiagent.messages import clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards, listed
from agentgym.registration.making import env_name, make_inner
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import LONGEST, match_action

_NUMBER = re.compile(r"(?<!\w)\d{1,6}(?!\w)")  # excludes digits of player names
PROPOSES = ("try", "act")
"""The kinds of roles that propose an action."""


@dataclass(kw_only=True)
class State(EnvGameState):
    """The state of the team between two actions of the environment.

    Attributes:
        place: index of the role that acts.
        attempt: number of passes through the roles since the last action of the environment.
        proposal: the last proposed action.
        author: index of the role that proposed it.
        log: role names and messages since the last action of the environment.
        solved: the first turn of the environment in which a tried action ended the copy's episode,
            or -1. In later turns, tried actions earn nothing.
        past: the turns of the environment that the team remembers, as texts.
    """

    place: int = 0
    attempt: int = 1
    proposal: str = ""
    author: int = -1
    log: list[tuple[str, str]] = field(default_factory=list)
    solved: int = -1
    past: list[str] = field(default_factory=list)


class TeamGame(EnvGame):
    """Several roles solve the task of one environment together, with a shared reward.

    ## Description
    The roles act in a fixed order and read the messages of the roles before them. There are five
    kinds of roles:

    - "note": writes a message to the roles after it, such as a plan or a critique.
    - "act": proposes an action. It replaces the action proposed before.
    - "try": proposes an action, which is also played in a copy of the environment. The team gets
      its reward, and nothing else of the copy is kept.
    - "check": accepts the proposed action, which is played at once, or rejects it.
    - "score": scores the proposed action, which is played in any case.

    After the last role, the proposed action is played in the environment. With `rounds`, the roles
    act several times before, as in a dialogue, and the last proposal is played. If a last role that
    checks rejects it, the roles begin again, at most `attempts` times. The messages are cleared
    when an action is played, except for those of the last `memory` actions.

    ## Action Space
    Text:

    - Note: any message, put on one line and cut after 1,000 characters.
    - Act or try: an action of the environment. If the environment lists its actions, one of them.
    - Check: `accept`, or `reject: reason`.
    - Score: `1` (wrong), `2` (partly right) or `3` (right).

    ## Observation Space
    Text: the role and its assignment, the observation of the environment, and the messages since
    its last action. With `memory`, also the last actions, with the observations and messages before
    them.

    ## Rewards
    All agents get the rewards of the environment, under the names of its terms, and those of
    actions that are tried, until one of them has ended an episode in the copy: then only those of
    the same turn of the environment. An invalid action costs the agent's own `invalid_penalty`,
    also if the environment finds it invalid.

    ## Starting State
    The start of an episode of the environment, whose tasks are those of the game. Few starts exist
    if the environment has few. If its splits share them, as in `NumberLine-v0`, so do the team's.

    ## Episode End
    - Termination: the episode of the environment has terminated.
    - Truncation: the environment has reached its turn limit, or after `max_turns` turns. Each
      action of a role is a turn.

    After `max_invalid` invalid actions in a row a random action is taken.

    ## Information
    The common keys. `success` and `progress` are those of the environment.

    ## Arguments
    - `env` (str, default "Countdown-v0"): id of the environment.
    - `env_kwargs` (dict or None, default None): arguments of the environment.
    - `roles` (str or list, default "generator-verifier-refiner"): "thinker-reasoner",
      "generator-verifier-refiner", "proposer-checker", "teacher-student", "pioneer-observer",
      "solver-evaluator-scorer", "planner-actor-reflector", "planner-executor-verifier-generator",
      or a list of roles with the keys `name`, `kind` ("note", "try", "act", "check" or "score") and
      `instructions`.
    - `attempts` (int, default 3): number of times that the roles act before an action is played
      although it was rejected.
    - `rounds` (int, default 1): number of times that the roles act before an action is played. More
      than 1 is for teams whose last role acts.
    - `memory` (int, default 0): number of last actions that all roles remember.
    - `edges` (float, default 1.0): share of the pairs of roles of which one reads the messages of
      the other, in [0, 1]. The task decides which they are, anew for each action. Roles that check
      or score always read the proposed action. Below 1, `memory` must be 0.
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `seat` (single seat only): the agent of a role, in order: player_0 is the first role.
    - `opponents` (single seat only, default "expert"): the players of the other roles.
      - "random": random admissible actions, or numbers of the observation if the environment lists
        no actions, and empty messages.
      - "expert": proposes and recommends the action of the environment's expert.

    ## Notes
    `agentgym.Team("Maze-v0", "thinker-reasoner")` makes a team for any single-agent id. A team with
    an expert of the environment in one role is solved by copying it, so a comparison of learning
    methods should train all roles. As a single seat, whose default partners are such experts, the
    team often solves the task although the agent contributes nothing valid.

    ## References
    - MALT (arXiv 2412.01928): generator, verifier, refiner.
    - ReMA (arXiv 2503.09501): meta-thinker and reasoner.
    - CORY (arXiv 2410.06101): pioneer and observer.
    - CoMAS (arXiv 2510.08529): solver, evaluator and scorer.
    - LTC (arXiv 2310.01444): its dialogue is "thinker-reasoner", and its analogue
      "teacher-student", both with `rounds`. Its monologue is the wrapper `Monologue`.
    - AgentFlow (arXiv 2510.05592): planner, executor, verifier and generator with a `memory`.
    - AutoAct (arXiv 2401.05268): agents for plans, tools and reflection.
    - CollabUIAgents (arXiv 2502.14496): a communication graph that changes (`edges`).
    - MARFT (arXiv 2504.16129): agents that act in order and read the earlier actions of the turn.

    ## Version History
    v0: first version.
    """

    players = range(2, 9)
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.floor_gap": "the other roles of a team can solve the task alone",
        "semantic.train_test_disjoint": "the tasks are those of the environment that a team plays",
        "semantic.duplicate_tasks": "the tasks are those of the environment that a team plays",
    }
    state: State
    common_reward = True
    levels = ("random", "expert")
    expert_level = "expert"
    default_opponents = "expert"

    def __init__(
        self,
        *,
        env: str = "Countdown-v0",
        env_kwargs: dict[str, Any] | None = None,
        roles: str | list[Any] = "generator-verifier-refiner",
        attempts: int = 3,
        rounds: int = 1,
        memory: int = 0,
        edges: float = 1.0,
        num_players: int | None = None,
        **kwargs,
    ):
        if attempts < 1:
            raise ConfigError(f"attempts must be at least 1, got {attempts}.")
        if memory < 0:
            raise ConfigError(f"memory must be at least 0, got {memory}.")
        if not 0 <= edges <= 1 or (edges < 1 and memory):
            raise ConfigError(
                f"edges must be in [0, 1], and below 1 memory must be 0, got {edges} and {memory}."
            )
        self.roles = as_roles(roles)
        if rounds < 1 or (rounds > 1 and self.roles[-1].kind != "act"):
            raise ConfigError(
                "rounds must be at least 1, and more rounds need a last role that acts: got "
                f"{rounds} and a last role of kind {self.roles[-1].kind!r}."
            )
        if num_players not in (None, len(self.roles)):
            raise ConfigError(
                f"num_players must be the number of roles, {len(self.roles)}, or None, got "
                f"{num_players}."
            )
        super().__init__(num_players=len(self.roles), **kwargs)
        inner = make_inner(env, env_kwargs or {})
        if not isinstance(inner, TextEnv):
            raise ConfigError(
                f"A team needs a text environment of AgentGym, got {env_name(inner)}."
            )
        self.inner, self.attempts, self.rounds = inner, attempts, rounds
        self.memory, self.edges = memory, float(edges)
        self.tasks = inner.tasks
        self.reward_names = inner.reward_names  # type: ignore[misc]  # fixed by the environment
        checks = self.roles[-1].kind == "check"
        assignments = "".join(
            f"- {role.name} ({agent}): {role.instructions}\n"
            for agent, role in zip(self.possible_agents, self.roles, strict=True)
        )
        self.instructions = (
            "You are a member of a team that solves a task. The members act in this order and read "
            f"{'' if edges == 1 else 'some of '}the messages of the members before them:\n"
            f"{assignments}"
            + (
                f"An action that is rejected is proposed anew, at most {attempts} times in total.\n"
                * checks
            )
            + f"They act {rounds} times in turn, and the last action is played.\n" * (rounds > 1)
            + f"They remember the last {memory} actions.\n" * (memory > 0)
            + "All members get the score of the task.\n"
            "\n"
            "The task:\n"
            f"{inner.instructions}"
        )

    def role(self, agent: str) -> str:
        """Returns the name of an agent's role."""
        return self._role(agent).name

    def possible_roles(self, agent: str) -> tuple[str, ...]:
        """Returns the name of an agent's role, which is the same in all episodes."""
        return (self.role(agent),)

    def _role(self, agent: str) -> Role:
        return self.roles[self.possible_agents.index(agent)]

    def _acting(self) -> tuple[str, ...]:
        return () if self.state.ended else (self.possible_agents[self.state.place],)

    def _admissible(self) -> tuple[str, ...]:
        """Returns the admissible actions of the environment."""
        assert self.inner._last is not None
        return self.inner._last.admissible

    def _look(self, agent: str) -> TimeStep:
        state, role, last = self.state, self._role(agent), self.inner._last
        assert last is not None
        asks = role.instructions
        if state.ended or state.cut:
            asks = "The episode is over."
        elif agent not in self._acting():
            asks = f"It is the turn of the {self.roles[state.place].name}."
        if self.rounds > 1:
            asks = f"Round {state.attempt} of {self.rounds}. {asks}"
        head, admissible = f"You are the {role.name}. {asks}", tuple[str, ...]()
        if agent in self._acting():
            admissible = SCORES if role.kind == "score" else ()
            admissible = self._admissible() if role.kind in PROPOSES else admissible
        return TimeStep(
            text="\n\n".join([head, *state.past, last.observation, *self._said(agent)]),
            success=last.success,
            progress=last.progress,
            admissible=admissible,
        )

    def _said(self, reader: str = "") -> list[str]:
        """Returns the messages since the last action of the environment, with their authors.

        Args:
            reader: the agent that reads them. "": all messages.
        """
        log, names = self.state.log, [role.name for role in self.roles]
        if reader and self.edges < 1:
            own, key = self.possible_agents.index(reader), f"edges {self.clock()}"
            edges = drawn_edges(self._episode.task, key, len(names), self.edges)
            kept = [edges[own][names.index(name)] for name, _ in log]
            if self.roles[own].kind in ("check", "score"):
                proposals = [i for i, (name, _) in enumerate(log) if self._proposes(name)]
                kept = [keep or i in proposals[-1:] for i, keep in enumerate(kept)]
            log = [message for message, keep in zip(log, kept, strict=True) if keep]
        return [f"{name}: {clip(text, MAX_NOTE) or '(no message)'}" for name, text in log]

    def _proposes(self, name: str) -> bool:
        return next(role.kind for role in self.roles if role.name == name) in PROPOSES

    def _remembered(self) -> list[str]:
        """Returns the past of the team with the action that is about to be played."""
        last = self.inner._last
        assert last is not None
        head = f"Action {self.clock() + 1}. The observation was:"
        shown = [head, last.observation[:MAX_NOTE], *self._said()]
        played = f"Played: {clip(self.state.proposal, MAX_NOTE)}"
        past = [*self.state.past, "\n".join([*shown, played])]
        return past[len(past) - self.memory :] if self.memory else []

    def _parse(self, agent: str, action: str) -> str:
        kind = self._role(agent).kind
        if kind == "note":
            return clip(action, MAX_NOTE)
        if kind == "check":
            if reply := checked(action):
                return reply
            raise InvalidMove(
                f"Invalid reply {action[:40]!r}. Reply accept, or reject: and a reason."
            )
        admissible = self.seen(agent).admissible
        if not admissible:
            return action[:LONGEST]
        move = match_action(action, admissible, cased=self.inner.cased)
        if move is None:
            raise InvalidMove(
                f"Invalid action {action[:40]!r}. Valid actions: {listed(admissible)}."
            )
        return move

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        ((_, move),) = moves.items()
        role = self.roles[state.place]
        state.log.append((role.name, move))
        if role.kind in PROPOSES:
            state.proposal, state.author = move, state.place
        if role.kind == "check" and move == ACCEPT:
            return self._play_proposal()
        rewards = self._try_proposal() if role.kind == "try" else {}
        state.place += 1
        if state.place < len(self.roles):
            return rewards
        more = self.attempts if role.kind == "check" else self.rounds
        if state.attempt < more:
            state.place, state.attempt = 0, state.attempt + 1
            return rewards
        return self._play_proposal()

    def _play_proposal(self) -> Rewards:
        """Plays the proposed action in the environment and begins a new turn of the team."""
        past = self._remembered()
        rewards = self._step()
        old = self.state
        self.state = State(
            ended=old.ended, cut=old.cut, refused=old.refused, solved=old.solved, past=past
        )
        return rewards

    def _try_proposal(self) -> Rewards:
        """Plays the proposed action, takes it back, and returns its rewards."""
        before, generator = self.inner.snapshot(), self.np_random.bit_generator.state
        rewards, state = self._step(), self.state
        ended, state.ended, state.cut = state.ended, False, False
        self.inner.restore(before)
        self.np_random.bit_generator.state = generator
        if ended and state.solved < 0:
            state.solved = self.clock()
        return rewards if state.solved in (-1, self.clock()) else {}

    def _step(self) -> Rewards:
        """Plays the proposed action in the environment and returns the rewards of all agents."""
        terms = self._step_inner(self.state.proposal, self.possible_agents[self.state.author])
        return dict.fromkeys(self.possible_agents, terms)

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        kind = self._role(agent).kind
        if kind == "check":
            return (ACCEPT, f"{REJECT}: ")[int(rng.integers(2))]
        if kind in ("note", "score") or self._admissible():
            return super()._random(agent, rng)
        assert self.inner._last is not None
        found = _NUMBER.findall(self.inner._last.text)
        return found[int(rng.integers(len(found)))] if found else ""

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        best, role, state = self.inner.expert(), self._role(agent), self.state
        agrees = best is None or (state.author >= 0 and state.proposal == best)
        if role.kind in PROPOSES:
            return self._random(agent, rng) if best is None else best
        if role.kind == "check":
            return ACCEPT if agrees else f"{REJECT}: I suggest {best}"
        if role.kind == "score":
            return SCORES[-1] if agrees else SCORES[0]
        return "I agree." if agrees else f"I suggest: {best}"

    def picture(self) -> str:
        """Returns the environment's picture and the messages since its last action."""
        lines = [f"[{name}] {clip(text, MAX_NOTE)}" for name, text in self.state.log]
        return "\n".join([self.inner._picture(), *lines])

    def _check_episode(self, episode: GameEpisode) -> None:
        state, count = self.state, len(self.roles)
        if not (0 <= state.place < count and -1 <= state.author < count):
            raise ValueError(f"there is no role {state.place} or {state.author}")
        super()._check_episode(episode)


env, raw_env, parallel_env = make_pettingzoo(TeamGame)
