"""Proposals are judged by value: other words are agreed to, other values are not."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.service.airline import Airline
from agentgym.envs.service.airline_tools import AIRPORTS
from agentgym.envs.service.judgement import judge
from agentgym.envs.service.messages import asks_to_confirm
from agentgym.envs.service.retail import Retail
from agentgym.envs.service.user import Request

ENVS = {"Retail": Retail(requests=1), "Airline": Airline(requests=1)}
CONFIRM = "Do you confirm?"
CONFIRMS = (
    CONFIRM,
    "Shall I go ahead?",
    "Is this correct?",
    "Please confirm (yes/no).",
    'Please reply "yes" to confirm.',
    "Would you like me to proceed with this?",
    "Is everything okay?",
    "Let me know if that’s right and I’ll go ahead: yes or no?",
)
TYPOGRAPHY = (
    {},
    {"-": "\u2011", " ": "\u00a0"},
    {"-": "\u2013", "'": "\u2019"},
    {"0": "\uff10", "1": "\uff11", "2": "\uff12", "$": "\uff04", ":": "\uff1a"},
)
FORMS = ("%Y-%m-%d", "%B %-d, %Y", "%-d %B %Y", "%b %-d", "%m/%d/%Y", "%A, %B %-d, %Y")


def requests(env: str, *names: str) -> list[Request]:
    """Returns requests of tasks whose call is one of these tools, or all with a call."""
    found = []
    for i in range(150):
        scenario = ENVS[env]._case(f"train/{i}").scenario
        assert scenario is not None
        (request,) = scenario.requests
        if request.calls and (not names or request.calls[0].name in names):
            found.append(request)
    return found


def agrees(request: Request, message: str) -> bool:
    return asks_to_confirm(message) and judge(request.proposal, message) is None


def other_words(text: str, date_form: str, marks: dict[str, str]) -> str:
    """Returns a proposal with dates, amounts, orders and typography in other forms."""
    words = []
    for word in text.split(" "):
        bare = word.rstrip(".,")
        end = word[len(bare) :]
        if len(bare) == 10 and bare[4] == bare[7] == "-":
            bare = datetime.date.fromisoformat(bare).strftime(date_form)
        elif bare.startswith("$"):
            bare = f"${int(bare[1:]):,}.00"
        elif bare.startswith("#W"):
            bare = bare[1:]
        words.append(bare + end)
    changed = " ".join(words).replace("your visa credit card", "the Visa")
    return "".join(marks.get(char, char) for char in changed)


@settings(deadline=None, max_examples=150)
@given(st.data())
@pytest.mark.parametrize("env", ENVS)
def test_the_same_values_in_other_words_are_agreed_to(env: str, data: st.DataObject):
    request = data.draw(st.sampled_from(requests(env)))
    words = other_words(
        request.summary, data.draw(st.sampled_from(FORMS)), data.draw(st.sampled_from(TYPOGRAPHY))
    )
    assert agrees(request, f"{words} {data.draw(st.sampled_from(CONFIRMS))}"), words


def another(kind: str, value: str, draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """Returns another value of a kind."""
    if kind == "date":
        days = draw(st.integers(1, 300))
        return str(datetime.date.fromisoformat(value) + datetime.timedelta(days))
    if kind == "amount":
        return f"{int(value) + draw(st.integers(1, 40))}.37"
    digits = draw(st.integers(0, 9).map(str).filter(lambda digit: digit != value[-1]))
    return value[:-1] + digits


@settings(deadline=None, max_examples=150)
@given(st.data())
@pytest.mark.parametrize("env", ENVS)
def test_another_value_is_not_agreed_to(env: str, data: st.DataObject):
    request = data.draw(st.sampled_from(requests(env)))
    kinds = ("order", "flight", "date", "amount")
    facts = [value for value in request.proposal.needed if value[0] in kinds]
    if not facts:
        return
    kind, value = data.draw(st.sampled_from(facts))
    wrong = another(kind, value, data.draw)
    assert value in request.summary
    assert not agrees(request, f"{request.summary.replace(value, wrong)} {CONFIRM}")
    extra = f"{request.summary} It is also about {'$' * (kind == 'amount')}{wrong}. {CONFIRM}"
    assert not agrees(request, extra)


@pytest.mark.parametrize("env", ENVS)
def test_a_proposal_under_negation_condition_or_quotation_is_none(env: str):
    for request in requests(env)[:40]:
        denied = request.summary.replace("I will", "I will not", 1)
        assert not agrees(request, f"{denied} Is this correct?")
        once = request.summary.replace("I will", "I cannot", 1)
        assert not agrees(request, f"{once} Is that right?")
        quoted = f'You wrote "{request.summary}" Is this correct?'
        assert not agrees(request, quoted)
        unless = f"If you were a gold member, {request.summary[0].lower()}{request.summary[1:]}"
        assert not agrees(request, f"{unless} Do you agree?")


@pytest.mark.parametrize("env", ENVS)
def test_a_question_about_something_else_is_no_proposal(env: str):
    for request in requests(env)[:20]:
        for question in (
            "What is your email address?",
            "Could you confirm your zip code?",
            "Would you like me to transfer you to a human agent?",
            "Do you have any other questions?",
            "Please confirm the reason.",
        ):
            assert not agrees(request, f"{request.summary} {question}")


def booking() -> tuple[Request, dict[str, Any]]:
    request = requests("Airline", "book_reservation")[0]
    return request, request.calls[0].arguments


@pytest.mark.parametrize(
    ("message", "agreed"),
    [
        ("I will book {n} from {o} to {d} on {date}. The total is ${price}. {c}", True),
        ("**Flight:** {n}\n**Date:** {date}\n**Total:** ${price}\nShall I book it?", True),
        ("Please confirm the booking:\n1. Flight {n}\n2. {date}\n3. {price} dollars", True),
        ("I will book {n} on {date} for ${price} with the {card}. {c}", True),
        ("I will book {n} on {date} for ${price}, you get it within 24 hours. {c}", True),
        ("I will book {n} from {d} to {o} on {date} for ${price}. {c}", False),
        ("I will book {n} on {date} for ${price} or $7. {c}", False),
        ("I will book {n} on {date} for ${price} with PayPal. {c}", False),
        ("I will book {n} on {date} for ${price} with the card ending in 0000. {c}", False),
        ("I will book {n} on {date} for ${price} in {other}. {c}", False),
        ("I will book {n} and AG999 on {date} for ${price}. {c}", False),
        ("I will look at {n} on {date} for ${price}. {c}", False),
    ],
)
def test_the_facts_of_a_booking(message: str, agreed: bool):
    request, call = booking()
    leg, payment = call["flights"][0], call["payment_methods"][0]
    card = next(iter(request.proposal.methods.values()))
    date = datetime.date.fromisoformat(leg["date"])
    words = message.format(
        n=leg["flight_number"],
        o=AIRPORTS[call["origin"]],
        d=AIRPORTS[call["destination"]],
        date=date.strftime("%B %-d, %Y"),
        price=payment["amount"],
        card=f"{card['brand'].title()} ending in {card['last_four']}",
        other="economy" if call["cabin"] == "business" else "business",
        c=CONFIRM,
    )
    assert agrees(request, words) == agreed


def test_the_old_values_of_a_change_may_be_named():
    for request in requests("Airline", "update_reservation_flights")[:10]:
        call = request.calls[0].arguments
        key, new = call["reservation_id"], call["flights"][0]
        old = ENVS["Airline"]._world().records["reservations"][key]["flights"][0]
        if old["flight_number"] == new["flight_number"] or old["date"] == new["date"]:
            continue
        first, second = (f"{leg['flight_number']} on {leg['date']}" for leg in (old, new))
        move = f"I will move reservation {key} from {{}} to {{}}. {CONFIRM}"
        assert agrees(request, move.format(first, second))
        assert not agrees(request, move.format(second, first))
        assert agrees(request, f"I will change {key} to {second} instead of {first}. {CONFIRM}")


def test_names_are_compared_in_any_order():
    for request in requests("Airline", "update_reservation_passengers")[:10]:
        call = request.calls[0].arguments
        key, new = call["reservation_id"], call["passengers"][-1]
        first, last = new["first_name"], new["last_name"]
        for name in (f"{first} {last}", f"{last}, {first}", f"{first.upper()} {last.upper()}"):
            assert agrees(request, f"The new passenger of {key} is {name}. Is this correct?")
        wrong = "Holt" if last != "Holt" else "York"
        for name in (f"{first} {wrong}", f"{first} {last} {wrong}", last):
            assert not agrees(request, f"The new passenger of {key} is {name}. Is this correct?")


def test_bags_are_counted_by_value():
    words = "zero one two three four five".split()
    for request in requests("Airline", "update_reservation_baggages")[:20]:
        call = request.calls[0].arguments
        key, total, paid = (
            call[name] for name in ("reservation_id", "total_baggages", "nonfree_baggages")
        )
        price = f" for ${50 * paid}.00" if paid else " at no cost"
        assert agrees(request, f"{key} will have {words[total]} bags{price}. {CONFIRM}")
        assert agrees(request, f"{key}\n- Checked bags: {total}\n- Price{price}\nPlease confirm.")
        assert not agrees(request, f"{key} will have {total + 5} bags{price}. {CONFIRM}")
        assert not agrees(request, f"{key} will have {total} bags for ${50 * paid + 9}. {CONFIRM}")


def test_a_wrong_reason_is_not_agreed_to():
    for request in requests("Retail", "cancel_pending_order")[:10]:
        call = request.calls[0].arguments
        reasons = {"no longer needed", "ordered by mistake"}
        (wrong,) = reasons - {call["reason"]}
        message = f"I will cancel {call['order_id']}, because it was {{}}. {CONFIRM}"
        assert agrees(request, message.format(call["reason"]))
        assert not agrees(request, message.format(wrong))


def test_addresses_and_items_are_compared_by_value():
    for request in requests("Retail", "modify_pending_order_address")[:10]:
        call = request.calls[0].arguments
        street = call["address1"].replace("Street", "St.").replace("Avenue", "Ave")
        text = f"I will ship order {call['order_id']} to {{}}, {{}} {{}}. {CONFIRM}"
        assert agrees(request, text.format(street, call["city"], call["zip"]))
        assert not agrees(request, text.format(street, call["city"], "99999"))
        assert not agrees(request, text.format("1000 Oak Street", call["city"], call["zip"]))
        other = "Dunmore" if call["city"] != "Dunmore" else "Harwick"
        assert not agrees(request, text.format(street, other, call["zip"]))
    for request in requests("Retail", "return_delivered_order_items")[:10]:
        order = next(value for kind, value in request.proposal.needed if kind == "order")
        items = [value for kind, value in request.proposal.needed if kind == "item"]
        more = "Puzzle" if "Puzzle" not in items else "Mug"
        text = f"I will return the {' and the '.join(items)}{{}} of {order}. {CONFIRM}"
        assert agrees(request, text.format(""))
        assert not agrees(request, text.format(f" and the {more}"))
