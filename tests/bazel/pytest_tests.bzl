"""One py_test per test file of a folder, so that a new test needs no new rule."""

load("@rules_python//python:defs.bzl", "py_test")

def pytest_tests(names_of_deps = [], data = []):
    """Declares a py_test for each test_*.py of the calling package.

    Args:
        names_of_deps: labels that the tests need besides the commands, the problems and pytest.
        data: files that the tests read.
    """
    for source in native.glob(["test_*.py"], allow_empty = True):
        py_test(
            name = source[:-len(".py")],
            size = "medium",
            srcs = [
                source,
                "//tests/bazel:run_pytest.py",
            ],
            args = ["$(location %s)" % source],
            data = data + [source],
            main = "//tests/bazel:run_pytest.py",
            python_version = "PY3",
            deps = [
                "//t2t_lite/bin",
                "//tests:conftest",
                "@pypi//pytest",
            ] + names_of_deps,
        )
