"""The documentation: every id, recipe and wrapper has a page, and figures are those measured."""

from __future__ import annotations

import json
import re
import shlex
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agentgym.cli.main import main
from agentgym.cli.serve_command import serve
from agentgym.multiagent.game import GAME_INFO_KEYS
from agentgym.registration.ids import TABLE
from agentgym.time_step import INFO_KEYS
from agentgym.utils.arguments import keyword_parameters

pytest.importorskip("torch")  # pages of recipes read their settings

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "docs" / "_scripts"))

import certificate_pages  # noqa: E402
import cloning_notes  # noqa: E402
import coverage_pages  # noqa: E402
import curves  # noqa: E402
import environment_pages  # noqa: E402
import leaderboard_pages  # noqa: E402
import project  # noqa: E402
import recipe_pages  # noqa: E402
import reference_pages  # noqa: E402
import search_words  # noqa: E402
import transcripts  # noqa: E402
import wrapper_pages  # noqa: E402
import writing  # noqa: E402

from agentgym.trainers.cli.train import read_config  # noqa: E402
from benchmarks.figures import figure_blocks, figures  # noqa: E402

from .helpers.site_search import SiteSearch  # noqa: E402


@pytest.fixture(scope="module")
def environments() -> dict[str, Any]:
    return environment_pages.pages()


@pytest.fixture(scope="module")
def recipes() -> dict[str, str]:
    return recipe_pages.pages()


# Environments.


@pytest.mark.slow
def test_every_id_has_a_page_with_its_transcript(environments: dict[str, Any]):
    for cls in project.environment_classes():
        page = environments[cls.page]
        for entry in cls.entries:
            assert f'id="{writing.anchor(entry.name)}"' in page
        if project.golden_file(cls.entries[0]).exists():
            svg = environments[cls.picture(".svg")]
            assert "Transcript as text" in page and len(re.findall("<text", svg)) > 5
        else:
            assert cls.entries[0].files and "needs files of your own" in page
    found = [entry.name for cls in project.environment_classes() for entry in cls.entries]
    assert sorted(found) == sorted(entry.name for entry in TABLE)


@pytest.mark.slow
def test_a_page_holds_facts_instructions_and_baselines(environments: dict[str, Any]):
    page = environments["environments/webshop/WebShop.md"]
    assert '`gymnasium.make("AgentGym/WebShop-v0")`' in page
    assert "## Instructions" in page and "search[" in page.partition("## Instructions")[2][:1500]
    assert "`num_products=100000`" in page
    row = project.results("baselines")["environments"]["WebShop-v0"]["random/test"]
    assert f"{row['reward'][0]:.2f} [{row['reward'][1]:.2f}, {row['reward'][2]:.2f}]" in page
    speed = environment_pages.speeds()["WebShop-v0"]["steps_per_second"]
    assert f"{speed:,.0f} steps/s" in page


@pytest.mark.slow
def test_instructions_are_on_every_page_that_can_know_them(environments: dict[str, Any]):
    for cls in project.environment_classes():
        env = project.make(cls.entries[0])
        if env is not None:
            first = env.instructions.split("\n")[0]
            assert first in environments[cls.page], cls.name


@pytest.mark.slow
def test_the_page_of_speed_says_why_environments_are_slow(environments: dict[str, Any]):
    _, _, reasons = environments["environments/speed.md"].partition("## Slow Environments")
    named = set(re.findall(r"[A-Z][\w-]+\w", reasons))
    for name, row in environment_pages.speeds().items():
        if row["steps_per_second"] < 5000:
            stem = name.removesuffix("-v0")
            assert {stem, stem.partition("-")[0]} & named, f"{name} is slow: say why"


@pytest.mark.slow
def test_every_id_is_cloned_or_the_page_of_baselines_says_why_not(environments: dict[str, Any]):
    page, cloned = environments["environments/baselines.md"], environment_pages.cloning()
    skipped = project.results("imitation")["skipped"]
    assert sorted([*cloned, *skipped]) == sorted(entry.name for entry in TABLE)
    for name, reason in skipped.items():
        assert f"`{name}` ({reason})" in page
    for name, found in cloned.items():
        [row] = re.findall(rf"^\| \[{name}\].*", page, re.MULTILINE)
        _, _, score, demonstrations, *_ = row.split(" | ")
        assert score.startswith(f"{found['imitation']['reward']:.2f},")
        assert demonstrations == str(found["demonstrations"])


