"""Rules of spelling: names, keys, labels, selectors."""

import re
from collections.abc import Mapping

from makeway.api.errors import ABSENT
from makeway.api.meta import LabelSelector, ObjectMeta
from makeway.api.validation.findings import Findings

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_KEY_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_NAME_HINT = "write lower-case letters, digits, - and ., starting and ending with a letter or digit"
_KEY_HINT = "write a name such as gpu or example.com/gpu"
_LABEL_VALUE_HINT = "write up to 63 letters, digits, -, _ and ."


def check_metadata(metadata: ObjectMeta, found: Findings, *, is_namespace: bool) -> None:
    if not metadata.name and not metadata.generate_name:
        found.at("name").add(ABSENT, "is missing", "write a name")
    if is_namespace and metadata.name:
        check_short_name(metadata.name, "namespace", found.at("name"))
    else:
        check_name(metadata.name, found.at("name"))
    check_name(metadata.generate_name.rstrip("-."), found.at("generateName"))
    check_name(metadata.namespace, found.at("namespace"))
    check_labels(metadata.labels, found.at("labels"))
    for key in metadata.annotations:
        check_key(key, found.at("annotations", key))


def check_name(name: str, found: Findings) -> None:
    """Check the name of an object; an empty one is none."""
    if name and (len(name) > 253 or not _SUBDOMAIN.fullmatch(name)):
        found.add(name, "is not a name", _NAME_HINT)


def check_short_name(name: str, what: str, found: Findings) -> None:
    """Check a name that has to fit in one part of a host name."""
    if not _LABEL.fullmatch(name):
        hint = "write lower-case letters, digits and -, at most 63"
        found.add(name, f"is not a name for a {what}", hint)


def check_key(key: str, found: Findings) -> None:
    """Check the key of a label, an annotation or a taint, or the name of a resource."""
    prefix, slash, name = key.rpartition("/")
    well_prefixed = not slash or (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix))
    if not well_prefixed or not _KEY_NAME.fullmatch(name):
        found.add(key, "is not a key", _KEY_HINT)


def check_labels(labels: Mapping[str, str], found: Findings) -> None:
    for key, value in labels.items():
        check_key(key, found.at(key))
        check_label_value(value, found.at(key))


def check_label_value(value: str, found: Findings) -> None:
    if value and not _KEY_NAME.fullmatch(value):
        found.add(value, "is not a label value", _LABEL_VALUE_HINT)


def check_selector(selector: LabelSelector | None, found: Findings) -> None:
    if selector is None:
        return
    check_labels(selector.match_labels, found.at("matchLabels"))
    for index, requirement in enumerate(selector.match_expressions):
        here = found.at("matchExpressions", index)
        check_key(requirement.key, here.at("key"))
        takes_values = requirement.operator in ("In", "NotIn")
        if takes_values and not requirement.values:
            here.at("values").add(ABSENT, f"is needed by {requirement.operator}", "list a value")
        if not takes_values and requirement.values:
            hint = "remove it, or write In or NotIn"
            here.at("values").add(
                list(requirement.values), f"means nothing with {requirement.operator}", hint
            )
        for number, value in enumerate(requirement.values):
            check_label_value(value, here.at("values", number))
