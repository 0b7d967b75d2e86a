"""The treebank of toy_parsing: what its trees look like, and that the words decide where word order is ambiguous.

These tests do not take from the grammar which verbs have which tools, who goes where, and what agrees with what. It is
written here again.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from t2t_lite.problems.toy import treebank
from t2t_lite.problems.toy import treebank_words as words
from t2t_lite.text.trees.linearize import linearize, restore
from t2t_lite.text.trees.tree import Leaf, Tree, normalize, parse

TREES = list(itertools.islice(treebank.trees("tests"), 4000))
# sha256 of the first 200 trees of a seed: if the trees change, every published toy score changes.
DIGEST_CODE = """
import hashlib, itertools
from t2t_lite.problems.toy.treebank import trees
print(hashlib.sha256("".join(map(str, itertools.islice(trees("digest"), 200))).encode()).hexdigest())
"""

TOOLS = {
    "watch": "telescope camera",
    "photograph": "telescope camera",
    "chase": "stick broom",
    "eat": "spoon fork",
    "taste": "spoon fork",
    "slice": "knife",
    "open": "key hammer screwdriver",
    "repair": "hammer screwdriver",
    "break": "hammer screwdriver",
    "clean": "brush sponge broom",
    "paint": "brush sponge broom",
    "draw": "pen pencil",
    "write": "pen pencil",
}
MOVING = ("give", "show", "send", "sell", "carry", "bring", "take")
FIXED = (  # things with a fixed place, so that the place identifies them
    "house hotel church castle school shop tree statue fountain bridge garden concert lesson meeting party meal walk "
    "dance talk visit roof wall tower entrance"
).split()
TIMES = "morning afternoon evening summer winter spring autumn".split()
SINGULARS = {noun.plural: noun.singular for nouns in words.NOUNS.values() for noun in nouns}
LEMMAS = {form: verb.base for verbs in words.VERBS.values() for verb in verbs for form in verb.forms}


class Phrase(NamedTuple):
    """A phrase with its parts."""

    label: str
    parts: list[Any]  # phrases and leaves

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts:
            yield from [part] if isinstance(part, Leaf) else part.leaves()

    def labels(self) -> list[str]:
        """Labels and tags of the parts."""
        return [part[0] for part in self.parts]

    def phrases(self) -> Iterator[Phrase]:
        """Yields this phrase and all in it."""
        yield self
        for part in self.parts:
            if isinstance(part, Phrase):
                yield from part.phrases()


def _nested(tree: Tree) -> Phrase:
    top = Phrase("", [])
    stack = [top]
    for node in tree.nodes:
        if node is None:
            stack.pop()
        elif isinstance(node, Leaf):
            stack[-1].parts.append(node)
        else:
            phrase = Phrase(node, [])
            stack[-1].parts.append(phrase)
            stack.append(phrase)
    return top.parts[0]


NESTED = list(map(_nested, TREES))
PHRASES = [phrase for tree in NESTED for phrase in tree.phrases()]


def _plural(phrase: Phrase | Leaf) -> bool:
    """Whether a noun phrase is in the plural."""
    if isinstance(phrase, Leaf):
        return phrase.tag == "NNS" or phrase.word.lower() in ("they", "we", "you")
    if "CC" in phrase.labels():
        return True
    head = phrase.parts[-1] if isinstance(phrase.parts[-1], Leaf) else phrase.parts[0]
    return _plural(head)


def _finite(phrase: Phrase) -> Iterator[bool | None]:
    """Yields whether each finite verb of a verb phrase is in the plural; None if its form does not show it."""
    if phrase.labels() == ["VP", "CC", "VP"]:
        for part in phrase.parts[::2]:
            yield from _finite(part)
    for tag, word in (part for part in phrase.parts if isinstance(part, Leaf)):
        if tag.startswith("VB"):
            yield {"VBZ": False, "VBP": True}.get(tag, {"was": False, "were": True}.get(word.lower()))


def _agreements() -> Iterator[tuple[Phrase, bool | None]]:
    """Yields for each finite verb its subject, and whether the verb is in the plural."""
    for phrase in PHRASES:
        labels = phrase.labels()
        if phrase.label in ("S", "SQ") and "NP" in labels and "VP" in labels:
            at = labels.index("VP")
            verb, subject = phrase.parts[at], next(part for part in phrase.parts[at::-1] if part[0] == "NP")
            if "TO" not in verb.labels():
                finite = Phrase("VP", phrase.parts[:1]) if phrase.label == "SQ" else verb
                yield from ((subject, found) for found in _finite(finite))
        elif phrase.label == "NP" and labels[-1] == "SBAR" and phrase.parts[-1].parts[-1].labels() == ["VP"]:
            who, clause = phrase.parts[-1].parts
            subject = who if who.parts[0].tag == "WP$" else phrase
            yield from ((subject, found) for found in _finite(clause.parts[0]))
        elif phrase.label == "SBARQ":
            yield from ((phrase.parts[0], found) for found in _finite(phrase.parts[1].parts[0]))


class Attachment(NamedTuple):
    """A prepositional phrase: parent's label, noun before it, verb it could belong to, preposition, noun."""

    label: str
    head: str
    verb: str
    preposition: str
    noun: str


