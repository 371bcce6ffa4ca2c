"""WebShop: search a shop, compare products, choose options, buy what was asked for."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentgym.core import TextEnv, TimeStep
from agentgym.envs.webshop import expert, pages
from agentgym.envs.webshop.nouns import NounTagger
from agentgym.envs.webshop.pages import Session
from agentgym.envs.webshop.shop import open_shop
from agentgym.errors import SnapshotError
from agentgym.tasks import NumberedTasks, Tasks, task_number

MODES = {"text": pages.render_text, "text_rich": pages.render_rich}
GOALS = ("synthetic", "human")
MAX_SEEN = 64


@dataclass
class State:
    """The shopper's session, and the pages seen so far (the expert reads them again)."""

    session: Session
    seen: dict[str, Session] = field(default_factory=dict)


class WebShop(TextEnv):
    """Buy the product that an instruction describes, in a shop of 1,000 to over a million products.

    ## Description
    The shop, its pages and its graded reward are those of WebShop, byte for byte where the pages
    are read as text, without Java, a browser or a download. By default the shop sells generated
    products (families of four that differ in one attribute, one option or the price only); with
    `data_dir` it sells those of the original's files.

    ## Action Space
    Text. `search[words]` looks for products, from any page; the words are free, so the set of
    actions is open. `click[text]` clicks what the page offers: a button, a product's number, the
    value of an option. The argument is read in lower case; what follows the bracket is ignored.

    ## Observation Space
    Text, in one of the original's forms. `text`: the texts of the page, separated by " [SEP] ".
    `text_rich`: one line each, with buttons marked `[button] x [button_]` and what was chosen or
    opened `[clicked button] x [clicked button_]`. Which options are chosen can be read in
    `text_rich` only: with `text`, an agent needs its history.

    ## Rewards
    Term `task`: on buying, type * (matched attributes + matched options + [price within the
    limit]) / (attributes + options + 1), in [0, 1]; until then 0.

    ## Starting State
    The search page with the instruction of the goal. The seed decides which goal it is where none
    is given (all are equally likely; the original prefers goals with rare attributes) and what a
    search for random products (`search[<r>]`) finds, nothing else.

    ## Episode End
    Termination: `click[buy now]`. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `success`: the reward is 1. `progress`: 0 until something is bought, then the
    reward. `valid`: whether the page allowed the action. `admissible`: a click on everything that
    can be clicked, and on the search page up to four searches made of the instruction's words
    (examples: any other words are allowed too). `state_key`: page, open product, chosen options
    and goal.

    ## Arguments
    `data_dir`: folder of the original's JSON files (None: generated products). `num_products`:
    how many products, from the start (None: all in the files; at most 1,000,000 are generated).
    `goals`: "synthetic" (made of attributes and options) or "human" (written by people; they come
    with `data_dir` only). `data_seed`: draws prices and price limits, as the original does after
    `random.seed(data_seed)`. `catalogue_seed`: another seed, another generated shop.
    `observation_mode`: "text" or "text_rich". `tagger`: what finds the nouns of titles for the
    reward: "alphabetic" (every word but stop words), "spacy" (the original's) or a function.
    `explain_invalid`: whether an action that the page does not allow is answered by what was wrong
    with it, above the page; by default the page is shown again in silence, as in the original.
    `max_turns`: 15; None removes the limit. `split`: "test" (the first 500 goals, or a tenth if
    there are fewer than 5,000) or "train" (the rest); `goal/7` is goal 7 in the original's order.

    ## Example Transcript
    Task `goal/500`; "..." stands for what was shown before.
    ```
    WebShop [SEP] Instruction: [SEP] Find me hands free clock radios with color: gray, and plug:
    asia, and style: deluxe, and price lower than 40.00 dollars [SEP] Search
    > search[hands free clock radios with color: gray, and plug: asia, and style: deluxe]
    Instruction: [SEP] ... [SEP] Back to Search [SEP] Page 1 (Total results: 50) [SEP] Next >
    [SEP] 4395845240 [SEP] Selette Water Proof Hands Free Clock Radio With Voice Assistant [SEP]
    $104.99 [SEP] 6262708296 [SEP] Dunbury Noise Cancelling Hands Free Clock Radio For Video Calls
    [SEP] $19.49 [SEP] ...
    > click[6262708296]
    Instruction: [SEP] ... [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] gray [SEP]
    style [SEP] deluxe [SEP] sport [SEP] plug [SEP] europe [SEP] usa [SEP] asia [SEP] Dunbury Noise
    Cancelling Hands Free Clock Radio For Video Calls [SEP] Price: $19.49 [SEP] Rating: N.A. [SEP]
    Description [SEP] Features [SEP] Reviews [SEP] Buy Now
    > click[gray]
    > click[deluxe]
    > click[asia]
    > click[buy now]
    Thank you for shopping with us! [SEP] ... Your score (min 0.0, max 1.0) [SEP] 1.0 [SEP] ...
    ```

    ## Baselines
    Mean reward and success over the 500 test goals, 15 turns, one episode each:

    | shop | random admissible | expert | expert's turns (median) |
    |---|---|---|---|
    | `WebShop-v0` | 0.195, 0.4 % | 1.000, 100 % | 6 |
    | `WebShop-Large-v0` | 0.249, 0.2 % | 0.999, 99.6 % | 6 |
    | the original's 1,000 products | 0.098, 0 % | 0.929, 83 % | 8 |

    Even with the product that was meant and its options a goal of the original cannot always be
    met in full: 0.994, 96 %.

    `WebShop-Large-v0`: some 4,900 steps/s on one core, as a search goes through 100,000 products.

    ## Registered Configurations
    `WebShop-v0`: 1,000 generated products. `WebShop-Large-v0`: 100,000 of them.

    ## References
    Yao et al., WebShop: Towards Scalable Real-World Web Interaction with Grounded Language Agents,
    arXiv 2207.01206.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are shopping online. Find and buy a product that has every attribute and option that "
        "the instruction asks for, within its price limit. Each turn, do one thing:\n"
        "search[words] looks for products (you can search from any page);\n"
        "click[text] clicks a button, a product's number or the value of an option on the page, "
        "such as click[next >], click[back to search], click[description] or click[buy now].\n"
        "Choose the options before you click[buy now]: buying ends the episode, and it is scored "
        "by how well the purchase matches the instruction."
    )
    State = State

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        num_products: int | None = 1000,
        goals: str = "synthetic",
        data_seed: int = 0,
        catalogue_seed: int = 0,
        observation_mode: str = "text",
        tagger: str | NounTagger = "alphabetic",
        explain_invalid: bool = False,
        max_turns: int | None = 15,
        **kwargs: Any,
    ):
        if observation_mode not in MODES:
            raise ValueError(
                f"observation_mode must be one of {list(MODES)}, got {observation_mode!r}."
            )
        if goals not in GOALS:
            raise ValueError(f"goals must be one of {list(GOALS)}, got {goals!r}.")
        super().__init__(max_turns=max_turns, **kwargs)
        folder = None if data_dir is None else os.fspath(data_dir)
        self.shop = open_shop(
            folder, num_products, goals == "human", data_seed, catalogue_seed, tagger
        )
        self.observation_mode = observation_mode
        self.explain_invalid = explain_invalid
        self.tasks = split_goals(len(self.shop.goals))

    def _start(self, task: str) -> TimeStep:
        self.state = State(Session(task_number(task)))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        session = self.state.session
        random_search = "<r>" in action or session.keywords.startswith("<r>")
        seed = int(self.np_random.integers(2**32)) if random_search else 0
        after = pages.act(session, action, self.shop, seed)
        if after is None:
            message = self._explanation(action) if self.explain_invalid else ""
            return self._invalid(message)
        self.state.session = after
        self._remember(after)
        return self._look()

    def _remember(self, session: Session) -> None:
        seen = self.state.seen
        key = f"{session.place}/{session.product}/{session.section}/{session.page}/"
        seen[key + session.keywords] = session
        if len(seen) > MAX_SEEN:
            del seen[next(iter(seen))]

    def _explanation(self, action: str) -> str:
        name, argument = pages.parse_action(action)
        if name not in ("search", "click") or not argument:
            return f"Say search[words] or click[text], not {action[:60]!r}."
        return f"There is nothing to click on this page that reads {argument[:60]!r}."

    def _look(self) -> TimeStep:
        session = self.state.session
        bought = session.place == "done"
        return TimeStep(
            text=MODES[self.observation_mode](session, self.shop),
            rewards={"task": session.reward} if bought else {},
            terminated=bought,
            success=bought and session.reward >= 1 - 1e-9,
            progress=session.reward,
            admissible=self._admissible(session),
            state_key=pages.state_key(session),
        )

    def _admissible(self, session: Session) -> tuple[str, ...]:
        if not session.place:
            queries = expert.queries(self.shop.instruction(session.goal))
            return tuple(f"search[{query}]" for query in queries)
        return tuple(
            f"click[{text}]"
            for text in pages.clickables(session, self.shop)
            if pages.can_be_said(text)
        )

    def expert(self) -> str | None:
        """Returns the next action of a shopper who knows what its pages have shown, no more."""
        session = self.state.session
        if session.place == "done":
            return None
        return expert.next_action(
            self.shop.instruction(session.goal),
            [self._view(page) for page in self.state.seen.values()],
            self._view(session),
            session.options,
            None if self.max_turns is None else self.max_turns - self._turn,
        )

    def _view(self, session: Session) -> expert.View:
        return expert.View(
            text=pages.render_text(session, self.shop),
            clickables=pages.clickables(session, self.shop),
            asin="" if session.product < 0 else self.shop.product(session.product).asin,
            section=session.section,
            keywords=session.keywords,
            page=session.page,
        )

    def _picture(self) -> str:
        assert self._last is not None
        note = "" if self._last.valid else self._last.feedback or "This page does not offer that."
        return _painter()(self.state.session, self.shop, note)

    def snapshot(self) -> dict[str, Any]:
        """Returns the episode's state; the shop is only named, by a fingerprint."""
        return {**super().snapshot(), "shop": self.shop.fingerprint}

    def restore(self, snapshot: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Continues from a snapshot taken in the same shop.

        Raises:
            SnapshotError: if the snapshot is damaged, or of another environment or shop.
        """
        mine = isinstance(snapshot, dict) and snapshot.get("env") == type(self).__name__
        if mine and snapshot.get("shop") != self.shop.fingerprint:
            raise SnapshotError(
                "This snapshot was taken in a shop with other products, prices or goals: make the "
                "environment with the same data_dir, num_products, goals and seeds."
            )
        return super().restore(snapshot)


@functools.cache
def _painter() -> Callable[..., str]:
    """Returns `picture`: rich is slow to import, and draws from the user's `random` meanwhile."""
    state = random.getstate()
    try:
        from agentgym.envs.webshop.picture import picture
    finally:
        random.setstate(state)
    return picture


def split_goals(count: int) -> Tasks:
    """Returns the tasks: the first 500 goals (a tenth where there are few) are for testing."""
    held_out = min(500, max(1, count // 10))
    first_train = 0 if count == 1 else held_out
    return Tasks(
        train=NumberedTasks("goal/", range(first_train, count)),
        test=NumberedTasks("goal/", range(held_out)),
    )
