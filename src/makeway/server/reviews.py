"""Questions about oneself: may I, what may I, who am I. Whoever has the token may do everything."""

from typing import Any

from makeway.server.errors import bad_request

USER = "makeway-admin"
GROUPS = ("system:masters", "system:authenticated")


def answer_review(kind: str, review: Any) -> dict[str, Any]:
    if not isinstance(review, dict):
        raise bad_request(f"{kind} is not an object")
    answered = {"metadata": {"creationTimestamp": None}, **review, "kind": kind}
    match kind:
        case "SelfSubjectAccessReview":
            answered["apiVersion"] = "authorization.k8s.io/v1"
            answered["status"] = {"allowed": True, "reason": "the token of this server is admin's"}
        case "SelfSubjectRulesReview":
            answered["apiVersion"] = "authorization.k8s.io/v1"
            answered["status"] = {
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
            }
        case "SelfSubjectReview":
            answered["apiVersion"] = "authentication.k8s.io/v1"
            answered["status"] = {"userInfo": {"username": USER, "groups": list(GROUPS)}}
    return answered
