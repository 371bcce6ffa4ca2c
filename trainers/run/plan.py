"""`introduce`: the first lines of a run, with its plan: budget, prompts, parameters and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.trainers.policy.model_defaults import NEW_MODELS
from agentgym.trainers.rollout.env_pool import instructions_by_id
from agentgym.trainers.run.diagnostics import first_clone
from agentgym.trainers.run.environment import has_expert
from agentgym.trainers.run.setup import slow_precision
from agentgym.utils.files import shown

if TYPE_CHECKING:
    from agentgym.trainers.run.parts import Parts


def introduce(trainer: Parts, saved: tuple[int, int, int | None] | None) -> None:
    """Says what a run trains, in which folder, with which plan, and whether it was resumed.

    Args:
        trainer: the parts of the run.
        saved: iteration, evaluated iteration and epoch of cloning of the newest checkpoint. None:
            there is none.
    """
    config, say = trainer.config, trainer.log.say
    label, folder = config.environment.label, trainer.folder.path
    say(f"{trainer.recipe} on {label}, model {config.model.model}, in {shown(folder)}")
    say(config.chosen_defaults())
    say(plan(trainer))
    if warning := slow_precision(config, trainer.policy):
        say(f"warning: {warning}")
    if saved is None and blank(trainer):
        seconds = config.environment.env_seconds
        advice = first_clone(has_expert(trainer.make_env, seconds)) if trainer.is_main else ""
        say(f"The model starts from random weights. Where random actions rarely succeed, {advice}.")
    if saved is not None:
        iteration, _, epoch = saved
        cloning = f"epoch {epoch} of behaviour cloning"
        say(f"Resumed after {f'iteration {iteration}' if epoch is None else cloning}.")
        if epoch is None and trainer.finished():
            say(
                "This run has finished. To train on, raise --iterations. To start again, delete "
                "the folder or choose another --run-dir."
            )
    elif config.run.resume:
        say(f"There is no run in {folder.absolute()} to resume, so a new one starts.")


def blank(trainer: Parts) -> bool:
    """Returns whether episodes are played by a new model that has imitated nothing."""
    config = trainer.config
    return (
        config.model.model in NEW_MODELS
        and not config.clones
        and trainer.algorithm.data != "fixed"
        and config.run.iterations > 0
    )


def plan(trainer: Parts) -> str:
    """Returns the budget, the length of prompts, the parameters and their memory in a sentence."""
    config, budget = trainer.config, trainer.config.run
    parts = [f"{budget.iterations:,} iteration{'s' * (budget.iterations != 1)}"]
    if trainer.algorithm.data != "fixed":
        parts[0] += f" of {config.rollout.episodes_per_iteration} episodes"
        if limit := trainer.rollouts.turn_limit(trainer.state.iteration):
            parts[0] += f" of at most {limit} turns"
    if budget.env_steps:
        parts[0] += f", until {budget.env_steps:,} environment steps"
    texts = instructions_by_id(trainer.pool.env(0)).values()
    if lengths := [trainer.context.check_room(text, 1) for text in texts]:
        parts.append(f"instructions of {max(lengths):,} tokens")
    modules = [part.trained for part in trainer.updaters.parts.values()]
    # Roles may share their base.
    parameters = list({id(p): p for module in modules for p in module.parameters()}.values())
    trained = [p for p in parameters if p.requires_grad]
    everything, learned = (sum(p.numel() for p in found) for found in (parameters, trained))
    size = sum(p.numel() * p.element_size() for p in parameters) + 12 * learned
    share = "all" if learned == everything else f"{learned / 1e6:,.2f} M"
    parts.append(
        f"{everything / 1e6:,.2f} M parameters, {share} trained, {size / 2**30:,.2f} GiB with "
        "gradients and optimiser states, without activations, reference and separate critic"
    )
    if not trainer.policy.packs:
        parts.append("updates compute padding and every prefix, as this model's rows do not pack")
    return f"Plan: {'; '.join(parts)}."