def _attachments() -> list[Attachment]:
    """The prepositional phrases after an object: either in the verb phrase itself or at the end of the object."""
    found = []
    for phrase in PHRASES:
        if phrase.label != "VP" or "NP" not in phrase.labels():
            continue
        verb = LEMMAS.get(phrase.parts[0][1].lower(), "") if isinstance(phrase.parts[0], Leaf) else ""
        object_ = phrase.parts[phrase.labels().index("NP")]
        for label, holder in (("VP", phrase), ("NP", object_)):
            for part in holder.parts:
                if part[0] == "PP":
                    head = object_.parts[0] if object_.labels()[:1] == ["NP"] and label == "NP" else object_
                    preposition, noun = part.parts[0].word, _last_noun(part)
                    found.append(Attachment(label, _last_noun(head), verb, preposition, noun))
    return found


def _last_noun(phrase: Phrase) -> str:
    return list(phrase.leaves())[-1].word


ATTACHMENTS = _attachments()


@pytest.mark.commit
def test_the_same_trees_in_each_process() -> None:
    """Python's own hash() differs from process to process; nothing may depend on it."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST_CODE],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_seeds_differ() -> None:
    assert list(itertools.islice(treebank.trees("other"), 20)) != TREES[:20]


def test_trees_are_normal_and_come_back_from_text_and_from_symbols() -> None:
    for tree in TREES:
        assert normalize(tree) == tree
        assert restore(linearize(tree), tree.words) == tree
    assert all(parse(str(tree)) == tree for tree in TREES[:500])


def test_sentences_read_as_sentences() -> None:
    for tree in TREES:
        assert tree.words[0][0].isupper()
        assert tree.words[-1] in (".", "?")
        for article, following in itertools.pairwise(word.lower() for word in tree.words):
            if article in ("a", "an"):
                assert (article == "an") == (following[0] in "aeiou")


def test_lengths() -> None:
    lengths = [len(tree.words) for tree in TREES]
    assert min(lengths) == 5
    assert max(lengths) == 20
    assert 10 < sum(lengths) / len(lengths) < 12
    assert sum(len(linearize(tree)) < 64 for tree in TREES) > 0.99 * len(TREES)  # the length that "tiny" learns


def test_sentences_are_many() -> None:
    sentences = {" ".join(tree.words) for tree in TREES}
    assert len(sentences) > 0.99 * len(TREES)
    assert len({word.lower() for tree in TREES for word in tree.words}) > 400


def test_labels_and_tags_vary() -> None:
    labels = Counter(label for tree in TREES for label, _, _ in tree.spans())
    tags = Counter(leaf.tag for tree in TREES for leaf in tree.leaves)
    assert set(labels) == set("ADJP ADVP NP PP PRT QP S SBAR SBARQ SQ VP WHADVP WHNP".split())
    assert set(tags) == set(
        ", . CC CD DT IN JJ JJR MD NN NNP NNS POS PRP PRP$ RB RP TO VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB".split()
    )
    assert min((labels + tags).values()) >= 10


def test_a_sentence_has_one_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few words of each kind, short sentences come again and again; each must always have the same tree."""
    outfits = [noun for noun in words.NOUNS["outfit"] if noun.singular in ("hat", "stick")]
    bases = {"transitive": "eat see chase open enjoy buy", "intransitive": "sleep dance"}
    verbs = {group: [v for v in words.VERBS[group] if v.base in some.split()] for group, some in bases.items()}
    few = (
        "comparatives",
        "days",
        "manner",
        "modals",
        "names",
        "often",
        "plural pronouns",
        "pronouns",
        "plural determiners",
    )
    chosen = {"singular determiners": ["the", "that"], "object pronouns": ["her"], "possessives": ["her"]}
    for table, smaller in (
        (words.NOUNS, {kind: nouns[:1] for kind, nouns in words.NOUNS.items()} | {"outfit": outfits}),
        (words.ADJECTIVES, {kind: adjectives[:1] for kind, adjectives in words.ADJECTIVES.items()}),
        (words.VERBS, verbs),
        (words.WORDS, {name: words.WORDS[name][:1] for name in few} | chosen),
    ):
        for name, rows in smaller.items():
            monkeypatch.setitem(table, name, rows)
    monkeypatch.setattr(treebank, "_repeats", lambda tree: False)
    monkeypatch.setattr(treebank, "MAX_WORDS", 10)
    seen: dict[str, Tree] = {}
    again = 0
    for tree in itertools.islice(treebank.trees("few words"), 3000):
        known = seen.setdefault(" ".join(tree.words), tree)
        again += known is not tree
        assert known == tree
    assert again > 100


