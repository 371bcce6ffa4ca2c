"""A small hand-made shop, the real data if available, and a separate cache."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.webshop.catalogue import Catalogue

SHARED = Path(__file__).resolve().parents[4] / "shared"
REAL = SHARED / "data" / "webshop"
GOLDEN = SHARED / "golden" / "webshop"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def real_catalogue(cache: Path) -> Catalogue:
    if not REAL.exists():
        pytest.skip("the original's data is not here")
    return Catalogue.load(REAL, 1000)


@pytest.fixture(scope="session")
def golden() -> Callable[[str], list[dict[str, Any]]]:
    def read(name: str) -> list[dict[str, Any]]:
        path = GOLDEN / f"{name}.jsonl.gz"
        if not path.exists():
            pytest.skip(f"the golden file {path.name} is not here")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    return read


@pytest.fixture
def make_record() -> Callable[..., dict[str, Any]]:
    """Returns a product in the original schema. Every field can be replaced."""

    def make(asin: str, **fields: Any) -> dict[str, Any]:
        return {
            "asin": asin,
            "name": f"Product {asin}",
            "full_description": "A thing.",
            "small_description": ["First point.", "Second point."],
            "pricing": "$12.99",
            "images": ["https://example.org/a.jpg"],
            "category": "garden",
            "query": " Garden Chairs ",
            "product_category": "Home › Garden › Chairs",
            "customization_options": {},
            "page": 3,
        } | fields

    return make


@pytest.fixture
def write_shop(tmp_path: Path) -> Callable[..., Path]:
    """Writes the files of a shop in the original's format and returns their folder."""

    def write(
        products: list[dict[str, Any]],
        annotations: dict[str, Any] | None = None,
        human: dict[str, Any] | None = None,
    ) -> Path:
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        (folder / "items_shuffle_x.json").write_text(json.dumps(products), encoding="utf-8")
        (folder / "items_ins_v2_x.json").write_text(json.dumps(annotations or {}))
        if human is not None:
            (folder / "items_human_ins.json").write_text(json.dumps(human))
        return folder

    return write
