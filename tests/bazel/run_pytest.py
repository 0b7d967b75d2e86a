"""The main program of each Bazel test: pytest on the files it is given, with the settings of pyproject.toml."""

import sys

import pytest

if __name__ == "__main__":
    sys.exit(pytest.main(["-c", "pyproject.toml", "--rootdir", ".", "-p", "no:cacheprovider", *sys.argv[1:]]))
