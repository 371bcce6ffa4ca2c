from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.webshop.catalogue import Catalogue
from agentgym.errors import DataError

Maker = Callable[..., dict[str, Any]]
Writer = Callable[..., Path]


def test_reads_the_real_shop(real_catalogue: Catalogue):
    departments = {
        name: len(real_catalogue.with_category(name)) for name in real_catalogue.categories
    }
    assert len(real_catalogue) == 1000
    assert departments == {
        "beauty": 238, "electronics": 229, "fashion": 200, "garden": 216, "grocery": 117,
    }  # fmt: skip
    assert sum(max(0, int(count)) for count in real_catalogue.goal_counts) == 6910


def test_fields_follow_the_loading_rules(make_record: Maker, write_shop: Writer):
    options = {
        "Color": [
            {"value": " Red/Blue "},
            {"value": "Green", "image": "https://example.org/g.jpg"},
        ],
        "Size": None,
    }
    record = make_record("A1", customization_options=options, pricing="$5 to $9.50 ($1.00 / oz)")
    folder = write_shop(
        [record, make_record("B2", small_description="only one", pricing=None, images=[])],
        {
            "A1": {
                "attributes": ["solid wood"],
                "instruction": "Find",
                "instruction_attributes": ["x"],
            }
        },
        {
            "A1": [
                {"instruction": "a.", "instruction_attributes": ["y"], "instruction_options": ["z"]}
            ]
        },
    )
    first, second = Catalogue.load(folder)
    assert first.options == {"color": ("red | blue", "green")}
    assert first.option_images == {"green": "https://example.org/g.jpg"}
    assert first.pricing == (5.0, 9.5) and first.price_tag == "$5.0 to $9.5"
    assert first.query == "garden chairs"
    assert first.attributes == ("solid wood",) and first.instruction_attributes == ("x",)
    assert first.human_instructions[0].options == ("z",)
    assert second.pricing == (100.0,) and second.price_tag == "$100.0"
    assert second.bullet_points == ("only one",)
    assert second.attributes == ("DUMMY_ATTR",) and second.instruction is None
    assert second.main_image == "" and second.rating == "N.A."


def test_drops_bad_and_repeated_asins_after_counting_them(make_record: Maker, write_shop: Writer):
    records = [
        make_record(asin, name=f"title {i}")
        for i, asin in enumerate(["nan", "A" * 11, "A1", "A1", "B2", "C3"])
    ]
    folder = write_shop(records)
    assert [product.asin for product in Catalogue.load(folder, 5)] == ["A1", "B2"]
    assert Catalogue.load(folder)[0].title == "title 2"
    assert len(Catalogue.load(folder)) == 3


def test_looks_products_up(make_record: Maker):
    records = [
        (make_record("C", category="fashion"), {"attributes": ["a", "b", "a"]}, []),
        (make_record("A"), {"attributes": ["b"]}, []),
        (make_record("B", query="lamps"), None, []),
    ]
    catalogue = Catalogue.from_records(lambda: records)
    assert [catalogue.find(asin) for asin in ("A", "B", "C", "D", "")] == [1, 2, 0, None, None]
    assert catalogue.with_category("garden").tolist() == [1, 2]
    assert catalogue.with_category("gard").tolist() == []
    assert catalogue.with_query("lamps").tolist() == [2]
    assert catalogue.with_attribute("a").tolist() == [0]
    assert catalogue.with_attribute("b").tolist() == [0, 1]
    assert catalogue.by_asin.tolist() == [1, 2, 0]


def test_is_a_sequence(make_record: Maker):
    catalogue = Catalogue.from_records(lambda: [(make_record(a), None, []) for a in "ABC"])
    assert [p.asin for p in catalogue[-2:]] == ["B", "C"] and catalogue[-1].asin == "C"
    assert catalogue[1] == list(catalogue)[1] and catalogue[1].index == 1
    with pytest.raises(IndexError, match="product 3"):
        catalogue[3]


