"""Errors of a server: a sentence for the user, an exit status, and whether to retry.

Both protocols use these errors: gRPC's codes are mapped to HTTP's as the server itself maps them
(model_servers/http_server.cc of TensorFlow Serving 2.20).
"""

import re

from t2t_lite.client.endpoint import Target
from t2t_lite.errors import T2TError, UsageError


class ServerError(T2TError):
    """The server failed, or its answer cannot be understood: exit status 1."""


class BusyError(ServerError):
    """429, 503, UNAVAILABLE, or a batch that another client has spoilt: the same request may succeed in a moment."""


class NoAnswerError(ServerError):
    """No connection, a lost connection, or no answer in time; 502 or 504, where a proxy says so of its server."""


class UnknownModelError(UsageError):
    """The server has no such model or version (yet)."""


HTTP_STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}  # every other code: 500

# The server's words after it has batched a request with another client's that does not fit; a retry may succeed. Over
# REST only a wrong shape gets that far. Over gRPC a wrong type does, too, and then the status is 500.
_SPOILT = {
    "from different tasks have different shapes and padding is turned off": "shape",
    "Cannot concatenate tensors that have different data types": "type",
}
# Advice by a phrase in the server's words; the first phrase that is found counts.
_BY_WORDS = (
    *(
        (words, f"Another client's request has a wrong {what}, and spoils those it is batched with.")
        for words, what in _SPOILT.items()
    ),
    (
        "waiting in batching queue",
        "Its time ran out in the server's queue: lower --concurrency of t2t-lite-query, or raise the limit.",
    ),
    ("the label of a target language", "No line of this request is translated."),
    ("attention is given for", "Ask for shorter texts, or fewer."),
    ("version label", "No version has that label: labels are set in the server's models.config."),
    ('"nbest" not found', "Export the model with nbest among --signatures of t2t-lite-exporter (it is by default)."),
    ('"attention" not found', "Export the model with t2t-lite-exporter --signatures=nbest,score,attention."),
    ('"tokens" not found', "Export the model with t2t-lite-exporter --signatures=nbest,score,tokens."),
    ("Serving signature", "The model lacks what is asked for; export it with t2t-lite-exporter."),
    ("maximum input batch size", "Send fewer lines at once (--batch_size of t2t-lite-query)."),
    ("XLA compilation disabled", "The model was exported with jit_compile; export it with t2t-lite-exporter."),
)
_BY_STATUS = {
    400: "The model does not take this request; was it exported with t2t-lite-exporter?",
    401: "Something in front of the server asks for credentials, which this client does not send.",
    403: "Something in front of the server does not let this client through.",
    404: "Check the model's name and version.",
    413: "Send fewer lines at once (--batch_size of t2t-lite-query).",
    429: "The server has too much to do; lower --concurrency of t2t-lite-query.",
    503: "The server is overloaded or still starting; wait for it with t2t-lite-query --wait=SECONDS.",
    504: "The server's own time limit has passed (--rest_api_timeout_in_ms): send fewer lines at once (--batch_size of "
    "t2t-lite-query).",
}


def failure(status: int, said: str, target: Target) -> T2TError:
    """Returns the error to raise for an answer with this HTTP status and the server's words `said`."""
    by_words = (advice for words, advice in _BY_WORDS if words in said)
    advice = next(by_words, _BY_STATUS.get(status, "See the server's log."))
    assertion = re.search(r"assertion failed: \[(.*?)\]", said)  # in the graph: its sentence, without operands
    words = assertion[1] if assertion else said.partition("[[{{")[0]  # what follows names nodes of the graph
    words = " ".join(words.split()).rstrip(".")
    message = f"The {target} answered {status}: {words}. {advice}"
    if status == 404:
        return UnknownModelError(message)
    if any(spoilt in said for spoilt in _SPOILT):
        return BusyError(message)
    if status == 400:
        return UsageError(message)
    if status in (502, 504):
        return NoAnswerError(message)
    busy = status in (429, 503) and "waiting in batching queue" not in said  # that request's time is used up
    return BusyError(message) if busy else ServerError(message)
