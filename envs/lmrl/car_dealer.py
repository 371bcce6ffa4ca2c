"""CarDealer: sell a car for as much as possible to a buyer with a temper and a budget."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentgym.core import TextEnv, UnreadableAction
from agentgym.envs.lmrl.buyers import (
    BRANDS,
    BUDGETS,
    FEATURES,
    PERSONALITIES,
    SAYINGS,
    TYPES,
    Profile,
    a,
    draw_profile,
    feature,
    listed,
)
from agentgym.envs.lmrl.haggling import (
    Car,
    agrees,
    offers,
    read_offer,
    sale_reward,
    would_pay,
)
from agentgym.envs.lmrl.price_talk import amounts_in, prices
from agentgym.errors import did_you_mean
from agentgym.multiagent.messages import clip
from agentgym.reading import NotUnderstood
from agentgym.tasks import Tasks, draw_level, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.marks import without_bold

LONGEST = 2000
ABSURD = 2
"""A price of more than this multiple of the budget is not considered."""
ASKS = {
    "brand": re.compile(r"brand|make\b|manufacturer|prefer|looking for|kind of car", re.I),
    "type": re.compile(r"type|kind|style|model|looking for|prefer", re.I),
    "features": re.compile(r"feature|equip|options|need|looking for|important|want", re.I),
    "budget": re.compile(r"budget|spend|afford|price range|how much", re.I),
}


SCORES = {
    "fancy": (
        "Your score is the price paid divided by the mean of the buyer's budget and the list "
        "price. Without a sale it is negative if the list price is below the budget."
    ),
    "revenue": "Your score is the price paid in thousands of dollars, or 0 without a sale.",
    "share": "Your score is the price paid divided by the buyer's budget, or 0 without a sale.",
}
"""The instructions' sentence on the score, by `reward`."""

_SPEAKER = re.compile(r"_{0,2}(?:car )?(?:dealer|salesperson|seller)_{0,2} ?: ?", re.IGNORECASE)
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d]+)[\"\u201d]")


@dataclass
class State:
    """The buyer, the car and the state of the conversation.

    Attributes:
        profile: the buyer.
        car: the car on offer.
        lines: the utterances, alternating, the dealer's first.
        told: topics that the buyer has answered ("brand", "type", "features", "budget", "secret").
        asked: topics that the buyer has asked about.
        rounds: number of prices that the buyer has considered.
        idle: consecutive turns without a price.
        offer: the buyer's last offer, 0 for none.
        act: the buyer's last act, a key of `buyers.SAYINGS`.
        sold: the price paid, 0 if the car is not sold.
    """

    profile: Profile
    car: Car = field(default_factory=Car)
    lines: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    rounds: int = 0
    idle: int = 0
    offer: int = 0
    act: str = ""
    sold: int = 0


def _said(line: str) -> str:
    """Returns a line without bold type, the label of its speaker and quotes around it."""
    line = without_bold(line).strip()
    speaker = _SPEAKER.match(line)
    line = line[speaker.end() :] if speaker else line
    quoted = _QUOTED.fullmatch(line)
    return quoted[1].strip() if quoted else line


