"""Questions about oneself: may I, what may I, who am I. Whoever has the token may do everything."""

from typing import Any

from makeway.api.kinds import Resource
from makeway.server.errors import bad_request

USER = "makeway-admin"
GROUPS = ("system:masters", "system:authenticated")


def answer_review(asked: Resource, review: Any) -> dict[str, Any]:
    if not isinstance(review, dict):
        raise bad_request(f"{asked.kind} is not an object")
    answered = {"metadata": {"creationTimestamp": None}, **review}
    answered |= {"kind": asked.kind, "apiVersion": asked.api_version}
    match asked.kind:
        case "SelfSubjectAccessReview":
            answered["status"] = {"allowed": True, "reason": "the token of this server is admin's"}
        case "SelfSubjectRulesReview":
            answered["status"] = {
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
            }
        case "SelfSubjectReview":
            answered["status"] = {"userInfo": {"username": USER, "groups": list(GROUPS)}}
    return answered
