"""The words of toy_parsing and which go together, from the tables of treebank.txt."""

from typing import NamedTuple

from t2t_lite.text.trees.tree import Leaf

from .tables import by_first, read

_TABLES = read("treebank.txt")


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


class Verb(NamedTuple):
    """A verb's forms, and the kinds of noun that do it, that it is done to, and that it is done with.

    `takes`: its particle, or what comes before its clause.
    """

    forms: tuple[str, ...]
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    tools: tuple[str, ...]
    takes: str

    @property
    def base(self) -> str:
        return self.forms[0]

    @property
    def participle(self) -> str:
        return self.forms[3]

    @property
    def gerund(self) -> str:
        return self.forms[4]

    def finite(self, plural: bool, past: bool) -> tuple[Leaf]:
        if past:
            return (Leaf("VBD", "were" if plural and self.base == "be" else self.forms[2]),)
        if plural:
            return (Leaf("VBP", "are" if self.base == "be" else self.base),)
        return (Leaf("VBZ", self.forms[1]),)


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def _noun(text: str) -> Noun:
    singular, _, plural = text.partition("/")
    return Noun(singular, plural or _with_s(singular))


def _modifier(kind: str, text: str) -> Modifier:
    preposition, _, other = text.partition("-")
    other, _, head = other.removesuffix(")").partition("(")
    return Modifier(preposition, head or kind, other)


def _verb(cells: list[str]) -> Verb:
    columns = [tuple(column.split()) for column in " ".join(cells).split("|")]
    forms, subjects, objects, tools, takes = [*columns, (), (), (), ()][:5]
    if len(forms) == 1:  # a regular one
        stem = forms[0].removesuffix("e")
        forms = (forms[0], _with_s(forms[0]), stem + "ed", stem + "ed", stem + "ing")
    return Verb(forms, subjects, objects, tools, " ".join(takes))


NOUNS = {kind: [_noun(text) for text in texts] for kind, *texts in _TABLES["nouns"]}
ADJECTIVES = {kind: adjectives for kind, *adjectives in _TABLES["adjectives"]}
ADJECTIVES |= {other: ADJECTIVES[kind] for kind, *others in _TABLES["described_as"] for other in others}
MODIFIERS = {kind: [_modifier(kind, text) for text in texts] for kind, *texts in _TABLES["modifiers"]}
WHERE = {kind: (preposition, other) for kind, preposition, other in _TABLES["where"]}
VERBS = {group: [_verb(row) for row in rows] for group, rows in by_first(_TABLES["verbs"]).items()}
BE, HAVE, DO = (VERBS.pop(name)[0] for name in ("be", "have", "do"))
WORDS = {name: words for name, *words in _TABLES["words"]}
VERB_FORMS = {form for verbs in VERBS.values() for verb in verbs for form in verb.forms}
AUXILIARIES = {*BE.forms, *HAVE.forms, *DO.forms, "are", "were"}
