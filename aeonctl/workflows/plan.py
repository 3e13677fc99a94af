"""``aeonctl plan``: what ``up`` would run, and why."""

from __future__ import annotations

from aeonctl.core.plan import Plan
from aeonctl.ports import Ports
from aeonctl.workflows.ask import Asked, plan_for
from aeonctl.workflows.hosts import catalog_of


def plan(asked: Asked, ports: Ports) -> Plan:
    """The plan, with its refusals in it: to look at a refused start is not an error of ``plan``'s own, its exit is."""
    return plan_for(asked, ports, catalog_of(ports))
