"""What a rehearsal reads from its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aeonctl.rehearsal_engine.faults import Fault

DEFAULT_VERSION = "0.27.1"
DEFAULT_KV_TOKENS = 137_240
_ONE_LINE_KV_SINCE = (0, 32)


class SettingsError(Exception):
    """An AEONCTL_REHEARSE_* variable that cannot be read; the text names it and what is allowed."""


@dataclass(frozen=True)
class Settings:
    """A rehearsal's own settings.

    ``speed`` multiplies every wait (0 means none), ``slow_s`` is the silent gap of the fault ``slow`` in seconds,
    ``kv_tokens`` the size of the KV cache (None: derived), ``model_dir`` where the model folder really is when the
    command line names the container's path for it.
    """

    version: str = DEFAULT_VERSION
    speed: float = 1.0
    slow_s: float = 78.0
    kv_tokens: int | None = None
    fault: Fault | None = None
    api_keys: tuple[str, ...] = ()
    model_dir: Path | None = None
    long_max_model_len: bool = False

    @property
    def modern(self) -> bool:
        """Whether the claimed vLLM is 0.32 or later, which words some lines and errors differently."""
        parts = self.version.split("+")[0].split(".")
        return tuple(int(part) for part in parts[:2]) >= _ONE_LINE_KV_SINCE


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings; raises SettingsError naming the variable that is wrong."""
    version = environment.get("AEONCTL_REHEARSE_VLLM_VERSION", DEFAULT_VERSION)
    if not all(part.isdigit() for part in version.split("+")[0].split(".")[:2]) or "." not in version:
        message = f"AEONCTL_REHEARSE_VLLM_VERSION={version!r} is no version; an example: {DEFAULT_VERSION}"
        raise SettingsError(message)
    kv_tokens = _number(environment, "AEONCTL_REHEARSE_KV_TOKENS", None)
    model_dir = environment.get("AEONCTL_REHEARSE_MODEL_DIR")
    return Settings(
        version=version,
        speed=_number(environment, "AEONCTL_REHEARSE_SPEED", 1.0) or 0.0,
        slow_s=_number(environment, "AEONCTL_REHEARSE_SLOW_S", 78.0) or 0.0,
        kv_tokens=None if kv_tokens is None else int(kv_tokens),
        fault=_fault(environment.get("AEONCTL_REHEARSE_FAULT", "")),
        api_keys=tuple(key for key in (environment.get("VLLM_API_KEY"),) if key),
        model_dir=Path(model_dir) if model_dir else None,
        long_max_model_len=environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0").lower() in {"1", "true"},
    )


def _fault(name: str) -> Fault | None:
    if not name:
        return None
    try:
        return Fault(name)
    except ValueError:
        known = ", ".join(Fault)
        message = f"AEONCTL_REHEARSE_FAULT={name!r} is not a fault; the known ones are: {known}"
        raise SettingsError(message) from None


def _number(environment: Mapping[str, str], name: str, default: float | None) -> float | None:
    text = environment.get(name)
    if not text:
        return default
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        message = f"{name}={text!r} is not a number of zero or more"
        raise SettingsError(message)
    return number
