"""The words of the generated catalogue: departments, kinds of products, attributes, options.

Two rules keep goals solvable and near-duplicates distinguishable under the shop's fuzzy reward: no
attribute or option value matches another one of the same group, and no option value contains the
name of a colour by accident ("standing" contains "tan").
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """A group of related kinds of products, and the words that describe them.

    Attributes:
        department: the shop's category, such as "garden".
        path: the two upper levels of the product category.
        kinds: plural -> singular name of each kind of product.
        adjectives: attributes that stand before the name.
        features: attributes that follow "with".
        uses: attributes that follow "for".
        options: axis -> pool of values.
        prices: least and greatest usual price in dollars.
    """

    department: str
    path: tuple[str, str]
    kinds: dict[str, str]
    adjectives: tuple[str, ...]
    features: tuple[str, ...]
    uses: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    prices: tuple[int, int]


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


def _kinds(text: str) -> dict[str, str]:
    """Reads "hats, chef knives>chef knife": the singular is given or is the plural less its s."""
    pairs = (word.partition(">") for word in _split(text))
    return {plural: singular or plural.removesuffix("s") for plural, _, singular in pairs}


_COLORS = _split("black, white, navy, red, green, yellow, purple, orange, pink, brown, gray, ivory")
_METALS = _split("black, white, silver, gold, copper, bronze")
_SIZES = _split("small, medium, large")
_SHOES = _split("6, 7, 8, 9, 10, 11, 12")
_SCENTS = _split("lavender, citrus, vanilla, jasmine, cedar, unscented, eucalyptus, honey")
_FLAVORS = _split("vanilla, mango, lemon, peach, ginger, maple, cherry, cocoa, hazelnut, banana")
_VOLUMES = _split("100 ml, 250 ml, 500 ml")
_COUNTS = _split("6 pack, 12 pack, 24 pack")

GROUPS: tuple[Group, ...] = (
    Group(
        "fashion",
        ("Clothing", "Outerwear"),
        _kinds("rain jackets, fleece vests, winter coats, wind parkas"),
        _split("machine washable, quick dry, slim fit, wind proof, fleece lined, ultra light"),
        _split("zip pockets, ribbed cuffs, storm hood, two way zipper, chest logo, drawstring hem"),
        _split("daily wear, trail walks, cold weather, city travel, sailing trips"),
        {"color": _COLORS, "size": _SIZES, "length": _split("short, regular, long")},
        (25, 140),
    ),
    Group(
        "fashion",
        ("Clothing", "Tops and Pants"),
        _kinds("polo shirts, knit sweaters, jogger pants>jogger pants, denim shorts>denim shorts"),
        _split("hand washable, wrinkle free, relaxed fit, stretch woven, pure cotton, low rise"),
        _split("elastic waist, side stripes, button front, back pocket, contrast stitching"),
        _split("office work, gym training, summer days, school events, lounging around"),
        {"color": _COLORS, "size": _SIZES, "length": _split("short, regular, long")},
        (12, 70),
    ),
    Group(
        "fashion",
        ("Shoes", "Footwear"),
        _kinds("running shoes, ankle boots, house slippers, walking sandals"),
        _split("slip resistant, water repellent, wide fit, vegan leather, open toe, hand stitched"),
        _split("memory foam, rubber soles, arch support, side zips, padded collars, hook straps"),
        _split("indoor use, long distances, rainy streets, hospital shifts, evening parties"),
        {"color": _COLORS, "size": _SHOES, "width": _split("narrow, regular, wide")},
        (18, 120),
    ),
    Group(
        "beauty",
        ("Beauty", "Hair Care"),
        _kinds("hair masks, shampoo bars, leave in conditioners, scalp serums"),
        _split("sulfate free, cruelty free, color safe, salon grade, silicone free"),
        _split("coconut oil, tea tree, argan extract, keratin complex, biotin boost"),
        _split("damaged hair, curly hair, oily scalps, fine strands, daily washing"),
        {"scent": _SCENTS, "size": _VOLUMES, "package": _split("pump, tube, refill")},
        (6, 45),
    ),
    Group(
        "beauty",
        ("Beauty", "Skin Care"),
        _kinds("face creams, body lotions, lip balms, cleansing gels"),
        _split("paraben free, fragrance free, fast absorbing, non greasy, dermatologist tested"),
        _split("shea butter, aloe vera, green tea, hyaluronic acid, rose water"),
        _split("dry skin, sensitive faces, night care, travel bags, mature complexions"),
        {"scent": _SCENTS, "size": _VOLUMES, "package": _split("pump, tube, refill")},
        (5, 60),
    ),
    Group(
        "grocery",
        ("Grocery", "Snacks"),
        _kinds("granola bars, trail mixes>trail mix, rice crackers, oat cookies, fruit chews"),
        _split("gluten free, sugar free, dairy free, stone baked, certified organic, low sodium"),
        _split("whole grains, sea salt, real fruit, added protein, roasted seeds"),
        _split("school lunches, hiking tours, movie nights, gift baskets, keto diets"),
        {"flavor": _FLAVORS, "count": _COUNTS, "package": _split("pouch, tin, box")},
        (4, 40),
    ),
    Group(
        "grocery",
        ("Grocery", "Drinks"),
        _kinds("herbal teas, ground coffees, fruit juices, drink powders"),
        _split("caffeine free, fair trade, cold pressed, non gmo, freshly packed"),
        _split("natural flavors, vitamin c, ginger root, milk thistle, stevia leaf"),
        _split("quick breakfasts, iced drinks, bedtime routines, large families, party punch"),
        {"flavor": _FLAVORS, "count": _COUNTS, "package": _split("pouch, tin, box")},
        (5, 50),
    ),
    Group(
        "electronics",
        ("Electronics", "Audio"),
        _kinds("wireless earbuds, bluetooth speakers, studio headphones, clock radios"),
        _split("noise cancelling, water proof, fast charging, hands free, low latency"),
        _split("carrying case, touch controls, deep bass, voice assistant, solar panel"),
        _split("video calls, road trips, gaming desks, outdoor parties, small rooms"),
        {
            "color": _COLORS,
            "style": _split("basic, deluxe, sport"),
            "plug": _split("europe, usa, asia"),
        },
        (15, 220),
    ),
    Group(
        "electronics",
        ("Electronics", "Computer Accessories"),
        _kinds("wireless keyboards, power banks, laptop stands, wall chargers, desk lamps"),
        _split("plug and play, high speed, energy saving, heavy duty, foldable design"),
        _split("usb c port, led display, aluminum body, cable clips, silent keys"),
        _split("home offices, business travel, college dorms, shared tables, older devices"),
        {
            "color": _METALS,
            "style": _split("compact, upright, extended"),
            "plug": _split("europe, usa, asia"),
        },
        (10, 160),
    ),
    Group(
        "home",
        ("Home", "Bedding"),
        _kinds("throw blankets, bed sheets, down pillows, mattress pads"),
        _split("super soft, easy care, allergy friendly, double sided, moisture wicking"),
        _split("tasseled edges, deep pockets, bamboo fibers, cooling gel, hidden zippers"),
        _split("guest rooms, hot sleepers, kids bedrooms, back sleepers, vacation homes"),
        {
            "color": _COLORS,
            "size": _split("twin, queen, king"),
            "pattern": _split("plain, striped, floral"),
        },
        (15, 130),
    ),
    Group(
        "home",
        ("Home", "Kitchen"),
        _kinds("frying pans, storage jars, chef knives>chef knife, coffee mugs, cutting boards"),
        _split("dishwasher safe, non stick, bpa free, scratch proof, hand made"),
        _split("stainless steel, bamboo lid, cool handles, measuring marks, gift box"),
        _split("gas stoves, picnic lunches, small kitchens, family dinners, baking classes"),
        {
            "color": _COLORS,
            "count": _split("single, pair, 4 pack, 8 pack"),
            "pattern": _split("plain, striped, floral"),
        },
        (8, 90),
    ),
    Group(
        "home",
        ("Home", "Furniture"),
        _kinds("bar stools, book shelves>book shelf, night stands, coffee tables, floor mirrors"),
        _split("easy assemble, space saving, mid century, scratch resistant, fully adjustable"),
        _split("solid wood, metal frame, hidden drawers, storage baskets, velvet cover"),
        _split("living rooms, narrow halls, loft apartments, reading corners, dining areas"),
        {"finish": _split("oak, walnut, maple, ebony, white"), "height": _split("low, mid, tall")},
        (40, 400),
    ),
    Group(
        "garden",
        ("Outdoor", "Garden"),
        _kinds(
            "garden hoses, plant pots, patio umbrellas, bird feeders, pruning shears>pruning shears"
        ),
        _split("rust proof, frost resistant, uv protected, kink free, self watering"),
        _split("drainage holes, brass fittings, tilting pole, wall hooks, rubber grip"),
        _split("raised beds, sunny balconies, vegetable plots, windy terraces, herb corners"),
        {"color": _COLORS, "size": _SIZES, "pattern": _split("plain, striped, floral")},
        (9, 150),
    ),
    Group(
        "garden",
        ("Outdoor", "Camping"),
        _kinds("camping tents, sleeping bags, hiking backpacks, water bottles, camp chairs"),
        _split("leak proof, tear resistant, quick pitch, insulated walls, packs small"),
        _split("mesh pockets, reflective cords, padded straps, compass clip, repair kit"),
        _split("music festivals, mountain tours, scout groups, canoe weekends, family picnics"),
        {"color": _COLORS, "size": _SIZES, "season": _split("summer, winter")},
        (12, 260),
    ),
    Group(
        "pets",
        ("Pets", "Pet Supplies"),
        _kinds("dog beds, cat trees, pet bowls, dog harnesses>dog harness, chew toys"),
        _split("chew proof, odor free, washable fabric, vet approved, extra quiet"),
        _split("raised rim, plush filling, safety buckle, catnip pouch, sisal rope"),
        _split("senior dogs, young kittens, large breeds, crate training, car rides"),
        {"color": _COLORS, "size": _SIZES, "shape": _split("round, square, oval")},
        (6, 110),
    ),
    Group(
        "toys",
        ("Toys", "Play and Craft"),
        _kinds("board games, building blocks, gel pens, paint kits, jigsaw puzzles"),
        _split("award winning, non toxic, screen free, glow dark, beginner friendly"),
        _split("wooden pieces, picture guide, storage tin, magnetic board, spare parts"),
        _split("rainy afternoons, preschool ages, art lessons, birthday presents, two players"),
        {
            "theme": _split("ocean, space, jungle, castle, robots"),
            "count": _COUNTS,
            "language": _split("english, german, spanish"),
        },
        (7, 80),
    ),
)

BRANDS = tuple(
    start + end
    for start in _split("Nor, Tal, Quil, Bren, Fen, Mar, Ost, Pel, Rav, Sel, Vor, Wyn, Zan, Dun")
    for end in _split("wick, mere, dale, ova, aro, ette, stead, lund, visk, tano, bury, mond")
)