def test_prices_take_one_draw_for_each_range(make_record: Maker):
    prices = ["$3", "$10 to $20", "", "$1 to $2"]
    records = [(make_record(str(i), pricing=price), None, []) for i, price in enumerate(prices)]
    rng, same = random.Random(7), random.Random(7)
    drawn = Catalogue.from_records(lambda: records).draw_prices(rng)
    assert drawn.tolist() == [3.0, same.uniform(10, 20), 100.0, same.uniform(1, 2)]
    assert rng.getstate() == same.getstate()


def test_same_arguments_share_one_object_and_changed_files_do_not(
    make_record: Maker, write_shop: Writer
):
    folder = write_shop([make_record("A"), make_record("B")])
    catalogue = Catalogue.load(folder)
    assert Catalogue.load(str(folder)) is catalogue
    assert Catalogue.load(folder, 1) is not catalogue
    write_shop([make_record("A"), make_record("B"), make_record("C")])
    assert len(Catalogue.load(folder)) == 3 and len(catalogue) == 2


def test_a_key_saves_making_the_records(make_record: Maker):
    first = Catalogue.from_records(lambda: [(make_record("A"), None, [])], key="once")

    def never() -> Any:
        raise AssertionError("made again")

    assert Catalogue.from_records(never, key="once") is first


def test_pickles_as_a_reference(make_record: Maker):
    catalogue = Catalogue.from_records(lambda: [(make_record("A"), None, [])])
    assert pickle.loads(pickle.dumps(catalogue)) is catalogue
    assert len(pickle.dumps(catalogue)) < 1000


def test_keeps_any_text_of_a_file(make_record: Maker, write_shop: Writer):
    text = 'é 日本 \U0001f600 \ud83d "quoted" \\ \n\t'
    folder = write_shop([make_record("A", name=text, full_description="x" * 3_000_000)])
    product = Catalogue.load(folder)[0]
    assert product.title == text and len(product.description) == 3_000_000


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / "items_shuffle_x.json", folder / "items_ins_v2_x.json"


@pytest.mark.parametrize("cut", [1, 7, 100, 500, -2])
def test_says_where_a_file_is_truncated(make_record: Maker, write_shop: Writer, cut: int):
    folder = write_shop([make_record("A"), make_record("B")])
    products, _ = _files(folder)
    products.write_text(products.read_text()[:cut])
    with pytest.raises(DataError, match=r"items_shuffle_x\.json, (after )?record [01]"):
        Catalogue.load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "start of the file: the file ends here"),
        ("{}", "start of the file: expected '\\['"),
        ("[1]", "record 0: expected an object, found 1"),
        ("[{},]", "record 0: the field 'asin' is missing"),
        ('[{"asin": }]', "record 0: invalid or truncated JSON"),
        ("[]", "holds no product"),
        ("[" * 100_000, "record 0: JSON that cannot be read"),
        ('[{"asin": ' + "9" * 10_000 + "}]", "record 0: JSON that cannot be read"),
        ('[{"asin": ["A"]}]', "record 0, field 'asin': expected a string"),
    ],
)
def test_says_what_is_wrong_with_a_file(write_shop: Writer, text: str, message: str):
    folder = write_shop([])
    _files(folder)[0].write_text(text)
    with pytest.raises(DataError, match=message):
        Catalogue.load(folder)


def test_finds_a_mistake_in_a_large_file_at_once(make_record: Maker, write_shop: Writer):
    folder = write_shop([make_record(f"{i:06}", full_description="y" * 900) for i in range(4000)])
    products, _ = _files(folder)
    products.write_text(products.read_text().replace('"asin": "000002"', '"asin" "000002"'))
    with pytest.raises(DataError, match="record 2: invalid"):
        Catalogue.load(folder)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", None, "record 1 .asin B., field 'name': expected a string, found None"),
        ("small_description", 3, "field 'small_description': expected an array or a string"),
        ("small_description", ["a", 3], "field 'small_description': expected a string, found 3"),
        ("pricing", "12.99", "field 'pricing': expected '.12.99'"),
        ("pricing", "$1.2.3", "field 'pricing': expected"),
        ("pricing", 12.99, "field 'pricing': expected a string"),
        ("pricing", "$" + "9" * 400, "field 'pricing': expected"),
        ("images", "x", "field 'images': expected an array"),
        ("customization_options", [1], "field 'customization_options': expected an object"),
        ("customization_options", {"size": [{}]}, "'size'.: the field 'value' is missing"),
    ],
)
def test_says_which_field_of_which_record_is_wrong(
    make_record: Maker, write_shop: Writer, field: str, value: Any, message: str
):
    folder = write_shop([make_record("A"), make_record("B", **{field: value})])
    with pytest.raises(DataError, match=message):
        Catalogue.load(folder)


