"""From a plan to the text that is shown, through a template."""

from __future__ import annotations

from jinja2 import Environment, StrictUndefined, TemplateError

from aeonctl.core.plan import Plan
from aeonctl.errors import ConfigurationError


def render_docker_run(plan: Plan, template: str) -> str:
    """The ``docker run`` that starts the same container as ``up`` would, ready to be pasted into bash.

    ConfigurationError template_error when the template cannot be filled.
    """
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701 - bash
    try:
        text = environment.from_string(template).render(comments=comments(plan), lines=plan.run_lines())
    except TemplateError as error:
        raise ConfigurationError(
            "template_error",
            "the template docker-run.sh.j2 cannot be filled",
            cause=str(error),
            hint="remove your own copy of it from the configuration folder, or correct it",
        ) from error
    return text.rstrip("\n") + "\n"


def render_text(template: str, **values: object) -> str:
    """A template of a plain text file, filled. ConfigurationError template_error."""
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701 - not HTML
    try:
        text = environment.from_string(template).render(**values)
    except TemplateError as error:
        raise ConfigurationError(
            "template_error",
            "a template cannot be filled",
            cause=str(error),
            hint="remove your own copy of it from the configuration folder, or correct it",
        ) from error
    return text.rstrip("\n") + "\n"


def comments(plan: Plan) -> list[str]:
    """What stands above the command, one line each."""
    words = [f"{plan.seat} on {plan.host}, planned by aeonctl"]
    if plan.rehearsal:
        words.append("REHEARSAL: up --rehearse runs the built-in engine instead of this container")
    words += [
        f"not on this disk yet; first run: aeonctl pull-model {facts.repo}"
        for facts in plan.missing_models()
        if facts.repo
    ]
    handed_on = [name for name, value in plan.container.env.items() if value is None]
    words += [f"{name} is handed on from your shell: export {name} first if it is needed" for name in handed_on]
    return [" ".join(line.split()) for line in words]
