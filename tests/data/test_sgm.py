"""WMT's SGML: what real files hold, and every fault named with its place."""

import pytest

from t2t_lite.data import sgm
from t2t_lite.errors import DataError

REFERENCE = """\
<!DOCTYPE refset SYSTEM "ftp://example.org/mteval.dtd" [<!ENTITY file SYSTEM "/etc/hostname">]>
<refset setid="newstest2014" srclang="any" trglang="de">
<doc sysid="ref" docid="1012-bbc" genre="news" origlang="en">
<p>
<seg id="1">Ein Satz.</seg>
<seg id="2"> R&amp;D &quot;A&quot; &lt;b&gt; </seg>
</p>
</doc>
<DOC docid='2-abc' sysid="ref">
<hl>
<Seg ID=1>Zweites
Dokument</Seg>
</hl>
</DOC>
</refset>
"""


def parse(text: str) -> sgm.Segments:
    return sgm.parse(text.split("\n"), "ref.sgm")


def test_segments_by_document_and_number_in_the_files_order() -> None:
    assert parse(REFERENCE) == {
        ("1012-bbc", "1"): "Ein Satz.",
        ("1012-bbc", "2"): 'R&D "A" <b>',
        ("2-abc", "1"): "Zweites Dokument",
    }
    assert list(parse(REFERENCE))[-1] == ("2-abc", "1")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("AT&T, &c. & Co", "AT&T, &c. & Co"),  # a lone ampersand
        ("&amp;quot; &amp;amp;", "&quot; &amp;"),  # decoded once
        ("&apos;&#8222;&#x201C;&nbsp;&auml;", "'„“\u00a0ä"),
        ("&file; &nosuchthing; &#xyz;", "&file; &nosuchthing; &#xyz;"),  # no file is read, no text is lost
        ("&copy without end &notit;", "&copy without end &notit;"),
        ("a < b <i>c</i> 3 <4", "a < b <i>c</i> 3 <4"),
        ("a&#10;b\tc  d", "a b c d"),  # a segment stays one line
        ("a\u2028b\u00a0", "a\u2028b\u00a0"),
        ("&#9999999;", "\ufffd"),
        ("", ""),
    ],
)
def test_the_text_of_a_segment(raw: str, text: str) -> None:
    assert parse(f'<doc docid="d"><seg id="1">{raw}</seg></doc>') == {("d", "1"): text}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'ref.sgm holds no segments; --sgm is for files with <doc docid="..."> and <seg id="...">.'),
        ('<doc docid="d"></doc>', "ref.sgm holds no segments"),
        ('<refset>\n<seg id="1">a</seg>', "ref.sgm, line 2: this <seg> is in no <doc>"),
        ('<doc docid="d">\n</doc>\n<seg id="1">a</seg>', "ref.sgm, line 3: this <seg> is in no <doc>"),
        ('<doc id="d"><seg id="1">a</seg></doc>', 'ref.sgm, line 1: <doc id="d"> has no docid="...".'),
        ('<doc docid="d">\n<seg docid="1">a</seg></doc>', 'ref.sgm, line 2: <seg docid="1"> has no id="...".'),
        (
            '<doc docid="d">\n<seg id="1">a\n<seg id="2">b</seg>',
            "ref.sgm, line 3: segment 1 of document d has no </seg> before this <seg>.",
        ),
        (
            '<doc docid="d">\n<seg id="1">a\n</doc>',
            "ref.sgm, line 3: segment 1 of document d has no </seg> before this </doc>.",
        ),
        ('<doc docid="d"><seg id="1">a', "ref.sgm: segment 1 of document d has no </seg>; the file is not whole."),
        (
            '<doc docid="d" sysid="A"><seg id="1">a</seg></doc>\n<doc docid="d" sysid="B"><seg id="1">b</seg></doc>',
            "ref.sgm, line 2: segment 1 of document d is there twice. Of several references or systems",
        ),
    ],
)
def test_faults_name_file_line_document_and_segment(text: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        parse(text)
    assert str(error.value).startswith(message)


def test_translations_come_in_the_order_of_the_references() -> None:
    translations = parse(
        '<tstset><doc docid="2-abc" sysid="x"><seg id="1">drei</seg></doc>'
        '<doc docid="1012-bbc" sysid="x"><seg id="2">zwei</seg><seg id="1">eins</seg></doc></tstset>'
    )
    assert sgm.in_order(translations, parse(REFERENCE), "tst.sgm", "ref.sgm") == ["eins", "zwei", "drei"]


def test_segments_of_only_one_file_are_named() -> None:
    references = parse(REFERENCE)
    fewer = {("1012-bbc", "1"): "eins"}
    with pytest.raises(DataError) as error:
        sgm.in_order(fewer, references, "tst.sgm", "ref.sgm")
    assert str(error.value) == "tst.sgm lacks segment 2 of document 1012-bbc, which ref.sgm has, and 1 more."
    with pytest.raises(DataError) as error:
        sgm.in_order({**references, ("3", "9"): "zu viel"}, references, "tst.sgm", "ref.sgm")
    assert str(error.value) == "ref.sgm lacks segment 9 of document 3, which tst.sgm has."


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (REFERENCE, True),
        ("\n\n  <SRCSET setid='x'>", True),
        ("<?xml version='1.0'?>", True),
        ("<doc docid='1'>", True),
        ("<b>A sentence</b> in bold", False),
        ("<documents are lost", False),
        ("", False),
    ],
)
def test_is_sgm(text: str, found: bool) -> None:
    assert sgm.is_sgm(text.split("\n")) is found


def test_a_hostile_file_takes_no_time() -> None:
    """Many open brackets or many segments take only time in proportion to their length."""
    hostile = "<doc " * 200_000 + "&a" * 200_000 + "<seg id=" * 100_000
    with pytest.raises(DataError, match="holds no segments"):
        parse(hostile)
    many = "".join(f'<seg id="{i}">x</seg>' for i in range(50_000))
    assert len(parse(f'<doc docid="d">{many}</doc>')) == 50_000