def test_options_with_too_many_combinations(make_record: Maker, write_shop: Writer):
    options = {f"o{i}": [{"value": str(n)} for n in range(100)] for i in range(5)}
    folder = write_shop(
        [make_record("A", customization_options=options)],
        {"A": {"attributes": ["x"], "instruction": "Find", "instruction_attributes": ["x"]}},
    )
    with pytest.raises(DataError, match="product A: its options have more than"):
        Catalogue.load(folder)


@pytest.mark.parametrize("entry", [5, "text", {"a": 1}, None])
def test_human_instructions_are_an_array(make_record: Maker, write_shop: Writer, entry: Any):
    folder = write_shop([make_record("A")])
    (folder / "items_human_ins.json").write_text(json.dumps({"A": entry}))
    with pytest.raises(DataError, match=r"human instructions of .* expected an array"):
        Catalogue.load(folder)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ([], "annotation of .* expected an object"),
        ({"attributes": "x"}, "field 'attributes': expected an array"),
        ({"attributes": [], "instruction": "Find"}, "at least one of 'instruction_attributes'"),
    ],
)
def test_says_which_annotation_is_wrong(
    make_record: Maker, write_shop: Writer, annotation: Any, message: str
):
    with pytest.raises(DataError, match=message):
        Catalogue.load(write_shop([make_record("A")], {"A": annotation}))


def test_says_which_file_is_missing(make_record: Maker, write_shop: Writer, tmp_path: Path):
    with pytest.raises(DataError, match=r"items_shuffle\*\.json .* there is none"):
        Catalogue.load(tmp_path / "nowhere")
    folder = write_shop([make_record("A")])
    (folder / "items_shuffle_y.json").write_text("[]")
    with pytest.raises(DataError, match=r"several fit: items_shuffle_x\.json, items_shuffle_y"):
        Catalogue.load(folder)
    with pytest.raises(ValueError, match="num_products must be positive"):
        Catalogue.load(folder, 0)


def test_of_several_files_takes_those_named_for_the_number(make_record: Maker, write_shop: Writer):
    folder = write_shop([make_record("X")])
    for suffix in ("", "_2"):
        records = [make_record(f"{asin}{suffix}") for asin in "ABC"]
        (folder / f"items_shuffle{suffix}.json").write_text(json.dumps(records))
        (folder / f"items_ins_v2{suffix}.json").write_text("{}")
    assert [product.asin for product in Catalogue.load(folder, 2)] == ["A_2", "B_2"]
    assert [product.asin for product in Catalogue.load(folder)] == ["A", "B", "C"]
    assert [product.asin for product in Catalogue.load(folder, 1)] == ["A"]


@pytest.mark.slow
def test_processes_that_start_together_agree(make_record: Maker, write_shop: Writer):
    folder = write_shop([make_record(f"A{i}") for i in range(50)])
    code = (
        "import sys; from agentgym.envs.webshop.catalogue import Catalogue\n"
        "print(*(product.asin for product in Catalogue.load(sys.argv[1])))"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(folder)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    found = [worker.communicate(timeout=60)[0].split() for worker in workers]
    assert found == [[f"A{i}" for i in range(50)]] * 3


def test_products_are_stored_as_json(make_record: Maker):
    catalogue = Catalogue.from_records(lambda: [(make_record("A"), None, [])])
    assert json.loads((catalogue.directory / "products.bin").read_text())["asin"] == "A"
