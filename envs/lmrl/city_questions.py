"""Questions about the traits of `cities`, phrases that refer to them, and filler words."""

from __future__ import annotations

from functools import cache

from agentgym.envs.lmrl.tables import trait_rows

FILLERS = frozenset(
    """
    lived a about all along also am among an and any anything are area areas around as at based be
    been being belong both but by called can center centers certain characterized cities city
    close closer come common commonly considered country countrys could currently designated do
    does each either especially etc ever every extensive famous famously feature features find
    for from found general generally geographically going good had has have having home
    hometown host hosts hosted i iconic if impressive in important include including influence
    influenced information into is it its just key kind kinds known large like likely little
    live lives living local locate located location lot main mainly major make makes many may
    me mean might more most mostly much my name named nation nations near nearby new next nice
    no non normal not notable now number of official often ok okay old on one ones only or
    original other our out over overall part particular particularly people perhaps place play
    please popular popularly population possible possibly predominant predominantly
    predominately present primarily primary prominent province provide quite region regional
    region's rich role said same see serve serves several side significant significantly
    situated so some something sometimes somewhere specific specifically spoken speak state
    states still strong such surrounded tell than that the their them there these they thing
    think this those to today together town type types typical typically unique use used using
    usually various very was way well were what when where which while widely will with within
    world worldwide would year years you your yourself district department city's metropolitan
    language languages speaking speakers religion currency majority continent climate weather
    hold experience experiences boast boasts offer offers renowned recognized annual annually
    flowing flow flows through running run runs crossing crossings street streets efficient
    system systems network institution institutions production product products produce
    produces birthplace quality shore shores brand brands sector hub development atmosphere
    panoramic view views destinations natural landscape landscapes scenic developed extremely
    youre im ive former sovereign entirely associated played plays showcase showcases exist
    exists originated origin originating date dating dates back century centuries built grew
    born raised takes take taking locals resident residents visitors attracts attract draw
    draws incorporates incorporating featuring blend combination mix mixture design elements
    style styles tall high numerous hosting house houses housing prefecture buses cleanliness
    outdoor connects stretches reflected shaped shape crystal clear colored colorful buildings
    guess answer correct right question renown abundance presence variety range bustling lively
    beautiful well-known famed border borders bordering borderline across international summer
    summers winter winters lie lies suffered making heavy beside spend season seasons inhabitant
    inhabitants get gets
    """.split()
)


@cache
def rows() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Returns (trait, question or "", phrases) for each trait with an entry."""
    return trait_rows("city_traits")
