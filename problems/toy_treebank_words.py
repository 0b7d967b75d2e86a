"""The words of toy_treebank: about 600 forms, as tables of kinds of nouns and of verbs that say what they go with.

What belongs to what in a sentence is written here: which noun is the tool of which verb, which one a part of which
other. No verb has a past like its base (put, read), and no noun a plural like its singular (sheep): the number and the
tense of a word show, so that agreement can tell one tree from another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from t2t_lite.text.trees import Leaf


class Noun(NamedTuple):
    """A noun's two forms."""

    singular: str
    plural: str

    def leaf(self, plural: bool) -> tuple[Leaf]:
        return (Leaf("NNS", self.plural) if plural else Leaf("NN", self.singular),)


class Modifier(NamedTuple):
    """A prepositional phrase within a noun phrase: the preposition, the kinds of the noun before it and after it."""

    preposition: str
    head: str
    other: str


@dataclasses.dataclass(frozen=True)
class Verb:
    """A verb's forms, and what it goes with.

    Attributes:
        subjects: the kinds of noun that do it, "person" or "animal".
        objects: the kinds of noun that it is done to.
        tools: the kinds of noun that it is done with.
    """

    base: str
    third: str
    past: str
    participle: str
    gerund: str
    subjects: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    @property
    def forms(self) -> tuple[str, ...]:
        return self.base, self.third, self.past, self.participle, self.gerund

    def finite(self, plural: bool, past: bool) -> tuple[Leaf]:
        if past:
            return (Leaf("VBD", "were" if plural and self.base == "be" else self.past),)
        if plural:
            return (Leaf("VBP", "are" if self.base == "be" else self.base),)
        return (Leaf("VBZ", self.third),)


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def _noun(text: str) -> Noun:
    singular, _, plural = text.partition("/")
    return Noun(singular, plural or _with_s(singular))


def _kinds(table: str) -> Mapping[str, tuple[str, ...]]:
    rows = [line.partition(":") for line in table.strip().split("\n")]
    return {kind.strip(): tuple(words.split()) for kind, _, words in rows}


def _modifier(kind: str, text: str) -> Modifier:
    preposition, _, other = text.partition("-")
    other, _, head = other.removesuffix(")").partition("(")
    return Modifier(preposition, head or kind, other)


def _verb(row: str) -> Verb:
    forms, *columns = (tuple(column.split()) for column in row.split("|"))
    if len(forms) == 1:  # a regular one
        stem = forms[0].removesuffix("e")
        forms = (forms[0], _with_s(forms[0]), stem + "ed", stem + "ed", stem + "ing")
    base, third, past, participle, gerund = forms
    subjects, objects, tools = [*columns, (), (), ()][:3]
    return Verb(base, third, past, participle, gerund, subjects, objects, tools)


def _verbs(table: str) -> tuple[Verb, ...]:
    return tuple(_verb(row) for row in table.strip().split("\n"))


# The plural follows the slash where it is irregular.
NOUNS = {
    kind: tuple(map(_noun, words))
    for kind, words in _kinds("""
    person: man/men woman/women child/children girl boy teacher doctor student farmer singer nurse artist guard cook
    relation: friend sister brother neighbour daughter son cousin aunt uncle
    animal: dog cat horse bird rabbit goat monkey duck
    food: soup cake salad pie sandwich pancake omelette
    reading: book letter story poem report newspaper
    thing: bag bottle basket watch ring picture camera
    device: lamp radio computer heater
    opening: box door window drawer suitcase gate
    building: house hotel church castle school shop
    landmark: tree statue fountain bridge garden
    part: roof wall tower entrance
    key: key
    place: village city valley park forest kitchen street
    furniture: table shelf/shelves chair bed desk
    event: concert lesson meeting party meal walk dance talk visit
    outfit: hat scarf beard umbrella telescope camera stick broom hammer pencil
    coat: tail collar bell ribbon
    filling: mushroom berry nut noodle onion
    fitting: handle lock lid key
    addition: tower balcony garden chimney
    optics: telescope camera
    cutlery: spoon fork
    blade: knife/knives
    hardware: hammer screwdriver
    cleaner: brush sponge broom
    opener: key hammer
    writing: pen pencil
    weapon: stick broom
    """).items()
}
ADJECTIVES = _kinds("""
    person: old young tall tired happy clever famous hungry
    animal: old young small big brown tired happy hungry
    food: warm cold small big fresh delicious
    reading: old new short long famous beautiful
    thing: old new small big red green heavy expensive beautiful
    building: old new small big famous beautiful
    event: long short beautiful famous
    place: old small big quiet beautiful
    tool: old new small big long
""")
DESCRIBED_AS = {
    described: kind
    for kind, others in _kinds("""
    person: relation
    thing: device opening furniture key
    building: landmark part addition
    tool: outfit coat filling fitting optics cutlery blade hardware cleaner opener writing weapon
""").items()
    for described in others
}
PROUD = ("proud", "afraid", "fond")
COMPARATIVES = ("older", "younger", "taller", "happier")

LIVING = ("person", "animal")
LIFELESS = ("food", "reading", "thing", "device", "opening", "building", "landmark", "event")
MOBILE = ("person", "animal", "food")  # whom one meets in a place; the place does not tell them apart from others

