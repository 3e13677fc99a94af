"""Where things are: models inside the container, the engine's port, the GPUs that it gets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aeonctl.core.container import Mount, Publish
from aeonctl.core.host import Platform
from aeonctl.core.inputs import YOU, Inputs, decide
from aeonctl.core.model import ModelFacts, Mounted, mount_drafter, mount_model
from aeonctl.core.mountable import refuse_unproven
from aeonctl.core.mountproof import place_inside
from aeonctl.core.options import ABSENT, show_value
from aeonctl.core.rows import Seat
from aeonctl.core.rules import Draft

LOOPBACK, ANYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - only with --lan


@dataclass(frozen=True)
class Mounting:
    """The container's mounts, and the model as the engine is told of it: a path inside, or the hub's name."""

    mounts: tuple[Mount, ...]
    served: str


def place_models(draft: Draft, inputs: Inputs) -> tuple[Draft, Mounting]:
    """The mounts, and the engine's options that name what is in them."""
    seat, model, drafter = inputs.choice.seat, inputs.model, inputs.drafter
    volumes = tuple(
        mount for name, target in seat.container.volumes.items() if (mount := _volume(name, target, model)) is not None
    )
    if seat.model.by == "repo" and model.repo is not None:
        draft = refuse_unproven(draft, volumes, (model, place_inside(model.path, volumes)))
        return _name_model(draft, seat, model.repo), Mounting(volumes, model.repo)
    mounted = mount_model(model, seat.model.mount)
    draft = _name_model(_explain_mount(draft, mounted, seat.model.mount), seat, mounted.path)
    mounts = mounted.mounts
    placed: list[tuple[ModelFacts, str | None]] = [(model, mounted.path)]
    if drafter is not None and seat.drafter is not None:
        drafted = mount_drafter(drafter, seat.drafter.mount)
        draft = _point_at_drafter(draft, drafted)
        mounts += tuple(mount for mount in drafted.mounts if mount not in mounts)
        placed.append((drafter, drafted.path))
    mounts += volumes
    return refuse_unproven(draft, mounts, *placed), Mounting(mounts, mounted.path)


def _volume(name: str, target: str, model: ModelFacts) -> Mount | None:
    """A named volume, or the hub's cache; None for the cache when the model is a folder of the user's own."""
    if name != "hub-home":
        return Mount(type="volume", source=name, target=target)
    if model.hub_home is not None:
        return Mount(source=model.hub_home, target=target)
    return None if model.hub_root is None else Mount(source=model.hub_root, target=f"{target}/hub")


def _name_model(draft: Draft, seat: Seat, served: str) -> Draft:
    """``--model``, for a seat whose document writes it so."""
    before = draft.options.look("model")
    if seat.model.positional or before == served:
        return draft
    changed = replace(draft, options=draft.options.with_value("model", served))
    if seat.model.by == "repo" and before is ABSENT:
        return changed
    why = "the model is chosen by --model, not by --set"
    return decide(changed, "--model", show_value(before), served, "--model", why)


def _explain_mount(draft: Draft, mounted: Mounted, target: str) -> Draft:
    if mounted.why is None:
        return draft
    after = [mount.target for mount in mounted.mounts]
    return decide(draft, "mounts", [target], after, "keep-links-alive", mounted.why)


def _point_at_drafter(draft: Draft, drafted: Mounted) -> Draft:
    path = "speculative-config.model"
    before = draft.options.look(path)
    if before is ABSENT or before == drafted.path:
        return draft
    options = draft.options.with_value(path, drafted.path)
    return decide(
        replace(draft, options=options), f"--{path}", before, drafted.path, "keep-links-alive", str(drafted.why)
    )


def publish(draft: Draft, inputs: Inputs) -> tuple[Draft, tuple[Publish, ...]]:
    """Where the engine can be reached: on this machine alone unless ``--lan``."""
    container, request = inputs.choice.seat.container, inputs.request
    port = request.port or container.port
    address = ANYWHERE if request.lan else LOOPBACK
    if container.network == "host":
        if str(draft.options.look("port")) != str(port):
            before = show_value(draft.options.look("port"))
            options = draft.options.with_value("port", str(port))
            draft = decide(replace(draft, options=options), "--port", before, str(port), "--port", YOU)
        if request.lan or draft.options.look("host") == LOOPBACK:
            return draft, ()
        before = show_value(draft.options.look("host"))
        options = draft.options.with_value("host", LOOPBACK)
        return decide(replace(draft, options=options), "--host", before, LOOPBACK, "loopback", _LOOPBACK_WHY), ()
    shown = f"{container.port}:{container.port}"
    if not request.lan:
        before, shown = shown, f"{address}:{shown}"
        draft = decide(draft, "publish", before, shown, "loopback", _LOOPBACK_WHY)
    if port != container.port:
        draft = decide(draft, "publish", shown, f"{address}:{port}:{container.port}", "--port", YOU)
    return draft, (Publish(host_ip=address, host_port=port, container_port=container.port),)


_LOOPBACK_WHY = "without --lan only this machine can reach the engine; a published port bypasses the host's firewall"


def pick_gpus(draft: Draft, inputs: Inputs) -> tuple[Draft, str | None]:
    """All GPUs when the seat takes all there are; otherwise the chosen ones by index."""
    seat, host, gpus = inputs.choice.seat, inputs.host, inputs.choice.gpus
    if seat.gpus == 0 or not seat.container.gpus:
        return draft, None
    if host.gpus is None or len(host.gpus) <= seat.gpus:
        return draft, "all"
    indexes = ",".join(str(gpu.index) for gpu in gpus)
    why = f"the seat takes {seat.gpus} of {len(host.gpus)} GPUs, those with the most free memory"
    if host.platform is Platform.WSL2:
        env = {**draft.env, "CUDA_VISIBLE_DEVICES": indexes}
        why += "; under WSL2 a container always gets every GPU"
        return decide(replace(draft, env=env), "CUDA_VISIBLE_DEVICES", None, indexes, "gpus", why), "all"
    return decide(draft, "gpus", "all", f"device={indexes}", "gpus", why), f"device={indexes}"
