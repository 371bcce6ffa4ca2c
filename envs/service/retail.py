"""Retail: customer service of a shop."""

from __future__ import annotations

from agentgym.envs.service.arguments import Keys
from agentgym.envs.service.cases import Case
from agentgym.envs.service.database import Tables
from agentgym.envs.service.retail_tasks import retail_case
from agentgym.envs.service.retail_tools import RetailTools
from agentgym.envs.service.retail_world import shop, shop_keys


class Retail(RetailTools):
    """Help the customers of a shop with tools, a policy and a database.

    ## Description
    A user writes about orders: cancellations, other variants, addresses, payment methods, returns,
    exchanges and questions. The agent identifies the user, asks for missing details, looks up the
    records, obtains confirmation and changes the database. Some requests are against the policy.
    The scripted user is a deterministic state machine: it reveals facts when asked, forgets order
    numbers and email addresses, changes its mind at a proposal, and has one of four moods.

    ## Action Space
    Text, one of:

    - a tool call, such as `{"name": "get_order_details", "arguments": {"order_id": "#W1234567"}}`,
      in any of the formats of `agentgym.tools.CallFormat`.
    - a message to the user: any other text of at most 4,000 characters.

    ## Observation Space
    Text: the result of the call, or the user's reply.

    ## Rewards
    1 (term `task`) at the end if the changes of the database are exactly the expected ones, the
    agent has told the user all required outputs, and the policy was kept. Else 0. An invalid action
    costs `invalid_penalty`. Values count, not their spelling: 195.0 is 195, "$1,880.00" tells 1880,
    and the user agrees to a proposal in any words with the right order, items, address and payment,
    and no other. A request that is against the policy must be denied, after its order was
    looked up.

    ## Starting State
    The generated shop has 16 products, 150 users and 750 orders. The task name determines the user
    and one to three requests. One user in four occurs only in test tasks.

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
    - `data_dir` (str or None, default None): folder `tau_bench/envs/retail` with the original data
      of tau-bench as JSON, or folder `data/tau2/domains/retail` of tau2-bench. Its users are
      descriptions for a chat model: the scripted user tells the whole description and agrees to
      everything. None means the generated shop.
    - `world` (int, default 0): seed of the generated shop.
    - `call_format` (str, default "json"): format of calls in the instructions and in the expert's
      actions: "json", "tool_call" (Qwen, Hermes), "llama_call" or "python".
    - `max_turns` (int or None, default 40): turn limit.

    ## References
    The retail domain of tau-bench (arXiv 2406.12045). Tools, formats of records and the rules of
    the reward are those of the original. With `data_dir`, observations, database hashes and rewards
    equal the original's for the same actions, but error messages about the format of calls differ.
    With the files of tau2-bench (arXiv 2506.07982), tools and observations are still those of
    tau-bench, and the reward leaves out assertions in natural language. The generated data,
    policy and users are original, and the policy term is new.

    ## Version History
    v0: first version.
    """

    policy = (
        "You are the service agent of a shop. Policy:\n"
        "- Identify the user first: find the user id by email address, or by name and zip code. Do "
        "this before you look at orders or accounts.\n"
        "- Before you change the database, list the details of the change (order number, items "
        "with options, address, payment method) and ask the user to confirm. Every change needs a "
        "confirmation of its own.\n"
        "- Pending orders can be cancelled (reason: 'no longer needed' or 'ordered by mistake'), "
        "or get another address, payment method or item variants.\n"
        "- Delivered orders can be returned or exchanged, once. A refund goes to the original "
        "payment method or to a gift card. An item can only be replaced by an available variant "
        "of the same product.\n"
        "- A gift card must cover the whole amount.\n"
        "- All other requests must be denied, such as cancelling an order that is processed or "
        "delivered.\n"
        "- Invent no facts. Transfer to a human agent only if nothing else is possible."
    )

    def _world(self) -> Tables:
        return shop(self.world)

    def _keys(self) -> Keys:
        return shop_keys(self.world)

    def _case(self, task: str) -> Case:
        return retail_case(self.world, task, self.requests)
