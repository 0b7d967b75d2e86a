"""Noun phrases of toy_parsing, without clauses.

A method is a symbol of a probabilistic grammar. The functions in its `rule(...)` are its expansions with their weights,
and its arguments (number, kind of noun, budget) are the symbol's features. The expansions leave out whatever would give
a sentence two trees. Where that is not obvious, a docstring or comment says so.
"""

import itertools
from collections.abc import Callable

from t2t_lite.text.trees.tree import Leaf, Node

from . import treebank_words as words
from .draw import Draw, T
from .treebank_words import Modifier, Noun, Verb

Nodes = tuple[Node, ...]


def phrase(label: str, *parts: Nodes) -> Nodes:
    """Returns the nodes of a phrase made of its parts."""
    return (label, *itertools.chain.from_iterable(parts), None)


def leaf(tag: str, word: str) -> Nodes:
    """Returns a word as a part of a phrase."""
    return (Leaf(tag, word),)


def prepositional(preposition: str, noun_phrase: Nodes) -> Nodes:
    """Returns a PP; the treebank gives "to" a tag of its own."""
    return phrase("PP", leaf("TO" if preposition == "to" else "IN", preposition), noun_phrase)


class NounPhrases(Draw):
    """Draws noun phrases."""

    def rule(self, *rules: tuple[float, Callable[[], T]]) -> T:
        """Expands one of the rules, drawn by its weight; those of weight 0 never."""
        rules = tuple(rule for rule in rules if rule[0])
        point = self._random() * sum(weight for weight, _ in rules)
        for weight, expand in rules[:-1]:
            point -= weight
            if point < 0:
                return expand()
        return rules[-1][1]()

    def number(self) -> bool:
        """Returns whether a phrase is in the plural."""
        return self.chance(0.4)

    def noun(self, kind: str, bare: bool = False) -> Noun:
        """Returns a noun; no bare plural that could be a verb (dances), as that would be ambiguous."""
        return self.pick([n for n in words.NOUNS[kind] if not (bare and n.plural in words.VERB_FORMS)])

    def adjectives(self, kind: str, probability: float = 0.2) -> Nodes:
        if not self.chance(probability):
            return ()
        adjective = leaf("JJ", self.pick(words.ADJECTIVES[kind]))
        return phrase("ADJP", leaf("RB", "very"), adjective) if self.chance(0.1) else adjective

    def word(self, tag: str, table: str) -> Nodes:
        """Returns one of a table's words as a part of a phrase."""
        return leaf(tag, self.pick(words.WORDS[table]))

    def determiner(self, plural: bool) -> Nodes:
        return self.word("DT", "plural determiners" if plural else "singular determiners")

    def determined(self, kind: str, plural: bool) -> Nodes:
        """Returns a noun phrase that a determiner opens."""
        return phrase("NP", self.determiner(plural), self.adjectives(kind), self.noun(kind).leaf(plural))

    def noun_phrase(self, kind: str, plural: bool) -> Nodes:
        """Returns a noun with the words before it."""
        if self.chance(0.7):
            return self.determined(kind, plural)
        opener, bare = self.rule(
            (2, lambda: (self.word("PRP$", "possessives"), False)),
            (1, lambda: (self.owner(), False)),
            (plural, lambda: (self.count(), False)),
            (2 * plural, lambda: ((), True)),
        )
        return phrase("NP", opener, self.adjectives(kind), self.noun(kind, bare).leaf(plural))

    def owner(self) -> Nodes:
        """Returns Mary's, the doctor's."""
        name = self.word("NNP", "names")
        someone = name if self.chance(0.5) else self.determiner(plural=False) + self.noun("person").leaf(plural=False)
        return phrase("NP", someone, leaf("POS", "'s"))

    def count(self) -> Nodes:
        number = self.word("CD", "numbers")
        return phrase("QP", leaf("JJR", "more"), leaf("IN", "than"), number) if self.chance(0.3) else number

    def subject_phrase(self, kind: str, plural: bool) -> Nodes:
        """Returns a subject that nothing modifies; a person may be a pronoun or a name."""
        return self.someone(plural) if kind == "person" and self.chance(0.55) else self.noun_phrase(kind, plural)

    def someone(self, plural: bool) -> Nodes:
        if plural or self.chance(0.6):
            return phrase("NP", self.word("PRP", "plural pronouns" if plural else "pronouns"))
        return phrase("NP", self.word("NNP", "names"))

    def object_phrase(self, kind: str) -> Nodes:
        """Returns an object that nothing modifies."""
        if kind == "person" and self.chance(0.25):
            return phrase("NP", self.word("PRP", "object pronouns"))
        return self.noun_phrase(kind, self.number())

    def modified(self, modifier: Modifier, plural: bool, verb: Verb | None = None) -> Nodes:
        """Returns a noun phrase with a prepositional phrase, which holds no tool of `verb`."""
        preposition, kind, other = modifier
        head = self.determined(kind, plural) if preposition == "of" else self.noun_phrase(kind, plural)
        inner = self.feature(other, verb) if preposition == "with" else self.noun_phrase(other, self.number())
        return phrase("NP", head, prepositional(preposition, inner))

    def feature(self, kind: str, verb: Verb | None = None) -> Nodes:
        """Returns what someone has or does something with: a hat, the long key; no tool of `verb`."""
        tools = [noun for tool in verb.tools for noun in words.NOUNS[tool]] if verb else []
        noun = self.pick([noun for noun in words.NOUNS[kind] if noun not in tools])
        plural = kind == "filling"
        article = () if plural else leaf("DT", self.pick(("a", "a", "the")))
        return phrase("NP", article, self.adjectives(kind), noun.leaf(plural))

    def several(self, kind: str, conjunction: str) -> Nodes:
        """Returns the old men and women (flat: the words before both belong to both), or old men and the women."""
        conjunct = leaf("CC", conjunction)
        if self.chance(0.5):
            opener = self.determiner(plural=True) if self.chance(0.5) else ()
            one, two = (self.noun(kind, bare=True).leaf(plural=True) for _ in range(2))
            return phrase("NP", opener, self.adjectives(kind, 0.6), one, conjunct, two)
        first = self.noun_phrase(kind, self.chance(0.6))
        return phrase("NP", first, conjunct, self.determined(kind, self.number()))
