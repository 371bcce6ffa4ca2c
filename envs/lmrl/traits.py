"""Questions about the traits of `objects`, phrases that refer to them, and filler words."""

from __future__ import annotations

from functools import cache

from agentgym.envs.lmrl.tables import trait_rows

FILLERS = frozenset(
    """
    a about all also am an any anything are as at be been being by called can could common commonly
    considered do does done each either else ever everyone find for found frequently from general
    generally get gets given going has have having hear how i if in into involve involved involves
    is it its itself just keep kept kind kinds known like likely made mainly make makes many may
    maybe me mean means might more most mostly much my name named normal normally of often on one
    ones or order our out over particular perhaps piece pieces possible possibly primarily primary
    probably purpose quite really see seen should so some someone somebody something sometimes
    somewhere sort sorts specific specifically still such than that the their them then there these
    they thing things think thinking this those to together too type types typical typically up us
    use used uses using usual usually variety very was way we well were what when where which while
    who will with within would you your yourself object item guess answer word secret right correct
    category class belong belongs group associated related contain contains consist consists
    example etc okay ok so now hmm please tell part form actually indeed simply
    and but also both non not no never without isnt arent doesnt dont cant cannot
    shape shaped color colour colored coloured size sized
    average standard regular single own other people humans human person person's peoples
    during after before between through around near
    """.split()
)


@cache
def rows() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Returns (trait, question or "", phrases) for each trait."""
    return trait_rows("thing_traits")
