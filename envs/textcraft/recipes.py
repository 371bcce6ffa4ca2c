"""The bundled recipe book: families of materials and forms, and single recipes.

A line is `amount output: ingredients`. In a family, `#` stands for each of its materials, and the
words after `#` name a kind: `# plank` makes "oak plank", "pine plank", ... of the kind "plank". An
ingredient without `#` that is the name of a kind matches any item of that kind.
"""

from __future__ import annotations

from collections.abc import Iterator

FAMILIES: tuple[tuple[str, str], ...] = (
    (
        "oak pine ash beech walnut cherry cedar",
        """
        3 # plank: 1 # log
        1 # beam: 2 # log
        4 # rod: 1 # plank
        2 # bowl: 1 # plank
        2 # spoon: 1 # rod
        1 # frame: 4 # rod
        1 # stool: 1 # plank, 3 # rod
        1 # chair: 2 # plank, 4 # rod
        1 # table: 3 # plank, 2 # beam
        1 # bench: 4 # plank, 1 # beam
        2 # fence: 1 # beam, 3 # rod
        1 # oar: 1 # beam, 1 # plank
        1 # flute: 2 # rod
        2 # wheel: 2 # plank, 4 # rod
        1 # shelf: 3 # plank, 6 nail
        1 # crate: 5 # plank, 8 nail
        1 # barrel: 6 # plank, 2 iron hoop
        1 # bucket: 4 # plank, 1 tin hoop
        1 # ladder: 7 # rod, 1 hemp cord
        1 # door: 3 # plank, 2 hinge
        1 # shutter: 2 # plank, 1 hinge
        1 # gate: 2 # fence, 2 hinge
        1 # chest: 6 # plank, 2 hinge, 1 lock
        1 # bed: 2 # beam, 4 # plank, 1 mattress
        1 # mirror: 1 # frame, 1 silver sheet, 1 glass
        """,
    ),
    (
        "iron copper tin zinc silver gold",
        """
        1 # ingot: 2 # ore, 1 coal
        """,
    ),
    (
        "iron copper tin zinc silver gold bronze brass steel",
        """
        1 # sheet: 1 # ingot
        3 # wire: 1 # ingot
        8 # nail: 1 # ingot
        2 # blade: 1 # ingot
        1 # gear: 2 # ingot
        1 # weight: 3 # ingot
        6 # coin: 1 # ingot
        2 # hoop: 1 # sheet
        1 # pipe: 2 # sheet
        1 # cup: 1 # sheet
        1 # kettle: 3 # sheet, 1 # wire
        2 # hinge: 1 # sheet, 2 # nail
        1 # lock: 1 # gear, 1 # sheet
        1 # key: 1 # wire, 1 # sheet
        1 # chain: 3 # wire
        2 # spring: 1 # wire
        4 # needle: 1 # wire
        1 # bell: 3 # ingot, 1 # wire
        1 # hammer: 2 # ingot, 1 rod
        1 # shovel: 2 # sheet, 1 rod
        1 # knife: 1 # blade, 1 rod
        1 # saw: 2 # blade, 1 rod
        """,
    ),
    (
        "granite marble slate limestone sandstone",
        """
        2 # brick: 1 # rock
        1 # slab: 2 # rock
        4 # tile: 1 # slab
        1 # pillar: 4 # brick
        1 # hearth: 4 # brick, 1 # slab
        2 # stair: 3 # slab
        1 # statue: 2 # slab, 1 # pillar
        1 # arch: 5 # brick, 1 mortar
        1 # well: 8 # brick, 1 rope
        """,
    ),
    (
        "wool cotton flax silk hemp",
        """
        4 # thread: 1 # fibre
        2 # cloth: 4 # thread
        3 # cord: 4 # thread
        1 # rope: 3 # cord
        1 # net: 3 # cord, 2 # thread
        1 # shirt: 2 # cloth, 1 # thread
        1 # scarf: 1 # cloth, 2 # thread
        1 # blanket: 3 # cloth
        1 # sack: 2 # cloth, 1 # cord
        1 # cushion: 1 # cloth, 3 feather
        1 # sail: 4 # cloth, 1 # rope
        1 # tent: 4 # cloth, 1 # cord, 3 rod
        """,
    ),
    (
        "red yellow blue black white orange green purple",
        """
        2 # paint: 1 # dye, 1 linseed oil
        3 # candle: 1 # dye, 2 beeswax, 1 cotton thread
        2 # ribbon: 1 # dye, 1 silk thread
        1 # banner: 2 # dye, 2 cotton cloth, 1 rod
        1 # carpet: 3 # dye, 4 wool cloth
        1 # pane: 1 # dye, 2 glass
        1 # lampion: 1 # candle, 2 paper
        1 # kite: 1 # ribbon, 2 paper, 2 rod
        1 # umbrella: 1 # dye, 1 silk cloth, 3 wire
        """,
    ),
    (
        "wheat rye barley oat",
        """
        1 # flour: 2 # grain
        1 # dough: 2 # flour, 1 water
        2 # bread: 1 # dough
        4 # biscuit: 1 # dough, 1 honey
        1 # porridge: 2 # grain, 1 milk
        """,
    ),
    (
        "apple pear plum quince apricot",
        """
        1 # juice: 3 #
        1 # jam: 2 #, 1 honey
        1 # tart: 1 # jam, 1 dough
        2 # pie: 4 #, 1 wheat dough
        1 # cider: 2 # juice, 1 honey
        """,
    ),
)