# Preposition, kind of noun: modifiers of a noun of the kind before the colon, or of the kind in brackets instead.
MODIFIERS = {
    kind: tuple(_modifier(kind, text) for text in texts)
    for kind, texts in _kinds("""
    person: with-outfit of-person(relation)
    animal: with-coat of-person
    food: with-filling on-furniture
    reading: about-animal about-person on-furniture
    thing: on-furniture under-furniture to-building(key)
    device: on-furniture under-furniture
    opening: with-fitting of-building
    building: with-addition in-place of-building(part)
    landmark: in-place near-building
    event: in-place
    """).items()
}
WHERE = {"food": ("on", "furniture"), "reading": ("on", "furniture"), "thing": ("on", "furniture")}
WHERE |= {"device": ("under", "furniture"), "opening": ("in", "building")}  # others are in a place

BE = _verb("be is was been being")
HAVE = _verb("have has had had having")
DO = _verb("do does did done doing")

# Columns: base, or all five forms; subjects; objects; tools.
INTRANSITIVE = _verbs("""
    sleep sleeps slept slept sleeping | person animal
    run runs ran run running | person animal
    wait | person animal
    jump | person animal
    swim swims swam swum swimming | person animal
    play | person animal
    walk | person animal
    cook | person
    sing sings sang sung singing | person
    dance | person
    laugh | person
    work | person
    talk | person
""")
TRANSITIVE = _verbs("""
    see sees saw seen seeing | person animal | person animal building landmark thing
    watch | person animal | person animal landmark event | optics
    photograph | person | person animal landmark building | optics
    follow | person animal | person animal
    chase | person animal | person animal | weapon
    like | person animal | person animal food
    meet meets met met meeting | person | person
    thank | person | person
    visit | person | person building landmark
    guard | person | building opening person
    enjoy | person | event food
    help | person | person
    find finds found found finding | person animal | animal thing reading food
    lose loses lost lost losing | person | thing reading
    buy buys bought bought buying | person | thing device reading food building
    need | person | thing device reading opening
    eat eats ate eaten eating | person | food | cutlery
    taste | person | food | cutlery
    slice | person | food | blade
    open | person | opening | opener hardware
    repair | person | opening device thing | hardware
    break breaks broke broken breaking | person | opening device thing | hardware
    clean | person | opening device thing building | cleaner
    paint | person | opening building landmark animal person | cleaner
    draw draws drew drawn drawing | person | building landmark animal person | writing
    write writes wrote written writing | person | reading | writing
""")
GIVING = _verbs("""
    give gives gave given giving | person | thing reading food device
    show shows showed shown showing | person | thing reading device animal
    send sends sent sent sending | person | thing reading
    sell sells sold sold selling | person | thing reading food device
""")
CARRYING = _verbs("""
    carry carries carried carried carrying | person | thing device reading food opening
    bring brings brought brought bringing | person | thing device reading food
    take takes took taken taking | person | thing device reading food animal
""")
PLACING = _verbs("""
    leave leaves left left leaving | person | thing device reading food
    place | person | thing device reading food
    hide hides hid hidden hiding | person | thing device reading food
""")
WITH_PARTICLE = tuple(
    (verb, particle)
    for particle, table in {
        "on": "turn | person | device\n switch | person | device",
        "off": "turn | person | device\n switch | person | device",
        "up": "pick | person | thing reading\n lift | person | thing device animal",
        "away": "throw throws threw thrown throwing | person | thing reading food",
    }.items()
    for verb in _verbs(table)
)
SAYING = _verbs("""
    say says said said saying
    think thinks thought thought thinking
    believe
    hope
""")
# Verbs with a clause, and what comes before that: says that he sleeps, wants to sleep, wants the girl to sleep (where
# the girl is a part of the clause), asks the girl to sleep (where she is not).
WITH_CLAUSE = tuple(
    (verb, takes)
    for takes, verbs in {
        "that": SAYING,
        "to": _verbs("try tries tried tried trying\n want\n plan plans planned planned planning"),
        "someone to": _verbs("want\n expect"),
        "someone, to": _verbs("ask\n tell tells told told telling\n persuade"),
    }.items()
    for verb in verbs
)
STATIVE = frozenset(("see", "like", "need", "want", "think", "believe", "hope"))
MODALS = ("can", "will", "must", "may", "should")

NAMES = ("Mary", "Peter", "Anna", "Paul", "Clara", "Martin", "Lucy", "David")
DAYS = ("Monday", "Tuesday", "Friday", "Sunday")
PARTS_OF_DAY = ("morning", "afternoon", "evening")
SEASONS = ("summer", "winter", "spring", "autumn")
PRONOUNS = ("he", "she")
PLURAL_PRONOUNS = ("they", "we", "you")
OBJECT_PRONOUNS = ("him", "her", "them", "us", "me")
POSSESSIVES = ("his", "her", "their", "our", "my")
SINGULAR_DETERMINERS = ("the", "the", "the", "a", "a", "this", "that", "every")
PLURAL_DETERMINERS = ("the", "the", "the", "these", "those", "some")
NUMBERS = ("two", "three", "four", "ten")

OFTEN = ("often", "always", "never", "sometimes", "usually")  # before the verb
MANNER = ("slowly", "quietly", "carefully", "happily", "quickly")  # after it
OPENERS = ("suddenly", "finally", "sometimes", "usually")  # before a comma
CONJUNCTIONS = ("because", "although", "while", "if", "before", "after", "when", "when")

VERBS = (*INTRANSITIVE, *TRANSITIVE, *GIVING, *CARRYING, *PLACING, *(verb for verb, _ in WITH_PARTICLE + WITH_CLAUSE))
VERB_FORMS = frozenset(form for verb in VERBS for form in verb.forms)
AUXILIARIES = frozenset(BE.forms + HAVE.forms + DO.forms) | {"are", "were"}