def test_ids_that_cloning_solves_have_a_harder_one():
    named = [name for names in cloning_notes.HARDER.values() for name in names]
    assert sorted(named) == sorted(cloning_notes.solved())
    assert {*cloning_notes.HARDER} <= {*environment_pages.cloning()} - {*named}


@pytest.mark.slow
def test_sections_that_are_generated_are_there_once(environments: dict[str, Any]):
    for cls in project.environment_classes():
        headings = re.findall(r"^## (.+)$", environments[cls.page], re.MULTILINE)
        assert len(headings) == len(set(headings)), cls.name
        assert headings[0] == "Description" and headings[-1] == "Source"
        assert "Registered Configurations" not in headings


@pytest.mark.slow
def test_the_index_is_a_gallery(environments: dict[str, Any]):
    index, drawn = environments["environments/index.md"], 0
    for cls in project.environment_classes():
        tiles = [cls.picture(suffix) for suffix in (".png", ".svg")]
        shown = [path for path in tiles if f"]({path.removeprefix('environments/')}){{" in index]
        assert shown == [path for path in tiles if path in environments][:1], cls.name
        if shown and shown[0].endswith(".png"):
            drawn += 1
            assert environments[shown[0]].startswith(b"\x89PNG")
            assert len(environments[shown[0]]) < 10_000
            assert f"]({cls.name}.png)" in environments[cls.page]
    assert drawn > 15
    assert index.count("<div") == index.count("</div>")


@pytest.mark.slow
def test_tables_of_all_environments_link_to_the_pages(environments: dict[str, Any]):
    measured = project.results("baselines")["environments"]
    for entry in TABLE:
        link = f"[{entry.name}]("
        assert link in environments["environments/index.md"]
        if entry.name in measured:
            assert link in environments["environments/baselines.md"]
        if entry.name in environment_pages.speeds():
            assert link in environments["environments/speed.md"]
        if entry.id in certificate_pages.certificates():
            assert link in environments["environments/certificates.md"]


def test_a_class_without_its_engine_is_read_from_the_file():
    for cls in project.environment_classes():
        entry = cls.entries[0]
        if cls.available and not entry.multi_agent:
            name, doc, instructions = project._parse(ROOT / cls.source, cls.name)
            assert (name, doc) == (cls.name, cls.doc)
            assert instructions in (None, cls.instructions)


def test_an_environment_without_transcript_stops_the_build(tmp_path: Path, monkeypatch):
    cls = next(c for c in project.environment_classes() if c.name == "NumberLine")
    monkeypatch.setattr(project, "GOLDEN", tmp_path)
    with pytest.raises(transcripts.EmptyTranscriptError, match="no golden file"):
        environment_pages.class_page(cls)
    (tmp_path / "NumberLine-v0.txt").write_text("AgentGym/NumberLine-v0, seed 0, task x\nRules.\n")
    with pytest.raises(transcripts.EmptyTranscriptError, match="plays no action"):
        environment_pages.class_page(cls)


