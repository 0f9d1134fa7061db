"""Questions a caller asks about itself: who am I, may I do this. Put by creating an object that is not kept."""

from collections.abc import Callable

from trainwright.core.objects import Object
from trainwright.server.base import Caller

Review = Callable[[Object, Caller], Object]


def _access(review: Object, caller: Caller) -> Object:  # noqa: ARG001 - who may call at all may ask for everything
    return {"allowed": True, "reason": "whoever is let in here may use every resource"}


def _rules(review: Object, caller: Caller) -> Object:  # noqa: ARG001
    every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    return {
        "resourceRules": [every],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


def _oneself(review: Object, caller: Caller) -> Object:  # noqa: ARG001
    return {"userInfo": {"username": caller.name, "uid": str(caller.uid), "groups": ["system:authenticated"]}}


REVIEWS: dict[tuple[str, ...], Review] = {
    ("apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"): _access,
    ("apis", "authorization.k8s.io", "v1", "selfsubjectrulesreviews"): _rules,
    ("apis", "authentication.k8s.io", "v1", "selfsubjectreviews"): _oneself,
}


def answered(review: Object, caller: Caller, answer: Review) -> Object:
    """Return a review with its answer."""
    return {**review, "metadata": review.get("metadata") or {}, "status": answer(review, caller)}
