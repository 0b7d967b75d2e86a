"""t2t-lite-eval of files: translations against references and baselines, and trees against trees."""

from typing import Any, NamedTuple

from t2t_lite import registry
from t2t_lite.cli import eval_scores
from t2t_lite.cli.eval_scores import Defaults, ScoreRequest
from t2t_lite.errors import DataError
from t2t_lite.metrics.score import CorpusMetric, Score


class _Files(NamedTuple):
    """Lines of files of one length; sources is empty if they are not given."""

    hypotheses: list[str]
    references: list[list[str]]
    baselines: list[list[str]]
    sources: list[str]


def score_trees(request: ScoreRequest, trees: tuple[str, str]) -> None:
    """Scores the trees of the second file against those of the first."""
    from t2t_lite.data.sources import read_lines
    from t2t_lite.metrics import bracketing
    from t2t_lite.text.trees.tree import check_words, tree_lines

    gold, test = (tree_lines(list(read_lines(path)), path) for path in trees)
    check_words(gold, trees[0])
    found = bracketing.evaluate(gold, test, eval_scores.tree_parameters(request))
    found.check_errors()
    eval_scores.list_faults(found)
    eval_scores.print_trees(request, {}, found)


def score_files(request: ScoreRequest) -> None:
    """Scores the hypotheses against their references, and compares them with each of the baselines."""
    registry.load_plugins(request.usr_dir)
    defaults = Defaults("bleu", request.language or "")
    metrics = eval_scores.text_metrics(request, defaults)
    files = _read_files(request)
    eval_scores.warn_of_text(request, files.hypotheses, files.references[0], defaults)
    if files.baselines:
        _compare(request, metrics, files)
    else:
        eval_scores.print_scores(request, {}, [_score(metric, files.hypotheses, files) for metric in metrics])


def _score(metric: CorpusMetric, hypotheses: list[str], files: _Files) -> Score:
    return eval_scores.score_text(metric, hypotheses, files.references, files.sources)


def _compare(request: ScoreRequest, metrics: list[CorpusMetric], files: _Files) -> None:
    from t2t_lite.metrics import significance

    test = significance.paired_randomisation if request.paired_ar else significance.paired_bootstrap
    records: list[dict[str, Any]] = []
    lines: list[tuple[str, Score, float | None]] = []
    for metric in metrics:
        score = _score(metric, files.hypotheses, files)
        found = [test(metric, score, _score(metric, baseline, files)) for baseline in files.baselines]
        if request.json:
            record = found[0].as_dict()
            if len(found) > 1:
                pairs = zip(request.baselines, found, strict=True)
                record["paired"] = [{"file": path, **one.as_dict()["paired"]} for path, one in pairs]
            records.append(record)
            continue
        if request.table_format != "text":
            lines.append((request.hypotheses, score, None))
            lines += [(path, one.baseline, one.p_value) for path, one in zip(request.baselines, found, strict=True)]
            continue
        print(found[0].score.format())
        for path, one in zip(request.baselines, found, strict=True):
            print(one.format_baseline(path if len(found) > 1 else ""))
    if request.json:
        eval_scores.print_json({}, records)
    elif lines:
        eval_scores.print_table(request, {}, "translations", lines)


def _read_files(request: ScoreRequest) -> _Files:
    """Returns the lines of the files, which are all of the same number."""
    from t2t_lite.data import sgm
    from t2t_lite.data.sources import read_lines

    sources = [request.sources] if request.sources else []
    paths = [*request.references, request.hypotheses, *request.baselines, *sources]
    files = [list(read_lines(path, sgml=True)) for path in paths]
    first = paths[0]
    if request.sgm:
        references = sgm.parse(files[0], first)
        files[0] = list(references.values())
        for i in range(1, len(files)):
            if sgm.is_sgm(files[i]):
                files[i] = sgm.in_order(sgm.parse(files[i], paths[i]), references, paths[i], first)
    for path, lines in zip(paths, files, strict=True):
        if not request.sgm and sgm.is_sgm(lines):
            raise DataError(f"{path} is not plain text but SGML; --sgm reads it where the references are SGML too.")
        if len(lines) != len(files[0]):
            raise DataError(
                f"{path} has {len(lines):,} lines but {first} has {len(files[0]):,}; "
                "line N of one is scored against line N of the other."
            )
    if not files[0]:
        raise DataError(f"{request.hypotheses} and {first} are empty; there is nothing to score.")
    count = len(request.references)
    of_sources = files.pop() if sources else []
    return _Files(files[count], files[:count], files[count + 1 :], of_sources)
