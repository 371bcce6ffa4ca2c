"""Rules of Avalon as functions of its state: proposals, votes, quests and the winner."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from agentgym.errors import ConfigError

MERLIN, PERCIVAL, SERVANT = "Merlin", "Percival", "servant"
ASSASSIN, MORGANA, MORDRED, OBERON, MINION = "assassin", "Morgana", "Mordred", "Oberon", "minion"
EVIL = (ASSASSIN, MORGANA, MORDRED, OBERON, MINION)
SPECIALS = {
    "percival": PERCIVAL,
    "morgana": MORGANA,
    "mordred": MORDRED,
    "oberon": OBERON,
}
"""The optional roles by their names in arguments."""
EVIL_PLAYERS = {5: 2, 6: 2, 7: 3, 8: 3, 9: 3, 10: 4}
"""Number of evil players by number of players."""
TEAM_SIZES = {
    5: (2, 3, 2, 3, 3),
    6: (2, 3, 4, 3, 4),
    7: (2, 3, 3, 4, 4),
    8: (3, 4, 4, 5, 5),
    9: (3, 4, 4, 5, 5),
    10: (3, 4, 4, 5, 5),
}
"""Number of players on each quest by number of players."""
MOST_PROPOSALS = 5
"""Number of proposals for a quest. Evil wins if all are rejected."""
GOOD_WINS, EVIL_WINS = "good", "evil"


@dataclass
class Proposal:
    """A proposed team and the votes of all players, in order. No votes: the vote is to come."""

    quest: int
    leader: int
    team: list[int]
    votes: list[bool] = field(default_factory=list)


@dataclass
class Result:
    """The team of a quest, the number of its fails, and whether the quest succeeded."""

    team: list[int]
    fails: int
    success: bool


@dataclass
class State:
    """The roles, the phase and the history of the game.

    Attributes:
        roles: role of each player.
        leader: index of the player who proposes next or has proposed.
        phase: "propose", "talk", "vote", "quest" or "assassinate".
        spoken: rounds of talk completed since the last proposal.
        attempt: number of the proposal for the current quest, from 1.
        proposals: all proposals.
        results: the results of all quests.
        talk: opinions stated: kind ("suspect" or "trust"), speaker, player.
        log: public events as text, one line per event.
        winner: "good", "evil" or "".
    """

    roles: list[str]
    leader: int
    phase: str = "propose"
    spoken: int = 0
    attempt: int = 1
    proposals: list[Proposal] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    talk: list[tuple[str, int, int]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    winner: str = ""

    @property
    def team(self) -> list[int]:
        """The team proposed last."""
        return self.proposals[-1].team


def hand(players: int, specials: Collection[str]) -> list[str]:
    """Returns the roles of a game, good roles first.

    Args:
        players: number of players.
        specials: names of optional roles (`SPECIALS`).

    Raises:
        ConfigError: for an unknown or repeated role, or too many evil ones.
    """
    if not set(specials) <= SPECIALS.keys() or len({*specials}) < len(specials):
        raise ConfigError(
            f"specials must be different roles of {', '.join(SPECIALS)}, got {specials!r}."
        )
    evil = [name for name in specials if SPECIALS[name] in EVIL]
    if len(evil) >= EVIL_PLAYERS[players]:
        raise ConfigError(
            f"{players} players have {EVIL_PLAYERS[players]} evil roles, of which one is the "
            f"assassin: specials must name at most {EVIL_PLAYERS[players] - 1}, got {evil}."
        )
    extra = [SPECIALS[name] for name in SPECIALS if name in specials]
    evil = [ASSASSIN, *(role for role in extra if role in EVIL)]
    good = [MERLIN, *(role for role in extra if role not in EVIL)]
    bad = EVIL_PLAYERS[players]
    return [
        *good, *[SERVANT] * (players - bad - len(good)), *evil, *[MINION] * (bad - len(evil))
    ]  # fmt: skip


def fails_needed(players: int, quest: int) -> int:
    """Returns the number of fails that make a quest (from 0) fail: 2 for the fourth, from 7 on."""
    return 2 if players >= 7 and quest == 3 else 1


def is_evil(role: str) -> bool:
    """Returns whether a role is evil."""
    return role in EVIL


def described(state: State, names: Sequence[str]) -> str:
    """Describes the whole state except the talk: roles, quests, leader and team."""
    roles = ", ".join(f"{name} {role}" for name, role in zip(names, state.roles, strict=True))
    pending = state.team if state.phase in ("talk", "vote", "quest") else []
    phase = f"{state.winner} won" if state.winner else state.phase
    return (
        f"Roles: {roles}. Successful quests: {won(state, True)}. Failed quests: "
        f"{won(state, False)}. Phase: {phase}. Proposal: {state.attempt}. "
        f"Leader: {names[state.leader]}. Team: {', '.join(names[i] for i in pending) or 'none'}."
    )


def known_evil(roles: Sequence[str], me: int) -> list[int]:
    """Returns the other players that a player knows to be evil from the start.

    Merlin does not know Mordred. The evil players other than Oberon know each other.
    """
    hidden = {MERLIN: MORDRED}.get(roles[me], OBERON)
    if roles[me] != MERLIN and (not is_evil(roles[me]) or roles[me] == OBERON):
        return []
    return [i for i, role in enumerate(roles) if i != me and is_evil(role) and role != hidden]


def propose(state: State, team: list[int], names: Sequence[str], talk: bool) -> None:
    """Records the leader's proposal. `talk`: whether the players talk before they vote."""
    quest = len(state.results)
    state.proposals.append(Proposal(quest, state.leader, team))
    state.log.append(
        f"Quest {quest + 1}, proposal {state.attempt}: {names[state.leader]} proposes "
        f"{', '.join(names[i] for i in team)}."
    )
    state.phase, state.spoken = ("talk" if talk else "vote"), 0


