"""CarDealer: sell a car, as dear as possible, to a buyer with a temper and a budget."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentgym.core import TextEnv, TimeStep, UnreadableAction
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
    listed,
)
from agentgym.envs.lmrl.haggling import (
    Car,
    offers,
    prices,
    read_offer,
    sale_reward,
    would_pay,
)
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks, task_rng

LONGEST = 2000
ABSURD = 2
"""A price of more than so many times the budget is not even considered."""
AGREED = re.compile(
    r"(?<!great )(?<!good )(?<!best )(?<!better )(?<!fair )"
    r"\b(deal|agreed|agree|i accept|sold|it is yours|it's yours|i take your offer|you got it)\b",
    re.IGNORECASE,
)
REFUSED = re.compile(
    r"\b(no deal|not a deal|not agree|don't agree|cannot|can't|can not|won't|unable)\b",
    re.IGNORECASE,
)
ASKS = {
    "brand": re.compile(r"brand|make\b|manufacturer|prefer|looking for|kind of car", re.I),
    "type": re.compile(r"type|kind|style|model|looking for|prefer", re.I),
    "features": re.compile(r"feature|equip|options|need|looking for|important|want", re.I),
    "budget": re.compile(r"budget|spend|afford|price range|how much", re.I),
}


@dataclass
class State:
    """The buyer, the car, and how the talk stands.

    Attributes:
        profile: the buyer.
        car: the car on offer.
        lines: what was said, the dealer first, then by turns.
        told: what the buyer has told ("brand", "type", "features", "budget", "secret").
        asked: what the buyer has asked of the car.
        rounds: prices the buyer has considered.
        idle: turns without a price in a row.
        offer: the buyer's last offer, 0 for none.
        act: the last thing the buyer did: a key of `buyers.SAYINGS`.
        sold: for how much the car was bought, 0 if it was not.
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


