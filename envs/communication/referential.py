"""ReferentialGame: a speaker describes one object in few words, a listener picks it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, product
from math import prod

import numpy as np

from agentgym.envs.communication.pragmatics import (
    ATTRIBUTES,
    Thing,
    best_choice,
    convention,
    descriptions,
    literal,
    understood,
)
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import InvalidMove, Rewards
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import command, match_action
from agentgym.utils.marks import undressed

LONGEST_WORD = 20


@dataclass
class State:
    """The scenes of all rounds, with the descriptions and picks so far.

    Attributes:
        scenes: the objects of each round, in the order of the speaker.
        targets: index of the target of each round.
        orders: indices of the objects of each round, in the order of the listener.
        said: descriptions so far.
        picked: indices of the picked objects so far.
    """

    scenes: list[list[Thing]]
    targets: list[int]
    orders: list[list[int]]
    said: list[str] = field(default_factory=list)
    picked: list[int] = field(default_factory=list)


def make_state(
    task: str,
    rounds: int,
    objects: int,
    values: int,
    attributes: Mapping[str, Sequence[str]] = ATTRIBUTES,
) -> State:
    """Returns the scenes of a task: distinct objects from a few values per attribute."""
    rng, state = task_rng(task), State([], [], [])
    for _ in range(rounds):
        choices = [[v[i] for i in _draw(rng, len(v), values)] for v in attributes.values()]
        things = list(product(*choices))
        state.scenes.append([things[i] for i in _draw(rng, len(things), objects)])
        state.targets.append(int(rng.integers(objects)))
        state.orders.append(_draw(rng, objects, objects))
    return state


def _draw(rng: np.random.Generator, size: int, count: int) -> list[int]:
    """Returns `count` distinct integers below `size`, faster than `rng.choice`."""
    return rng.random(size).argsort()[:count].tolist()


class ReferentialGame(TextGame):
    """A speaker describes one of several objects in few words, and a listener picks it.

    ## Description
    In every round both players see the same objects in different orders. Each object has a size, a
    pattern, a colour and a shape. player_0, the speaker, knows the target and describes it.
    player_1, the listener, picks an object. Both gain if it is the target. Words have a cost.

    `attributes=1, objects=4, values=4, max_words=1, rounds=1, speech="menu", pick_by="words"` is
    Lewis's signalling game with four states: any code of four words is optimal.

    ## Action Space
    Text:

    - Speaker: a description of at most `max_words` words, such as `red circle`. With
      `speech="menu"`: values of different attributes, from a list.
    - Listener: the number of an object, such as `3`, or all its words. With `pick_by="words"`, only
      its words.

    With `action_mode="discrete"` (menu only): the index of the action.

    ## Observation Space
    Text: the round, the objects and the results of earlier rounds. The target is marked for the
    speaker. The listener sees the description, and numbered objects if it picks by number. It is
    not told the target of a round with a wrong pick.

    ## Rewards
    Both players get these terms after each round, divided by the number of rounds:

    - `task`: 1 if the listener picks the target.
    - `words`: minus `word_cost` per word of the description.

    `invalid`: minus `invalid_penalty` for an agent's own invalid action.

    ## Starting State
    The task, `train/N` or `test/N`, determines the objects, the targets and the orders.

    ## Episode End
    Termination: all rounds are played. Truncation: after `max_turns` turns. After `max_invalid`
    invalid actions in a row, a random action is taken.

    ## Information
    The common keys.

    - `success`: whether every pick was right.
    - `progress`: the share of rounds with a right pick.

    ## Arguments
    - `rounds` (int, default 5): number of rounds.
    - `objects` (int, default 8): objects per round, from 2 to 16.
    - `attributes` (int, default 4): attributes of an object, from 1 to 4: the last ones of size,
      pattern, colour and shape.
    - `values` (int, default 2): values per attribute in a round, from 2 to 4 (size and pattern have
      3). With fewer values, the objects share more attributes.
    - `max_words` (int, default 2): longest description, from 1 to 8.
    - `word_cost` (float, default 0.1): cost per word.
    - `speech` ("free" or "menu", default "free"): any words, or descriptions from a list.
    - `pick_by` ("number" or "words", default "number"): how the listener names an object.
    - `max_turns` (int or None, default None): turns before truncation.
    - `seat` (single seat only): player_0 (speaker) or player_1 (listener).
    - `opponents` (single seat only, default "pragmatic"): the player of the other seat.
      - "random": a random word or pick.
      - "literal": the speaker gives the last words of the object, and the listener picks any object
        that fits.
      - "pragmatic": the speaker gives the best description for a pragmatic listener. The listener
        compares it with the descriptions that a speaker would choose for each object.
      - "convention": the optimal code of true descriptions, which both players compute. Useful only
        if both players use it.

    ## References
    - D. Lewis, Convention (1969): signalling games.
    - Frank and Goodman, Predicting Pragmatic Reasoning in Language Games, Science 336 (2012): the
      rational speech act model.
    - Lazaridou et al., Multi-Agent Cooperation and the Emergence of (Natural) Language (arXiv
      1612.07182).

    ## Version History
    v0: first version.
    """

    tasks = Tasks.generated()
    State = State
    state: State
    reward_names = ("task", "words")
    common_reward = True
    levels = ("random", "literal", "pragmatic", "convention")
    expert_level = "pragmatic"
    default_opponents = "pragmatic"

    def __init__(
        self,
        *,
        rounds: int = 5,
        objects: int = 8,
        attributes: int = 4,
        values: int = 2,
        max_words: int = 2,
        word_cost: float = 0.1,
        speech: str = "free",
        pick_by: str = "number",
        **kwargs,
    ):
        for name, number, low, high in (
            ("rounds", rounds, 1, 1000),
            ("objects", objects, 2, 16),
            ("attributes", attributes, 1, 4),
            ("values", values, 2, 4),
            ("max_words", max_words, 1, 8),
        ):
            if not low <= number <= high:
                raise ConfigError(f"{name} must be from {low} to {high}, got {number}.")
        if not 0 <= word_cost <= 1:
            raise ConfigError(f"word_cost must be from 0 to 1, got {word_cost}.")
        if speech not in ("free", "menu"):
            raise ConfigError(f"speech must be 'free' or 'menu', got {speech!r}.")
        if pick_by not in ("number", "words"):
            raise ConfigError(f"pick_by must be 'number' or 'words', got {pick_by!r}.")
        self.attributes = dict(list(ATTRIBUTES.items())[-attributes:])
        used = self.attributes.values()
        if objects > (most := prod(min(values, len(words)) for words in used)):
            raise ConfigError(
                f"objects must be at most {most} with attributes={attributes} and values={values}, "
                f"got {objects}: the objects of a scene differ."
            )
        super().__init__(**kwargs)
        self.rounds, self.objects, self.values = rounds, objects, values
        self.max_words, self.word_cost = max_words, float(word_cost)
        self.numbers: tuple[str, ...] = ()
        if pick_by == "number":
            self.numbers = tuple(str(i + 1) for i in range(objects))
        self.menu: tuple[str, ...] = ()
        if speech == "menu":
            self.menu = tuple(
                " ".join(words)
                for count in range(1, min(max_words, attributes) + 1)
                for parts in combinations(used, count)
                for words in product(*parts)
            )
            picks = self.numbers or map(" ".join, product(*used))
            self.actions = tuple(dict.fromkeys((*picks, *self.menu)))
        self.instructions = self._rules()

    def _rules(self) -> str:
        most, thing = self.max_words, [words[0] for words in self.attributes.values()]
        form = (
            f"at most one value per attribute, in the order {', '.join(self.attributes)}"
            if self.menu
            else f"each of at most {LONGEST_WORD} letters"
        )
        *kinds, kind = [f"a {name} ({', '.join(x)})" for name, x in self.attributes.items()]
        pick, example = ("number", "3") if self.numbers else ("words", " ".join(thing))
        return (
            "Two players cooperate. player_0, the speaker, describes an object. player_1, the "
            "listener, has to find it.\n"
            "\n"
            "Rules:\n"
            f"- There are {self.rounds} rounds. In each round, both players see the same "
            f"{self.objects} objects, in different orders.\n"
            f"- Each object has {', '.join(kinds)}{' and ' * bool(kinds)}{kind}.\n"
            "- The speaker sees which object is the target and describes it. Then the listener "
            "picks an object.\n"
            "\n"
            "Actions:\n"
            f"- Speaker: only the description, at most {most} word{'s' * (most > 1)} "
            f"({form}), for example {' '.join(thing[-2:][:most])}.\n"
            f"- Listener: only the {pick} of an object, for example {example}.\n"
            "\n"
            f"Score: each round counts 1 for the right object, minus {self.word_cost:g} for each "
            "word of the description. Both players get the mean over all rounds."
        )

    def _start(self, task: str) -> None:
        self.state = make_state(task, self.rounds, self.objects, self.values, self.attributes)

    def _round(self) -> int:
        return len(self.state.picked)

    def _acting(self) -> tuple[str, ...]:
        if self._round() == self.rounds:
            return ()
        return (self.possible_agents[len(self.state.said) > self._round()],)

    def _look(self, agent: str) -> TimeStep:
        state, now = self.state, self._round()
        right = [p == t for p, t in zip(state.picked, state.targets, strict=False)]
        listens = agent == "player_1"
        lines = [f"You are the {'listener' if listens else 'speaker'}. {self._asks(agent)}"]
        if now < self.rounds:
            scene, shown = state.scenes[now], self._shown()
            if listens:
                numbers = [f"{number}." for number in self.numbers] or ["-"] * len(shown)
                lines += map(" ".join, zip(numbers, shown, strict=True))
            else:
                lines += [
                    f"{'*' if i == state.targets[now] else '-'} {' '.join(thing)}"
                    for i, thing in enumerate(scene)
                ]
        for i, (said, ok) in enumerate(zip(state.said, right, strict=False)):
            things = state.scenes[i]
            target, picked = things[state.targets[i]], things[state.picked[i]]
            shown = "another object" if listens and not ok else " ".join(target)
            end = "The listener picked it." if ok else f"The listener picked {' '.join(picked)}."
            lines.append(f"Round {i + 1}: {said!r}. The target was {shown}. {end}")
        return TimeStep(
            text="\n".join(lines),
            success=now == self.rounds and all(right),
            progress=sum(right) / self.rounds,
            admissible=self._picks() if listens else self.menu,
        )

    def _shown(self) -> tuple[str, ...]:
        """Returns the words of each object of this round, in the order of the listener."""
        now = self._round()
        return tuple([" ".join(self.state.scenes[now][i]) for i in self.state.orders[now]])

    def _picks(self) -> tuple[str, ...]:
        """Returns the action that picks each object, in the order of the listener."""
        return self.numbers or (self._shown() if self._round() < self.rounds else ())

    def privileged_text(self, agent: str) -> str:
        """Returns the target, its number for the listener, the description and the objects."""
        state, now = self.state, self._round()
        right = sum(p == t for p, t in zip(state.picked, state.targets, strict=False))
        text = f"You are {agent}. Rounds left: {self.rounds - now}. Right: {right}."
        if now == self.rounds:
            return text
        scene, target = state.scenes[now], state.targets[now]
        said = "".join(state.said[now:]) or "none"
        return (
            f"{text} Target: {' '.join(scene[target])}, number "
            f"{state.orders[now].index(target) + 1}. Description: {said}. Objects: "
            f"{', '.join(' '.join(scene[i]) for i in state.orders[now])}."
        )

    def _asks(self, agent: str) -> str:
        if self._round() == self.rounds:
            return "The game is over."
        begins = f"Round {self._round() + 1} of {self.rounds}."
        said = self.state.said[self._round() :]
        if agent == "player_1":
            return f"{begins} The speaker {'says: ' + said[0] if said else 'acts first.'}"
        if said:
            return f"{begins} Your description: {said[0]}"
        return f"{begins} Describe the object marked * in at most {self.max_words} words."

    def _parse(self, agent: str, action: str) -> str:
        if agent == "player_1":
            named = self._shown()
            picked = match_action(action, named)
            return self._picks()[named.index(picked)] if picked else super()._parse(agent, action)
        if self.menu:
            return super()._parse(agent, action)
        words = undressed(command(action)).replace(",", " ").split(maxsplit=self.max_words)
        if not 1 <= len(words) <= self.max_words:
            raise InvalidMove(
                f"Give a description of 1 to {self.max_words} words, for example red circle."
            )
        if any(len(word) > LONGEST_WORD for word in words):
            raise InvalidMove(f"Words can have at most {LONGEST_WORD} letters.")
        return " ".join(words)

    def _advance(self, moves: dict[str, str]) -> Rewards:
        state, now = self.state, self._round()
        if "player_0" in moves:
            state.said.append(moves["player_0"])
            return {}
        state.picked.append(state.orders[now][self._picks().index(moves["player_1"])])
        terms = {
            "task": (state.picked[now] == state.targets[now]) / self.rounds,
            "words": -self.word_cost * len(state.said[now].split()) / self.rounds,
        }
        return {agent: terms for agent in self.possible_agents}

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        if agent == "player_0" and not self.menu:
            words = list(chain(*self.attributes.values()))
            return words[int(rng.integers(len(words)))]
        return super()._random(agent, rng)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        state, now = self.state, self._round()
        scene, target = tuple(state.scenes[now]), state.targets[now]
        most, cost = self.max_words, self.word_cost
        code = convention(scene, most) if level == "convention" else {}
        if agent == "player_0":
            own = next((said for said, thing in code.items() if thing == scene[target]), "")
            if own or level == "literal":
                return own or descriptions(scene[target], most)[-1]
            return best_choice(scene, target, most, cost)
        said = state.said[now].casefold()
        if said in code:
            fits = [scene.index(code[said])]
        elif level == "literal":
            fits = literal(scene, said)
        else:
            fits = understood(scene, said, most, cost)
        return self._picks()[state.orders[now].index(fits[int(rng.integers(len(fits)))])]


env, raw_env, parallel_env = make_pettingzoo(ReferentialGame)
