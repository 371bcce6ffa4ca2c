"""Trust, ultimatum and dictator games: the rules as pure functions, and scripted players."""

from __future__ import annotations

from dataclasses import dataclass, field

ENDOWMENT = 10
FACTOR = 3
GAMES = ("trust", "ultimatum", "dictator")
FAIR = {"trust": ENDOWMENT * FACTOR // 2, "ultimatum": ENDOWMENT // 2, "dictator": ENDOWMENT // 2}
"""Earnings of each player in a round if the maximum total is split equally."""
LEAST = 3
"""Smallest offer of ten that fair scripted players accept without a promise."""
MODELS = ("persuadable", "reciprocal", "fair", "selfish")
"""Levels that the expert considers for the co-player. The first wins ties."""
KINDNESS = {
    "trust": ((0.0, 0.5, 1.0), (0.0, 1 / 3, 2 / 3, 1.0)),
    "ultimatum": ((0.2, 0.4, 0.6, 0.8, 1.0), (1.0,)),
    "dictator": ((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), (1.0,)),
}
"""Degrees of kindness the expert considers as leader and as responder."""


@dataclass
class Round:
    """One round.

    Attributes:
        leader: player who moves first.
        named: the smallest number in each player's messages before the round, or -1.
        sent: amount the leader sent, offered or gave. -1 before that.
        answer: amount returned, or whether the offer was accepted. -1 before or without it.
    """

    leader: int
    named: list[int]
    sent: int = -1
    answer: int = -1


@dataclass
class State:
    """The game, number of rounds, rounds begun, messages of the current one, and earnings."""

    game: str
    rounds: int
    played: list[Round] = field(default_factory=list)
    talk: list[list[str]] = field(default_factory=list)
    earned: list[int] = field(default_factory=lambda: [0, 0])


def over(game: str, one: Round) -> bool:
    """Returns whether a round is over."""
    return one.sent >= 0 and (game == "dictator" or one.answer >= 0)


def shared(state: State, me: int) -> bool:
    """Returns whether the co-player sent, returned or granted a player something in any round."""
    return any(one.sent > 0 if one.leader != me else one.answer > 0 for one in state.played)


def earnings(game: str, one: Round) -> list[int]:
    """Returns the earnings of both players in a finished round."""
    if game == "trust":
        pair = ENDOWMENT - one.sent + one.answer, FACTOR * one.sent - one.answer
    elif game == "ultimatum":
        pair = ((ENDOWMENT - one.sent) * one.answer, one.sent * one.answer)
    else:
        pair = ENDOWMENT - one.sent, one.sent
    return list(pair if one.leader == 0 else pair[::-1])


def lead(game: str, kindness: float) -> int:
    """Returns the amount a leader of some kindness sends, from 0 (selfish) to 1 (fair)."""
    if game == "trust":
        return round(ENDOWMENT * kindness)
    return max(int(game == "ultimatum"), round(FAIR[game] * kindness))


def reply(game: str, kindness: float, one: Round) -> int:
    """Returns the response of a player of some kindness. It accepts every positive offer."""
    return round(FACTOR * one.sent / 2 * kindness) if game == "trust" else int(one.sent > 0)


def shown(game: str, one: Round, player: int) -> float | None:
    """Returns the kindness of a player in a round, from 0 to 1, or None if it had no choice."""
    if player == one.leader:
        return min(1.0, one.sent / (ENDOWMENT if game == "trust" else FAIR[game]))
    if game == "trust" and one.sent > 0 and one.answer >= 0:
        return min(1.0, 2 * one.answer / (FACTOR * one.sent))
    return None


def kept_word(played: list[Round], player: int) -> bool:
    """Returns whether a trusted player always returned the number it named, if possible."""
    return all(
        one.answer >= min(one.named[player], FACTOR * one.sent)
        for one in played
        if one.leader != player and one.answer >= 0
    )


def move(level: str, game: str, played: list[Round], me: int) -> int:
    """Returns the decision of a scripted player in the last of these rounds."""
    one, past = played[-1], played[:-1]
    leads = one.leader == me
    named = one.named[1 - me]
    if level == "reciprocal":
        seen = played if not leads else past
        deeds = [kind for r in seen if (kind := shown(game, r, 1 - me)) is not None]
        kindness = deeds[-1] if deeds else 1.0
    elif level == "persuadable" and leads:
        trusts = named >= ENDOWMENT and kept_word(past, 1 - me)
        kindness = float(trusts) if game == "trust" else min(1.0, max(named, 0) / FAIR[game])
    else:
        kindness = float(level != "selfish")
    if leads:
        return lead(game, kindness)
    if game == "ultimatum" and level != "selfish":
        promised = named if level == "persuadable" else -1
        return int(one.sent >= (promised if promised >= 0 else LEAST))
    return reply(game, kindness, one)


def kind_of(game: str, played: list[Round], player: int) -> str:
    """Returns the level whose decisions are closest to those of a player."""
    errors = dict.fromkeys(MODELS, 0.0)
    for t, one in enumerate(played):
        did = one.sent if one.leader == player else one.answer
        if did < 0:
            continue
        for level in MODELS:
            asked = Round(one.leader, one.named, one.sent)
            expected = move(level, game, [*played[:t], asked], player)
            errors[level] += abs(did - expected) / max(1, expected)
    return min(MODELS, key=lambda level: errors[level])


def promise(game: str, kindness: float) -> int:
    """Returns the number an expert of some kindness names when the co-player leads."""
    return max(ENDOWMENT, round(FAIR[game] * kindness)) if game == "trust" else FAIR[game]


def forecast(state: State, me: int, model: str, plan: tuple[float, float, int]) -> float:
    """Returns the predicted earnings of a player in the remaining rounds and the current one.

    Args:
        state: the state of the episode.
        me: the player.
        model: level of the co-player.
        plan: the player's kindness as leader and as responder, and the number of rounds for which
            it is kind. Afterwards its kindness is 0.
    """
    game, total = state.game, 0
    played = [one for one in state.played if over(game, one)]
    begun = state.played[len(played) :]
    for number in range(len(played), state.rounds):
        kind = plan if number - len(state.played) + len(begun) < plan[2] else (0.0, 0.0)
        one = Round(number % 2, [-1, -1])
        if begun:  # keeps the messages and the amount of the current round
            one.named, one.sent = begun[0].named, begun.pop().sent
        elif one.leader != me:
            one.named[me] = promise(game, plan[1])
        played.append(one)
        leads = one.leader == me
        if one.sent < 0:
            one.sent = lead(game, kind[0]) if leads else move(model, game, played, 1 - me)
        if game != "dictator":
            answer = move(model, game, played, 1 - me) if leads else reply(game, kind[1], one)
            one.answer = answer
        total += earnings(game, one)[me]
    return total


def best_plan(state: State, me: int) -> tuple[float, float]:
    """Returns the best kindness as leader and as responder against the co-player's level."""
    model = kind_of(state.game, state.played, 1 - me)
    left = state.rounds - sum(over(state.game, one) for one in state.played)
    leading, answering = KINDNESS[state.game]
    plans = [(a, b, rounds) for rounds in range(left, -1, -1) for a in leading for b in answering]
    best = max(plans, key=lambda plan: forecast(state, me, model, plan))
    return (best[0], best[1]) if best[2] else (0.0, 0.0)
