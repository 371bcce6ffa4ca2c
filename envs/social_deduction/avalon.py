"""Avalon: five to ten players propose, vote on and go on quests, with hidden roles."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np

from agentgym.envs.social_deduction.avalon_minds import MINDS, OPINIONS, view
from agentgym.envs.social_deduction.avalon_rules import (
    ASSASSIN,
    EVIL_PLAYERS,
    GOOD_WINS,
    MERLIN,
    MORGANA,
    MOST_PROPOSALS,
    PERCIVAL,
    TEAM_SIZES,
    State,
    assassinate,
    count_votes,
    described,
    end_quest,
    fails_needed,
    hand,
    is_evil,
    known_evil,
    propose,
    won,
)
from agentgym.envs.social_deduction.talk import heard
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.messages import MAX_MESSAGE, clip
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards
from agentgym.tasks import Tasks, draw_level, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import plain
from agentgym.utils.marks import undressed

APPROVE, REJECT = "approve", "reject"
SUCCESS, FAIL = "success", "fail"
QUIET = "I have nothing to say."
NAMES = re.compile(r"player_[0-9](?:(?:\s*,\s*|\s+)(?:and\s+)?player_[0-9]){0,9}")
ROLE_TEXTS = {
    MERLIN: "Merlin (good): knows the evil players{but}.",
    PERCIVAL: "Percival (good): knows {whom}.",
    "servant": "Servant (good): knows nothing.",
    ASSASSIN: "Assassin (evil): names a player after three successful quests.",
    MORGANA: "Morgana (evil): appears as Merlin to Percival.",
    "Mordred": "Mordred (evil): is not known to Merlin.",
    "Oberon": "Oberon (evil): neither knows the other evil players nor is known to them.",
    "minion": "Minion (evil): has no special ability.",
}


def sentence(kind: str, name: str) -> str:
    """Returns the sentence of an opinion."""
    return f"I {kind} {name}."


class Avalon(TextGame):
    """Avalon (The Resistance) for five to ten players: quests of good and hidden evil players.

    ## Description
    Good players want three of five quests to succeed, evil players want three to fail. For each
    quest, a leader proposes a team, all players talk and then vote. If more than half approve, each
    member of the team plays success or fail, unseen by the others. Good players must play success.
    Otherwise the next player leads. After five rejected proposals for a quest evil wins. Merlin
    knows the evil players. After three successful quests the assassin names a player, and evil
    wins if it is Merlin.

    ## Action Space
    Text:

    - Proposal: the names of the team, such as `player_0, player_3`.
    - Talk: any message, put on one line and cut after 280 characters. With `speech="menu"`: a
      sentence of a list.
    - Vote: `approve` or `reject`. Quest: `success` or `fail`. Assassination: the name of a player.

    With `action_mode="discrete"` (menu only): the index of the action.

    ## Observation Space
    Text: the role and the current request, private knowledge, and the public history of proposals,
    talk, votes and quests. At the end, the winning side sees all roles.

    ## Rewards
    - `task`: at the end, 1 for each player of the winning side and -1 for the others.
    - `invalid`: minus `invalid_penalty` for an invalid action.

    ## Starting State
    The task, `train/N` or `test/N`, determines the roles and the first leader.

    ## Episode End
    Termination: a side has won. Truncation: after `max_turns` turns. After `max_invalid` invalid
    actions in a row, the first admissible action is taken (`approve`, `success`, ...).

    ## Information
    The common keys.

    - `success`: whether the agent's side has won.
    - `progress`: the share of the three quests that the agent's side needs, 1 after a win.

    ## Arguments
    - `num_players` (int, default 5): from 5 to 10.
    - `specials` (list of str, default []): optional roles: "percival", "morgana", "mordred",
      "oberon". Merlin and the assassin always play, the others are servants and minions.
    - `talk_rounds` (int, default 1): rounds of talk before each vote.
    - `speech` ("free" or "menu", default "free"): any message, or sentences of a list.
    - `max_turns` (int or None, default 200): turns before truncation.
    - `seat` (single seat only): the seat of the agent.
    - `opponents` (single seat only, default "naive"): all other players, of both sides.
      - "random": random actions.
      - "naive": avoids players of failed quests. Evil always plays fail.
      - "reasoning": maintains odds over all sets of evil players, updated by quests, votes,
        proposals and opinions. Its Merlin hides its knowledge until two quests had fails. Evil
        proposes teams that look harmless, and the assassin names the player that seems best
        informed.

    ## Notes
    One seat has little influence on the outcome. Differences between whole sides are much larger.
    Scripted players understand the opinions "I suspect player_3." and "I trust player_3.".

    ## References
    - Eskridge, The Resistance: Avalon (2012): the rules, roles and sizes.
    - Light et al., AvalonBench (arXiv 2310.05036): five players with Merlin and the assassin.
    - Light et al., Strategist (arXiv 2408.10635): learning to play Avalon and GOPS.

    Differences: all players talk at the same time, in rounds. The evil players know each other, but
    not their roles.

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    players = range(5, 11)
    State = State
    state: State
    levels = ("random", "naive", "reasoning")
    expert_level = "reasoning"
    default_opponents = "naive"

    def __init__(
        self,
        *,
        specials: list[str] | None = None,
        talk_rounds: int = 1,
        speech: str = "free",
        max_turns: int | None = 200,
        **kwargs,
    ):
        super().__init__(max_turns=max_turns, **kwargs)
        count = len(self.possible_agents)
        if talk_rounds < 0:
            raise ConfigError(f"talk_rounds must be at least 0, got {talk_rounds}.")
        if speech not in ("free", "menu"):
            raise ConfigError(f"speech must be 'free' or 'menu', got {speech!r}.")
        self.hand, self.talk_rounds, self.speech = hand(count, specials or []), talk_rounds, speech
        if speech == "menu":
            sizes = sorted(set(TEAM_SIZES[count]))
            teams = [self._named(team) for k in sizes for team in combinations(range(count), k)]
            said = [
                sentence(k, name) for k in ("suspect", "trust") for name in self.possible_agents
            ]
            votes = (APPROVE, REJECT, SUCCESS, FAIL)
            self.actions = (*teams, *votes, *self.possible_agents, QUIET, *said)
        self.instructions = self._instructions()

    def _instructions(self) -> str:
        count, names = len(self.possible_agents), self.possible_agents
        but = " except Mordred" if "Mordred" in self.hand else ""
        whom = "two players, of which one is Merlin" if MORGANA in self.hand else "Merlin"
        roles = "".join(
            f"- {self.hand.count(role)} x {ROLE_TEXTS[role].format(but=but, whom=whom)}\n"
            for role in dict.fromkeys(self.hand)
        )
        sizes = ", ".join(map(str, TEAM_SIZES[count]))
        needed = " (two for the fourth quest)" if fails_needed(count, 3) == 2 else ""
        rounds = f"{self.talk_rounds} round{'s' * (self.talk_rounds != 1)} of talk"
        talk = (
            "one of the listed sentences."
            if self.speech == "menu"
            else f"any text of at most {MAX_MESSAGE} characters. Scripted players understand: I "
            "suspect player_3. I trust player_3."
        )
        return (
            f"Avalon is a game of hidden roles for {count} players, {names[0]} to {names[-1]}. "
            f"{EVIL_PLAYERS[count]} players are evil, the others are good. Good wins if three of "
            "five quests succeed and Merlin stays hidden. Evil wins if three quests fail, or if "
            "the assassin finds Merlin.\n"
            "\n"
            "Roles (evil players know each other, unless stated otherwise):\n"
            f"{roles}"
            "\n"
            "Each quest:\n"
            f"- The leader proposes a team. The quests need {sizes} players.\n"
            + (
                f"- There {'is' if self.talk_rounds == 1 else 'are'} {rounds}. In each round, all "
                "players send a message at the same time.\n"
            )
            * (self.talk_rounds > 0)
            + "- All players vote openly, at the same time. If more than half approve, the team "
            "goes on the quest. Otherwise the next player proposes. Evil wins if "
            f"{MOST_PROPOSALS} proposals in a row are rejected.\n"
            "- Each player of the team secretly plays success or fail. Good players must play "
            f"success. One fail makes the quest fail{needed}. The number of fails is revealed.\n"
            "- The next player is the leader of the next quest.\n"
            "\n"
            "After three successful quests, the assassin names a player. Evil wins if it is "
            "Merlin.\n"
            "\n"
            "Actions:\n"
            "- Proposal: only the names of the team, for example: player_0, player_3\n"
            "- Vote: approve or reject\n"
            "- Quest: success or fail\n"
            "- Assassin: only the name of a player, for example: player_3\n"
            + f"- Message: {talk}\n"
            * (self.talk_rounds > 0)
            + "\n"
            "Score: at the end, 1 for all players of the winning side and -1 for the others."
        )

    def role(self, agent: str) -> str:
        """Returns the agent's role in the episode."""
        return self.state.roles[self.possible_agents.index(agent)]

    def possible_roles(self, agent: str) -> tuple[str, ...]:
        """Returns all roles of the game: every deal of them is possible."""
        return tuple(dict.fromkeys(self.hand))

    def _named(self, team: tuple[int, ...] | list[int]) -> str:
        return ", ".join(self.possible_agents[i] for i in sorted(team))

    def _start(self, task: str) -> None:
        rng, count = task_rng(task, "avalon"), len(self.hand)

        def draw() -> tuple[list[str], int]:
            return [self.hand[i] for i in rng.permutation(count)], int(rng.integers(count))

        self.state = State(*draw_level(task, draw))

    def _acting(self) -> tuple[str, ...]:
        state, names = self.state, self.possible_agents
        if state.winner:
            return ()
        if state.phase == "propose":
            return (names[state.leader],)
        if state.phase == "quest":
            return tuple(names[i] for i in sorted(state.team))
        if state.phase == "assassinate":
            return (names[state.roles.index(ASSASSIN)],)
        return names

    def _options(self, me: int) -> tuple[str, ...]:
        """Returns the admissible actions of an acting player."""
        state, names = self.state, self.possible_agents
        if state.phase == "propose":
            size = TEAM_SIZES[len(names)][len(state.results)]
            return tuple(self._named(team) for team in combinations(range(len(names)), size))
        if state.phase == "vote":
            return (APPROVE, REJECT)
        if state.phase == "quest":
            return (SUCCESS, FAIL) if is_evil(state.roles[me]) else (SUCCESS,)
        others = [name for i, name in enumerate(names) if i != me]
        if state.phase == "assassinate":
            return tuple(others)
        if self.speech == "free":
            return ()
        return (QUIET, *(sentence(kind, name) for kind in OPINIONS for name in others))

    def _look(self, agent: str) -> TimeStep:
        state, me = self.state, self.possible_agents.index(agent)
        evil, acts = is_evil(state.roles[me]), agent in self.acting
        side = "evil" if evil else "good"
        good, bad = won(state, True), won(state, False)
        asks = f"The {state.winner} side has won." if state.winner else self._asks(acts)
        lines = [
            f"You are {agent}, {state.roles[me]} ({side}). {asks}",
            *self._secrets(me),
            f"Successful quests: {good}. Failed quests: {bad}.",
        ]
        if state.winner == side:  # the losers could play the same deal once more
            dealt = zip(self.possible_agents, state.roles, strict=True)
            lines.append(f"Roles: {', '.join(f'{name} {role}' for name, role in dealt)}.")
        return TimeStep(
            text="\n".join([*lines, "", *state.log] if state.log else lines),
            success=state.winner == side,
            progress=1.0 if state.winner == side else (bad if evil else good) / 3,
            admissible=self._options(me) if acts else (),
        )

    def _asks(self, acts: bool) -> str:
        state, names = self.state, self.possible_agents
        quest = len(state.results)
        if state.phase == "propose":
            where = f"Quest {quest + 1}, proposal {state.attempt} of {MOST_PROPOSALS}"
            size = TEAM_SIZES[len(names)][quest]
            who = "Propose" if acts else f"{names[state.leader]} proposes"
            return f"{where}: {who} a team of {size} players."
        if state.phase == "talk":
            times = f"(round {state.spoken + 1} of {self.talk_rounds})"
            return f"Send a message to all players {times}."
        if state.phase == "vote":
            return f"Vote on the team {self._named(state.team)}."
        if state.phase == "quest":
            return f"Quest {quest + 1}: {'play your part' if acts else 'wait for the team'}."
        return "Name the player you think is Merlin." if acts else "The assassin names a player."

    def _secrets(self, me: int) -> list[str]:
        """Returns the private knowledge of a player, as lines."""
        roles, names = self.state.roles, self.possible_agents
        known = ", ".join(names[i] for i in known_evil(roles, me))
        if roles[me] == PERCIVAL:
            seen = [names[i] for i, role in enumerate(roles) if role in (MERLIN, MORGANA)]
            return [f"Merlin is {' or '.join(seen)}."]
        if roles[me] == MERLIN:
            return [f"Evil players you know: {known or 'none'}."]
        return [f"Other evil players: {known}."] if known else []

    def _parse(self, agent: str, action: str) -> str:
        state = self.state
        if state.phase == "talk" and self.speech == "free":
            return clip(action)
        if state.phase != "propose":
            return super()._parse(agent, action)
        words = plain(undressed(action)).replace("player ", "player_")
        size = TEAM_SIZES[len(self.hand)][len(state.results)]
        named = NAMES.fullmatch(words) is not None
        team = {int(number) for number in re.findall(r"player_([0-9])", words) if named}
        if len(team) != size or max(team) >= len(self.hand):
            raise InvalidMove(
                f"Invalid team {action[:60]!r}. Name {size} different players of "
                f"{self.possible_agents[0]} to {self.possible_agents[-1]}, separated by commas."
            )
        return self._named([*team])

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state, names = self.state, self.possible_agents
        ordered = {names.index(name): move for name, move in sorted(moves.items())}
        first = next(iter(ordered.values()))
        if state.phase == "propose":
            team = [names.index(name) for name in first.split(", ")]
            propose(state, team, names, talk=self.talk_rounds > 0)
        elif state.phase == "talk":
            self._speak(ordered)
        elif state.phase == "vote":
            count_votes(state, [ordered[i] == APPROVE for i in range(len(names))], names)
        elif state.phase == "quest":
            end_quest(state, sum(move == FAIL for move in ordered.values()))
        else:
            assassinate(state, names.index(first), names)
        if not state.winner:
            return {}
        good = state.winner == GOOD_WINS
        return self._pay(1.0 if is_evil(role) != good else -1.0 for role in state.roles)

    def privileged_text(self, agent: str) -> str:
        """Returns the roles of all players and the state of the quests."""
        return f"You are {agent}. {described(self.state, self.possible_agents)}"

    def _fallback(self, agent: str) -> str:
        return next(iter(self._options(self.possible_agents.index(agent))), "")

    def _speak(self, said: dict[int, str]) -> None:
        """Publishes the messages of a round of talk."""
        state = self.state
        for who, text in said.items():
            state.log.append(f"{self.possible_agents[who]}: {text or '(no message)'}")
            for kind, about in heard(text):
                if about < len(self.hand) and about != who:
                    state.talk.append((kind, who, about))
        state.spoken += 1
        if state.spoken == self.talk_rounds:
            state.phase = "vote"

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state, names = self.state, self.possible_agents
        mine, mind = view(state, names.index(agent)), MINDS[level]
        if state.phase == "propose":
            return self._named(mind.propose(mine, rng))
        if state.phase == "talk":
            opinion = mind.talk(mine, rng)
            return sentence(opinion[0], names[opinion[1]]) if opinion else QUIET
        if state.phase == "vote":
            return APPROVE if mind.vote(mine, rng) else REJECT
        if state.phase == "quest":
            return FAIL if is_evil(mine.role) and mind.fail(mine, rng) else SUCCESS
        return names[mind.assassinate(mine, rng)]


env, raw_env, parallel_env = make_pettingzoo(Avalon)
