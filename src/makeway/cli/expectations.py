"""What a server expects of jobs: when they start and end, in words."""

from __future__ import annotations

import time
from collections.abc import Mapping

from makeway.api.kinds import WORKLOADS, Resource
from makeway.api.times import parse_time
from makeway.cli.job_table import Row
from makeway.cli.spans import span_text
from makeway.client import ApiError, Client
from makeway.client.client import Document

FORECASTS = Resource("makeway.dev/v1", "forecasts", "Forecast", has_status=False)
COMING, EXPECTED, NEVER = "Coming", "Expected", "Never"
WEEK_S = 6 * 86_400.0

Forecasts = Mapping[tuple[str, str], Document]  # by namespace and name of a Workload


async def forecasts_in(client: Client, namespace: str) -> Forecasts:
    """The last forecasts of a server; none where nobody makes any."""
    try:
        document = await client.get(FORECASTS, "", namespace)
    except ApiError:
        return {}
    return by_workload(document)


def by_workload(listing: Document) -> Forecasts:
    return {(f["metadata"]["namespace"], f["metadata"]["name"]): f for f in listing["items"]}


async def forecast_of(client: Client, namespace: str, workload: str) -> Document | None:
    try:
        return await client.get(WORKLOADS, workload, namespace, subresource="forecast")
    except ApiError:
        return None


def forecast_for(row: Row, forecasts: Forecasts) -> Document | None:
    return forecasts.get((row["namespace"], row["workload"] or ""))


def brief(forecast: Document | None, which: str) -> str:
    """`~16:40`, `never`, `unknown`; empty where nothing is said."""
    if forecast is None or forecast["verdict"] == COMING:
        return ""
    if forecast["verdict"] != EXPECTED:
        return str(forecast["verdict"]).lower()
    times = forecast.get(which)
    if times is None:
        return ""
    return f"~{clock(times['p50'])}" if times["p50"] else "later"


def span(forecast: Document | None, which: str) -> str:
    """`16:10 to 18:05`: in eight of ten runs it was between these."""
    times = None if forecast is None else forecast.get(which)
    if times is None or forecast is None or times["p10"] is None:
        return ""
    until = clock(times["p90"]) if times["p90"] else "later"
    return f"{clock(times['p10'])} to {until}"


def clock(text: str, now: float | None = None) -> str:
    """A moment as people say it: today by the hour, this week by the day."""
    at, now = parse_time(text), time.time() if now is None else now
    then, today = time.localtime(at), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    if abs(at - now) < WEEK_S:
        return time.strftime("%a %H:%M", then)
    return time.strftime("%d %b %H:%M", then)


def lines(forecast: Document | None, *, has_started: bool) -> list[str]:
    """What is expected of a job, in sentences."""
    if forecast is None or forecast["verdict"] == COMING:
        return []
    found = []
    if forecast["verdict"] == EXPECTED:
        if not has_started and (start := brief(forecast, "start")):
            found.append(f"It is expected to start at {start}{_within(forecast, 'start')}")
        if end := brief(forecast, "end"):
            found.append(f"It is expected to end at {end}{_within(forecast, 'end')}")
        if forecast.get("basis"):
            found.append(f"- its run time is taken from {forecast['basis']}")
    else:
        found.append(f"When it starts: {brief(forecast, 'start')}{_why(forecast)}")
    found += _learnt_from(forecast)
    found += [f"- {assumption}" for assumption in forecast.get("assumptions", ())]
    if "ageSeconds" not in forecast:
        return found  # none was made
    age = f"- forecast of {span_text(forecast['ageSeconds']) or '0s'} ago, {forecast['runs']} runs"
    found.append(age if forecast.get("isCurrent") else f"{age}; the state has changed since")
    return found


def _learnt_from(forecast: Document) -> list[str]:
    past = forecast.get("past")
    if not past or not past["jobs"]:
        return []
    gone = f", {past['deletedJobs']} of them deleted by now" if past["deletedJobs"] else ""
    return [f"- learnt from {past['jobs']} jobs since {clock(past['since'])}{gone}"]


def _within(forecast: Document, which: str) -> str:
    between = span(forecast, which)
    return f" (8 of 10: {between})" if between else ""


def _why(forecast: Document) -> str:
    why = forecast.get("message") or forecast.get("failure")
    return f"; {why}" if why else ""
