"""A parse tree as a picture: SVG in one file."""

import dataclasses
import html

from t2t_lite.text.trees.tree import Leaf, Tree, unescape

_CHARACTER, _GAP = 8.5, 18.0  # pixels: about the width of a character; between two words
_LEVEL, _MARGIN = 46.0, 20.0  # pixels: from a label to the labels below it; around the picture
_STYLE = (
    "text{font:14px sans-serif;text-anchor:middle;dominant-baseline:central}"
    ".word{font-weight:bold}.tag{fill:#36648b}line{stroke:#999}"
)


@dataclasses.dataclass
class _Node:
    """What is drawn: a label, a tag or a word."""

    text: str
    kind: str
    level: int
    parent: int | None
    x: float = 0.0


def tree_svg(tree: Tree) -> str:
    """Returns a picture of a tree; everything in a phrase is one level below it, so that no lines cross."""
    nodes = _nodes(tree)
    width = _place(nodes)
    bottom = max(node.level for node in nodes)
    height = bottom * _LEVEL + 2 * _MARGIN
    lines, texts = [], []
    for node in nodes:
        y = node.level * _LEVEL + _MARGIN
        if node.parent is not None:
            above = nodes[node.parent]
            start = above.level * _LEVEL + _MARGIN + 11
            lines.append(f'<line x1="{above.x:.1f}" y1="{start:.1f}" x2="{node.x:.1f}" y2="{y - 11:.1f}"/>')
        texts.append(f'<text class="{node.kind}" x="{node.x:.1f}" y="{y:.1f}">{html.escape(node.text)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(lines)}{"".join(texts)}</svg>\n'
    )


def _nodes(tree: Tree) -> list[_Node]:
    """The nodes of a tree, each after its parent, with their levels."""
    nodes: list[_Node] = []
    stack: list[int] = []
    for node in tree.nodes:
        parent = stack[-1] if stack else None
        if isinstance(node, Leaf):
            nodes.append(_Node(node.tag, "tag", len(stack), parent))
            nodes.append(_Node(unescape(node.word), "word", len(stack) + 1, len(nodes) - 1))
        elif node is None:
            stack.pop()
        else:
            nodes.append(_Node(node, "phrase", len(stack), parent))
            stack.append(len(nodes) - 1)
    return nodes


def _place(nodes: list[_Node]) -> float:
    """Places words side by side and each other node above the middle of those below it; returns the width."""
    x = _MARGIN
    below: dict[int, list[float]] = {}
    for number in reversed(range(len(nodes))):  # children before their parents, from right to left
        node = nodes[number]
        if node.kind == "word":
            tag = nodes[number - 1]
            size = _CHARACTER * max(len(node.text), len(tag.text))
            node.x = -(x + size / 2)
            x += size + _GAP
        else:
            node.x = (min(below[number]) + max(below[number])) / 2
        if node.parent is not None:
            below.setdefault(node.parent, []).append(node.x)
    width = x - _GAP + _MARGIN
    for node in nodes:
        node.x += width
    return width