def test_a_picture_is_the_same_twice_and_loads_nothing():
    text = (project.GOLDEN / "WebShop-v0.txt").read_text(encoding="utf-8")
    svg = transcripts.picture(text, "WebShop-v0")
    assert svg == transcripts.picture(text, "WebShop-v0")
    assert set(re.findall(r"https?://[^\"' )]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in svg


def test_a_long_observation_is_cut_in_the_picture():
    rows = "\n".join(f"row{i}" for i in range(40))
    svg = transcripts.picture(f"{rows}\n> go\nend\n", "X-v0")
    assert f"row{transcripts.MAX_OBSERVATION - 1}<" in svg
    assert f"row{transcripts.MAX_OBSERVATION}<" not in svg
    assert svg.count("[...]") == 1 and "&#160;go<" in svg and "end<" in svg


def test_the_instructions_are_cut_from_a_transcript(tmp_path: Path):
    file = tmp_path / "x.txt"
    file.write_text("AgentGym/X-v0, seed 0, task t\nRules.\n\nMore rules.\n\nYou see a.\n> go\n")
    text = transcripts.read(file, "Rules.\n\nMore rules.")
    assert text == "AgentGym/X-v0, seed 0, task t\n\nYou see a.\n> go\n"


# Recipes, wrappers, reference.


@pytest.mark.slow
def test_every_recipe_has_a_page_with_its_settings(recipes: dict[str, str]):
    shared = recipes["recipes/settings.md"]
    for name in project.recipe_names():
        page = recipes[f"recipes/{name}.md"]
        assert "(settings.md)" in page
        for setting in project.recipe_settings(name):
            own = setting.shared != setting.default  # also if it is not shared at all
            assert f"`{setting.flag}`" in (page if own else shared), (name, setting.name)
            assert setting.help
        assert f"agentgym train {name} " in page
        assert f"({name}.md)" in recipes["recipes/index.md"]


def test_the_front_page_begins_with_the_commands_that_set_everything_up():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```bash\n(.*?)```", text, re.DOTALL)
    assert block is not None
    commands = [line.partition("#")[0].strip() for line in block[1].splitlines()]
    assert commands == ["make demo", "make test"]


def test_the_front_page_names_and_counts_every_recipe():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names = project.recipe_names()
    counts = re.findall(r"(\d+)\s+interchangeable credit-assignment algorithms", text)
    assert counts == [str(len(names))]
    listed = [name for group in project.recipe_groups().values() for name in group]
    assert sorted(listed) == sorted(names)


@pytest.mark.slow
def test_the_usage_of_a_recipe_is_accepted():
    for name in project.recipe_names():
        command = recipe_pages._usage(name).split("\n")[1].split()
        assert command[:3] == ["agentgym", "train", name]
        config = read_config(name, command[3:])
        assert config.environment.env_id == recipe_pages.EXAMPLE


@pytest.mark.slow
def test_learning_curves_are_those_of_the_grid(recipes: dict[str, str]):
    runs = project.results("grid")["runs"]
    measured = {run["recipe"].partition(",")[0] for run in runs}  # poad has a variant
    assert measured and measured <= set(project.recipe_names())
    for name in project.recipe_names():
        assert (f"recipes/{name}.svg" in recipes) == (name in measured)
        assert ("## Learning Curves" in recipes[f"recipes/{name}.md"]) == (name in measured)
    assert curves.recipe_curves(project.results("grid"), "poad") == recipes["recipes/poad.svg"]


@pytest.mark.slow
def test_a_changed_setting_is_shown_beside_the_shared_default(recipes: dict[str, str]):
    settings = {setting.name: setting for setting in project.recipe_settings("grpo")}
    group = settings["group_size"]
    assert group.default != group.shared
    row = f"| `--group-size` | `{group.default}` | `{group.shared}` |"
    assert row in recipes["recipes/grpo.md"]


def test_nested_groups_of_settings_are_flattened():
    settings = {each.name: each for each in project.recipe_settings("grpo")}
    assert (settings["lr"].group, settings["lr"].flag) == ("optimisation", "--lr")
    assert settings["scale"].group == "" and settings["scale"].shared is project.MISSING
    assert "optimisation" not in settings and "value_coef" not in settings


def test_every_wrapper_and_reference_page_names_its_objects():
    pages = wrapper_pages.pages()
    for name in project.wrappers():
        assert f"::: agentgym.wrappers.{name}\n" in pages[f"wrappers/{name}.md"]
        assert f"({name}.md)" in pages["wrappers/index.md"]
    for name, (_, _, objects) in reference_pages.PAGES.items():
        page = reference_pages.pages()[f"reference/{name}.md"]
        assert page.count("\n::: agentgym") == len(objects)


@pytest.fixture(scope="module")
def coverage() -> dict[str, str]:
    return coverage_pages.pages()


def test_every_place_of_the_coverage_page_exists(coverage: dict[str, str]):
    page = coverage["coverage/index.md"]
    methods = [method for _, methods in coverage_pages.capabilities() for method in methods]
    papers = [paper for paper, _, _ in methods]
    assert len(papers) == len(set(papers)) > 150
    for paper, here, missing in methods:
        assert here or missing, paper
        assert f"| {paper} | " in page
        assert all(coverage_pages.link(place) in page for place in here)


def test_every_recipe_is_a_method_of_the_coverage_page():
    methods = [method for _, methods in coverage_pages.capabilities() for method in methods]
    places = {place for _, here, _ in methods for place in here}
    assert not [name for name in project.recipe_names() if f"recipe:{name}" not in places]


@pytest.mark.parametrize(
    "place",
    ["recipe:nothing", "env:Nothing-v0", "wrapper:X", "agent:x", "agentgym:x", "--x", "agentgym.x"],
)
def test_an_unknown_place_stops_the_build(place: str):
    with pytest.raises(coverage_pages.UnknownPlaceError, match=re.escape(place)):
        coverage_pages.link(place)


def test_the_papers_of_docstrings_are_listed(coverage: dict[str, str]):
    page = coverage["coverage/papers.md"]
    for paper, place in (
        ("2207.01206", "[`WebShop-v0`](../environments/webshop/WebShop.md)"),
        ("2405.15821", "[`poad`](../recipes/poad.md)"),
        ("2303.11366", "[`MultiTrial`](../wrappers/MultiTrial.md)"),
        ("2510.04206", "`--cross-policy`"),
    ):
        rows = [row for row in page.split("\n") if f"[arXiv {paper}]" in row]
        assert any(place in row for row in rows), paper


def test_the_info_page_has_every_key():
    text = (ROOT / "docs" / "info.md").read_text(encoding="utf-8")
    common, rest = text.split("A PettingZoo environment")
    assert tuple(re.findall(r"^\| `(\w+)` \|", common, re.MULTILINE)) == INFO_KEYS
    games = rest.partition("## Keys of wrappers")[0]
    extra = tuple(re.findall(r"^\| `(\w+)` \|", games, re.MULTILINE))
    assert INFO_KEYS + extra == GAME_INFO_KEYS


def test_the_commands_of_the_leaderboard_exist():
    [(_, page)] = leaderboard_pages.pages().items()
    rows = list(leaderboard_pages.rows())
    assert {row.agent for row in rows} >= {"random", "expert", "behaviour cloning", "poad"}
    for row in rows:
        assert f"`{row.command}`" in page
        program, script, *rest = shlex.split(row.command)
        assert row.env in rest or row.trained
        if program == "python":
            assert (ROOT / script).is_file()
            recipes = rest[rest.index("--recipes") + 1 :] if "--recipes" in rest else []
            assert {name.partition(",")[0] for name in recipes} <= {*project.recipe_names()}


def test_the_command_of_a_row_measures_its_numbers(tmp_path: Path):
    row = next(r for r in leaderboard_pages.rows() if (r.env, r.agent) == ("Ferry-v0", "random"))
    program, *words = row.command.split()
    assert program == "agentgym"
    assert main([*words, "--json", str(tmp_path / "found.json")]) == 0
    [found] = json.loads((tmp_path / "found.json").read_text())
    assert found["aggregate"]["reward"]["mean"] == pytest.approx(row.reward.mean, abs=1e-4)


def test_the_container_serves_ids_and_options_that_exist():
    text = (ROOT / "docs" / "plug_in.md").read_text(encoding="utf-8")
    [recipe] = re.findall(r"```dockerfile\n(.*?)```", text, re.DOTALL)
    steps = [line.split(maxsplit=1) for line in recipe.splitlines() if not line.startswith("#")]
    values = dict(steps)
    assert values.keys() == {"FROM", "RUN", "COPY", "USER", "EXPOSE", "CMD"}
    assert [name for name, _ in steps][-3:] == ["USER", "EXPOSE", "CMD"], "not as root"
    program, command, *words = json.loads(values["CMD"])
    assert (program, command) == ("agentgym", "serve")
    flags = dict(zip(words[-4::2], words[-3::2], strict=True))
    assert flags == {"--host": "0.0.0.0", "--port": values["EXPOSE"]}
    assert flags.keys() <= {f"--{name}" for name in keyword_parameters(serve)}
    assert {*words[:-4]} <= {entry.name for entry in TABLE}


# Writing.


def test_links_to_papers_leave_code_and_links_alone():
    link = "[arXiv 2207.01206](https://arxiv.org/abs/2207.01206)"
    assert writing.link_papers("WebShop, arXiv 2207.01206.") == f"WebShop, {link}."
    for text in ("`arXiv 2207.01206`", link, "    2207.01206", "0.12345", "v 12.2207.01206"):
        assert writing.link_papers(text) == text


def test_a_code_block_can_hold_a_code_block():
    assert writing.code_block("```\nx\n```") == ["````text", "```", "x", "```", "````"]


# Figures.


def test_figures_are_those_of_the_results():
    assert figures.problems() == []


def test_the_page_of_benchmarks_is_an_index_of_every_script():
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    scripts = [p.name for p in ROOT.glob("benchmarks/*/*.py") if "tyro.cli" in p.read_text("utf-8")]
    assert len(scripts) > 20
    assert not [name for name in scripts if name not in page]
    assert page.count("\n") < 120, "studies have pages of their own, in docs/studies"


def test_a_stale_figure_is_found(tmp_path: Path, monkeypatch):
    readme = tmp_path / "README.md"
    readme.write_text("x <!-- figures:webshop_speedup -->1 times<!-- end --> faster\n")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "PICTURES", {})
    monkeypatch.setattr(figures, "documents", lambda: [readme])
    assert figures.main(["--check"]) == 1
    assert figures.main(["--write"]) == 0
    assert re.fullmatch(r"x <!-- \S+ -->\d+ times<!-- end --> faster\n", readme.read_text())
    assert figures.main(["--check"]) == 0
    readme.write_text(readme.read_text() + "It reaches 0.71.\n")
    assert figures.main(["--check"]) == 1


def test_the_longest_tables_are_on_the_site_only():
    text = (ROOT / "docs" / "solved.md").read_text(encoding="utf-8")
    built = figures.build(text)
    assert "\n| NumberLine-v0 |" in built and "\n| NumberLine-v0 |" not in text
    assert not figures.BUILT.search(built)
    with pytest.raises(ValueError, match="no figures block 'unknown'"):
        figures.build("<!-- built:unknown -->")


def test_results_name_no_folder_of_a_machine():
    for file in (ROOT / "benchmarks" / "results").glob("*.json"):
        found = re.findall(r"""[\s"'=](/\w+/[^\s"']+)""", file.read_text(encoding="utf-8"))
        assert not found, f"{file.name}: {found[:3]}"


def test_a_stale_picture_is_found(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "documents", list)
    (tmp_path / "docs").mkdir()
    assert figures.problems() and figures.main(["--write"]) == 0
    assert figures.problems() == []
    new = {"runs": [dict(figure_blocks.results("learning_webshop")["runs"][0], env_steps=1)]}
    monkeypatch.setattr(figure_blocks, "results", lambda name: new)
    assert figures.problems() == [
        "docs/curve.png: stale picture, run `python benchmarks/figures/figures.py --write`"
    ]


@pytest.mark.parametrize(
    "text",
    ["It reaches 0.71.", "23 % succeed", "a share of 5%", "20,500 steps/s", "12 times as fast"],
)
def test_a_result_in_prose_is_found(text: str):
    assert len(figures.stray_figures(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "`--lr 0.001`",
        "```\n0.71\n```",
        "arXiv 2405.15821",
        "Python 3.11",
        "[figure](figure-0.71.md)",
        "<!-- figures:x -->0.71<!-- end -->",
        "8,192 episodes",
    ],
)
def test_other_numbers_are_left_alone(text: str):
    assert figures.stray_figures(text) == []


@pytest.mark.parametrize(
    ("text", "crowded"),
    [
        ("It rises to 0.9 [0.8, 1.0] in 1,024 steps. Then 5.", 1),
        ("It rises to 0.9 [0.8, 1.0]. Then 1, 2 and 3.", 0),
        ("\n\n| A | B | C | D |\n| --- | --- | --- | --- |\n| 1 | 2 | 3 | 4 |\n\n", 0),
        ("\n\n- 1 and 2\n- 3 and 4\n\n", 0),
        ("`--seeds 0 1 2 3`", 0),
    ],
)
def test_a_sentence_has_at_most_three_generated_numbers(text: str, crowded: int):
    page = f"8 of 16 and 1 of 2. <!-- figures:x -->{text}<!-- end -->"
    assert len(figures.crowded_sentences(page)) == crowded


def test_numbers_of_several_blocks_in_a_sentence_count_together():
    page = "From <!-- figures:x -->1 to 2<!-- end --> and <!-- figures:y -->3 to 4<!-- end -->."
    assert figures.crowded_sentences(page) == ["From # to # and # to #."]


def test_an_unknown_block_is_refused():
    with pytest.raises(ValueError, match="webshop_speedup"):
        figures.render("<!-- figures:nothing --><!-- end -->")


# The site.


class Loaded(HTMLParser):
    """Collects the addresses that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed", "object"):
            self.found += [given.get("src") or "", given.get("data") or ""]
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(given.get("href") or "")
        assert "mermaid" not in (given.get("class") or "").split(), "the theme loads its renderer"


@pytest.fixture(scope="module")
def site(
    environments: dict[str, Any],
    recipes: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The folder of the site, from a strict build."""
    pytest.importorskip("mkdocs", reason="needs the extra `docs`")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    site = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        patch.setattr(environment_pages, "pages", lambda: environments)
        patch.setattr(recipe_pages, "pages", lambda: recipes)
        config = load_config("mkdocs.yml", strict=True, site_dir=str(site))
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    return site


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_strict_build_makes_a_site_that_loads_nothing_remote(site: Path):
    for cls in project.environment_classes():
        assert (site / cls.page).with_suffix(".html").is_file()
    for name in project.recipe_names():
        assert (site / "recipes" / f"{name}.html").is_file()
    for file in site.rglob("*.html"):
        parser = Loaded()
        parser.feed(file.read_text(encoding="utf-8"))
        remote = [url for url in parser.found if re.match(r"(https?:)?//", url)]
        assert remote == [], file.name
    for file in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", file.read_text()), file.name


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_index_for_agents_links_to_markdown_of_the_site(site: Path):
    index = (site / "llms.txt").read_text(encoding="utf-8")
    assert index.startswith("# AgentGym\n\n> ")
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S.*$", index, re.MULTILINE)
    assert len(links) > 35 and links.count("environments/index.md") == 1
    for link in links:
        assert (site / link).is_file(), link
    skill = (site / "skills" / "train-your-environment" / "SKILL.md").read_text(encoding="utf-8")
    assert skill.startswith("---\nname: train-your-environment\ndescription: ")


@pytest.fixture(scope="module")
def search(site: Path) -> SiteSearch:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    return SiteSearch(json.loads(index))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("resume", "tutorials/real_model.html#interruption-and-resuming"),
        ("checkpoint", "tutorials/real_model.html#interruption-and-resuming"),
        ("leave-one-out", "recipes/rloo.html"),
        ("leave one out", "recipes/rloo.html"),
        ("poad", "recipes/poad.html"),
        ("PPO", "recipes/turn.html"),
        ("WebShop", "environments/webshop/WebShop.html"),
        ("LoRA", "tutorials/real_model.html"),
        ("out of memory", "troubleshooting.html#out-of-memory"),
        ("reward function", "wrappers/RewardFunction.html"),
        ("MCP", "plug_in.html"),
        ("metrics", "tutorials/tensorboard.html"),
    ],
)
def test_the_search_finds_the_page_that_explains_a_word(search: SiteSearch, query: str, place: str):
    assert search(query)[0] == place


