"""Airline: customer service of an airline."""

from __future__ import annotations

from agentgym.envs.service.airline_tasks import airline_case
from agentgym.envs.service.airline_tools import AIRPORTS, AirlineTools
from agentgym.envs.service.airline_world import airline, airline_keys
from agentgym.envs.service.arguments import Keys
from agentgym.envs.service.cases import Case
from agentgym.envs.service.database import Tables
from agentgym.tools import Call


class Airline(AirlineTools):
    """Help the customers of an airline with tools, a policy and a database.

    ## Description
    A user writes about reservations: bookings, cancellations, other flights, passengers, bags and
    questions. The tools do not check the policy: the agent itself has to find out whether a
    cancellation or a change is allowed, and how many bags are free. The scripted user is that of
    `Retail`: it reveals facts when asked, forgets reservation numbers, and has one of four moods.

    ## Action Space
    Text, one of:

    - a tool call, such as `{"name": "get_reservation_details", "arguments": {"reservation_id":
      "8JX2WO"}}`, in any of the formats of `agentgym.tools.CallFormat`.
    - a message to the user: any other text of at most 4,000 characters.

    ## Observation Space
    Text: the result of the call, or the user's reply.

    ## Rewards
    1 (term `task`) at the end if the changes of the database are exactly the expected ones, the
    agent has told the user all required outputs, and the policy was kept. Else 0. An invalid action
    costs `invalid_penalty`. Values count, not their spelling: 195.0 is 195, "$1,880.00" tells 1880,
    and the user agrees to a proposal in any words with the right flights, dates, names and amounts,
    and no other. A request that is against the policy must be denied, after its reservation was
    looked up.

    ## Starting State
    The generated airline has 112 direct flights between 8 airports on 12 dates, 120 users and 480
    reservations. The task name determines the user and one to three requests. One user in four
    occurs only in test tasks.

    ## Episode End
    Termination: the user ends the conversation, or the agent calls `transfer_to_human_agents`.
    Truncation: after `max_turns` turns.

    ## Information
    The common keys, and 1 or 0 for `database`, `outputs` and `policy`, the three factors of the
    reward, at the end of the episode. `progress` is the fraction of requests that the user has
    finished with. `admissible` is empty. `state_key` identifies the state, and the calls,
    messages and results whatever their order.

    ## Arguments
    - `requests` (int or None, default None): requests per task, 1 to 3. None samples it.
    - `user` (str or callable, default "scripted"): "scripted", "chat:MODEL@URL" (a chat model that
      receives the facts as its instruction) or a function (instruction, conversation) -> message.
      Only the scripted user checks the policy.
    - `data_dir` (str or None, default None): folder `tau_bench/envs/airline` with the original data
      of tau-bench as JSON, or folder `data/tau2/domains/airline` of tau2-bench. tau-bench has 50
      tasks: those with even numbers are the test tasks. Its users are descriptions for a chat
      model: the scripted user tells the whole description and agrees to everything. None means
      the generated airline.
    - `world` (int, default 0): seed of the generated airline.
    - `call_format` (str, default "json"): format of calls in the instructions and in the expert's
      actions: "json", "tool_call" (Qwen, Hermes), "llama_call" or "python".
    - `max_turns` (int or None, default 40): turn limit.

    ## References
    The airline domain of tau-bench (arXiv 2406.12045). Tools, formats of records and the rules of
    the reward are those of the original. With `data_dir`, observations, database hashes and rewards
    equal the original's for the same actions, but error messages about the format of calls differ.
    With the files of tau2-bench (arXiv 2506.07982), tools and observations are still those of
    tau-bench, and the reward leaves out assertions in natural language. The generated data and
    users are original, the policy is a simpler one, and the policy term is new.

    ## Version History
    v0: first version.
    """

    policy = (
        "You are the service agent of an airline. It is 2024-05-15, 15:00. Policy:\n"
        "- Ask for the user id first.\n"
        "- Before you change the database, list the details of the change (reservation, flights "
        "with numbers and dates, passengers, number of bags, price) and ask the user to confirm. "
        "Every change needs a confirmation of its own.\n"
        "- Booking: ask for date and flight, passengers with dates of birth, bags, insurance ($30 "
        "per passenger) and payment. The payment method must be in the user's profile.\n"
        "- Checked bags: free bags per passenger in basic economy, economy and business are 0, 1, "
        "2 for regular members, 1, 2, 3 for silver members and 2, 3, 3 for gold members. Each "
        "further bag costs $50. Bags can be added but not removed.\n"
        "- Flights of basic economy cannot be changed. Other flights can, with the same origin, "
        "destination and cabin.\n"
        "- Passengers can be replaced, but their number cannot change.\n"
        "- Cancelling is allowed within 24 hours of the booking, in business, or with insurance "
        "if the user is ill. Ask for the reason.\n"
        "- All other requests must be denied.\n"
        "- Invent no facts. Transfer to a human agent only if nothing else is possible."
    )

    def _world(self) -> Tables:
        return airline(self.world)

    def _keys(self) -> Keys:
        return airline_keys(self.world)

    def _by_value(self, call: Call) -> Call:
        found = super()._by_value(call)
        for name in ("origin", "destination"):
            place = found.arguments.get(name, "JFK")
            if self.data_dir is None and isinstance(place, str) and place not in AIRPORTS:
                raise ValueError(
                    f"There is no airport {place[:40]!r}. Expected a code such as 'JFK': see "
                    "list_all_airports."
                )
        return found

    def _as_original(self, call: Call) -> Call:
        legs = call.arguments.get("flights")
        if call.name not in self.writes or not isinstance(legs, list):
            return call
        # The original's tools overwrite these keys, which real agents repeat.
        filled = ("price", "origin", "destination")
        legs = [
            {k: v for k, v in leg.items() if k not in filled} if isinstance(leg, dict) else leg
            for leg in legs
        ]
        return Call(call.name, {**call.arguments, "flights": legs})

    def _case(self, task: str) -> Case:
        return airline_case(self.world, task, self.requests)
