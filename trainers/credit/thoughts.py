"""Credit of thought tokens: `share_turn_credit`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agentgym.trainers.data.batch import Batch, Credit


def share_turn_credit(credit: Credit, batch: Batch) -> Credit:
    """Returns the credit with the advantage of the turn for all of its thought tokens.

    The advantage of a turn is the one of its first token: under POAD with lambda_token = 1 this is
    the advantage of the whole reply as one action. Action tokens keep their own advantages, and
    value targets do not change.

    Args:
        credit: credit with advantages [K].
        batch: its batch.
    """
    first = credit.advantages[batch.token_offsets[:-1][batch.token_turn]]
    advantages = np.where(batch.thought, first, credit.advantages)
    return replace(credit, advantages=advantages)
