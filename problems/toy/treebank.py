"""The treebank of toy_parsing: English sentences with their trees, drawn from a small probabilistic grammar.

Labels, tags and bracketing are those of the Penn Treebank, without traces and function tags. Each sentence has one
tree, though often a single word decides between two possible ones:

- A phrase behind an object belongs to the verb if it names its tool (eat the soup with a spoon) or where the object
  goes (leave the bag on the table), else to the noun (eat the soup with nuts, buy the bag on the table). A place
  belongs to a building, a statue, a concert, but not to a man, a dog or a soup.
- After "the dogs of the man that", a verb in the plural belongs to the dogs, one in the singular to the man; after "the
  dog of the man and the woman", one in the singular shows that they share the dog.
- "He says that they sing and dances" against "and dance": the number of the last verb shows whose it is.
- "Old men and women" are all old; not so "old men and the women", where a determiner opens a phrase of its own.
- Whatever else follows a clause within a sentence belongs to that clause.
"""

from collections.abc import Iterator

from t2t_lite.text.trees.tree import Leaf, Node, Tree

from . import treebank_words as words
from .treebank_clauses import Clauses, Predicate
from .treebank_nouns import Nodes, leaf, phrase

MIN_WORDS, MAX_WORDS = 5, 20  # with the punctuation

_CONTENT = ("NN", "VB", "JJ")  # how the tags of nouns, verbs and adjectives begin


def trees(seed: str) -> Iterator[Tree]:
    """Yields trees without end, the same ones for the same seed; a sentence may repeat, with the same tree."""
    sentences = _Sentences(seed)
    while True:
        tree = Tree(_spell(sentences.sentence()))
        if MIN_WORDS <= len(tree.leaves) <= MAX_WORDS and not _repeats(tree):
            yield tree


def _repeats(tree: Tree) -> bool:
    """Whether a noun, verb or adjective occurs twice, as in "the old man and the old man"."""
    content = [word for tag, word in tree.leaves if tag.startswith(_CONTENT) and word not in words.AUXILIARIES]
    return len(set(content)) < len(content)


def _spell(nodes: Nodes) -> Nodes:
    """Writes "an" before vowels, and the first word with a capital."""
    spelt: list[Node] = []
    words_left = sum(isinstance(node, Leaf) for node in nodes)
    following = ""
    for node in reversed(nodes):
        if isinstance(node, Leaf):
            word = "an" if node.word == "a" and following[0] in "aeiou" else node.word
            words_left -= 1
            following = word
            node = Leaf(node.tag, word if words_left else word.capitalize())
        spelt.append(node)
    return tuple(reversed(spelt))


class _Sentences(Clauses):
    """Draws sentences; the rules leave out whatever would give one sentence two trees."""

    def sentence(self) -> Nodes:
        return self.rule(
            (60, lambda: self.statement(self.clause(2))),
            (6, lambda: self.statement(self.with_adverbial_clause())),
            (6, lambda: self.statement(self.adverbial_clause(), leaf(",", ","), self.clause(1))),
            (7, lambda: self.statement(self.opener(), leaf(",", ","), self.clause(1))),
            (3, lambda: self.statement(self.reported_and_done())),
            (5, lambda: self.statement(self.two_clauses())),
            (4, lambda: self.statement(self.command())),
            (5, lambda: phrase("SQ", self.question(), leaf(".", "?"))),
            (4, lambda: phrase("SBARQ", self.question_of_subject(), leaf(".", "?"))),
        )

    def statement(self, *parts: Nodes) -> Nodes:
        return phrase("S", *parts, leaf(".", "."))

    def with_adverbial_clause(self) -> Nodes:
        """Returns the parts of an S: she sings because he sleeps (a part of the verb phrase, as in the treebank)."""
        subject = self.subject(1)
        predicate = self.predicate(subject.kind, 1)
        longer = Predicate(predicate.verb, predicate.rest + self.adverbial_clause())
        return subject.nodes + self.finite(longer, subject.plural, subject.decides)

    def adverbial_clause(self) -> Nodes:
        word = self.pick(words.WORDS["conjunctions"])
        opener = phrase("WHADVP", leaf("WRB", word)) if word == "when" else leaf("IN", word)
        return phrase("SBAR", opener, phrase("S", self.clause(0)))

    def opener(self) -> Nodes:
        return self.time(1) if self.chance(0.5) else phrase("ADVP", self.word("RB", "openers"))

    def two_clauses(self) -> Nodes:
        """Without a comma, a clause ends before the last noun phrase: he likes the dog and the cat sleeps."""
        comma = self.chance(0.7)
        conjunction = leaf(",", ",") + leaf("CC", self.pick(("but", "and"))) if comma else leaf("CC", "and")
        one, two = (phrase("S", self.clause(budget=int(comma))) for _ in range(2))
        return one + conjunction + two

    def reported_and_done(self) -> Nodes:
        """Returns the parts of an S: he says that they sing and dances, or dance."""
        plural, reported = self.number(), self.chance(0.5)
        he, they = self.subject_phrase("person", plural), self.subject_phrase("person", not plural)
        says, sing = self.pick(words.VERBS["saying"]).finite(plural, past=False), self.short("person", not plural)
        dance = self.short("person", plural != reported)
        if reported:
            return he + phrase("VP", says, self.that_clause(they + self.join(sing, dance)))
        return he + self.join(says + self.that_clause(they + phrase("VP", sing)), dance)

    def command(self) -> Nodes:
        verb, rest = self.predicate("person", 1)
        return phrase("VP", leaf("VB", verb.base), rest)

    def question(self) -> Nodes:
        """Returns the parts of an SQ: does she sing."""
        subject = self.subject(1)
        predicate = self.predicate(subject.kind, 1)
        auxiliary, form = self.auxiliary(predicate.verb, subject.plural, subject.decides)
        return auxiliary + subject.nodes + phrase("VP", form, predicate.rest)

    def question_of_subject(self) -> Nodes:
        """Returns the parts of an SBARQ: who sings, which doctor sings."""
        which = leaf("WDT", "which") + self.noun("person").leaf(plural=False)
        asked = leaf("WP", "who") if self.chance(0.5) else which
        return phrase("WHNP", asked) + phrase("SQ", self.finite(self.predicate("person", 1), plural=False))
