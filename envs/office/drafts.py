"""Drafts: write messages for a user whose wishes show in its edits only."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from agentgym.core import TextEnv
from agentgym.errors import ConfigError
from agentgym.reading import normalized
from agentgym.tasks import Tasks, draw_level, task_draws
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import command
from agentgym.utils.fast_pcg64 import Draws
from agentgym.utils.marks import undressed

GREETINGS = ("Dear {},", "Hi {},", "{},")
CLOSINGS = ("Best regards", "Thanks", "Cheers")
DATES = ("{day} {month}", "{month} {day}", "2026-{number:02}-{day:02}")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August")
NAMES = ("Olga", "Peter", "Ruth", "Simon", "Tara", "Victor", "Wanda", "Yusuf")
RELATIONS = ("client", "colleague", "friend", "manager")
SUBJECTS = (
    *("The report is due on {}.", "We meet on {}.", "The delivery comes on {}."),
    *("The trip starts on {}.", "Your visit is planned for {}.", "The course begins on {}."),
)
LONGEST = 2000
"""Characters of a draft that are read."""

Style = tuple[int, int, int]
"""Indices of the greeting, the form of dates and the closing."""
STYLES: tuple[Style, ...] = tuple(itertools.product(range(3), range(3), range(3)))


@dataclass
class Message:
    """A message to write: the recipient, its relation to the user, the subject and the date."""

    name: str
    relation: str
    subject: int
    month: int
    day: int


@dataclass
class State:
    """The messages, the user's hidden wishes and the messages as the user has sent them.

    Attributes:
        messages: all messages of the episode.
        wishes: style of the messages to each relation.
        sent: the final texts so far.
        costs: share of each draft that the user had to edit.
    """

    messages: list[Message]
    wishes: dict[str, Style]
    sent: list[str] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)


def versions(message: Message) -> dict[Style, str]:
    """Returns a message in each style, on one line."""
    number = message.month
    fields = {"day": message.day, "month": MONTHS[number - 1], "number": number}
    greetings = [greeting.format(message.name) for greeting in GREETINGS]
    bodies = [SUBJECTS[message.subject].format(date.format(**fields)) for date in DATES]
    texts = itertools.product(greetings, bodies, CLOSINGS)
    return dict(zip(STYLES, map(" ".join, texts), strict=True))


def distance(one: str, other: str) -> int:
    """Returns Levenshtein's edit distance in characters.

    A column of the table of distances is two integers: bit i of `up` and of `down` is set if the
    distance rises or falls by 1 from row i to row i + 1. So a column takes a few operations: "A
    Fast Bit-Vector Algorithm for Approximate String Matching Based on Dynamic Programming" (Myers,
    Journal of the ACM 46, 1999), for the distance of whole strings.
    """
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for row, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << row
    last, every = 1 << len(one) - 1, (1 << len(one)) - 1
    up, down, found = every, 0, len(one)
    for letter in other:
        same = places.get(letter, 0)
        equal = (((same & up) + up) ^ up) | same
        rise, fall = down | ~(equal | up), up & equal
        found += bool(rise & last) - bool(fall & last)
        rise, fall = rise << 1 | 1, fall << 1
        up, down = (fall | ~(same | down | rise)) & every, rise & (same | down) & every
    return found


class Drafts(TextEnv):
    """Write messages for a user, and learn from its edits how it wants them.

    ## Description
    The user asks for one message after the other. It has wishes about the greeting, the form of
    dates and the closing, which depend on the relation to the recipient. It never tells them, but
    edits each draft until it fits, and the agent sees the result. An agent that infers the wishes
    saves the user these edits.

    ## Action Space
    Text: the message on one line, such as `Dear Olga, We meet on 3 May. Best regards`.

    ## Observation Space
    Text: all earlier requests with the messages as the user sent them, and the next request. The
    last message is not shown as it was sent.

    ## Rewards
    Term `task`, for each message: 1 minus the cost of the edits, divided by the number of messages.
    The cost is the edit distance in characters between the draft and the message as it was sent,
    divided by the length of the longer one.

    ## Starting State
    Requests and wishes are sampled from the task name.

    ## Episode End
    - Termination: all messages are sent.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys. `success`: no message to a relation that had been written to before had to be
    edited. `progress`: mean of 1 minus the cost over all messages, with 0 for those not yet sent.
    `admissible` lists the message in all 27 styles.

    ## Arguments
    - `messages` (int, default 8): number of messages, 1 to 50.
    - `relations` (int, default 2): number of relations, each with wishes of its own, 1 to 4.
    - `max_turns` (int or None, default 60): turn limit.

    ## Notes
    The expert writes in the style of the last message to the same relation, else in the first
    style. So its first message to each relation is usually edited.

    ## References
    Gao et al., Aligning LLM Agents by Learning Latent Preference from User Edits, arXiv 2404.15269:
    hidden wishes that depend on the context, and the cost of edits. Its user is a language model.

    ## Version History
    v0: first version.
    """

    State = State
    state: State
    cased = True

    def __init__(
        self, *, messages: int = 8, relations: int = 2, max_turns: int | None = 60, **kwargs
    ):
        super().__init__(max_turns=max_turns, **kwargs)
        if not 1 <= messages <= 50:
            raise ConfigError(f"messages must be from 1 to 50, got {messages}.")
        if not 1 <= relations <= len(RELATIONS):
            raise ConfigError(f"relations must be from 1 to {len(RELATIONS)}, got {relations}.")
        self.messages, self.relations = messages, relations
        self.tasks = Tasks.generated()
        self.instructions = (
            "You write short messages for a user. The user edits your draft until it fits and "
            "sends it. Learn from the edits how the user wants messages, which depends on the "
            "relation to the recipient.\n"
            "Each turn, reply with the message on one line: a greeting, the sentence that is asked "
            "for, and a closing, such as: Dear Olga, We meet on 3 May. Best regards\n"
            f"- Greetings: {' or '.join(GREETINGS).format('Olga', 'Olga', 'Olga')}\n"
            "- Dates: 3 May or May 3 or 2026-05-03\n"
            f"- Closings: {' or '.join(CLOSINGS)}\n"
            "The fewer characters the user has to edit, the better."
        )

    def _start(self, task: str) -> TimeStep:
        draws = task_draws(task, "Drafts", block=32)
        self.state = draw_level(task, lambda: self._drawn(draws))
        return self._look()

    def _drawn(self, draws: Draws) -> State:
        below = draws.below
        relations = sorted(draws.choice(RELATIONS, self.relations))
        names = [NAMES[i] for i in draws.permutation(len(NAMES))]
        wishes = {name: STYLES[below(len(STYLES))] for name in relations}
        messages = []
        for _ in range(self.messages):
            which = below(self.relations)
            name = names[2 * which + below(2)]
            subject, month, day = below(len(SUBJECTS)), below(len(MONTHS)), below(28)
            messages.append(Message(name, relations[which], subject, month + 1, day + 1))
        return State(messages, wishes)

    def _parse(self, action: str) -> str:
        matched = super()._parse(action)
        text = command(matched)
        return " ".join(normalized(text if "\n" in text else undressed(text)).split())

    def _advance(self, action: str) -> TimeStep:
        if not action:
            return self._invalid("The draft is empty. Reply with the message on one line.")
        if len(action) > LONGEST:
            return self._invalid(
                f"A draft has at most {LONGEST:,} characters, got {len(action):,}."
            )
        state = self.state
        message = state.messages[len(state.sent)]
        final = versions(message)[state.wishes[message.relation]]
        cost = distance(action, final) / max(len(action), len(final))
        state.sent.append(final)
        state.costs.append(cost)
        told = "The user sent your draft as it is." if not cost else "The user edited your draft."
        return self._look((1 - cost) / self.messages, told)

    def _asked(self, message: Message) -> str:
        date = f"day {message.day}, month {message.month}"
        subject = SUBJECTS[message.subject].format("DATE")
        return f'To {message.name} ({message.relation}): "{subject}" DATE: {date}.'

    def _look(self, gain: float = 0.0, told: str = "") -> TimeStep:
        state = self.state
        done = len(state.sent)
        over = done == self.messages
        lines = []
        shown = state.sent[: done - over]  # no draft follows the last edit
        for number, (message, text) in enumerate(zip(state.messages, shown, strict=False), 1):
            lines += [f"{number}. {self._asked(message)}", f"   Sent: {text}"]
        if over:
            lines.append("All messages are sent.")
        else:
            asked = self._asked(state.messages[done])
            lines.append(f"Message {done + 1} of {self.messages}. {asked}")
        return TimeStep(
            text="\n".join(lines),
            rewards={"task": gain},
            terminated=over,
            success=over and self._learned(),
            progress=sum(1 - cost for cost in state.costs) / self.messages,
            admissible=()
            if over
            else tuple(dict.fromkeys(versions(state.messages[done]).values())),
            feedback=told,
        )

    def _learned(self) -> bool:
        """Returns whether only first messages to a relation were edited."""
        known: set[str] = set()
        for message, cost in zip(self.state.messages, self.state.costs, strict=True):
            if cost and message.relation in known:
                return False
            known.add(message.relation)
        return True

    def privileged_text(self) -> str:
        """Returns the hidden wishes, each as a message to Olga on 3 May."""
        told = (
            f"{relation}: {GREETINGS[g].format('Olga')} "
            f"{DATES[d].format(day=3, month='May', number=5)} {CLOSINGS[c]}"
            for relation, (g, d, c) in self.state.wishes.items()
        )
        return "Wishes: " + "; ".join(told) + "."

    def expert(self) -> str | None:
        """Returns a draft in the style of the last message to the same relation."""
        state = self.state
        if self._over:
            return None
        message, style = state.messages[len(state.sent)], STYLES[0]
        for earlier, text in zip(state.messages, state.sent, strict=False):
            if earlier.relation == message.relation:
                fits = [one for one, version in versions(earlier).items() if version == text]
                style = style if style in fits else fits[0]
        return versions(message)[style]
