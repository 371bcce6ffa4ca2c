"""Trained policies as folders for the Hugging Face Hub, with a model card."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

from agentgym.errors import ConfigError
from agentgym.registration.making import full_id, split_id
from agentgym.utils.masking import masked, masked_settings

SETTINGS, ADAPTER = "agentgym_policy.json", "adapter_config.json"
FIGURES = ("reward", "success", "progress", "valid", "turns")


def write_hub_folder(source: Path, out: Path) -> Path:
    """Copies a policy, which `transformers` or `peft` loads, and adds a model card (README.md).

        write_hub_folder(Path("runs/demo"), Path("demo-hub"))

    The card names the environment, the recipe and the settings, and holds the figures of the
    evaluation of the policy's iteration, if the run has one. `policy:FOLDER` takes the folder too.

    Secrets in the settings, such as the token of a server, are left out (`***`).

    Args:
        source: the folder of a run, or its `policy` (the last) or `best`. A run stands for its
            best policy on held-out tasks, or for the last one if it was never evaluated.
        out: the new folder.

    Returns:
        The folder of the policy that was taken.

    Raises:
        ConfigError: if `source` holds no policy, or policies of several roles.
        FileExistsError: if `out` exists.
    """
    places = (source, source / "best", source / "policy")
    policy = next((place for place in places if (place / SETTINGS).exists()), source)
    saved = masked(_object(policy / SETTINGS))
    if not saved:
        raise ConfigError(
            f"{source} holds no policy: give the folder of a training run, or its `policy` or "
            "`best`."
        )
    if saved.get("roles"):
        raise ConfigError(
            f"{source} holds policies of the roles {', '.join(saved['roles'])}: give the folder of "
            f"one, such as {policy / 'roles' / saved['roles'][0]}."
        )
    run = policy.resolve().parent
    card = model_card(
        out.name,
        saved,
        masked_settings(_object(run / "config.json").get("config", {})),
        _evaluation(run / "metrics.jsonl", saved.get("iteration")),
        _object(policy / ADAPTER).get("base_model_name_or_path"),
    )
    if out.exists():
        raise FileExistsError(f"{out} exists.")
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(policy, partial)
    text = json.dumps(saved, indent=1)
    (partial / SETTINGS).write_text(text + "\n", encoding="utf-8")
    (partial / "README.md").write_text(card, encoding="utf-8")
    partial.rename(out)
    return policy


def model_card(
    name: str,
    saved: dict[str, Any],
    config: dict[str, Any],
    figures: dict[str, Any],
    base: str | None,
) -> str:
    """Returns the model card of a policy: metadata, use, training and evaluation.

    Args:
        name: name of the model.
        saved: the settings of the policy.
        config: the settings of the run.
        figures: the metrics of the evaluation, {} without one.
        base: the base model of an adapter. None: a whole model.
    """
    recipe, envs = str(config.get("recipe", saved.get("name"))), _envs(saved, config)
    values = {key: figures[f"eval/{key}"] for key in FIGURES if f"eval/{key}" in figures}
    library = "transformers" if base is None else "peft"
    metadata: dict[str, Any] = {
        "library_name": library,
        "pipeline_tag": "text-generation",
        "tags": ["agentgym", "reinforcement-learning", recipe],
    }
    if base is not None:
        metadata["base_model"] = base
    if values:
        metadata["model-index"] = [{"name": name, "results": [_result(envs, values)]}]
    # Each value is JSON, which is YAML too.
    front = [f"{key}: {json.dumps(value)}" for key, value in metadata.items()]
    lines = ["---", *front, "---", "", f"# {name}", ""]
    lines += [
        f"A policy for {', '.join(f'`{env}`' for env in envs)}, trained with the recipe `{recipe}` "
        "of AgentGym.",
        "",
        *_use(envs[0], saved, base),
        *_evaluated(values, figures),
        "## Training",
        "",
        f"Iteration {saved.get('iteration', 'unknown')}. All settings:",
        "",
        "```json",
        json.dumps(config or saved, indent=1),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _envs(saved: dict[str, Any], config: dict[str, Any]) -> list[str]:
    """Returns the full ids of the environments that a policy was trained in."""
    given = saved.get("env_id", config.get("env_id", "unknown"))
    names = [given] if isinstance(given, str) else given
    return list(dict.fromkeys(_full(split_id(name)[0]) for name in names))


def _full(name: str) -> str:
    """Returns the full id, or the name of an environment that is not registered here."""
    try:
        return full_id(name)
    except ConfigError:
        return name


def _result(envs: list[str], values: dict[str, float]) -> dict[str, Any]:
    return {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"type": ", ".join(envs), "name": ", ".join(envs)},
        "metrics": [{"type": key, "name": key, "value": value} for key, value in values.items()],
    }


def _use(env: str, saved: dict[str, Any], base: str | None) -> list[str]:
    """Returns the section about loading the policy."""
    loader = "AutoModelForCausalLM" if base is None else "AutoPeftModelForCausalLM"
    package = "transformers" if base is None else "peft"
    kwargs = saved.get("env_kwargs") or {}
    given = shlex.join(f"{key}={json.dumps(value)}" for key, value in kwargs.items())
    return [
        "## Use",
        "",
        "With the prompts of training, in AgentGym:",
        "",
        "```bash",
        f"agentgym eval {env.removeprefix('AgentGym/')} --agent policy:FOLDER"
        + (f" --env-kwargs {given}" if given else ""),
        "```",
        "",
        "The weights alone:",
        "",
        "```python",
        f"from {package} import {loader}",
        "",
        f'model = {loader}.from_pretrained("FOLDER")',
        "```",
        "",
    ]


def _evaluated(values: dict[str, float], figures: dict[str, Any]) -> list[str]:
    """Returns the section with the figures, [] without any."""
    if not values:
        return []
    low, high = figures.get("eval/reward_low"), figures.get("eval/reward_high")
    rows = [f"| {key} | {value:.4g} |" for key, value in values.items()]
    if low is not None and high is not None:
        rows[0] = rows[0][:-2] + f" [{low:.4g}, {high:.4g}] |"
    steps = f"{figures['env_steps']:,.0f}" if "env_steps" in figures else "an unknown number of"
    return [
        "## Evaluation",
        "",
        f"Means over held-out tasks after {steps} environment steps, the reward with its 95 % "
        "confidence interval.",
        "",
        "| | |",
        "|---|---|",
        *rows,
        "",
    ]


def _object(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file, {} if there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _evaluation(path: Path, iteration: Any) -> dict[str, Any]:
    """Returns the metrics of the evaluation of an iteration, {} if there is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if '"eval/reward"' in line]
    except (OSError, ValueError, RecursionError):
        return {}
    return next((row for row in reversed(rows) if row.get("iteration") == iteration), {})