def test_words_of_the_search_name_places_of_the_site():
    entry = {"location": "recipes/rloo.html", "title": "rloo", "text": ""}
    with pytest.raises(search_words.UnknownPlaceError, match="not in the search index"):
        search_words.add_words({"docs": [entry]})


def test_words_rank_as_in_the_browser():
    """With the scores that lunr.js gives to these entries in Material for MkDocs."""
    docs = [
        {"location": "a.html", "title": "Runs", "text": "<p>Resume a run.</p>", "tags": ["resume"]},
        {"location": "a.html#b", "title": "Resuming", "text": "Runs that end."},
        {"location": "c.html", "title": "Resume", "text": "", "boost": 0.5},
    ]
    fields = {"title": {"boost": 1000}, "text": {"boost": 1}, "tags": {"boost": 1000}}
    config = {"separator": r"[\s\-,.]+", "pipeline": ["stopWordFilter"], "fields": fields}
    search = SiteSearch({"config": config, "docs": docs})
    found = search.scores("resume")
    assert found == pytest.approx({"a.html": 668.325, "c.html": 333.83}, rel=1e-4)
    found = search.scores("run-resum")
    expected = {"a.html#b": 707.8524, "a.html": 388.6895, "c.html": 125.2789}
    assert found == pytest.approx(expected, rel=1e-4)
    assert search("resum run") == ["a.html", "a.html#b", "c.html"]