# One function for each kind of ambiguity: it returns the reading of a phrase, or None if the phrase has no such
# ambiguity.


def _relative_after_of(phrase: Phrase) -> str | None:
    """The dogs of the man that ...: one bracket around all, or one around "the man that ..."?"""
    match phrase:
        case Phrase("NP", [Phrase("NP"), Phrase("PP", [Leaf(word="of"), _]), Phrase("SBAR")]):
            return "the dogs bark"
        case Phrase(
            "NP", [Phrase("NP"), Phrase("PP", [Leaf(word="of"), Phrase("NP", [Phrase("NP"), Phrase("SBAR")])])]
        ):
            return "the man barks"
    return None


def _owners(phrase: Phrase) -> str | None:
    """The dog of the man and the woman."""
    match phrase:
        case Phrase("NP", [Phrase("NP", [_, Phrase("PP", [Leaf(word="of"), _])]), Leaf(word="and"), Phrase("NP")]):
            return "one owner"
        case Phrase("NP", [_, Phrase("PP", [Leaf(word="of"), Phrase("NP", [Phrase(), Leaf(word="and"), Phrase()])])]):
            return "two owners"
    return None


def _last_verb(phrase: Phrase) -> str | None:
    """He says that they sing and dances, or dance."""
    match phrase:
        case Phrase("VP", [Phrase("VP", [_, Phrase("SBAR")]), Leaf(word="and"), Phrase("VP")]):
            return "done"
        case Phrase("SBAR", [Leaf(word="that", tag="IN"), Phrase("S", [*_, Phrase("VP", [_, Leaf(word="and"), _])])]):
            return "said"
    return None


def _conjuncts(phrase: Phrase) -> str | None:
    """Old men and women, old men and the women."""
    match phrase:
        case Phrase("NP", [*_, Leaf("NNS"), Leaf("CC"), Leaf("NNS")]):
            return "words"
        case Phrase("NP", [Phrase("NP"), Leaf("CC"), Phrase("NP", [Leaf("DT"), *_])]):
            return "phrases"
    return None


def _infinitive(phrase: Phrase) -> str | None:
    """Wants the girl to sleep, asks the girl to sleep."""
    match phrase:
        case Phrase("VP", [Leaf(), Phrase("S", [Phrase("NP"), Phrase("VP", [Leaf("TO"), _])])]):
            return "wants"
        case Phrase("VP", [Leaf(), Phrase("NP"), Phrase("S", [Phrase("VP", [Leaf("TO"), _])])]):
            return "asks"
    return None


