#!/bin/sh
# Loads every BUILD file with `bazel query //...`, without a network, and checks what it lists.
#
# Debian's bazel-bootstrap (4.2.3, the one tried here) predates MODULE.bazel. So a copy of the tree gets a WORKSPACE in
# which @rules_python is a stub whose rules take the same attributes and do nothing (Bazel's own would want downloads,
# such as a C++ toolchain), and @pypi holds an empty target per package.
# Exit status: 0 in order, 77 nothing to check with (the reason is printed), else an error.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd -P)
command -v bazel >/dev/null || { echo "bazel is not installed"; exit 77; }
version=$(bazel --version 2>/dev/null | sed 's/^bazel //')
case $version in
    no_version | [456].*) flags= ;;
    7.*) flags=--noenable_bzlmod ;;
    *) echo "bazel $version reads no WORKSPACE, on which this check stands; run: bazel query //..."; exit 77 ;;
esac

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# The tree without what is ignored, symlinks kept.
mkdir "$work/tree"
(cd "$root" && tar -cf - --exclude=./.git --exclude=./.venv --exclude=./dist --exclude=./runs --exclude=__pycache__ .) |
    tar -xf - -C "$work/tree"
rm "$work/tree/MODULE.bazel"

mkdir -p "$work/rules_python/python" "$work/pypi"
touch "$work/rules_python/WORKSPACE" "$work/rules_python/python/BUILD" "$work/pypi/WORKSPACE"
cat >"$work/rules_python/python/defs.bzl" <<'END'
def _nothing(_ctx):
    return []

_LIBRARY = {
    "srcs": attr.label_list(allow_files = [".py"]),
    "data": attr.label_list(allow_files = True),
    "deps": attr.label_list(),
    "imports": attr.string_list(),
}
_PROGRAM = dict(
    main = attr.label(allow_single_file = [".py"]),
    python_version = attr.string(values = ["PY3"]),
    **_LIBRARY
)
py_library = rule(implementation = _nothing, attrs = _LIBRARY)
py_binary = rule(implementation = _nothing, attrs = _PROGRAM)
py_tested = rule(implementation = _nothing, attrs = _PROGRAM)

def py_test(size = "medium", args = [], **kwargs):
    py_tested(testonly = True, **kwargs)
END
find "$work/tree" \( -name BUILD -o -name '*.bzl' \) -exec grep -ho '@pypi//[a-z0-9_]*' {} + | sort -u |
    while read -r label; do
        name=${label#@pypi//}
        mkdir -p "$work/pypi/$name"
        echo "filegroup(name = \"$name\", visibility = [\"//visibility:public\"])" >"$work/pypi/$name/BUILD"
    done
cat >"$work/tree/WORKSPACE" <<'END'
workspace(name = "t2t_lite")

local_repository(
    name = "rules_python",
    path = "../rules_python",
)

local_repository(
    name = "pypi",
    path = "../pypi",
)
END

cd "$work/tree"
# deps: each label that a rule names must exist, inside and outside the tree.
# shellcheck disable=SC2086 # no flags are no argument
bazel --batch --output_user_root="$work/bazel" query $flags --noshow_progress \
    'kind(rule, deps(//...))' >"$work/targets" 2>"$work/log" || { cat "$work/log"; exit 1; }
grep -E '^//' "$work/targets" || { cat "$work/log"; echo "bazel query listed no target"; exit 1; }
