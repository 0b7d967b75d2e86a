"""Small treebanks with the tags of five well-known treebanks, which tag punctuation in five ways.

In each, dev has words and punctuation marks that training lacks, but no new tags. The words are made up.
"""

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class TagSet:
    """Trees, one per line; `deleted` holds the punctuation tags that EVALB must leave out."""

    train: tuple[str, ...]
    dev: tuple[str, ...]
    deleted: tuple[str, ...]

    def write(self, folder: Path) -> Path:
        """Writes train.trees (each tree four times), dev.trees, test.trees (once) and evalb.prm; returns the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for split, lines in (("train", self.train * 4), ("dev", self.dev), ("test", self.train)):
            (folder / f"{split}.trees").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        prm = [f"DELETE_LABEL {tag}\n" for tag in ("TOP", *self.deleted)]
        (folder / "evalb.prm").write_text("".join(prm), encoding="utf-8")
        return folder


TAG_SETS = {
    "ptb": TagSet(
        (
            "(S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN fish))) (. .))",
            "(S (`` ``) (S (NP (PRP it)) (VP (VBZ costs) (NP ($ $) (CD 5)))) (, ,) ('' '') (NP (NNP Ann)) "
            "(VP (VBZ says)) (. .))",
            "(S (NP (NP (NNS dogs) (POS ')) (NN food)) (: --) (PRN (-LRB- -LRB-) (NP (CD 3) (NN %)) "
            "(-RRB- -RRB-)) (VP (VBZ is) (ADJP (JJ good))) (. !))",
            "(S (`` `) (NP (CC &) (NN cat)) ('' ') (VP (VBZ sees)) (: ;) (VP (VBZ is)) (: -) (. ?))",
        ),
        (
            "(S (`` ``) (NP (DT the) (NN zebra)) ('' '') (VP (VBZ sees) (NP (NNS dogs) (POS '))) (: ...) (. .))",
            "(S (NP (NP (CD 7) (NN %)) (PRN (: =) (NP ($ $) (CD 5)) (: =))) (VP (VBZ is)) (. ?!))",
        ),
        (",", ":", "``", "''", "."),
    ),
    "ontonotes": TagSet(
        (
            "(S (NP (DT the) (NML (NN state) (HYPH -) (PP (IN of))) (NN cat)) (VP (VBZ sees) (NP (NN fish))) (. .))",
            "(S (NP (JJ pro) (HYPH -) (NN cat)) (: -) (NP (AFX anti) (HYPH -) (NN dog)) (: --) (VP (VBZ is)) (. !))",
            "(S (`` \") (NP (ADD cat@example.org)) ('' \") (VP (VBZ says)) (: :) (INTJ (UH yes)) (, ,) (NFP :-))",
            "(S (NP (NN cat) (SYM /) (NN dog)) (PRN (-LRB- -LRB-) (NP (XX -)) (-RRB- -RRB-)) (NFP ***) (VP "
            "(VBZ is)) (NFP .) (. .))",
        ),
        (
            "(S (NP (NN low) (HYPH -) (NN zebra)) (: -) (VP (VBZ is) (NP (XX -))) (NFP ----) (. .))",
            "(S (`` \") (NP (AFX semi) (HYPH \u2013) (NN dog)) ('' \") (: \u2014) (NP (XX zz) (SYM /)) (VP "
            "(VBZ sees)) (NFP .))",
        ),
        (",", ":", "``", "''", "."),
    ),
    "tiger": TagSet(
        (
            "(S (NP-SB (ART Der) (NN Hund)) (VVFIN sieht) (NP-OA (ART die) (NN Katze)) ($. .))",
            "(CS (S ($*LRB* ``) (NP-SB (PPER Er)) (VVFIN sagt) ($*LRB* '')) ($, ,) (S (VVFIN schl\u00e4ft)) ($. ;))",
            "(S (NP-SB (NN Hund) (TRUNC Katzen-)) ($*LRB* -) (VP (ADJD gut) ($*LRB* *LRB*) (CARD 5) "
            "($*LRB* *RRB*)) (VVFIN ist) ($. :))",
        ),
        (
            "(S ($*LRB* \u00bb) (NP-SB (ART Das) (NN Gr\u00f6\u00dfte)) ($*LRB* \u00ab) (VVFIN sieht) "
            "($, ,) ($*LRB* -) ($. ...))",
            "(S ($*LRB* *LSB*) (NP-SB (PPER Sie)) ($*LRB* *RSB*) (VVFIN ist) (ADJD wahr) ($. ?))",
        ),
        ("$,", "$.", "$*LRB*"),
    ),
    "ctb": TagSet(
        (
            "(IP (NP (NN \u732b)) (VP (VV \u770b\u89c1) (NP (NN \u9c7c))) (PU \u3002))",
            "(IP (PU \u201c) (NP (PN \u4ed6)) (VP (VV \u8bf4)) (PU \u201d) (PU ,) (VP (VA \u597d)) (PU \uff01))",
            "(IP (NP (NR \u5317\u4eac) (PU \u3001) (NN \u732b)) (PRN (PU -LRB-) (NP (CD 5) (M \uff05)) "
            "(PU -RRB-)) (VP (VV \u770b\u89c1)) (PU \u2014\u2014))",
        ),
        (
            "(IP (PU \u300a) (NP (NN \u72d7)) (PU \u300b) (VP (VA \u597d)) (PU \u2026\u2026))",
            "(IP (NP (CD 7) (M \uff05)) (PU ;) (VP (VV \u8bf4)) (PU \u3002))",
        ),
        ("PU",),
    ),
    "french": TagSet(
        (
            "(SENT (NP (DET le) (NC chat)) (VN (V voit)) (NP (DET un) (NC poisson)) (PONCT .))",
            "(SENT (PONCT \u00ab) (NP (DET l') (NC ami) (NC -) (NC chat)) (PONCT \u00bb) (PONCT ,) (VN "
            "(V dort)) (PONCT ;))",
            "(SENT (NP (NC chat)) (PONCT -) (AP (ADJ bon)) (PONCT -) (PONCT -LRB-) (NP (DET 5) (NC %)) "
            "(PONCT -RRB-) (VN (V dort)) (PONCT !))",
        ),
        (
            "(SENT (PONCT \u201c) (NP (DET d') (NC oiseaux) (NC -) (NC mouche)) (PONCT \u201d) (VN "
            "(V voit)) (PONCT -) (PONCT \u2026))",
            "(SENT (NP (DET le) (NC %)) (PONCT :) (VN (V est)) (PONCT ?))",
        ),
        ("PONCT",),
    ),
}
