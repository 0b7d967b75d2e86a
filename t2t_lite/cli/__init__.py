"""One file per command; each has main(argv) -> exit status."""