def _on(phrase: Phrase) -> str | None:
    """Turns on the lamp, buys the lamp on the table, leaves the lamp on the table."""
    match phrase:
        case Phrase("VP", [Leaf(), Phrase("PRT", [Leaf("RP", "on")]), Phrase("NP")]):
            return "turns on"
        case Phrase("VP", [Leaf(), Phrase("NP"), Phrase("PP", [Leaf("IN", "on"), Phrase("NP", [Leaf("DT"), *_])]), *_]):
            return "leaves on"
        case Phrase("VP", [Leaf(), Phrase("NP", [Phrase("NP"), Phrase("PP", [Leaf("IN", "on"), _])]), *_]):
            return "buys"
    return None


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (_relative_after_of, {"the dogs bark", "the man barks"}),
        (_owners, {"one owner", "two owners"}),
        (_last_verb, {"said", "done"}),
        (_conjuncts, {"words", "phrases"}),
        (_infinitive, {"wants", "asks"}),
        (_on, {"turns on", "leaves on", "buys"}),
    ],
)
def test_every_reading_occurs(reading: Callable[[Phrase], str | None], expected: set[str]) -> None:
    found = Counter(filter(None, map(reading, PHRASES)))
    assert set(found) == expected
    assert min(found.values()) >= 10


def test_verbs_agree_and_show_it_where_it_decides() -> None:
    found: Counter[bool | None] = Counter()
    for subject, plural in _agreements():
        assert plural == _plural(subject) or (plural is None and not _owners(subject))
        found[plural] += 1
    assert min(found[False], found[True]) > 500


def test_numbers_differ_where_they_decide() -> None:
    for phrase in PHRASES:
        if reading := _relative_after_of(phrase):
            owner = phrase.parts[1].parts[1]
            assert _plural(phrase) != _plural(owner)
            clause = (phrase if reading == "the dogs bark" else owner).parts[-1].parts[-1]
            assert None not in _finite(clause.parts[0])
        elif _last_verb(phrase) == "done":
            said = phrase.parts[0].parts[1].parts[-1]
            assert set(_finite(phrase)) == {not _plural(said.parts[0])}


def test_a_determiner_or_a_comma_parts_what_is_coordinated() -> None:
    for phrase in PHRASES:
        if phrase.labels() == ["NP", "CC", "NP"]:
            assert phrase.parts[2].parts[0].tag == "DT"
        elif phrase.labels() == ["S", "CC", "S", "."]:
            assert not any(part.label == "NP" and "CC" in part.labels() for part in phrase.phrases())


def test_what_stands_behind_an_object_belongs_where_the_words_say() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for label, head, verb, preposition, noun in ATTACHMENTS:
        match preposition:
            case "with":
                of_verb = SINGULARS.get(noun, noun) in TOOLS.get(verb, "").split()
            case "on" | "under":
                of_verb = verb in ("leave", "place", "hide") or noun.endswith("day")
            case "to":
                of_verb = not head.startswith("key") or verb in MOVING
            case "in" | "near":
                of_verb = noun in TIMES or SINGULARS.get(head, head) not in FIXED
            case "of" | "about":
                of_verb = False
            case _:
                of_verb = preposition in ("before", "after", "by")
        assert (label == "VP") == of_verb, (label, head, verb, preposition, noun)
        found[preposition, label] += 1
    both_ways = [(preposition, label) for preposition in ("with", "on", "under", "to", "in") for label in ("VP", "NP")]
    assert {pair: found[pair] for pair in both_ways if found[pair] < 8} == {}


def test_one_noun_belongs_here_or_there_by_the_verb() -> None:
    nouns = {
        label: {a.noun for a in ATTACHMENTS if a.preposition == "with" and a.label == label}
        for label in "VP NP".split()
    }
    assert {"telescope", "camera", "stick", "hammer", "pencil", "key"} <= nouns["VP"] & nouns["NP"]
