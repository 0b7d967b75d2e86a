"""One Keras layer per file, written with keras.ops only; layers take plain arguments and never see HParams."""
