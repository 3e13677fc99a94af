"""``aeonctl explain``: the page of an id, wherever it stands."""

from __future__ import annotations

from aeonctl.core.catalog import not_found
from aeonctl.core.knowledge import diagnosis_knowledge
from aeonctl.core.pages import Page, check_page, finding_pages, option_pages, rule_page
from aeonctl.ports import Ports
from aeonctl.workflows.doctor import check_rows
from aeonctl.workflows.hosts import catalog_of

_HINT = "an id is what plan, doctor and diagnose print in brackets or in front, or an option of vllm serve"


def explain(ident: str, ports: Ports) -> list[Page]:
    """Every page of an id. ConfigurationError id_not_found names what is near."""
    knowledge, catalog = diagnosis_knowledge(ports.profiles.read), catalog_of(ports)
    pages = finding_pages(ident, knowledge.log.signatures, knowledge.judgements)
    if ident in catalog.rules:
        pages.append(rule_page(catalog.rules[ident]))
    pages += option_pages(ident, catalog)
    checks, _ = check_rows(ports.profiles.read)
    if page := check_page(ident, checks):
        pages.append(page)
    if not pages:
        known = {row.id for row in knowledge.log.signatures} | {row.id for row in knowledge.judgements}
        raise not_found("id", ident, sorted({*known, *catalog.rules, *checks}), hint=_HINT)
    return pages