def count_votes(state: State, votes: list[bool], names: Sequence[str]) -> None:
    """Counts the votes. A team needs more than half of them. The next player leads."""
    state.proposals[-1].votes = votes
    approved = 2 * sum(votes) > len(votes)
    in_favour = [name for name, vote in zip(names, votes, strict=True) if vote]
    against = [name for name, vote in zip(names, votes, strict=True) if not vote]
    state.log.append(
        f"The team is {'approved' if approved else 'rejected'}. "
        f"Approve: {', '.join(in_favour) or 'nobody'}. Reject: {', '.join(against) or 'nobody'}."
    )
    state.leader = (state.leader + 1) % len(names)
    if approved:
        state.phase = "quest"
    elif state.attempt == MOST_PROPOSALS:
        state.winner = EVIL_WINS
        state.log.append(f"{MOST_PROPOSALS} proposals were rejected.")
    else:
        state.attempt, state.phase = state.attempt + 1, "propose"


def end_quest(state: State, fails: int) -> None:
    """Records the result of a quest. Three failed quests win the game for evil."""
    quest = len(state.results)
    success = fails < fails_needed(len(state.roles), quest)
    state.results.append(Result(list(state.team), fails, success))
    state.log.append(
        f"Quest {quest + 1} {'succeeds' if success else 'fails'} with {fails} "
        f"fail{'s' * (fails != 1)}."
    )
    state.attempt, state.phase = 1, "propose"
    if won(state, False) == 3:
        state.winner = EVIL_WINS
    elif won(state, True) == 3:
        state.phase = "assassinate"


def won(state: State, success: bool) -> int:
    """Returns the number of quests that succeeded or failed."""
    return sum(result.success == success for result in state.results)


def assassinate(state: State, victim: int, names: Sequence[str]) -> None:
    """Ends the game: evil wins if the victim is Merlin."""
    right = state.roles[victim] == MERLIN
    state.winner = EVIL_WINS if right else GOOD_WINS
    state.log.append(f"The assassin names {names[victim]}, who is {'' if right else 'not '}Merlin.")
