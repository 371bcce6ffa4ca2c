"""The wishes of a goal as a conversation of several customers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from agentgym.envs.webshop.catalogue import Product
from agentgym.envs.webshop.goals import Goal
from agentgym.envs.webshop.pages import Shop
from agentgym.tasks import task_rng

NAMES = ("Mia", "Noah", "Olivia", "Paul", "Rosa", "Sam")
MOST = len(NAMES)


class ToldShop:
    """A shop whose pages show another text as the instruction.

    Args:
        shop: the shop.
        text: the text in place of the instruction.
    """

    def __init__(self, shop: Shop, text: str):
        self.shop, self.text = shop, text

    def product(self, index: int) -> Product:
        """Returns a product."""
        return self.shop.product(index)

    def find(self, keywords: str, seed: int) -> np.ndarray:
        """Returns the indices of the products that a search finds."""
        return self.shop.find(keywords, seed)

    def instruction(self, goal: int) -> str:
        """Returns the text in place of the instruction."""
        return self.text

    def buy(self, goal: int, product: int, options: dict[str, str]) -> float:
        """Returns the reward of buying a product with these options."""
        return self.shop.buy(goal, product, options)


def conversation(
    goal: Goal, offered: Mapping[str, Sequence[str]], users: int, task: str
) -> tuple[str, str]:
    """Returns a conversation about a synthetic goal, and the instruction with the retracted wish.

    Every customer says something, if there are enough wishes. One names a wrong value of an option
    or a higher price, and another one corrects it later.

    Args:
        goal: the goal.
        offered: the values of each option of the product.
        users: number of customers.
        task: the name of the task, which determines the conversation.
    """
    assert isinstance(goal.options, dict), "goals of people have no named options"
    rng = task_rng(task, "conversation")
    names = [NAMES[i] for i in rng.permutation(MOST)[:users].tolist()]
    price, high = (
        f"{goal.price_upper:.2f}",
        f"{goal.price_upper + 10 * (1 + int(rng.integers(5))):.2f}",
    )
    wishes = [f"Important to me: {attribute}." for attribute in goal.attributes]
    named = {**goal.options}
    wrong = {
        name: [value for value in offered.get(name, ()) if value.lower() != wanted.lower()]
        for name, wanted in named.items()
    }
    open_to_error = [name for name in named if wrong[name]]
    retracted, last = goal.instruction_text, f"Sorry, at most {price} dollars."
    if open_to_error:
        name = open_to_error[int(rng.integers(len(open_to_error)))]
        value = wrong[name][int(rng.integers(len(wrong[name])))]
        retracted = retracted.replace(f"{name}: {named[name]}", f"{name}: {value}")
        last = f"No, {named.pop(name)} as the {name}, please."
        wishes += [f"And {value} as the {name}.", f"At most {price} dollars."]
    else:
        retracted = retracted.replace(f"{price} dollars", f"{high} dollars")
        wishes.append(f"At most {high} dollars.")
    wishes += [f"I would like {value} as the {name}." for name, value in named.items()]
    order = [wishes[i] for i in rng.permutation(len(wishes)).tolist()]
    lines = [f"We need {goal.query}.", *order, last]
    speakers = [names[i % users] for i in range(len(lines))]
    if speakers[-1] == _speaker_of(lines, speakers, last):
        speakers[-1] = names[len(lines) % users]
    return " ".join(f"{who}: {line}" for who, line in zip(speakers, lines, strict=True)), retracted


def _speaker_of(lines: list[str], speakers: list[str], last: str) -> str:
    """Returns who has named the wish that the last line corrects."""
    if last.startswith("Sorry"):
        place = next(i for i, line in enumerate(lines) if line.startswith("At most"))
    else:
        ending = last.removesuffix(", please.").partition(" as the ")[2]
        place = next(i for i, line in enumerate(lines) if line.endswith(f"as the {ending}."))
    return speakers[place]
