"""Werewolf: wolves hide among villagers, who talk and vote; seven players with hidden roles."""

from __future__ import annotations

import numpy as np

from agentgym.core import TimeStep
from agentgym.envs.social_deduction.deduction import (
    DOCTOR,
    PLAYERS,
    QUIET,
    ROLES,
    SEER,
    WOLF,
    deals,
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
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks, task_number

KINDS = ("claim", "finds", "clears", "suspect", "trust")


class Werewolf(TextGame):
    """Werewolf (Mafia) for seven: two wolves against a seer, a doctor and three villagers.

    ## Description
    Every night the wolves kill one player, the seer finds out about one whether it is a wolf, and
    the doctor protects one. By day all talk, then vote one of them out. Roles are hidden; whoever
    is out shows its own. The village wins when no wolf is left, the wolves when they are at least
    half of the living.

    ## Action Space
    Text. At night and in votes: the name of a player, `player_3`; in votes also `nobody`. In talk:
    anything (put on one line, cut after 280 characters); with `speech="menu"` a sentence of a list.
    With `action_mode="discrete"` (menu only): the index of the action.

    ## Observation Space
    Text: who one is and what is to do; what one alone knows (the seer's findings, the other wolf
    and its proposal, whom the doctor protected last); what all know: deaths, talk and votes.

    ## Rewards
    Term `task`, at the end: 1 for each player of the team that wins, dead or alive, -1 for the
    others. An invalid action costs `invalid_penalty`.

    ## Starting State
    The first night. The task is the deal, `deal/0` to `deal/419`; every fifth is for testing. It
    says who is who: `info["task"]` is not for players.

    ## Episode End
    Termination: a team has won. The dead stay to the end without acting. Truncation: after
    `max_turns` turns. After `max_invalid` invalid actions in a row the action is drawn at random.

    ## Information
    The common keys; `success`: one's team has won; `progress`: the share of wolves that are out,
    or, for a wolf, of those who must go until the wolves are half.

    ## Arguments
    `talk_rounds`: how often everybody speaks before a vote, default 2. `speech`: "free" (default)
    or "menu". `max_turns`: default 100. As a single seat: `seat` and `opponents` (all the others,
    on both sides): "random", "follower" (the default: accuses and votes as others accuse, the seer
    tells what it finds) or "reasoning" (holds odds over all deals and updates them by claims,
    opinions, votes and deaths; says whom it suspects and rather votes as others do; its wolves
    lie, its doctor protects who seems to be the seer).

    ## Example Transcript
    ```
    You are player_4, the seer. Night 1: name a player to find out about.
    Alive: player_0, player_1, player_2, player_3, player_4, player_5, player_6.
    > player_1
    You are player_4, the seer. Day 1: say something to all (round 1 of 2).
    Alive: player_0, player_1, player_3, player_4, player_5, player_6.
    You found out: player_1 is a werewolf.

    Killed in night 1: player_2, who was a villager.
    > I am the seer. player_1 is a werewolf.
    ```

    ## Baselines
    A single seat, 400 test episodes, mean return (success). With "follower": random -0.24 (38 %),
    with the menu -0.16 (42 %); expert ("reasoning") 0.26 (63 %). Against (and with) "reasoning":
    random -0.33 (34 %), with the menu -0.34 (33 %); expert 0.14 (57 %). One of seven decides
    little and is dead before it can act in one game of twelve; whole teams differ far more. How
    often the village wins, 300 games:

    | village | random wolves | follower wolves | reasoning wolves |
    |---|---|---|---|
    | random | 6 % | 3 % | 2 % |
    | follower | 26 % | 21 % | 0 % |
    | reasoning | 96 % | 100 % | 71 % |

    In a step of a seat six others speak or vote: 4,500 (with the menu) to 5,700 steps/s.

    ## Registered Configurations
    `Werewolf-v0`: free speech. `Werewolf-Menu-v0`: sentences from a list.

    ## References
    The party game Mafia (D. Davidoff, 1986), as Werewolf by A. Plotkin (1997). The hand of seven
    is that of Xu et al., Language Agents with Reinforcement Learning for Strategic Play in the
    Werewolf Game (arXiv 2310.18940). Departures: all speak at the same time, in rounds; of the
    wolves, the one with the higher number has the last word, knowing what the other wants.

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
    default_opponents = "follower"  # among reasoning players one more decides little

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
            said = [sentence(kind, i) for kind in KINDS[1:] for i in range(len(PLAYERS))]
            self.actions = (*PLAYERS, NOBODY, QUIET, sentence("claim"), *said)
        self.instructions = (
            "Seven players, player_0 to player_6, play Werewolf: two are werewolves, who know each "
            "other, one is the seer, one the doctor, three are villagers. Roles are secret. The "
            "wolves win when they are at least half of the living; all others win together when "
            "no wolf is left. At night, the wolves kill a player (first one of them proposes, then "
            "the one with the higher number decides), the seer finds out whether a player is a "
            "werewolf, and the doctor protects a player, itself perhaps, from being killed that "
            "night, but never the same one in two nights running. In the morning all hear who was "
            "killed. "
            f"By day all speak {talk_rounds} time{'s' * (talk_rounds != 1)}, everybody at the same "
            "time, then all vote at the same time, openly: who has more votes than anybody else is "
            "out; with a tie, or if nobody has the most votes, all stay. The role of whoever dies "
            "or is voted out is shown. At night and in a vote say only the name of a player, such "
            "as player_3; in a vote you may also say nobody. "
            + (
                "When asked to speak, choose one of the sentences given."
                if speech == "menu"
                else f"When asked to speak, write what all shall hear, {MAX_MESSAGE} characters at "
                "most. Scripted players understand: I am the seer. player_3 is a werewolf. "
                "player_3 is not a werewolf. I suspect player_3. I trust player_3."
            )
        )

    def _start(self, task: str) -> None:
        deal = deals()[task_number(task)]
        self.state = State([ROLES[role] for role in deal])

    def _decider(self) -> int:
        """Returns the wolf that has the last word."""
        return living(self.state, WOLF)[-1]

    def _acting(self) -> tuple[str, ...]:
        state = self.state
        if winner(state):
            return ()
        acting = living(state)
        if state.phase == "den":
            acting = [i for i in living(state, WOLF) if i != self._decider()]
        elif state.phase == "night":
            acting = [i for i in acting if i == self._decider() or state.roles[i] in (SEER, DOCTOR)]
        return tuple(PLAYERS[i] for i in acting)

    def _options(self, me: int) -> tuple[str, ...]:
        """Returns the admissible actions of a player that acts."""
        state = self.state
        others = [i for i in living(state) if i != me]
        if state.phase == "vote":
            return (*(PLAYERS[i] for i in others), NOBODY)
        if state.phase == "talk":
            if self.speech == "free":
                return ()
            said = [sentence(kind, i) for kind in KINDS[1:] for i in others]
            return (QUIET, sentence("claim"), *said)
        if state.roles[me] == WOLF:
            others = [i for i in others if state.roles[i] != WOLF]
        elif state.roles[me] == DOCTOR:
            others = [i for i in living(state) if i != state.guarded]
        return tuple(PLAYERS[i] for i in others)

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
            return f"Day {state.day}: say something to all {times}."
        if state.phase == "vote":
            return f"Day {state.day}: vote for a player who is to go, or for nobody."
        if not acts:
            return f"Night {state.day}: wait."
        deed = {WOLF: "kill", SEER: "find out about", DOCTOR: "protect"}[state.roles[me]]
        proposed = " (the other wolf decides)" if state.phase == "den" else ""
        return f"Night {state.day}: name a player to {deed}{proposed}."

    def _secrets(self, me: int) -> list[str]:
        """Returns what only this player knows."""
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

    def _progress(self, team: str) -> float:
        state = self.state
        wolves = len(living(state, WOLF))
        if team == "village":
            return 1 - wolves / 2
        others = len(living(state)) - wolves
        return (5 - others) / (5 - wolves) if wolves else 0.0

    def _read(self, agent: str, said: str) -> str:
        if self.state.phase == "talk" and self.speech == "free":
            return clip(said)
        return super()._read(agent, said)

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
        """Lets all hear what everybody said in a round."""
        state = self.state
        claimed = {i for kind, i, _ in state.events if kind == "claim"}
        for who, text in said.items():
            state.log.append(f"Day {state.day}, {PLAYERS[who]}: {text or '(says nothing)'}")
            for kind, about in statements(text):
                if kind == "claim":
                    claimed.add(who)
                elif kind in ("finds", "clears") and who not in claimed:
                    kind = "suspect" if kind == "finds" else "trust"
                state.events.append((kind, who, about))
        state.spoken += 1
        state.phase = "vote" if state.spoken == self.talk_rounds else "talk"

    def _view(self, me: int) -> View:
        """Returns what a player knows, for those who reason."""
        state, role = self.state, self.state.roles[me]
        wolves = {i for i, wolf in state.seen.items() if wolf} if role == SEER else set()
        if role == WOLF:
            wolves = {i for i, r in enumerate(state.roles) if r == WOLF}
        names = self._options(me) if state.phase in ("den", "night") else ()
        return View(
            me,
            role,
            tuple(map(number, names)) or tuple(i for i in living(state) if i != me),
            tuple(state.events),
            frozenset(wolves),
            frozenset(i for i, wolf in state.seen.items() if not wolf and role == SEER),
        )

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        view, mind = self._view(PLAYERS.index(agent)), MINDS[level]
        if self.state.phase == "talk":
            return sentence(*mind.talk(view, rng))
        return label((mind.vote if self.state.phase == "vote" else mind.night)(view, rng))


env, raw_env, parallel_env = make_pettingzoo(Werewolf)