class CarDealer(TextEnv):
    """Sell a car for as much as possible to a buyer with wishes, a temper and a secret budget.

    ## Description
    The car dealer negotiation of LMRL-Gym. The agent is the dealer and speaks first. A buyer has
    one of ten personalities, wants a brand (of 13), a type (of 6) and one to four features (of 8),
    and can spend $10,000 to $90,000. The original buyer is a fine-tuned language model. The buyer
    here follows rules:
    - It answers questions about its wishes and its budget. Some buyers refuse to give their budget
      or understate it.
    - It asks about the car and makes offers that rise with each counter-offer.
    - It pays less for a car that does not match its wishes.
    - It buys at a price it is willing to pay, and leaves when its patience runs out.

    ## Action Space
    Text: the dealer's next line, at most 2,000 characters. The buyer understands:
    - brands, types and features (also "no sunroof"), and questions
    - prices: `$32,500`, `32.5k`, `thirty thousand`, `$2,000 off`. A price next to MSRP or sticker
      is the list price. Without one, the first price is the list price. Down payments, rates,
      fees, parts and the buyer's own offer are no prices. If several amounts could be the price,
      the buyer asks for it.
    - "deal" as the acceptance of its own offer
    - another car, if a price comes with another brand or type, or with the word "another"

    An empty or longer text is an invalid action, which the buyer does not understand.

    ## Observation Space
    Text: the conversation so far, one utterance per line.

    ## Rewards
    Term `task`, at the end of the conversation:
    - `fancy`: the price paid divided by the mean of budget and list price. Without a sale,
      -(budget - list price) / list price, or 0 if no price was considered.
    - `revenue`: the price paid in thousands of dollars.
    - `share` (not in LMRL-Gym): the price paid divided by the budget. It is easier to learn from,
      because a bad episode does not cost more than a good episode gains.

    ## Starting State
    An empty conversation. The buyer is sampled from the task's name. No buyer is in both splits.

    ## Episode End
    - Termination: the buyer buys or leaves. After 50 utterances (`max_utterances`) it decides on
      the last price.
    - Truncation: after `max_turns`.

    ## Information
    The common keys. `success` means that the car is sold.
    - `progress`: 1 when sold. Before that, up to 0.2 for a car that matches the wishes and up to
      0.7 for a price close to the buyer's offer.

    ## Arguments
    - `reward` (str, default "fancy"): "fancy", "revenue" or "share".
    - `max_utterances` (int, default 50): number of utterances of both sides together, even.
    - `max_turns` (int or None, default None): turns before truncation.

    ## Notes
    The expert is a scripted dealer that uses only the conversation.

    ## References
    LMRL-Gym (arXiv 2311.18232), section on the car dealer. Profiles, rewards and the limit are the
    same. One rule differs: a price of more than twice the budget does not become the list price.
    Otherwise the reward without a sale, which is at most 0.5 now, would favour scaring buyers away.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are a car dealer in a conversation with a buyer. Sell the buyer a car for as much "
        "money as possible. You speak first.\n"
        "Each turn, answer only with your next line of the conversation. You can:\n"
        "- ask the buyer questions, for example: Which brand are you looking for?\n"
        "- offer a car at a price, for example: I have a Mazda sedan with heated seats for "
        "$30,000.\n"
        "- bargain about the price, for example: I can let you have it for $28,000.\n"
        "- accept the buyer's offer: Deal.\n"
        "Rules:\n"
        "- Buyers differ in temper and in the brand, type and features they want. They can spend "
        "between $10,000 and $90,000 and pay less for a car that does not match their wishes.\n"
        "- The first price that you name for a car counts as its list price.\n"
        "- A buyer who runs out of patience leaves.\n"
        f"- Brands: {', '.join(BRANDS)}\n"
        f"- Types: {', '.join(TYPES)}\n"
        f"- Features: {', '.join(FEATURES)}\n"
        "{score} The conversation ends when the buyer buys or leaves, at the latest after {most} "
        "lines of both of you."
    )
    State = State
    turn_bound = 25  # half of `max_utterances`

    def __init__(
        self,
        *,
        reward: str = "fancy",
        max_utterances: int = 50,
        max_turns: int | None = None,
        **kwargs,
    ):
        kinds = ("fancy", "revenue", "share")
        if reward not in kinds:
            hint = did_you_mean(reward, kinds)
            raise ValueError(f"reward must be one of {kinds}, got {reward!r}.{hint}")
        if max_utterances < 2 or max_utterances % 2:
            raise ValueError(f"max_utterances must be even and at least 2, got {max_utterances}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.reward = reward
        self.max_utterances = max_utterances
        self.tasks = Tasks.generated()
        text = self.instructions.replace("{score}", SCORES[reward])
        self.instructions = text.replace("{most}", str(max_utterances))

    def _start(self, task: str) -> TimeStep:
        rng = task_rng(task, "car_dealer")
        self.state = State(draw_level(task, lambda: draw_profile(rng)))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        line = _said(clip(action, LONGEST + 1))
        valid = 0 < len(line) <= LONGEST and len(action) <= 2 * LONGEST
        return self._exchange(line[:LONGEST] if valid else "...", valid)

    def _unreadable(self, action: UnreadableAction) -> TimeStep:
        return self._exchange("...", valid=False)

    def _exchange(self, line: str, valid: bool) -> TimeStep:
        """Adds the dealer's line and the buyer's reply."""
        state = self.state
        state.lines.append(line)
        reply = self._reply(line) if valid else self._say("unclear")
        state.lines.append(reply)
        if not self._is_over() and len(state.lines) >= self.max_utterances:
            # The buyer decides on the last price.
            price = state.car.price
            state.sold, state.act = (price, "accept") if 0 < price <= state.offer else (0, "leave")
        return self._look(valid)

    def _is_over(self) -> bool:
        return bool(self.state.sold) or self.state.act == "leave"

    def _reply(self, line: str) -> str:
        """Returns the buyer's reply to the dealer's line."""
        state = self.state
        before = state.car.msrp
        try:
            _, price = prices(line, state.car.price)
            if state.offer and price in (0, state.offer) and agrees(line):
                state.sold = state.offer
                return self._say("accept", price=state.sold)
            state.car = read_offer(state.car, line)
        except NotUnderstood:
            return self._talk(line, unclear=True)
        if not price:
            return self._talk(line)
        state.idle = 0
        if state.car.msrp > ABSURD * state.profile.budget:
            # A price that is not considered does not count as the list price either.
            shown = state.car.price
            state.car.msrp = before if before <= ABSURD * state.profile.budget else 0
            state.car.price = 0
            return self._tire() or self._say("absurd", price=shown)
        return self._bargain()

    def _bargain(self) -> str:
        """Replies to a price: asks about the car, buys it, makes an offer or leaves."""
        state, profile, car = self.state, self.state.profile, self.state.car
        missing = [
            *(["brand"] if not car.brand else []),
            *(["type"] if not car.type else []),
            *(["features"] if set(profile.features) - set(car.features) else []),
        ]
        for topic in missing:
            if topic not in state.asked:
                state.asked.append(topic)
                return self._say(f"ask_{topic}")
        offer = max(state.offer, offers(profile, car, state.rounds))
        offer = min(offer, would_pay(profile, car))
        if car.price <= offer:
            state.sold = car.price
            return self._say("accept", price=car.price)
        state.offer = offer
        over = car.price > profile.budget
        return self._tire() or self._say("over" if over else "counter", price=car.price)

    def _tire(self) -> str:
        """Counts a round of bargaining. Returns a farewell if the patience is used up, or ""."""
        self.state.rounds += 1
        tired = self.state.rounds >= PERSONALITIES[self.state.profile.personality].patience
        return self._say("leave") if tired else ""

    def _talk(self, line: str, unclear: bool = False) -> str:
        """Replies to a line without a price: answers its questions, or asks for a price.

        Args:
            line: the dealer's line.
            unclear: whether the line has amounts of which none is clearly the price.
        """
        state, person = self.state, PERSONALITIES[self.state.profile.personality]
        state.idle += 1
        wishes = ("brand", "type", "features")
        asked = [w for w, pattern in ASKS.items() if pattern.search(line)] if "?" in line else []
        if "budget" in asked and not person.admits:
            asked[asked.index("budget")] = "secret"
        tells = asked[:1] if person.volunteers == 0 else asked
        if not asked and not state.told:
            tells = ["look", *wishes[: person.volunteers]]
        if state.idle >= person.patience + 2:
            return self._say("leave")
        if not tells or unclear:
            return self._say("ask_price")
        state.told += [topic for topic in tells if topic not in state.told]
        return self._say(*tells)

    def _say(self, *acts: str, price: int = 0) -> str:
        """Returns the buyer's sentences for some acts, in the style of its personality."""
        state, profile = self.state, self.state.profile
        person = PERSONALITIES[profile.personality]
        state.act = acts[-1]

        def pick(options: tuple[str, ...]) -> str:
            return options[int(self.np_random.integers(len(options)))]

        sentences = [
            pick(SAYINGS[act]).format(
                brand=profile.brand,
                type=a(profile.type),
                features=listed([feature(name) for name in profile.features]),
                budget=int(profile.budget * person.admits),
                price=price,
                offer=state.offer,
            )
            for act in acts
        ]
        return " ".join(filter(None, [pick(person.before), *sentences, pick(person.after)]))

    def _look(self, valid: bool = True) -> TimeStep:
        state, profile, car = self.state, self.state.profile, self.state.car
        ended = self._is_over()
        reward = sale_reward(self.reward, profile.budget, car.msrp, state.sold) if ended else 0.0
        speakers = ("Dealer", "Buyer")
        lines = [f"{speakers[i % 2]}: {line}" for i, line in enumerate(state.lines)]
        return TimeStep(
            text="\n".join(["Beginning of the conversation.", *lines]),
            rewards={"task": reward} if valid else {},
            terminated=ended,
            valid=valid,
            success=bool(state.sold),
            progress=self._progress(),
        )

    def _progress(self) -> float:
        state, profile, car = self.state, self.state.profile, self.state.car
        if state.sold:
            return 1.0
        wishes = 2 + len(profile.features)
        right = (car.brand == profile.brand) + (car.type == profile.type)
        right += sum(wish in car.features for wish in profile.features)
        close = min(1.0, state.offer / car.price) if car.price else 0.0
        return 0.2 * right / wishes + 0.7 * close

    def privileged_text(self) -> str:
        """Returns the buyer's temper, wishes and budget, and the state of the bargain."""
        state, profile = self.state, self.state.profile
        patience = PERSONALITIES[profile.personality].patience - state.rounds
        return (
            f"Personality: {profile.personality}. Wishes: {profile.brand} {profile.type}, "
            f"{', '.join(profile.features)}. Patience: {patience}. Price: {state.car.price}. "
            f"Offer: {state.offer}. Budget: {profile.budget}."
        )

    def expert(self) -> str | None:
        """Returns the next line of a scripted dealer that uses only the conversation."""
        state, told = self.state, self.state.told
        unknown = [topic for topic in ("brand", "type", "features") if topic not in told]
        if unknown and len(state.lines) < 8:
            return f"Which {' and which '.join(unknown)} would you like?"
        if "budget" not in told and "secret" not in told:
            return "What is your budget?"
        profile = state.profile
        noun = a(profile.type).partition(" ")[2]
        car = f"{profile.brand} {noun} with {listed([feature(f) for f in profile.features])}"
        if not state.car.msrp or state.act in ("over", "absurd"):
            return f"I have another car, a {car}. Its price is ${self._anchor():,}."
        if state.rounds >= 4 and state.offer:
            return f"${state.offer:,} it is, deal."
        return f"It is a {car}. I cannot go below ${state.car.price:,}."

    def _anchor(self) -> int:
        """Returns the largest possible budget that is consistent with the conversation."""
        state = self.state
        if "budget" in state.told:
            admitted = state.profile.budget * PERSONALITIES[state.profile.personality].admits
            return next(budget for budget in BUDGETS if budget >= admitted)
        found = map(amounts_in, state.lines[::2])
        named = [price for amounts in found for price in (*amounts.lists, *amounts.prices)]
        lowest = min(named, default=BUDGETS[-1] + 1)
        below = lowest / ABSURD if state.act == "absurd" else lowest
        return max((budget for budget in BUDGETS if budget < below), default=BUDGETS[0])