class CarDealer(TextEnv):
    """Sell a car, as dear as possible, to a buyer with wishes, a temper and a secret budget.

    ## Description
    The negotiation of LMRL-Gym. The agent is the dealer and speaks first. A buyer has one of ten
    personalities, wants a brand (13), a type (6) and one to four features (of 8), and can spend
    $10,000 to $90,000. The original's buyer is a fine-tuned language model; here it follows
    rules: it answers questions about its wishes and its budget (some refuse or understate it),
    asks about the car, makes offers that rise round by round, buys at a price it is ready to
    pay and leaves when its patience is at an end. What a car lacks lowers what it would pay.

    ## Action Space
    Text: what the dealer says, any words, at most 2,000 characters. The buyer understands brands,
    types, features (also "no sunroof"), questions, prices (`$32,500`, `32.5k`, `$2,000 off`, a list
    price where MSRP or sticker is said beside it, else the first price), "deal" to its own offer,
    and that another car is meant when brand, type or "another" is said with a price. An empty or
    longer text is an invalid action: the buyer does not understand it.

    ## Observation Space
    Text: the conversation so far, one line an utterance.

    ## Rewards
    Term `task`, at the end. `fancy`: paid / mean of budget and list price if the car is bought,
    else -(budget - list price) / list price, 0 if no price was considered. `revenue`: thousands of
    dollars paid. `share` (not in the original): paid / budget, which is easier to learn from, as a
    bad episode costs no more than a good one brings.

    ## Starting State
    Nobody has said anything. The buyer is drawn by the task's name.

    ## Episode End
    Termination: the buyer buys or leaves; after 50 utterances (`max_utterances`) it decides about
    the last price. Truncation: after `max_turns`.

    ## Information
    The common keys; `success` means sold. `progress`: 1 when sold, before that a fifth for a car
    as wished and up to 0.7 for a price close to what the buyer offers.

    ## Arguments
    `reward`: "fancy", "revenue" or "share". `max_utterances`: default 50, even. `max_turns`:
    default None.

    ## Example Transcript
    ```
    Dealer: Good morning! What are you looking for?
    Buyer: Thank you. I want a Mazda. I am after a sedan.
    > A Mazda sedan with heated seats for $30,000.
    Buyer: $30,000 is too much. I offer $25,500.
    ```

    ## Baselines
    Mean return and success on the test split, n = 200 episodes each: random words 0.00, 0 %;
    expert (a scripted dealer who knows no more than what was said) 0.89, 100 %.

    ## Registered Configurations
    `CarDealer-v0`: reward "fancy".

    ## References
    LMRL-Gym (arXiv 2311.18232), section on the car dealer. Profiles, rewards and the limit are the
    same. A price of more than twice the budget does not become the list price: the formula for
    rejections would reward scaring buyers away (so it pays at most 0.5, less than any good sale).

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are a car dealer and talk to a buyer; you speak first. Sell a car for as much as "
        "possible. Buyers differ in temper and in the brand, type and features they want, and can "
        "spend between $10,000 and $90,000. Find out what the buyer wants, offer a car that has "
        "it, name a price (the first price of a car counts as its list price) and bargain. To "
        "take the buyer's offer, say that it is a deal. A buyer who runs out of patience leaves. "
        f"Brands: {', '.join(BRANDS)}. Types: {', '.join(TYPES)}. Features: {', '.join(FEATURES)}. "
        "Answer with what you say next, nothing else."
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

    def _start(self, task: str) -> TimeStep:
        self.state = State(draw_profile(task_rng(task, "car_dealer")))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        said = " ".join(action[: LONGEST + 1].split())
        valid = 0 < len(said) <= LONGEST and len(action) <= 2 * LONGEST
        return self._exchange(said[:LONGEST] if valid else "...", valid)

    def _unreadable(self, action: UnreadableAction) -> TimeStep:
        return self._exchange("...", valid=False)

    def _exchange(self, said: str, valid: bool) -> TimeStep:
        """Adds what the dealer says and what the buyer answers."""
        state = self.state
        state.lines.append(said)
        reply = self._reply(said) if valid else self._say("unclear")
        state.lines.append(reply)
        if not self._is_over() and len(state.lines) >= self.max_utterances:
            # The buyer has to decide about the last price.
            price = state.car.price
            state.sold, state.act = (price, "accept") if 0 < price <= state.offer else (0, "leave")
        return self._look(valid)

    def _is_over(self) -> bool:
        return bool(self.state.sold) or self.state.act == "leave"

    def _reply(self, said: str) -> str:
        """Returns the buyer's answer to the dealer."""
        state = self.state
        refused = REFUSED.search(said)
        _, price = prices(said, state.car.price)
        if state.offer and AGREED.search(said) and not refused and price in (0, state.offer):
            state.sold = state.offer
            return self._say("accept", price=state.sold)
        before = state.car.msrp
        state.car = read_offer(state.car, said)
        if not price:
            return self._talk(said)
        state.idle = 0
        if state.car.msrp > ABSURD * state.profile.budget:
            # Not considered, so that it does not count as the list price either.
            shown = state.car.price
            state.car.msrp = before if before <= ABSURD * state.profile.budget else 0
            state.car.price = 0
            return self._tire() or self._say("absurd", price=shown)
        return self._bargain()

    def _bargain(self) -> str:
        """Answers a price: asks about the car, buys it, makes an offer or leaves."""
        state, profile, car = self.state, self.state.profile, self.state.car
        missing = [
            *(["brand"] if not car.brand else []),
            *(["type"] if not car.type else []),
            *(["features"] if set(profile.features) - set(car.features) else []),
        ]
        for what in missing:
            if what not in state.asked:
                state.asked.append(what)
                return self._say(f"ask_{what}")
        offer = max(state.offer, offers(profile, car, state.rounds))
        offer = min(offer, would_pay(profile, car))
        if car.price <= offer:
            state.sold = car.price
            return self._say("accept", price=car.price)
        state.offer = offer
        over = car.price > profile.budget
        return self._tire() or self._say("over" if over else "counter", price=car.price)

    def _tire(self) -> str:
        """Counts a round of bargaining; returns the farewell of a buyer without patience left."""
        self.state.rounds += 1
        tired = self.state.rounds >= PERSONALITIES[self.state.profile.personality].patience
        return self._say("leave") if tired else ""

    def _talk(self, said: str) -> str:
        """Answers what names no price: tells what was asked for, or urges the dealer."""
        state, person = self.state, PERSONALITIES[self.state.profile.personality]
        state.idle += 1
        wishes = ("brand", "type", "features")
        asked = [w for w, pattern in ASKS.items() if pattern.search(said)] if "?" in said else []
        if "budget" in asked and not person.admits:
            asked[asked.index("budget")] = "secret"
        tells = asked[:1] if person.volunteers == 0 else asked
        if not asked and not state.told:
            tells = ["look", *wishes[: person.volunteers]]
        if state.idle >= person.patience + 2:
            return self._say("leave")
        if not tells:
            return self._say("ask_price")
        state.told += [what for what in tells if what not in state.told]
        return self._say(*tells)

    def _say(self, *acts: str, price: int = 0) -> str:
        """Returns sentences for what the buyer does, in the buyer's manner."""
        state, profile = self.state, self.state.profile
        person = PERSONALITIES[profile.personality]
        state.act = acts[-1]

        def pick(options: tuple[str, ...]) -> str:
            return options[int(self.np_random.integers(len(options)))]

        sentences = [
            pick(SAYINGS[act]).format(
                brand=profile.brand,
                type=a(profile.type),
                features=listed(profile.features),
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

    def expert(self) -> str | None:
        """Returns what a scripted dealer says, who knows no more than what has been said."""
        state, told = self.state, self.state.told
        unknown = [what for what in ("brand", "type", "features") if what not in told]
        if unknown and len(state.lines) < 8:
            return f"Which {' and which '.join(unknown)} would you like?"
        if "budget" not in told and "secret" not in told:
            return "What is your budget?"
        profile = state.profile
        noun = a(profile.type).partition(" ")[2]
        car = f"{profile.brand} {noun} with {listed(profile.features)}"
        if not state.car.msrp or state.act in ("over", "absurd"):
            return f"I have another car, a {car}. Its price is ${self._anchor():,}."
        if state.rounds >= 4 and state.offer:
            return f"${state.offer:,} it is, deal."
        return f"It is a {car}. I can not go below ${state.car.price:,}."

    def _anchor(self) -> int:
        """Returns the highest of the usual budgets that fits what the buyer has said so far."""
        state = self.state
        if "budget" in state.told:
            admitted = state.profile.budget * PERSONALITIES[state.profile.personality].admits
            return next(budget for budget in BUDGETS if budget >= admitted)
        named = [prices(line, 0)[1] for line in state.lines[::2]]
        lowest = min(filter(None, named), default=BUDGETS[-1] + 1)
        below = lowest / ABSURD if state.act == "absurd" else lowest
        return max((budget for budget in BUDGETS if budget < below), default=BUDGETS[0])
