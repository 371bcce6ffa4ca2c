"""WebShop: search a shop, compare products, choose options and buy the requested product."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentgym.core import TextEnv
from agentgym.envs.webshop import expert, pages
from agentgym.envs.webshop.conversation import MOST, ToldShop, conversation
from agentgym.envs.webshop.nouns import NounTagger
from agentgym.envs.webshop.pages import Session, Shop
from agentgym.envs.webshop.shop import open_shop
from agentgym.errors import ConfigError, SnapshotError
from agentgym.tasks import NumberedTasks, Tasks, task_number
from agentgym.time_step import TimeStep

MODES = {"text": pages.render_text, "text_rich": pages.render_rich}
GOALS = ("synthetic", "human")
PARSING = ("auto", "lenient", "exact")
MAX_SEEN = 64


@dataclass
class State:
    """The shopper's session and the pages seen so far, which the expert uses."""

    session: Session
    seen: dict[str, Session] = field(default_factory=dict)


class WebShop(TextEnv):
    r"""Buy the product that an instruction describes in a shop of 1,000 to 1,000,000 products.

    ## Description
    The web shop of Yao et al. as a native implementation, without Java, a browser or a download.
    Pages, search and the graded reward are those of WebShop. Text observations are the same byte
    for byte.

    - By default, the shop sells generated products. They come in families of four that differ only
      in one attribute, one option or the price.
    - With `data_dir`, the shop sells the products of the original's files.

    ## Action Space
    Text: one of two actions. The set of actions is open, because the words of a search are free.

    - `search[red running shoes]` searches for products. It is possible on every page.
    - `click[buy now]` clicks a button, a product's number or the value of an option.

    The argument is converted to lower case, and text after the closing bracket is ignored. The
    argument `action_parsing` selects how strictly an action is parsed:

    - "exact": as in the original, by the regular expression `(.+)\[(.+)\]` at the start of the
      action. The names `search` and `click` are case-sensitive, and leading blanks or a label
      such as "Action:" make the action invalid.
    - "lenient": as in the other environments of AgentGym. Capitals, blanks, quotes, code marks and
      labels such as "Action:" are ignored, and typographic characters are read as plain ones, for
      searches and clicks alike. A reply with two actions is invalid, also "search[x] or nothing".
      Every single action that "exact" accepts has the same effect.

    ## Observation Space
    Text, in one of two forms of the original.

    - "text": the texts of the page, separated by " [SEP] ". It does not show the chosen options, so
      an agent needs its history.
    - "text_rich": one line per text. Buttons are marked `[button] x [button_]`, chosen options and
      opened products `[clicked button] x [clicked button_]`.

    ## Rewards
    Term `task`: 0 until the purchase, then a value in [0, 1]:
    `type * (matched attributes + matched options + [price within the limit]) / (attributes +
    options + 1)`.

    ## Starting State
    The search page with the instruction of the goal. The seed determines the goal if no task is
    given, and the results of a search for random products (`search[<r>]`). All goals are equally
    likely. The original prefers goals with rare attributes.

    ## Episode End
    - Termination: `click[buy now]`.
    - Truncation: after `max_turns` turns.

    ## Information
    The common keys.

    - `success`: whether the reward is 1.
    - `progress`: 0 until the purchase, then the reward.
    - `valid`: whether the action was possible on the page.
    - `admissible`: a click for everything that can be clicked. On the search page, up to four
      searches made of the instruction's words. They are examples, since any words are allowed.
    - `state_key`: a digest of page, open product, chosen options and goal.

    ## Arguments
    - `data_dir` (path, default None): folder with the original's JSON files. None: generated
      products.
    - `num_products` (int or None, default 1000): number of products, from the start of the
      catalogue. None: all products of the files. At most 1,000,000 products can be generated.
    - `goals` (str, default "synthetic"): "synthetic" (made of attributes and options) or "human"
      (written by people, only with `data_dir`).
    - `users` (int, default 1): number of customers, 1 to 6. Several talk in place of the
      instruction, with synthetic goals only. One of them names a wrong option or price, and another
      one corrects it at the end.
    - `data_seed` (int, default 0): seed of prices and price limits, as in the original after
      `random.seed(data_seed)`.
    - `catalogue_seed` (int, default 0): seed of the generated products.
    - `observation_mode` (str, default "text"): "text" or "text_rich".
    - `tagger` (str or function, default "alphabetic"): finds the nouns of a title for the reward:
      "alphabetic" (all words but stop words), "spacy" (as in the original) or a function.
    - `action_parsing` (str, default "auto"): "lenient", "exact" or "auto" ("exact" with `data_dir`,
      otherwise "lenient").
    - `explain_invalid` (bool, default False): whether an explanation precedes the page after an
      invalid action. By default the page is shown again without one, as in the original.
    - `max_turns` (int or None, default 15): turn limit.
    - `split` (str, default "train"): "test" is the first 500 goals, or a tenth if there are fewer
      than 5,000. "train" is the rest. Task `goal/7` is goal 7 in the original's order.

    ## Notes
    - In the original's shop, not every goal can be met in full: even the product that a goal was
      made from does not always earn the full reward.
    - `WebShop-Large-v0` is slower than `WebShop-v0`, since every search covers 100 times as many
      products.

    ## References
    Yao et al., WebShop: Towards Scalable Real-World Web Interaction with Grounded Language Agents,
    arXiv 2207.01206.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are shopping online. Buy a product that has every attribute and option that the "
        "instruction asks for, within its price limit.\n"
        "\n"
        "Actions:\n"
        "- search[words]: search for products. You can search from any page. "
        "Example: search[red running shoes]\n"
        "- click[text]: click a button, a product number or an option value that is shown on the "
        "page. Examples: click[next >], click[back to search], click[description], "
        "click[buy now]\n"
        "\n"
        "Rules:\n"
        "- Click the option values you need, such as click[red], before you click[buy now].\n"
        "- click[buy now] ends the episode. Your score is between 0 and 1 and measures how well "
        "the purchase matches the instruction.\n"
        "- The episode also ends, with a score of 0, when you run out of turns.\n"
        "\n"
        "Reply with exactly one action per turn."
    )
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "products with equal attributes have equal goals",
    }

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        num_products: int | None = 1000,
        goals: str = "synthetic",
        users: int = 1,
        data_seed: int = 0,
        catalogue_seed: int = 0,
        observation_mode: str = "text",
        tagger: str | NounTagger = "alphabetic",
        action_parsing: str = "auto",
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
        if action_parsing not in PARSING:
            raise ValueError(
                f"action_parsing must be one of {list(PARSING)}, got {action_parsing!r}."
            )
        if not 1 <= users <= MOST or (users > 1 and goals == "human"):
            raise ConfigError(
                f"users must be from 1 to {MOST}, and 1 with human goals, got {users} with "
                f"{goals} goals."
            )
        super().__init__(max_turns=max_turns, **kwargs)
        self.users = users
        folder = None if data_dir is None else os.fspath(data_dir)
        self.shop = open_shop(
            folder, num_products, goals == "human", data_seed, catalogue_seed, tagger
        )
        self.observation_mode = observation_mode
        if action_parsing == "auto":
            action_parsing = "lenient" if data_dir is None else "exact"
        self.action_parsing = action_parsing
        self.explain_invalid = explain_invalid
        self.tasks = split_goals(len(self.shop.goals))

    def _start(self, task: str) -> TimeStep:
        self.state = State(Session(task_number(task)))
        return self._look()

    def _parse(self, action: str) -> str:
        if self.action_parsing == "exact":
            return action
        action = pages.parse_leniently(action)
        return action if action.startswith("search[") else super()._parse(action)

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
        if not action:
            return "Reply with one action: search[words] or click[text]."
        name, argument = pages.parse_action(action)
        if name not in ("search", "click") or not argument:
            return f"Expected search[words] or click[text], got {action[:60]!r}."
        return f"This page has nothing to click named {argument[:60]!r}."

    def _look(self) -> TimeStep:
        session = self.state.session
        bought = session.place == "done"
        return TimeStep(
            text=MODES[self.observation_mode](session, self._told()[0]),
            rewards={"task": session.reward} if bought else {},
            terminated=bought,
            success=bought and session.reward >= 1 - 1e-9,
            progress=session.reward,
            admissible=self._admissible(session),
            state_key=pages.state_key(session),
        )

    def _told(self) -> tuple[Shop, str]:
        """Returns the shop as its pages show it, and an instruction with a retracted wish, if any.

        They differ from the shop and the instruction if several customers talk.
        """
        number = self.state.session.goal
        if self.users == 1:
            return self.shop, self.shop.instruction(number)
        goal = self.shop.goals[number]
        offered = self.shop.product(self.shop.goals.product_index(number)).options
        text, retracted = conversation(goal, offered, self.users, self.task)
        return ToldShop(self.shop, text), retracted

    def _admissible(self, session: Session) -> tuple[str, ...]:
        if not session.place:
            # Searches for the retracted wish too, so that they do not tell which one it is.
            instructions = sorted({self.shop.instruction(session.goal), self._told()[1]})
            found = [query for text in instructions for query in expert.queries(text)]
            queries = dict.fromkeys(found)
            return tuple(f"search[{query}]" for query in queries)
        return tuple(
            f"click[{text}]"
            for text in pages.clickables(session, self.shop)
            if pages.can_be_said(text)
        )

    def privileged_text(self) -> str:
        """Returns whether the goal's product is listed, or the rewards for the open product."""
        session, goal = self.state.session, self.shop.goals[self.state.session.goal]
        wanted = goal.options.values() if isinstance(goal.options, dict) else goal.options
        if session.product < 0:
            shown = [self.shop.product(index).asin for index in session.shown]
            listed = "yes" if goal.asin in shown else "no"
            return f"Wanted: {', '.join(wanted) or 'none'}. Product listed: {listed}."
        values = {v for some in self.shop.product(session.product).options.values() for v in some}
        best = {value: value for value in wanted if value in values}
        missing = ", ".join(value for value in best if value not in session.options.values())
        now, most = (
            self.shop.buy(session.goal, session.product, options)
            for options in (session.options, best)
        )
        return f"Missing: {missing or 'none'}. At best: {most:.0%}. Reward: {now:.0%}."

    def expert(self) -> str | None:
        """Returns the next action of a shopper that knows only the pages seen so far."""
        session = self.state.session
        if session.place == "done":
            return None
        return expert.next_action(
            self.shop.instruction(session.goal),
            [self._view(page) for page in self.state.seen.values()],
            self._view(session),
            session.options,
            None if self.turn_limit is None else self.turn_limit - self._turn,
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
        if self.users > 1:
            return super()._picture()
        assert self._last is not None
        note = (
            "" if self._last.valid else self._last.feedback or "This action is not possible here."
        )
        return _painter()(self.state.session, self.shop, note)

    def snapshot(self) -> dict[str, Any]:
        """Returns the state of the episode, with a fingerprint of the shop."""
        return {**super().snapshot(), "shop": self.shop.fingerprint}

    def restore(self, snapshot: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Continues from a snapshot taken in the same shop.

        Raises:
            SnapshotError: if the snapshot is damaged, or of another environment or shop.
        """
        mine = isinstance(snapshot, dict) and snapshot.get("env") == type(self).__name__
        if mine and snapshot.get("shop") != self.shop.fingerprint:
            raise SnapshotError(
                "This snapshot was taken in a shop with other products, prices or goals. Create "
                "the environment with the same data_dir, num_products, goals and seeds."
            )
        return super().restore(snapshot)


@functools.cache
def _painter() -> Callable[..., str]:
    """Imports `picture` lazily, since rich is slow to import and uses the global `random`."""
    state = random.getstate()
    try:
        from agentgym.envs.webshop.picture import picture
    finally:
        random.setstate(state)
    return picture


def split_goals(count: int) -> Tasks:
    """Returns the tasks: the first 500 goals (a tenth if there are few) are test tasks."""
    held_out = min(500, max(1, count // 10))
    first_train = 0 if count == 1 else held_out
    return Tasks(
        train=NumberedTasks("goal/", range(first_train, count)),
        test=NumberedTasks("goal/", range(held_out)),
    )