SINGLE = """
    2 bronze ingot: 1 copper ingot, 1 tin ingot
    2 brass ingot: 1 copper ingot, 1 zinc ingot
    1 steel ingot: 1 iron ingot, 2 coal
    2 glass: 3 sand, 1 coal
    2 mortar: 1 limestone rock, 1 sand, 1 water
    3 paper: 2 flax fibre, 1 water
    3 paper: 2 hemp fibre, 1 water
    1 leather: 1 hide, 1 oak bark
    1 felt: 3 wool fibre, 1 water
    1 linseed oil: 3 flax seed
    1 ink: 1 soot, 1 linseed oil
    1 pitch: 2 pine resin, 1 coal
    2 glue: 1 bone, 1 water
    2 red dye: 1 madder root
    2 yellow dye: 1 weld flower
    2 blue dye: 1 indigo leaf
    2 black dye: 1 soot
    2 white dye: 1 chalk
    2 orange dye: 1 red dye, 1 yellow dye
    2 green dye: 1 blue dye, 1 yellow dye
    2 purple dye: 1 red dye, 1 blue dye
    1 mattress: 2 cotton cloth, 6 feather
    1 butter: 2 milk
    1 cheese: 3 milk, 1 salt
    2 clay brick: 1 clay, 1 coal
    1 clay pot: 2 clay, 1 coal
    1 clay jug: 3 clay, 1 coal
    1 flower pot: 1 clay pot, 1 soil, 1 seed
    4 roof tile: 1 clay brick
    1 oven: 8 clay brick, 1 iron sheet
    1 chimney: 6 clay brick, 1 mortar
    2 torch: 1 rod, 1 pitch
    2 torch: 1 rod, 1 coal
    1 lens: 2 glass
    1 bottle: 1 glass
    1 lantern: 1 tin sheet, 2 glass, 1 candle
    1 belt: 2 leather, 1 brass wire
    1 saddle: 4 leather, 1 wool blanket, 1 belt
    2 boot: 2 leather, 1 hemp cord
    1 hat: 2 felt, 1 ribbon
    1 bellows: 2 leather, 2 ash plank, 1 copper pipe
    1 book: 6 paper, 1 leather, 1 glue
    1 map: 1 paper, 1 ink, 1 blue paint
    1 quill: 1 feather, 1 steel blade
    1 letter: 1 paper, 1 ink, 1 quill
    1 broom: 1 ash rod, 4 straw, 1 hemp cord
    1 brush: 1 beech rod, 2 bristle
    1 fishing rod: 1 ash rod, 2 silk cord, 1 iron needle
    1 bow: 1 ash beam, 1 flax cord
    4 arrow: 2 pine rod, 1 iron blade, 2 feather
    1 shield: 3 oak plank, 1 iron hoop, 1 leather
    1 drum: 4 beech plank, 2 leather, 1 hemp rope
    1 violin: 2 walnut plank, 4 silk cord, 1 glue
    1 harp: 3 cherry beam, 8 brass wire
    1 trumpet: 2 brass pipe, 1 brass cup
    4 organ pipe: 1 tin pipe, 1 cedar plank
    1 organ: 4 organ pipe, 1 bellows
    1 chess board: 1 walnut table, 1 white paint, 1 black paint
    1 bee hive: 4 pine plank, 6 straw, 6 nail
    1 bird cage: 8 copper wire, 1 ash frame
    1 mouse trap: 1 plank, 1 spring, 1 cheese
    1 rocking chair: 1 chair, 2 beam
    1 wheelbarrow: 3 oak plank, 1 oak wheel, 2 oak rod
    1 cart: 2 oak wheel, 1 oak beam
    1 wagon: 1 cart, 2 oak wheel, 2 hemp cloth
    1 sledge: 3 ash plank, 2 ash beam, 1 hemp rope
    1 boat: 6 cedar plank, 1 cedar oar, 1 pitch
    1 sailing boat: 1 boat, 1 flax sail, 1 pine beam
    1 raft: 5 pine beam, 2 rope
    1 pulley: 1 oak wheel, 1 rope
    1 crane: 3 oak beam, 1 pulley, 1 iron weight
    1 anvil: 3 iron ingot, 1 oak beam
    1 forge: 1 granite hearth, 1 bellows, 1 anvil
    1 pump: 2 copper pipe, 1 leather, 1 spring
    1 fountain: 1 marble statue, 1 pump
    1 mill stone: 2 granite slab, 1 iron gear
    1 wind mill: 1 flax sail, 1 mill stone, 2 oak beam
    1 water mill: 1 oak wheel, 1 mill stone, 2 oak beam
    1 spinning wheel: 1 beech wheel, 3 beech rod, 1 spring
    1 loom: 2 beech frame, 4 cord, 1 beech beam
    1 sewing machine: 2 steel gear, 1 steel needle, 1 iron wheel
    2 iron wheel: 1 iron hoop, 3 iron wire
    1 bicycle: 2 iron wheel, 2 steel sheet, 1 leather
    1 printing press: 2 oak beam, 2 iron gear, 1 ink, 6 lead type
    8 lead type: 1 lead ore, 1 coal
    1 newspaper: 4 paper, 1 ink, 2 lead type
    1 spectacles: 2 lens, 1 silver wire
    1 telescope: 2 lens, 1 brass pipe
    1 microscope: 3 lens, 1 brass pipe, 1 brass gear
    1 lighthouse lamp: 2 lens, 1 lantern, 1 tin gear
    1 compass: 1 brass cup, 1 steel needle, 1 glass
    1 scale: 2 brass cup, 1 brass weight, 1 brass chain
    1 hour glass: 2 glass, 1 sand, 1 oak frame
    1 pocket watch: 2 brass gear, 1 steel spring, 1 glass
    1 wall clock: 2 brass gear, 1 iron weight, 1 walnut frame
    1 music box: 1 brass gear, 1 steel spring, 1 cherry plank
    1 bell tower: 8 limestone brick, 1 iron bell
    1 boiler: 2 copper sheet, 2 iron nail
    1 steam engine: 1 boiler, 1 iron gear, 2 iron wire
    1 locomotive: 1 steam engine, 1 iron weight
    1 still: 1 copper kettle, 2 copper pipe
    1 perfume: 1 bottle, 4 rose
    1 crown: 2 gold hoop, 3 ruby
    1 necklace: 1 gold chain, 1 pearl
    1 bee wax polish: 2 beeswax, 1 linseed oil
    1 bridge: 2 granite arch, 2 granite stair
    1 green house: 6 glass, 2 ash frame, 1 ash gate
    1 cake: 2 wheat flour, 1 butter, 2 honey
    1 sandwich: 1 bread, 1 cheese, 1 butter
    1 picnic basket: 6 willow twig, 1 sandwich, 1 juice
"""


def lines() -> Iterator[tuple[str, str | None]]:
    """Yields the lines of the book with materials filled in, and the kind of each output."""
    for materials, text in FAMILIES:
        for line in text.split("\n"):
            if line.strip():
                kind = line.partition("#")[2].partition(":")[0].strip()
                for material in materials.split():
                    yield line.strip().replace("#", material), kind
    for line in SINGLE.split("\n"):
        if line.strip():
            yield line.strip(), None
