"""All checks, in the order of a report."""

from __future__ import annotations

from agentgym.certify import oracle_checks as oracle
from agentgym.certify import reward_checks as rewards
from agentgym.certify import runtime_checks as runtime
from agentgym.certify import task_checks as tasks
from agentgym.certify.findings import Check

CHECKS: tuple[Check, ...] = (
    runtime.startup,
    runtime.reward_well_formed,
    runtime.state_contract,
    runtime.seed_control,
    runtime.episode_determinism,
    runtime.episode_isolation,
    runtime.snapshot_fidelity,
    runtime.state_key_exact,
    runtime.task_declaration_accuracy,
    oracle.oracle_max,
    oracle.unsolvable_tasks,
    rewards.floor_gap,
    rewards.nonsense_floor,
    rewards.canary_floor,
    oracle.no_solution_leakage,
    oracle.answer_place,
    rewards.success_consistent,
    rewards.positive_cycle,
    rewards.gameability_gap,
    tasks.train_test_disjoint,
    tasks.duplicate_tasks,
    runtime.resource_envelope,
    rewards.reward_reachability,
    rewards.difficulty_separation,
    oracle.variance_bound,
)
BY_ID = {check.id: check for check in CHECKS}
"""The checks by id."""
