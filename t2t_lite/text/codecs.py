"""All codecs, by what is stored with prepared data."""

from collections.abc import Mapping
from typing import Any

from t2t_lite.text.codec import Codec
from t2t_lite.text.trees.codec import InOrderCodec, TreeCodec


def codec_of(settings: Mapping[str, Any]) -> Codec:
    """Returns the codec that the settings of prepared data name."""
    for codec in (InOrderCodec, TreeCodec):
        if codec.settings.items() <= settings.items():
            return codec()
    return Codec()
