"""Werewolf: seven players with hidden roles talk and vote to find the wolves among them."""

from __future__ import annotations

from functools import cache

import numpy as np

from agentgym.envs.social_deduction.deduction import (
    DOCTOR,
    PLAYERS,
    QUIET,
    ROLES,
    SEER,
    WOLF,
    chances,
    deals,
    public_odds,
    sentence,
    statements,
)
from agentgym.envs.social_deduction.minds import MINDS, View
from agentgym.envs.social_deduction.werewolf_rules import (
    NOBODY,
    State,
    end_night,
    end_vote,
    label,
    living,
    named,
    number,
    winner,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.tasks import Tasks, task_number
from agentgym.time_step import TimeStep

KINDS = ("claim", "finds", "clears", "suspect", "trust")


@cache
def menu(others: tuple[int, ...]) -> tuple[str, ...]:
    """Returns the sentences of talk about other players."""
    said = [sentence(kind, i) for kind in KINDS[1:] for i in others]
    return (QUIET, sentence("claim"), *said)


class Werewolf(TextGame):
    """Werewolf (Mafia) for seven players: two wolves against a seer, a doctor and three villagers.

    ## Description
    Roles are hidden. The game alternates between nights and days:

    - Night: the wolves kill one player, the seer learns whether one player is a wolf, and the
      doctor protects one player.
    - Day: all players talk, then vote to eliminate one of them.

    The role of a dead or eliminated player is revealed. The village wins when no wolf is left. The
    wolves win when they are at least half of the living players.

    ## Action Space
    Text:

    - At night and in votes: the name of a player, such as `player_3`. In votes also `nobody`.
    - In talk: any message, put on one line and cut after 280 characters. With `speech="menu"`: a
      sentence of a list.

    With `action_mode="discrete"` (menu only): the index of the action.

    ## Observation Space
    Text: the role and the current request, private knowledge (the findings of the seer, the other
    wolf and its proposal, the last protection of the doctor), and the public history of deaths,
    talk and votes.

    ## Rewards
    - `task`: at the end, 1 for each player of the winning team, dead or alive, and -1 for the
      others.
    - `invalid`: minus `invalid_penalty` for an invalid action.

    ## Starting State
    The first night. The task is the deal of the roles, `deal/0` to `deal/419`. Every fifth deal is
    a test task. `info["task"]` reveals the roles and must be hidden from players.

    ## Episode End
    Termination: a team has won. Dead players stay to the end without acting. Truncation: after
    `max_turns` turns. After `max_invalid` invalid actions in a row, a random action is taken.

    ## Information
    The common keys.

    - `success`: whether the agent's team has won.
    - `progress`: the share of wolves that are dead. For a wolf, the share of players that have died
      of those that must die for the wolves to be half of the living.

    ## Arguments
    - `talk_rounds` (int, default 2): rounds of talk before each vote.
    - `speech` ("free" or "menu", default "free"): any message, or sentences of a list.
    - `max_turns` (int or None, default 100): turns before truncation.
    - `seat` (single seat only): the seat of the agent.
    - `opponents` (single seat only, default "follower"): all other players, of both teams.
      - "random": random actions.
      - "follower": accuses and votes for players accused by others. The seer reports its findings.
      - "reasoning": maintains odds over all deals, updated by claims, opinions, votes and deaths.
        It names its suspect and tends to vote with the others. Its wolves lie, and its doctor
        protects the likely seer.

    ## Notes
    One seat of seven has little influence on the outcome, and its player may die before it can
    act. Differences between whole teams are much larger.

    ## References
    - The party game Mafia (D. Davidoff, 1986), as Werewolf by A. Plotkin (1997).
    - Xu et al., Language Agents with Reinforcement Learning for Strategic Play in the Werewolf Game
      (arXiv 2310.18940): the roles of the seven players.

    Differences: all players talk at the same time, in rounds. The wolf with the higher number
    chooses the victim and knows the proposal of the other wolf.

    ## Version History
    v0: first version.
    """

    tasks = Tasks(
        [f"deal/{i}" for i in range(420) if i % 5], [f"deal/{i}" for i in range(0, 420, 5)]
    )
    players = range(7, 8)
    State = State
    state: State
    levels = ("random", "follower", "reasoning")
    expert_level = "reasoning"
    default_opponents = "follower"  # one seat decides little among reasoning players

    def __init__(
        self,
        *,
        talk_rounds: int = 2,
        speech: str = "free",
        max_turns: int | None = 100,
        **kwargs,
    ):
        if talk_rounds < 0:
            raise ConfigError(f"talk_rounds must be at least 0, got {talk_rounds}.")
        if speech not in ("free", "menu"):
            raise ConfigError(f"speech must be 'free' or 'menu', got {speech!r}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.talk_rounds = talk_rounds
        self.speech = speech
        if speech == "menu":
            self.actions = (*PLAYERS, NOBODY, *menu(tuple(range(len(PLAYERS)))))
        talk = (
            "one of the listed sentences."
            if speech == "menu"
            else f"any text of at most {MAX_MESSAGE} characters. Scripted players understand: I am "
            "the seer. player_3 is a werewolf. player_3 is not a werewolf. I suspect player_3. I "
            "trust player_3."
        )
        self.instructions = (
            "Werewolf is a game of hidden roles for seven players, player_0 to player_6. Two "
            "werewolves play against the village: a seer, a doctor and three villagers. The "
            "village wins when no werewolf is left. The werewolves win when they are at least half "
            "of the living players.\n"
            "\n"
            "Roles:\n"
            "- Werewolf: knows the other werewolf. At night, the werewolves kill one player. The "
            "one with the lower number proposes a victim, the one with the higher number decides.\n"
            "- Seer: at night, learns whether one player is a werewolf.\n"
            "- Doctor: at night, protects one player from being killed. This can be the doctor, "
            "but not the same player in two nights in a row.\n"
            "- Villager: does nothing at night.\n"
            "\n"
            "Each day:\n"
            "- Everyone learns which player was killed in the night.\n"
            f"- There {'is' if talk_rounds == 1 else 'are'} {talk_rounds or 'no'} "
            f"round{'s' * (talk_rounds != 1)} of talk. In each round, all living players send a "
            "message at the same time.\n"
            "- Then all vote openly, at the same time. The player with the most votes is "
            "eliminated. With a tie, or if the most votes are for nobody, all stay.\n"
            "- The role of a killed or eliminated player is revealed.\n"
            "\n"
            "Actions:\n"
            "- At night: only the name of a living player, for example player_3.\n"
            "- Vote: only the name of another living player, or nobody.\n"
            f"- Message: {talk}\n"
            "\n"
            "Score: at the end, 1 for all players of the winning team, dead or alive, and -1 for "
            "the others."
        )

    def _start(self, task: str) -> None:
        deal = deals()[task_number(task)]
        self.state = State([ROLES[role] for role in deal])

    def role(self, agent: str) -> str:
        """Returns the agent's role, such as "werewolf"."""
        return self.state.roles[PLAYERS.index(agent)]

    def possible_roles(self, agent: str) -> tuple[str, ...]:
        """Returns all roles: every deal of them is possible."""
        return ROLES

    def _acting(self) -> tuple[str, ...]:
        state = self.state
        if winner(state):
            return ()
        acting = living(state)
        if state.phase in ("den", "night"):
            *others, decider = living(state, WOLF)
            deciding = [i for i in acting if i == decider or state.roles[i] in (SEER, DOCTOR)]
            acting = others if state.phase == "den" else deciding
        return tuple(PLAYERS[i] for i in acting)

    def _choices(self, me: int) -> tuple[int, ...]:
        """Returns the players that a player can choose or talk about."""
        state, banned = self.state, (me,)
        if state.phase in ("den", "night"):
            if state.roles[me] == WOLF:
                banned = [i for i, role in enumerate(state.roles) if role == WOLF]
            elif state.roles[me] == DOCTOR:
                banned = (state.guarded,)
        return tuple([i for i in living(state) if i not in banned])

    def _options(self, me: int) -> tuple[str, ...]:
        """Returns the admissible actions of an acting player."""
        phase = self.state.phase
        if phase == "talk":
            return menu(self._choices(me)) if self.speech == "menu" else ()
        names = [PLAYERS[i] for i in self._choices(me)]
        return (*names, NOBODY) if phase == "vote" else tuple(names)

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, PLAYERS.index(agent)
        won, role = winner(state), state.roles[me]
        team = "wolves" if role == WOLF else "village"
        acts = agent in self.acting
        lines = [
            f"You are {agent}, {named(role)}. "
            + (f"The {won} won." if won else self._asks(me, acts)),
            f"Alive: {', '.join(PLAYERS[i] for i in living(state))}.",
            *self._secrets(me),
        ]
        return TimeStep(
            text="\n".join([*lines, "", *state.log] if state.log else lines),
            success=won == team,
            progress=self._progress(team),
            admissible=self._options(me) if acts else (),
        )

    def _asks(self, me: int, acts: bool) -> str:
        state = self.state
        if not state.alive[me]:
            return "You are out of the game."
        if state.phase == "talk":
            times = f"(round {state.spoken + 1} of {self.talk_rounds})"
            return f"Day {state.day}: send a message to all players {times}."
        if state.phase == "vote":
            return f"Day {state.day}: vote for a player to eliminate, or for nobody."
        if not acts:
            return f"Night {state.day}: wait."
        deed = {WOLF: "kill", SEER: "inspect", DOCTOR: "protect"}[state.roles[me]]
        proposed = " (the other werewolf decides)" if state.phase == "den" else ""
        return f"Night {state.day}: name a player to {deed}{proposed}."

    def _secrets(self, me: int) -> list[str]:
        """Returns the private knowledge of a player, as lines."""
        state, role = self.state, self.state.roles[me]
        if role == SEER:
            found = [
                f"{PLAYERS[i]} is {'a' if wolf else 'not a'} werewolf"
                for i, wolf in state.seen.items()
            ]
            return [f"You found out: {'; '.join(found)}."] if found else []
        if role == DOCTOR and state.guarded >= 0:
            return [f"You protected last: {PLAYERS[state.guarded]}."]
        if role != WOLF:
            return []
        other = next(i for i, r in enumerate(state.roles) if r == WOLF and i != me)
        lines = [f"The other werewolf: {PLAYERS[other]}."]
        if state.proposal >= 0 and state.phase == "night":
            lines.append(f"Proposed for this night: {PLAYERS[state.proposal]}.")
        return lines

    def privileged_text(self, agent: str) -> str:
        """Returns all roles, the secrets of the night, and how suspect each living player is."""
        state = self.state
        roles = ", ".join(f"{name} {role}" for name, role in zip(PLAYERS, state.roles, strict=True))
        odds = chances(public_odds(tuple(state.events)), {})[:, ROLES.index(WOLF)]
        alive = ", ".join(f"{PLAYERS[i]} {odds[i]:.2f}" for i in living(state))
        seen = ", ".join(PLAYERS[i] for i in state.seen) or NOBODY
        phase = f"{won} won" if (won := winner(state)) else state.phase
        return (
            f"You are {agent}. Roles: {roles}. Day {state.day}, {phase}. Rounds of talk: "
            f"{state.spoken}. Alive, with the public probability of a werewolf: {alive}. "
            f"Inspected: {seen}. Protected: {label(state.guarded)}. Proposed: "
            f"{label(state.proposal)}."
        )

    def _progress(self, team: str) -> float:
        state = self.state
        wolves = len(living(state, WOLF))
        if team == "village":
            return 1 - wolves / 2
        others = len(living(state)) - wolves
        return (5 - others) / (5 - wolves) if wolves else 0.0

    def _admissible_actions(self, agent: str) -> tuple[str, ...]:
        return self._options(PLAYERS.index(agent))

    def _parse(self, agent: str, action: str) -> str:
        if self.state.phase == "talk" and self.speech == "free":
            return clip(action)
        return super()._parse(agent, action)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state = self.state
        if state.phase == "talk":
            self._speak({PLAYERS.index(name): said for name, said in moves.items()})
            return {}
        chosen = {PLAYERS.index(name): number(said) for name, said in moves.items()}
        if state.phase == "den":
            (state.proposal,) = chosen.values()
            state.phase = "night"
            return {}
        if state.phase == "night":
            end_night(state, {state.roles[i]: choice for i, choice in chosen.items()})
            if not self.talk_rounds:
                state.phase = "vote"
        else:
            end_vote(state, chosen)
        if (won := winner(state)) is None:
            return {}
        return self._pay(
            1.0 if (role == WOLF) == (won == "wolves") else -1.0 for role in state.roles
        )

    def _speak(self, said: dict[int, str]) -> None:
        """Publishes the messages of a round of talk."""
        state = self.state
        claimed = {i for kind, i, _ in state.events if kind == "claim"}
        for who, text in said.items():
            state.log.append(f"Day {state.day}, {PLAYERS[who]}: {text or '(no message)'}")
            for kind, about in statements(text):
                if kind == "claim":
                    claimed.add(who)
                elif kind in ("finds", "clears") and who not in claimed:
                    kind = "suspect" if kind == "finds" else "trust"
                state.events.append((kind, who, about))
        state.spoken += 1
        state.phase = "vote" if state.spoken == self.talk_rounds else "talk"

    def _view(self, me: int) -> View:
        """Returns the knowledge of a player, for scripted players."""
        state, role = self.state, self.state.roles[me]
        wolves, innocent = [], []
        if role == SEER:
            wolves = [i for i, wolf in state.seen.items() if wolf]
            innocent = [i for i, wolf in state.seen.items() if not wolf]
        elif role == WOLF:
            wolves = [i for i, r in enumerate(state.roles) if r == WOLF]
        events, options = tuple(state.events), self._choices(me)
        return View(me, role, options, events, frozenset(wolves), frozenset(innocent))

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        view, mind = self._view(PLAYERS.index(agent)), MINDS[level]
        if self.state.phase == "talk":
            return sentence(*mind.talk(view, rng))
        return label((mind.vote if self.state.phase == "vote" else mind.night)(view, rng))


env, raw_env, parallel_env = make_pettingzoo(Werewolf)
